"""When are rows marked and when are files rewritten, and can rows of this table go at all?"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from tests.support.transactions import DV_TABLE, add_file, make_table, vector_of

from ebbtide.commands.delete.results import skipping_metrics
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.counters import (
    logical_rows,
    marked_rows,
    partition_count,
    physical_rows,
    table_partition_count,
    total_bytes,
    vector_count,
)
from ebbtide.commands.row_level.plan import (
    MarkRows,
    RewriteFiles,
    WholeFiles,
    WholeTable,
    divide_matched,
    is_same_way,
    plan_rows,
    should_write_persistent_deletion_vectors,
)
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot
from ebbtide.scan import ScanFile

SUPPORTED_ONLY = {"features": ["deletionVectors"]}
WITH_FEED = {
    "features": ["deletionVectors"],
    "writer_features": ["changeDataFeed"],
    "configuration": DV_TABLE["configuration"] | {"delta.enableChangeDataFeed": "true"},
}


@dataclass(frozen=True)
class Everywhere:
    """A matcher of rows in any file."""

    is_partition_only: bool = False

    def candidates(self, spark, snapshot):
        return snapshot.files


def snapshot_of(*files, **options):
    return load_snapshot(make_table(None, *files, **options))


@pytest.mark.parametrize(
    ("table", "wanted", "mode"),
    [
        (DV_TABLE, "on", "on"),
        (DV_TABLE, "auto", "auto"),
        (DV_TABLE, "off", "off"),
        (SUPPORTED_ONLY, "on", "off"),
        ({}, "on", "off"),
        ({}, "auto", "off"),
        # One commit either writes its change data or leaves all of it to be inferred.
        (WITH_FEED, "auto", "on"),
        (WITH_FEED, "off", "off"),
    ],
)
def test_vectors_are_written_where_the_request_and_the_table_allow_them(table, wanted, mode):
    snapshot = snapshot_of(**table)
    assert should_write_persistent_deletion_vectors(snapshot, wanted) is (mode != "off")
    plan = plan_rows(None, snapshot, Everywhere(), wanted)
    assert isinstance(plan, RewriteFiles if mode == "off" else MarkRows)
    assert mode == "off" or plan.rewrites_mostly_marked is (mode == "auto")
    assert plan.files.num_rows == snapshot.num_files


def test_plan_reads_no_data_where_the_log_can_answer():
    snapshot = snapshot_of(add_file("a"), **DV_TABLE)
    assert isinstance(plan_rows(None, snapshot, None, "on"), WholeTable)
    assert isinstance(plan_rows(None, snapshot, Everywhere(is_partition_only=True), "on"), WholeFiles)


def test_work_is_carried_over_only_to_a_plan_that_goes_the_same_way():
    files, matcher = snapshot_of(add_file("a")).files, Everywhere()
    ways = [
        MarkRows(matcher, files),
        MarkRows(matcher, files, rewrites_mostly_marked=True),
        RewriteFiles(matcher, files),
    ]
    assert [[is_same_way(one, other) for other in ways] for one in ways] == [
        [number == place for number in range(3)] for place in range(3)
    ]


def test_append_only_table_is_not_removable():
    assert_not_append_only(snapshot_of(configuration={"delta.appendOnly": "false"}))
    with pytest.raises(DeltaError, match="append-only") as caught:
        assert_not_append_only(snapshot_of(configuration={"delta.appendOnly": "true"}))
    assert caught.value.error_class == "DELTA_CANNOT_MODIFY_APPEND_ONLY"


@pytest.mark.parametrize(
    ("rows", "already", "matched", "rewritten"),
    [(10, 0, 5, False), (10, 0, 6, True), (10, 4, 2, True), (10, 4, 1, False), (10, 0, 10, False), (None, 0, 9, False)],
)
def test_auto_rewrites_a_file_that_keeps_less_than_half_of_its_rows(rows, already, matched, rewritten):
    vector = vector_of(*range(already)) if already else None
    add = add_file("a", vector=vector, stats=None if rows is None else json.dumps({"numRecords": rows}))
    file = ScanFile(add, "file:/t/a", "a", size_is_checked=True)
    found = (file, RowIndexSet.from_range(already, already + matched))
    auto = MarkRows(Everywhere(), None, rewrites_mostly_marked=True)
    assert divide_matched(auto, [found]) == (([], [found]) if rewritten else ([found], []))
    assert divide_matched(MarkRows(Everywhere(), None), [found]) == ([found], [])
    assert divide_matched(RewriteFiles(Everywhere(), None), [found]) == ([], [found])


def test_logical_rows_are_known_only_when_every_file_counts_its_rows():
    marked = add_file("a", rows=10, vector=vector_of(1, 2))
    assert logical_rows([marked, add_file("b", rows=3)]) == 11
    assert logical_rows([marked, add_file("b", stats=None)]) is None
    assert logical_rows([]) == 0


def test_sums_over_the_file_table_are_those_of_its_actions():
    files = [add_file("a", rows=10, vector=vector_of(1, 2)), add_file("b", rows=3)]
    table = snapshot_of(*files, **DV_TABLE).files
    assert (total_bytes(table), vector_count(table), marked_rows(table), physical_rows(table)) == (200, 1, 2, 13)
    nothing = table.slice(0, 0)
    assert (total_bytes(nothing), vector_count(nothing), marked_rows(nothing), physical_rows(nothing)) == (0, 0, 0, 0)
    unknown = snapshot_of(files[0], add_file("b", stats=None), **DV_TABLE).files
    assert physical_rows(unknown) is None


def test_partitions_of_the_file_table_are_told_apart_by_null_and_by_every_column():
    values = [("x", "1"), ("x", "2"), (None, "1"), ("x", "1"), (None, "1")]
    files = [add_file(str(place), partition={"p": p, "q": q}) for place, (p, q) in enumerate(values)]
    snapshot = snapshot_of(*files, columns={"id": "long", "p": "string", "q": "string"}, partitions=["p", "q"])
    assert table_partition_count(snapshot, snapshot.files) == partition_count(snapshot, files) == 3
    assert table_partition_count(snapshot, snapshot.files.slice(0, 0)) == 0


def test_skipping_counters_compare_the_table_with_the_candidates():
    files = [add_file(str(number), partition={"p": str(number % 2)}) for number in range(4)]
    snapshot = snapshot_of(*files, columns={"id": "long", "p": "string"}, partitions=["p"])
    metrics = skipping_metrics(snapshot, snapshot.files.slice(0, 3))
    assert (metrics.num_files_before_skipping, metrics.num_files_after_skipping) == (4, 3)
    assert (metrics.num_bytes_before_skipping, metrics.num_bytes_after_skipping) == (400, 300)
    assert metrics.num_partitions_after_skipping == 2
    assert partition_count(snapshot_of(*files[:1]), files) == 0
