"""Do all commands together, in any order, leave and tell what the same changes to a list leave and tell?

Append, overwrite, replace_where, DELETE, UPDATE, MERGE and a restore written by hand, on one table with a change data
feed, marking or rewriting as each step says. After each step the rows, the change feed of the commit and the number of
affected rows are compared with a list of tuples that knows nothing of files.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.spark.properties.test_merge_against_list import (
    BOTH,
    BY_SOURCE,
    INSERT,
    MATCHED,
    OF_SOURCE,
    OF_TARGET,
    ON,
    ROWS,
    SCHEMA,
    first,
    merges,
    modelled,
    plus,
    request,
)
from tests.support.log_reading import newest_version
from tests.support.peer_agreement import assert_peers_agree
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.errors import RequestError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Row = tuple[Any, ...]
Changes = Counter[tuple[Any, ...]]
TYPES = "k long, v long, p string"

CONDITIONS = st.sampled_from([*OF_TARGET, "p = 'b'"])
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(ROWS, min_size=1, max_size=4)),
    st.tuples(st.just("overwrite"), st.lists(ROWS, max_size=4)),
    st.tuples(st.just("replace_where"), st.lists(ROWS.map(lambda row: (*row[:2], "a")), max_size=3)),
    st.tuples(st.just("delete"), CONDITIONS),
    st.tuples(st.just("update"), CONDITIONS),
    st.tuples(st.just("update"), CONDITIONS),
    st.tuples(st.just("merge"), merges()),
    st.tuples(st.just("merge"), merges()),
    st.tuples(st.just("restore"), st.integers(0, 5)),
)


def holds(condition: str | None, row: Row) -> bool:
    return row[2] == "b" if condition == "p = 'b'" else OF_TARGET[condition](row) is True


def changes(**rows: list[Row]) -> Changes:
    return Counter((*row, kind) for kind, some in rows.items() for row in some)


class Table:
    """The table under test beside the list; every method makes one change to both and gives the changes to be told."""

    def __init__(self, spark: Any, path: Path, rows: list[Row]) -> None:
        self.spark, self.path, self.rows = spark, path, rows
        self.affected: int | None = None
        self.versions = {0: list(rows)}

    @property
    def delta(self) -> ebbtide.DeltaTable:
        return ebbtide.DeltaTable.forPath(self.spark, str(self.path))

    def frame(self, rows: list[Row]) -> Any:
        return self.spark.createDataFrame(rows, TYPES)

    def append(self, new: list[Row], mode: str) -> Changes:
        ebbtide.write(self.frame(new), str(self.path), mode="append")
        self.rows = self.rows + new
        return changes(insert=new)

    def overwrite(self, new: list[Row], mode: str) -> Changes:
        ebbtide.write(self.frame(new), str(self.path), mode="overwrite")
        old, self.rows = self.rows, new
        return changes(delete=old, insert=new)

    def replace_where(self, new: list[Row], mode: str) -> Changes:
        ebbtide.write(self.frame(new), str(self.path), mode="overwrite", replace_where="p = 'a'")
        gone = [row for row in self.rows if row[2] == "a"]
        self.rows = [row for row in self.rows if row[2] != "a"] + new
        return changes(delete=gone, insert=new)

    def delete(self, condition: str | None, mode: str) -> Changes:
        self.affected = self.delta.alias("t").delete(condition, deletion_vectors=mode).num_affected_rows
        gone = [row for row in self.rows if holds(condition, row)]
        assert self.affected == len(gone)
        self.rows = [row for row in self.rows if not holds(condition, row)]
        return changes(delete=gone)

    def update(self, condition: str | None, mode: str) -> Changes:
        result = self.delta.alias("t").update(condition, {"v": "t.v + 1", "p": "'b'"}, deletion_vectors=mode)
        old = [row for row in self.rows if holds(condition, row)]
        assert result.num_affected_rows == len(old)
        new = [(row[0], plus(row[1], 1), "b") for row in old]
        self.rows = [row for row in self.rows if not holds(condition, row)] + new
        return changes(update_preimage=old, update_postimage=new)

    def merge(self, merge: dict[str, Any], mode: str) -> Changes | None:
        if not (merge["matched"] or merge["not_matched"] or merge["by_source"]):
            return changes()
        expected = modelled(self.rows, merge)
        command = MergeCommand(self.spark, request(self.spark, self.path, merge, mode))
        if expected is None:
            with pytest.raises(RequestError, match="more than one row of the source"):
                command.run()
            return changes()
        told = merge_changes(self.rows, merge)
        command.run()
        self.rows = expected[0]
        return told

    def restore(self, version: int, mode: str) -> None:
        chosen = version % (newest_version(self.path) + 1)
        self.delta.restoreToVersion(chosen)
        self.rows = list(self.versions[chosen])


def merge_changes(target: list[Row], merge: dict[str, Any]) -> Changes:
    """What the feed must tell. A merge that only inserts and one that changes rows tell it in different ways."""
    on, source = ON[merge["on"]], merge["source"]
    told: list[tuple[Any, ...]] = []
    for row in target:
        partners = [other for other in source if on(row, other)]
        if partners:
            said = first(merge["matched"], MATCHED, BOTH, row, partners[0])
        else:
            said = first(merge["by_source"], BY_SOURCE, OF_TARGET, row)
        if said is not None and said[1] is None:
            told.append((*row, "delete"))
        elif said is not None:
            told += [(*row, "update_preimage"), (*said[1], "update_postimage")]
    for other in source:
        is_new = not any(on(row, other) for row in target)
        said = first(merge["not_matched"], INSERT, OF_SOURCE, other) if is_new else None
        if said is not None:
            told.append((*said[1], "insert"))
    return Counter(told)


def fed(spark: Any, path: Path, version: int) -> Changes:
    feed = ebbtide.read_changes(spark, str(path), start_version=version, end_version=version)
    return Counter(tuple(row) for row in feed.select("k", "v", "p", "_change_type").collect())


def net(told: Changes) -> Counter[Row]:
    """How many more of each row there are afterwards."""
    signs = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
    total: Counter[Row] = Counter()
    for (*row, kind), count in told.items():
        total[tuple(row)] += signs[kind] * count
    return Counter({row: count for row, count in total.items() if count})


def run_steps(
    spark: Any, files: list[list[Row]], steps: list[tuple[tuple[str, Any], str]], *, partitioned: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        builder = TableBuilder(Path(directory, "t"), SCHEMA).deletion_vectors().change_data_feed()
        if partitioned:
            builder.partitioned_by("p")
        for group in files:
            for part in ("a", "b") if partitioned else (None,):
                rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in group if part in (None, row[2])]
                if rows:
                    builder.file(rows)
        builder.commit()
        table = Table(spark, builder.path, [row for group in files for row in group])
        for (name, argument), mode in steps:
            note(f"{name} {argument} (vectors {mode})")
            play(table, name, argument, mode)
        assert_peers_agree(Path(directory))


def play(table: Table, name: str, argument: Any, mode: str) -> None:
    before, version = Counter(table.rows), newest_version(table.path)
    told = getattr(table, name)(argument, mode)
    assert Counter(tuple(row) for row in ebbtide.read(table.spark, str(table.path)).collect()) == Counter(table.rows)
    newest = newest_version(table.path)
    table.versions[newest] = list(table.rows)
    assert newest in {version, version + 1}
    if newest == version:
        assert not told, "changes that no commit tells"
        return
    feed = fed(table.spark, table.path, newest)
    if told is not None:
        assert feed == told
    after = Counter(table.rows)
    assert net(feed) == Counter({row: after[row] - before[row] for row in after | before if after[row] != before[row]})


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(st.lists(ROWS, min_size=1, max_size=5), max_size=3),
    steps=st.lists(st.tuples(STEPS, st.sampled_from(["on", "off"])), min_size=2, max_size=5),
    partitioned=st.booleans(),
)
def test_any_sequence_of_commands_leaves_and_tells_what_a_list_does(spark, files, steps, partitioned):
    run_steps(spark, files, steps, partitioned=partitioned)
