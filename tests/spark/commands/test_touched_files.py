"""Which files does a condition touch, at which physical rows, and is each found under its own name?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.conditions import bind_condition
from ebbtide.commands.row_level.plan import plan_rows
from ebbtide.commands.row_level.search import SparkSearch
from ebbtide.commands.row_level.touched_files import (
    create_target_df_for_scanning_for_matches,
    find_touched_files,
    process_unmodified_data,
    replace_file_index,
)
from ebbtide.deletion_vectors import load
from ebbtide.log import load_snapshot
from ebbtide.scan import resolve_files
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})


@pytest.fixture
def snapshot(tmp_path):
    """Ids 0-4 in part a with row 0 marked, 5-9 in part b, 10-14 in part a."""
    builder = TableBuilder(tmp_path / "a t", SCHEMA).partitioned_by("part").deletion_vectors()
    builder.file([{"id": number, "part": "a"} for number in range(5)], deleted=[0], name="first.parquet")
    builder.file([{"id": number, "part": "b"} for number in range(5, 10)], name="second %.parquet")
    builder.file([{"id": number, "part": "a"} for number in range(10, 15)], name="third.parquet", row_group_size=2)
    builder.commit()
    return load_snapshot(open_store(str(builder.path)))


@pytest.fixture
def files(snapshot):
    return resolve_files(snapshot, snapshot.files)


def positions(scan):
    rows = scan.frame.select("id", scan.file_column, scan.row_column).collect()
    return {row[0]: (scan.files[row[1]].add.path, row[2]) for row in rows}


def found(spark, snapshot, files, condition):
    bound = bind_condition(spark, snapshot, condition)
    return {file.add.path: list(rows) for file, rows in SparkSearch(spark).matches(snapshot, files, bound)}


def touched_by(spark, snapshot, files, condition, operation, **more):
    plan = plan_rows(spark, snapshot, bind_condition(spark, snapshot, condition), "on")
    return find_touched_files(SparkSearch(spark), snapshot, files, plan, operation, options=WriteOptions(), **more)


def test_target_for_matches_shows_live_rows_with_file_and_physical_row(spark, snapshot, files):
    scan = create_target_df_for_scanning_for_matches(spark, snapshot, files)
    assert scan.frame.columns[:2] == ["id", "part"]
    assert len(scan.frame.columns) == 4
    found = positions(scan)
    assert sorted(found) == list(range(1, 15))
    assert found[1] == ("part=a/first.parquet", 1)
    assert found[7] == ("part=b/second%20%25.parquet", 2)
    assert found[14] == ("part=a/third.parquet", 4)


def test_file_list_is_exchanged_and_the_columns_stay(spark, snapshot, files):
    scan = create_target_df_for_scanning_for_matches(spark, snapshot, files)
    replaced = replace_file_index(spark, snapshot, scan, files[1:2])
    assert replaced.frame.columns == scan.frame.columns
    assert [field.dataType for field in replaced.frame.schema] == [field.dataType for field in scan.frame.schema]
    assert positions(replaced) == {5 + n: ("part=b/second%20%25.parquet", n) for n in range(5)}


@pytest.mark.one_kind(
    "the calls of test_touched_files_name_vector_and_newly_deleted_rows, which runs on both kinds; this adds values"
)
def test_matches_are_physical_rows_of_each_file(spark, snapshot, files):
    assert found(spark, snapshot, files, "id IN (0, 2, 5, 13, 14)") == {
        "part=a/first.parquet": [2],
        "part=b/second%20%25.parquet": [0],
        "part=a/third.parquet": [3, 4],
    }
    assert found(spark, snapshot, files, "id = 0") == {}
    assert found(spark, snapshot, [], "id = 2") == {}


def test_touched_files_name_vector_and_newly_deleted_rows(spark, snapshot, files):
    touched = touched_by(spark, snapshot, files, "part = 'a' AND id <> 12", "DELETE").marked
    by_path = {file.file_log_entry.path: file for file in touched}
    assert set(by_path) == {"part=a/first.parquet", "part=a/third.parquet"}
    first, third = by_path["part=a/first.parquet"], by_path["part=a/third.parquet"]
    assert (first.deleted_rows, first.number_of_modified_rows, first.is_fully_replaced()) == (4, 4, True)
    assert (third.deleted_rows, third.number_of_modified_rows, third.is_fully_replaced()) == (4, 4, False)
    assert list(load(snapshot.store, snapshot.store.url, third.new_deletion_vector)) == [0, 1, 3, 4]
    assert third.input_file_path.endswith("/a t/part=a/third.parquet")
    outcome = process_unmodified_data(touched, timestamp_ms=1)
    assert (outcome.num_modified_rows, outcome.num_removed_files) == (8, 1)
    assert (outcome.num_deletion_vectors_added, outcome.num_deletion_vectors_removed) == (1, 1)
    assert outcome.num_deletion_vectors_updated == 0


@pytest.mark.one_kind(
    "the calls of test_touched_files_name_vector_and_newly_deleted_rows, which runs on both kinds; this adds the order of events"
)
def test_update_finds_touched_files_the_same_way(spark, snapshot, files):
    given = []
    vectors = {item.path for item in snapshot.store.list("") if item.path.endswith(".bin")}

    def write_rows(marked, rewritten):
        """No new vector is there yet when the rows are written."""
        assert {item.path for item in snapshot.store.list("") if item.path.endswith(".bin")} == vectors
        given.append((marked, rewritten))

    touched = touched_by(spark, snapshot, files, "id = 6", "UPDATE", write_rows=write_rows)
    assert [file.file_log_entry.path for file in touched.marked] == ["part=b/second%20%25.parquet"]
    [(marked, rewritten)] = given
    assert [(file.add.path, list(rows)) for file, rows in marked] == [("part=b/second%20%25.parquet", [1])]
    assert rewritten == []


@pytest.mark.one_kind("test_file_list_is_exchanged_and_the_columns_stay runs on both kinds")
def test_search_of_other_files_is_the_same_scan_with_its_files_exchanged(spark, snapshot, files):
    search, bound = SparkSearch(spark), bind_condition(spark, snapshot, "id >= 0")
    first = {file.add.path: len(rows) for file, rows in search.matches(snapshot, files[:1], bound)}
    second = {file.add.path: len(rows) for file, rows in search.matches(snapshot, files[1:], bound)}
    assert first == {"part=a/first.parquet": 4}
    assert second == {"part=b/second%20%25.parquet": 5, "part=a/third.parquet": 5}


@pytest.mark.one_kind(
    "the calls of test_touched_files_name_vector_and_newly_deleted_rows, which runs on both kinds; this adds values"
)
def test_rows_in_many_words_and_blocks_are_all_found(spark, tmp_path):
    """More than one bucket of 32,768 rows, with the highest bit of a word set."""
    schema = pa.schema({"id": pa.int64()})
    builder = TableBuilder(tmp_path / "t", schema).deletion_vectors()
    builder.file([{"id": number} for number in range(70_000)], row_group_size=20_000).commit()
    snapshot = load_snapshot(open_store(str(builder.path)))
    condition = "id IN (0, 63, 64, 32767, 32768, 65535, 65536, 69999)"
    rows = found(spark, snapshot, resolve_files(snapshot, snapshot.files), condition)
    assert list(rows.values()) == [[0, 63, 64, 32767, 32768, 65535, 65536, 69999]]
