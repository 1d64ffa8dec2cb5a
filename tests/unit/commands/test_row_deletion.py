"""When are rows marked and when are files rewritten, and can rows of this table go at all?"""

from __future__ import annotations

import json

import pytest
from tests.support.transactions import DV_TABLE, add_file, make_table, vector_of

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.delete.rows import ends_mostly_deleted, vector_mode
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.counters import logical_rows, partition_count, skipping_metrics
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
    assert vector_mode(snapshot, wanted) == mode
    command = DeleteCommand(None, DeleteRequest(snapshot.store, None, options=WriteOptions(deletion_vectors=wanted)))
    assert command.should_write_persistent_deletion_vectors(snapshot) is (mode != "off")


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
    assert ends_mostly_deleted(file, RowIndexSet.from_range(already, already + matched)) is rewritten


def test_logical_rows_are_known_only_when_every_file_counts_its_rows():
    marked = add_file("a", rows=10, vector=vector_of(1, 2))
    assert logical_rows([marked, add_file("b", rows=3)]) == 11
    assert logical_rows([marked, add_file("b", stats=None)]) is None
    assert logical_rows([]) == 0


def test_skipping_counters_compare_the_table_with_the_candidates():
    files = [add_file(str(number), partition={"p": str(number % 2)}) for number in range(4)]
    snapshot = snapshot_of(*files, columns={"id": "long", "p": "string"}, partitions=["p"])
    metrics = skipping_metrics(snapshot, files[:3])
    assert (metrics.num_files_before_skipping, metrics.num_files_after_skipping) == (4, 3)
    assert (metrics.num_bytes_before_skipping, metrics.num_bytes_after_skipping) == (400, 300)
    assert metrics.num_partitions_after_skipping == 2
    assert partition_count(snapshot_of(*files[:1]), files) == 0
