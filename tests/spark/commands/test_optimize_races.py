"""Does a row that was deleted while its file was copied stay deleted?

Rivals commit at the moment when the compaction is about to. No threads and no waiting.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.log_reading import actions_of, commit_info, log_state, newest_version, vector_rows
from tests.support.races import (
    RacingStore,
    add_column,
    append,
    assert_each_delete_counts_its_own_rows,
    compact,
    ids_at,
    overwrite,
    restore,
    set_property,
    unnamed_files,
)
from tests.support.row_ids import tracked_rows
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.request import OptimizeRequest
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import ConcurrentDeleteReadException, MetadataChangedException
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64()})


def ids(start, stop):
    return [{"id": number} for number in range(start, stop)]


def build(tmp_path, *features):
    """0 to 29 in three files of ten; 1, 2 and 15 are marked."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    for feature in features:
        feature(builder)
    builder.file(ids(0, 10), deleted=[1, 2]).file(ids(10, 20), deleted=[5]).file(ids(20, 30))
    return builder.commit()


@pytest.fixture
def table(tmp_path):
    return build(tmp_path)


ALIVE = sorted(set(range(30)) - {1, 2, 15})


def race(spark, table, *rivals, commit_per_group=False, conflicts="rebase"):
    """The compaction's result; each rival commits right before an attempt of its."""
    store = RacingStore(open_store(str(table.path)), *rivals, first=newest_version(table.path) + 1)
    options = WriteOptions(conflicts=conflicts)
    return OptimizeCommand(spark, OptimizeRequest(store, options=options, commit_per_group=commit_per_group)).run()


def delete(spark, table, condition, **options):
    return lambda: DeltaTable.forPath(spark, str(table.path)).delete(condition, **options)


def check(spark, table, expected):
    assert ids_at(table.path) == sorted(expected)
    assert sorted(row["id"] for row in ebbtide.read(spark, str(table.path)).collect()) == sorted(expected)
    assert_each_delete_counts_its_own_rows(table.path)
    assert unnamed_files(table.path) == set()


def test_rows_deleted_meanwhile_are_marked_in_the_new_file(spark, table):
    result = race(spark, table, delete(spark, table, "id IN (0, 3, 14, 16, 29)"))
    assert result.version == 2
    assert result.metrics.num_carried_rows == 5
    check(spark, table, set(ALIVE) - {0, 3, 14, 16, 29})
    [add] = log_state(table.path).adds
    assert len(vector_rows(table.path, add)) == 5
    assert add["dataChange"] is False
    assert '"tightBounds":false' in add["stats"].replace(" ", "")
    removes = actions_of(table.path, 2, "remove")
    assert all(remove.get("deletionVector") for remove in removes)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_rows_updated_meanwhile_are_not_there_twice(spark, table):
    result = race(
        spark, table, lambda: DeltaTable.forPath(spark, str(table.path)).update("id IN (3, 25)", {"id": "id + 100"})
    )
    assert result.metrics.num_carried_rows == 2
    check(spark, table, (set(ALIVE) - {3, 25}) | {103, 125})


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_rows_merged_meanwhile_are_not_there_twice(spark, table):
    def merge():
        source = spark.range(8, 12).selectExpr("id", "id + 200 AS new")
        target = DeltaTable.forPath(spark, str(table.path)).alias("t")
        target.merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"id": "s.new"}).execute()

    race(spark, table, merge)
    check(spark, table, (set(ALIVE) - {8, 9, 10, 11}) | {208, 209, 210, 211})


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_several_winners_one_after_the_other_are_all_followed(spark, table):
    rivals = [delete(spark, table, f"id = {number}") for number in (0, 29, 14, 13)]
    result = race(spark, table, *rivals)
    assert result.version == 5
    assert result.metrics.num_carried_rows == 4
    check(spark, table, set(ALIVE) - {0, 29, 14, 13})


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_winner_that_deletes_every_copied_row_leaves_no_new_file(spark, table):
    race(spark, table, delete(spark, table, "id % 2 < 5 AND id >= 0"))
    check(spark, table, [])


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_append_is_left_alone(spark, table):
    result = race(spark, table, lambda: append(open_store(str(table.path)), [100, 101]))
    assert result.metrics.num_carried_rows == 0
    check(spark, table, [*ALIVE, 100, 101])
    assert len(log_state(table.path).adds) == 2


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
@pytest.mark.parametrize("per_group", [False, True])
def test_file_rewritten_meanwhile_is_not_brought_back(spark, table, per_group):
    """Without vectors the winner replaces the file: what is left of the group is copied again."""
    result = race(spark, table, delete(spark, table, "id = 12", deletion_vectors="off"), commit_per_group=per_group)
    check(spark, table, set(ALIVE) - {12})
    assert result.metrics.num_removed_files == 2


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_winner_that_compacts_the_same_files_leaves_nothing_to_do(spark, table):
    result = race(spark, table, lambda: compact(open_store(str(table.path)), table.path))
    assert result.version is None
    assert newest_version(table.path) == 1
    check(spark, table, ALIVE)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_overwritten_table_is_left_alone(spark, table):
    assert race(spark, table, lambda: overwrite(open_store(str(table.path)), [7])).version is None
    check(spark, table, [7])


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_rows_restored_meanwhile_are_copied_too(spark, table):
    delete(spark, table, "id = 25")()
    race(spark, table, lambda: restore(open_store(str(table.path)), 0))
    check(spark, table, ALIVE)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_vectors_switched_off_meanwhile_are_not_written(spark, table):
    def rival():
        delete(spark, table, "id = 3")()
        set_property(open_store(str(table.path)), "delta.enableDeletionVectors", "false")

    with pytest.raises(MetadataChangedException):
        race(spark, table, rival)
    check(spark, table, set(ALIVE) - {3})


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_changed_schema_stops_the_compaction_and_leaves_nothing(spark, table):
    with pytest.raises(MetadataChangedException):
        race(spark, table, lambda: add_column(open_store(str(table.path)), "more"))
    assert unnamed_files(table.path) == set()


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_row_ids_survive_a_race(spark, tmp_path):
    table = build(tmp_path, TableBuilder.row_tracking)
    before = tracked_rows(table.path)
    race(spark, table, delete(spark, table, "id IN (4, 21)"))
    assert tracked_rows(table.path) == {number: kept for number, kept in before.items() if number not in (4, 21)}


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_change_feed_tells_the_winner_s_delete_once(spark, tmp_path):
    table = build(tmp_path, TableBuilder.change_data_feed)
    race(spark, table, delete(spark, table, "id IN (4, 21)"))
    changes = ebbtide.read_changes(spark, str(table.path), 1).collect()
    assert sorted((row["id"], row["_change_type"]) for row in changes) == [(4, "delete"), (21, "delete")]


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_compaction_that_may_not_rebase_raises_as_the_reference(spark, table):
    with pytest.raises(ConcurrentDeleteReadException):
        race(spark, table, delete(spark, table, "id = 3"), conflicts="abort")
    check(spark, table, set(ALIVE) - {3})


# --- the other direction: the compaction wins --------------------------------------------------------------------------


def compaction(spark, table):
    return lambda: DeltaTable.forPath(spark, str(table.path)).optimize().executeCompaction()


def open_racing(spark, table, *rivals):
    store = RacingStore(open_store(str(table.path)), *rivals, first=newest_version(table.path) + 1)
    return DeltaTable(spark, store)


@pytest.mark.one_value("after a lost race the log decides, whatever the mode")
@pytest.mark.parametrize("mode", ["on", "off", "auto"])
def test_delete_that_loses_to_a_compaction_deletes_in_the_new_file(spark, table, mode):
    racing = open_racing(spark, table, compaction(spark, table))
    result = racing.delete("id IN (3, 14, 29)", deletion_vectors=mode)
    assert result.num_affected_rows == 3
    check(spark, table, set(ALIVE) - {3, 14, 29})


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
@pytest.mark.parametrize("mode", ["on", "off"])
def test_update_that_loses_to_a_compaction_updates_in_the_new_file(spark, table, mode):
    result = open_racing(spark, table, compaction(spark, table)).update(
        "id IN (3, 14)", {"id": "id + 100"}, deletion_vectors=mode
    )
    assert result.num_affected_rows == 2
    check(spark, table, (set(ALIVE) - {3, 14}) | {103, 114})


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_merge_that_loses_to_a_compaction_merges_with_the_new_file(spark, table):
    source = spark.range(8, 12).selectExpr("id", "id + 200 AS new")
    target = open_racing(spark, table, compaction(spark, table)).alias("t")
    target.merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"id": "s.new"}).execute()
    check(spark, table, (set(ALIVE) - {8, 9, 10, 11}) | {208, 209, 210, 211})


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_deleted_meanwhile_are_marked_in_the_new_file and test_delete_that_loses_to_a_compaction_deletes_in_the_new_file run on both kinds"
)
def test_delete_and_compactions_take_turns(spark, table):
    """Each loses once to the other."""
    racing = open_racing(spark, table, compaction(spark, table))
    racing.delete("id = 3")
    append(open_store(str(table.path)), [100])
    race(spark, table, delete(spark, table, "id IN (4, 100)"))
    check(spark, table, set(ALIVE) - {3, 4})
    assert commit_info(table.path, newest_version(table.path))["operation"] == "OPTIMIZE"
