"""Does DELETE without deletion vectors rewrite exactly the files that hold a match, and nothing else?"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_reading import actions_of, commit_info, data_file, log_state, read_commit, stats_of
from tests.support.row_ids import tracked_rows
from tests.support.table_builder import TableBuilder

import ebbtide

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.string()})
IDS = pa.schema({"id": pa.int64()})


def ids(*numbers):
    return [{"id": number} for number in numbers]


def people(path, *, vectors=False):
    """Files of three in the partitions a, a, b; every third name is null."""
    builder = TableBuilder(path, SCHEMA).partitioned_by("part")
    if vectors:
        builder.deletion_vectors()
    for first, part in ((0, "a"), (3, "a"), (6, "b")):
        rows = [{"id": first + n, "name": None if n == 2 else f"n{n}", "part": part} for n in range(3)]
        builder.file(rows)
    return builder.commit()


def rows_of(spark, table, **options):
    return sorted(row["id"] for row in ebbtide.read(spark, str(table.path), **options).collect())


def kinds(table, version):
    return [next(iter(action)) for action in read_commit(table.path, version)]


@pytest.mark.one_kind("the log decides, not Spark")
def test_only_files_with_a_match_are_rewritten(spark, tmp_path, checked_delete):
    table = people(tmp_path / "t")
    removed = table.files[1].add
    result = checked_delete(table, "id = 4")
    assert kinds(table, 1) == ["commitInfo", "remove", "add"]
    [remove], [add] = actions_of(table.path, 1, "remove"), actions_of(table.path, 1, "add")
    assert remove["path"] == removed["path"]
    assert add["partitionValues"] == {"part": "a"}
    metrics = result.metrics
    assert (metrics.num_deleted_rows, metrics.num_copied_rows, metrics.num_touched_rows) == (1, 2, 3)
    assert (metrics.num_removed_files, metrics.num_added_files) == (1, 1)
    assert (metrics.num_removed_bytes, metrics.num_added_bytes) == (removed["size"], add["size"])
    assert (metrics.num_partitions_removed_from, metrics.num_partitions_added_to) == (1, 1)
    assert metrics.num_deletion_vectors_added == 0
    assert rows_of(spark, table) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert rows_of(spark, table, version=0) == list(range(9))


@pytest.mark.one_kind("the calls of test_both_ways_leave_the_same_rows_and_counts, which runs on both kinds")
def test_row_for_which_the_condition_is_null_is_copied(spark, tmp_path, checked_delete):
    table = people(tmp_path / "t")
    assert checked_delete(table, "name = 'n0'").num_affected_rows == 3
    assert checked_delete(table, "name <> 'n0'").num_affected_rows == 3
    assert rows_of(spark, table) == [2, 5, 8]


@pytest.mark.one_kind("the log decides, not Spark")
def test_file_that_loses_its_last_row_gets_no_successor(spark, tmp_path, checked_delete):
    table = people(tmp_path / "t")
    result = checked_delete(table, "id >= 3 AND id < 6 OR id = 8")
    assert (result.metrics.num_removed_files, result.metrics.num_added_files) == (2, 1)
    assert result.metrics.num_copied_rows == 2
    assert rows_of(spark, table) == [0, 1, 2, 6, 7]


@pytest.mark.one_kind("the log decides, not Spark")
def test_vectors_of_rewritten_files_go_with_them(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(*range(5)), deleted=[0, 1]).file(ids(5, 6), deleted=[0]).commit()
    result = checked_delete(builder, "id = 2", deletion_vectors="off")
    assert (result.num_affected_rows, result.metrics.num_copied_rows) == (1, 2)
    assert result.metrics.num_deletion_vectors_removed == 1
    [remove], [add] = actions_of(builder.path, 1, "remove"), actions_of(builder.path, 1, "add")
    assert remove["deletionVector"] == builder.files[0].add["deletionVector"]
    assert stats_of(add)["tightBounds"] is True
    assert rows_of(spark, builder) == [3, 4, 6]


@pytest.mark.one_kind("the log decides, not Spark")
def test_property_switched_off_stops_new_vectors(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.table_property("delta.enableDeletionVectors", "false")
    builder.file(ids(0, 1, 2), deleted=[0]).commit()
    checked_delete(builder, "id = 1")
    assert kinds(builder, 1) == ["commitInfo", "remove", "add"]
    assert "deletionVector" not in actions_of(builder.path, 1, "add")[0]
    assert rows_of(spark, builder) == [2]


def test_change_feed_gets_the_deleted_rows(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").change_data_feed()
    for first, part in ((0, "a"), (3, "b")):
        builder.file([{"id": first + n, "name": f"n{n}", "part": part} for n in range(3)])
    builder.commit()
    result = checked_delete(builder, "id IN (1, 3, 4)")
    assert result.metrics.num_added_change_files == 2
    changes = actions_of(builder.path, 1, "cdc")
    assert result.metrics.change_file_bytes == sum(change["size"] for change in changes)
    found = {
        change["partitionValues"]["part"]: pq.ParquetFile(data_file(builder.path, change)).read().to_pylist()
        for change in changes
    }
    assert [(row["id"], row["name"], row["_change_type"]) for row in found["a"]] == [(1, "n1", "delete")]
    assert sorted(row["id"] for row in found["b"]) == [3, 4]
    assert rows_of(spark, builder) == [0, 2, 5]
    checked_delete(builder, "part = 'b'")
    assert kinds(builder, 2) == ["commitInfo", "remove"]


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("feed", [False, True], ids=["no feed", "change feed"])
def test_tracked_rows_take_their_ids_along(spark, tmp_path, checked_delete, feed):
    builder = TableBuilder(tmp_path / "t", IDS).row_tracking()
    if feed:
        builder.change_data_feed()
    builder.file(ids(0, 1, 2)).commit()
    builder.file(ids(3, 4, 5)).commit()
    before = tracked_rows(builder.path)
    checked_delete(builder, "id IN (1, 3)")
    assert tracked_rows(builder.path) == {key: before[key] for key in (0, 2, 4, 5)}
    assert commit_info(builder.path, 2)["tags"] == {"delta.rowTracking.preserved": "true"}
    checked_delete(builder, "id IN (0, 5)")
    assert tracked_rows(builder.path) == {2: (2, 0), 4: (4, 1)}


@pytest.mark.one_kind("the log decides, not Spark")
def test_auto_marks_few_rows_and_rewrites_a_file_that_would_be_mostly_gone(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(*range(10))).file(ids(*range(10, 20))).file(ids(*range(20, 30))).commit()
    result = checked_delete(builder, "id < 2 OR id BETWEEN 10 AND 17 OR id >= 20", deletion_vectors="auto")
    metrics = result.metrics
    assert result.num_affected_rows == 20
    assert (metrics.num_deletion_vectors_added, metrics.num_added_files, metrics.num_removed_files) == (1, 1, 2)
    assert metrics.num_copied_rows == 2
    assert rows_of(spark, builder) == [*range(2, 10), 18, 19]
    assert [stats_of(add)["numRecords"] for add in log_state(builder.path).adds if "deletionVector" in add] == [10]


@pytest.mark.one_kind("the log decides, not Spark")
def test_auto_marks_where_a_change_feed_would_be_mixed(tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors().change_data_feed()
    builder.file(ids(*range(10))).commit()
    checked_delete(builder, "id < 9", deletion_vectors="auto")
    assert [add["deletionVector"]["cardinality"] for add in actions_of(builder.path, 1, "add")] == [9]
    assert not actions_of(builder.path, 1, "cdc")


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_tables_are_rewritten_under_physical_names(spark, tmp_path, checked_delete, mode):
    schema = pa.schema({"id": pa.int64(), "a b": pa.string(), "part": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("part").column_mapping(mode)
    builder.file([{"id": n, "a b": str(n), "part": "x y"} for n in range(4)]).commit()
    assert checked_delete(builder, "`a b` = '2'").num_affected_rows == 1
    [add] = actions_of(builder.path, 1, "add")
    assert add["partitionValues"] == {"col-3": "x y"}
    assert pq.read_schema(data_file(builder.path, add)).names[:2] == ["col-1", "col-2"]
    assert rows_of(spark, builder) == [0, 1, 3]


def test_both_ways_leave_the_same_rows_and_counts(spark, tmp_path, checked_delete):
    condition = "name IS NULL OR id IN (0, 4) OR part = 'b' AND id = 7"
    marked, rewritten = people(tmp_path / "marked", vectors=True), people(tmp_path / "rewritten")
    counts = {checked_delete(table, condition).num_affected_rows for table in (marked, rewritten)}
    assert counts == {6}
    assert rows_of(spark, marked) == rows_of(spark, rewritten) == [1, 3, 6]
    assert commit_info(rewritten.path, 1)["operationMetrics"]["numCopiedRows"] == "3"
