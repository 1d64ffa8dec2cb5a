"""Does a sequence of UPDATEs and DELETEs leave what the same changes to a list leave, and does it count right?

The tables and conditions are those of `test_delete_against_list.py`, some of them with tracked rows. Assignments go to
plain columns, partition columns, whole columns and fields of structs that may be null, from the old values of others.
The way changes from step to step: vectors, rewriting, either. After each step rows, metrics, change feed, row ids and the
invariants of `tests/support/invariants.py` are compared with a list that knows nothing of Spark.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.spark.properties.test_delete_against_list import (
    CONDITIONS,
    SCHEMA,
    ListModel,
    built,
    shown,
    tables,
)
from tests.support.comparison import arrow_table, assert_same_rows
from tests.support.invariants import assert_table_invariants, look
from tests.support.log_reading import commit_info, newest_version
from tests.support.peer_agreement import assert_peers_agree
from tests.support.row_ids import tracked_rows

from ebbtide import DeltaTable, read_changes

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ON_SPARK = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Assignment:
    """A target with its value as SQL, and the same value of an old row."""

    target: str
    sql: str
    value: Callable[[Row], Any]

    def __repr__(self) -> str:
        return f"{self.target} = {self.sql}"


ASSIGNMENTS = (
    Assignment("n", "n + 1", lambda row: None if row["n"] is None else row["n"] + 1),
    Assignment("n", "o.a", lambda row: None if row["o"] is None else row["o"]["a"]),
    Assignment("s", "concat(s, 'x')", lambda row: None if row["s"] is None else row["s"] + "x"),
    Assignment("s", "p", lambda row: row["p"]),
    Assignment("x", "CAST(n AS DOUBLE)", lambda row: None if row["n"] is None else float(row["n"])),
    Assignment("o", "NULL", lambda row: None),
    Assignment("o.a", "n", lambda row: row["n"]),
    Assignment("o.a", "7L", lambda row: 7),
    Assignment("o.inner", "NULL", lambda row: None),
    Assignment("o.inner.c", "s", lambda row: row["s"]),
    Assignment("l", "array(n, q)", lambda row: [row["n"], row["q"]]),
    Assignment("p", "CASE WHEN n > 0 THEN 'b=c/d %' ELSE p END", lambda row: "b=c/d %" if (row["n"] or 0) > 0 else row["p"]),
    Assignment("q", "n % 2 * 5", lambda row: None if row["n"] is None else (abs(row["n"]) % 2) * (-5 if row["n"] < 0 else 5)),
)  # fmt: skip


def _set(row: Row, path: tuple[str, ...], value: Any) -> Row:
    if len(path) == 1:
        return row | {path[0]: value}
    fields = {"o": {"a": None, "inner": None}, "inner": {"c": None}}[path[0]]
    inner = fields if row[path[0]] is None else row[path[0]]
    return row | {path[0]: _set(inner, path[1:], value)}


def updated(row: Row, assignments: tuple[Assignment, ...]) -> Row:
    new = copy.deepcopy(row)
    for assignment in assignments:
        new = _set(new, tuple(assignment.target.split(".")), assignment.value(row))
    return new


def _is_apart(assignments: list[Assignment]) -> bool:
    paths = [f"{assignment.target}." for assignment in assignments]
    pairs = [(one, other) for at, one in enumerate(paths) for other in paths[at + 1 :]]
    return not any(one.startswith(other) or other.startswith(one) for one, other in pairs)


SETS = st.lists(st.sampled_from(ASSIGNMENTS), min_size=1, max_size=4).filter(_is_apart).map(tuple)
STEPS = st.lists(
    st.tuples(
        st.one_of(SETS, SETS, SETS, st.none()),
        st.one_of(CONDITIONS, CONDITIONS, CONDITIONS, CONDITIONS, st.none()),
        st.sampled_from(["on", "off", "auto"]),
    ),
    min_size=1,
    max_size=3,
)


def assert_updated(table: Path, result: Any, matched: int, version: int) -> None:
    """A condition on partitions rewrites files it holds for, also those in which no row is left; then it commits."""
    assert result.num_affected_rows == matched
    if result.version is None:
        assert matched == 0
        assert newest_version(table) == version
        return
    assert result.version == newest_version(table) == version + 1
    logged = {name: int(value) for name, value in commit_info(table, result.version)["operationMetrics"].items()}
    assert without_times(logged) == without_times(result.operation_metrics)
    assert logged["numUpdatedRows"] == matched


def without_times(metrics: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in metrics.items() if not name.endswith("TimeMs")}


def assert_told(spark: Any, table: Path, version: int, before: list[Row], after: list[Row]) -> None:
    """The change feed of the version holds every updated row as it was and as it is."""
    feed = read_changes(spark, str(table), start_version=version, end_version=version)
    told = arrow_table(feed.drop("_commit_version", "_commit_timestamp"))
    rows = [row | {"_change_type": "update_preimage"} for row in before]
    rows += [row | {"_change_type": "update_postimage"} for row in after]
    assert_same_rows(told, pa.Table.from_pylist(rows, schema=SCHEMA.append(pa.field("_change_type", pa.string()))))


class TrackedModel(ListModel):
    """The list, and which id and commit version each row must have where the table tracks them."""

    def __init__(self, builder: Any, drawn: dict[str, Any]) -> None:
        super().__init__(builder, drawn)
        self.ids = tracked_rows(self.path, key=self.key_column) if drawn["row_tracking"] else None

    def update(self, assignments: tuple[Assignment, ...], keys: list[int], version: int) -> None:
        for key in keys:
            self.rows[key] = updated(self.rows[key], assignments)
            if self.ids is not None:
                self.ids[key] = (self.ids[key][0], version)

    def matching(self, condition: Any) -> list[int]:
        return [key for key, row in self.rows.items() if condition is None or condition.holds(row) is True]

    def remove(self, keys: list[int]) -> None:
        for key in keys:
            del self.rows[key]
            if self.ids is not None:
                del self.ids[key]


def run_steps(spark, drawn, steps) -> None:
    with tempfile.TemporaryDirectory() as directory:
        builder = built(Path(directory, "t"), drawn)
        model = TrackedModel(builder, drawn)
        table = DeltaTable.forPath(spark, str(builder.path))
        image = look(spark, builder.path)
        for assignments, condition, mode in steps:
            asked = None if condition is None else condition.sql
            note(f"{assignments or 'DELETE'} WHERE {asked} (vectors {mode})")
            version = newest_version(builder.path)
            keys = model.matching(condition)
            if assignments is None:
                result = table.delete(asked, deletion_vectors=mode)
                model.remove(keys)
            else:
                values = {each.target: each.sql for each in assignments}
                result = table.update(asked, values, deletion_vectors=mode)
                before = [model.rows[key] for key in keys]
                model.update(assignments, keys, version + 1)
                if model.has_change_feed and result.version is not None:
                    assert_told(spark, builder.path, result.version, before, [model.rows[key] for key in keys])
                assert_updated(builder.path, result, len(keys), version)
            image = assert_table_invariants(spark, builder.path, before=image, result=result)
            assert_same_rows(image.rows, shown(model))
            if model.ids is not None:
                assert tracked_rows(builder.path, key=model.key_column) == model.ids
        assert_peers_agree(Path(directory))


@st.composite
def tracked_tables(draw, *, vectors):
    drawn = draw(tables(vectors=vectors)) | {"row_tracking": draw(st.booleans())}
    if drawn["row_tracking"]:
        # A table that tracks rows has counted them all.
        drawn["files"] = [file | {"stats": True} for file in drawn["files"]]
    return drawn


@pytest.mark.one_kind("any sequence of commands runs on both kinds; this adds values")
@ON_SPARK
@given(drawn=tracked_tables(vectors=True), steps=STEPS)
def test_changes_with_vectors_leave_what_changing_a_list_leaves(spark, drawn, steps):
    run_steps(spark, drawn, steps)


@pytest.mark.one_kind("any sequence of commands runs on both kinds; this adds values")
@ON_SPARK
@given(drawn=tracked_tables(vectors=False), steps=STEPS)
def test_changes_without_vectors_leave_what_changing_a_list_leaves(spark, drawn, steps):
    run_steps(spark, drawn, steps)
