"""Does a sequence of DELETEs leave what filtering a list leaves, and does it count right?

Random tables (nulls, structs, NaN, partitions with odd names, column mapping, several files and row groups, rows marked
before, files without statistics, a change data feed), random conditions as SQL text and as columns, and every way to
delete. After each DELETE the rows, the metrics and the version are compared with a list that knows nothing of Spark, and
the table is checked for the invariants of `tests/support/invariants.py`.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.support.comparison import assert_same_rows
from tests.support.delete_conditions import STRINGS, Condition, conditions
from tests.support.invariants import assert_table_invariants, look
from tests.support.log_reading import commit_info, data_file, log_state, newest_version, stats_of, vector_rows
from tests.support.peer_agreement import assert_peers_agree
from tests.support.table_builder import TableBuilder

from ebbtide import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Each example starts Spark jobs, and no example shares anything with another but the session.
ON_SPARK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
SCHEMA = pa.schema(
    {
        "k": pa.int64(),  # not null and unique, so that a row can be recognised in a file
        "n": pa.int32(),
        "s": pa.string(),
        "x": pa.float64(),
        "o": pa.struct({"a": pa.int32(), "inner": pa.struct({"c": pa.string()})}),
        "l": pa.list_(pa.int32()),
        "p": pa.string(),
        "q": pa.int32(),
    }
)
PARTITIONS = ("a", "a'b", "b=c/d %", "é", None)
CONDITIONS = conditions(
    integers=[("n",), ("k",), ("o", "a"), ("q",)],
    strings=[("s",), ("o", "inner", "c"), ("p",)],
    doubles=[("x",)],
)


# --- random tables ----------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.none(), st.integers(-4, 4))
TEXTS = st.one_of(st.none(), st.sampled_from(STRINGS))
INNER = st.one_of(st.none(), st.fixed_dictionaries({"c": TEXTS}))
VALUES = st.fixed_dictionaries(
    {
        "n": NUMBERS,
        "s": TEXTS,
        "x": st.one_of(st.none(), st.sampled_from([-1.5, -0.0, 0.0, 2.25, math.nan, math.inf])),
        "o": st.one_of(st.none(), st.fixed_dictionaries({"a": NUMBERS, "inner": INNER})),
        "l": st.one_of(st.none(), st.lists(NUMBERS, max_size=2)),
    }
)


@st.composite
def data_files(draw, *, vectors):
    rows = draw(st.lists(VALUES, min_size=1, max_size=8))
    place = {"p": draw(st.sampled_from(PARTITIONS)), "q": draw(st.sampled_from([None, 0, 1]))}
    marked = draw(st.sets(st.integers(0, len(rows) - 1))) if vectors and draw(st.booleans()) else set()
    return {
        "rows": [row | place for row in rows],
        "deleted": marked,
        "row_group_size": draw(st.sampled_from([1, 3, 100])),
        # A file with a vector must say how many rows it has.
        "stats": bool(marked) or draw(st.integers(0, 4)) > 0,
    }


@st.composite
def tables(draw, *, vectors):
    return {
        "vectors": vectors,
        "files": draw(st.lists(data_files(vectors=vectors), min_size=1, max_size=4)),
        "partitioned_by": draw(st.sampled_from([(), ("p",), ("p", "q")])),
        "mapping": draw(st.sampled_from([None, None, "name", "id"])),
        "change_data_feed": draw(st.booleans()),
        "checkpoint": draw(st.booleans()),
    }


def built(path: Path, drawn: dict[str, Any]) -> TableBuilder:
    builder = TableBuilder(path, SCHEMA)
    if drawn["partitioned_by"]:
        builder.partitioned_by(*drawn["partitioned_by"])
    if drawn["vectors"]:
        builder.deletion_vectors(share_a_file=True)
    if drawn["mapping"]:
        builder.column_mapping(drawn["mapping"])
    if drawn["change_data_feed"]:
        builder.change_data_feed()
    if drawn.get("row_tracking"):
        builder.row_tracking()
    number = 0
    for file in drawn["files"]:
        rows = [{"k": number + at, **row} for at, row in enumerate(file["rows"])]
        number += len(rows)
        builder.file(rows, **{name: file[name] for name in ("deleted", "row_group_size", "stats")})
    builder.commit()
    return builder.checkpoint() if drawn["checkpoint"] else builder


# --- what must come of a DELETE ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelFile:
    """A live data file: the keys of its rows that are still visible, and what the log says of it."""

    keys: tuple[int, ...]
    physical: int
    is_counted: bool
    has_vector: bool


class ListModel:
    """The table as a list of rows. Which file holds which row is read from the log by hand, since Spark decides that."""

    def __init__(self, builder: TableBuilder, drawn: dict[str, Any]) -> None:
        self.path = builder.path
        self.rows = {row["k"]: row for row in builder.rows()}
        self.partitioned_by = set(drawn["partitioned_by"])
        self.allows_vectors = drawn["vectors"]
        self.has_change_feed = drawn["change_data_feed"]
        self.key_column = "col-1" if drawn["mapping"] else "k"

    def files(self) -> list[ModelFile]:
        found = []
        for add in log_state(self.path).adds:
            keys = pq.ParquetFile(data_file(self.path, add)).read(columns=[self.key_column])[0].to_pylist()
            marked = vector_rows(self.path, add)
            visible = tuple(key for at, key in enumerate(keys) if at not in marked)
            found.append(ModelFile(visible, len(keys), "numRecords" in stats_of(add), bool(marked)))
        assert sorted(key for file in found for key in file.keys) == sorted(self.rows)
        return found

    def delete(self, condition: Condition | None, mode: str) -> dict[str, int] | None:
        """Delete from the list; what the DELETE must count, or None when it has nothing to do."""
        files = self.files()
        matches = [self._matches(file, condition) for file in files]
        if condition is None or condition.columns() <= self.partitioned_by:
            expected = self._whole_files(files, condition)
        else:
            expected = self._rows_of_files(files, matches, mode)
        for key in [key for keys in matches for key in keys]:
            del self.rows[key]
        return expected

    def _matches(self, file: ModelFile, condition: Condition | None) -> list[int]:
        return [key for key in file.keys if condition is None or condition.holds(self.rows[key]) is True]

    def _whole_files(self, files: list[ModelFile], condition: Condition | None) -> dict[str, int] | None:
        """Partition values decide, also for a file of which no row is visible any more."""
        places = self._places()
        gone = [file for file, place in zip(files, places, strict=True) if condition is None or condition.holds(place)]
        if not gone:
            return None
        rows = sum(len(file.keys) for file in gone) if all(file.is_counted for file in gone) else 0
        metrics = {
            "numRemovedFiles": len(gone),
            "numDeletionVectorsAdded": 0,
            "numDeletionVectorsRemoved": sum(file.has_vector for file in gone),
            "numDeletionVectorsUpdated": 0,
        }
        return metrics | ({"numDeletedRows": rows, "numCopiedRows": 0, "numAddedFiles": 0} if rows else {})

    def _places(self) -> list[dict[str, Any]]:
        mapped = {"p": "col-10", "q": "col-11"} if self.key_column == "col-1" else {"p": "p", "q": "q"}
        places = []
        for add in log_state(self.path).adds:
            values = add["partitionValues"]
            number = values.get(mapped["q"])
            places.append({"p": values.get(mapped["p"]), "q": None if number is None else int(number)})
        return places

    def _rows_of_files(self, files: list[ModelFile], matches: list[list[int]], mode: str) -> dict[str, int] | None:
        removed = added = updated = vectors_removed = copied = 0
        is_rewritten = False
        for file, keys in zip(files, matches, strict=True):
            if not keys:
                continue
            if self._rewrites(file, keys, mode):
                is_rewritten = True
                removed += 1
                vectors_removed += file.has_vector
                copied += len(file.keys) - len(keys)
            elif len(keys) == len(file.keys):
                removed += 1
                vectors_removed += file.has_vector
            else:
                added += not file.has_vector
                updated += file.has_vector
        if not removed + added + updated:
            return None
        metrics = {
            "numDeletedRows": sum(map(len, matches)),
            "numRemovedFiles": removed,
            "numDeletionVectorsAdded": added + updated,
            "numDeletionVectorsRemoved": vectors_removed + updated,
            "numDeletionVectorsUpdated": updated,
            "numCopiedRows": copied,
        }
        # How many files the rows of rewritten files end up in is Spark's choice.
        return metrics if is_rewritten else metrics | {"numAddedFiles": 0}

    def _rewrites(self, file: ModelFile, keys: list[int], mode: str) -> bool:
        if not self.allows_vectors or mode == "off":
            return True
        if mode == "on" or self.has_change_feed:
            return False
        marked = file.physical - len(file.keys) + len(keys)
        return file.is_counted and file.physical / 2 < marked < file.physical


def assert_counted(table: Path, result: Any, expected: dict[str, int] | None, version: int) -> None:
    if expected is None:
        assert (result.version, result.num_affected_rows) == (None, 0)
        assert newest_version(table) == version
        return
    assert result.version == newest_version(table) == version + 1
    assert result.num_affected_rows == expected.get("numDeletedRows", -1)
    logged = {name: int(value) for name, value in commit_info(table, result.version)["operationMetrics"].items()}
    assert without_times(logged) == without_times(result.operation_metrics)
    assert {name: logged.get(name) for name in expected} == expected
    assert ("numDeletedRows" in logged) == ("numDeletedRows" in expected)


def without_times(metrics: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in metrics.items() if not name.endswith("TimeMs")}


# --- the properties ---------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.one_of(CONDITIONS, CONDITIONS, CONDITIONS, CONDITIONS, st.none()),
        st.sampled_from(["sql", "column"]),
        st.sampled_from(["on", "off", "auto"]),
    ),
    min_size=1,
    max_size=3,
)


def run_steps(spark, drawn, steps) -> None:
    with tempfile.TemporaryDirectory() as directory:
        builder = built(Path(directory, "t"), drawn)
        model = ListModel(builder, drawn)
        table = DeltaTable.forPath(spark, str(builder.path))
        image = look(spark, builder.path)
        for condition, form, mode in steps:
            note(f"DELETE WHERE {None if condition is None else condition.sql} ({form}, vectors {mode})")
            version = newest_version(builder.path)
            expected = model.delete(condition, mode)
            asked = None if condition is None else condition.sql if form == "sql" else condition.column()
            result = table.delete(asked, deletion_vectors=mode)
            assert_counted(builder.path, result, expected, version)
            image = assert_table_invariants(spark, builder.path, before=image, result=result)
            assert_same_rows(image.rows, shown(model))
        assert_peers_agree(Path(directory))


def shown(model: ListModel) -> pa.Table:
    return pa.Table.from_pylist(list(model.rows.values()), schema=SCHEMA)


@pytest.mark.one_kind("any sequence of commands runs on both kinds; this adds values")
@ON_SPARK
@given(drawn=tables(vectors=True), steps=STEPS)
def test_deletes_with_vectors_leave_what_filtering_a_list_leaves(spark, drawn, steps):
    run_steps(spark, drawn, steps)


@pytest.mark.one_kind("any sequence of commands runs on both kinds; this adds values")
@ON_SPARK
@given(drawn=tables(vectors=False), steps=STEPS)
def test_deletes_without_vectors_leave_what_filtering_a_list_leaves(spark, drawn, steps):
    run_steps(spark, drawn, steps)
