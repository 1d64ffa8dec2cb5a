"""Does a change feed show every change once, with its version and time, whatever the commits look like?

Expectations are written by hand or come from the builder's own picture of the table, never from Ebbtide.
"""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from tests.support.log_reading import actions_of, newest_version
from tests.support.query_plans import parquet_scans
from tests.support.session_settings import session_settings
from tests.support.table_builder import COMMIT_INTERVAL_MS, FIRST_COMMIT_MS, DataFile, TableBuilder

import ebbtide
from ebbtide.errors import MissingDataFileError, RequestError, VersionNotFoundError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})


def rows(*ids, part="a"):
    return [{"id": number, "part": part} for number in ids]


@pytest.fixture
def builder(tmp_path):
    return TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().change_data_feed()


def changes(spark, path, start=0, end=None):
    """(id, change type, version), sorted."""
    frame = ebbtide.read_changes(spark, str(path), start_version=start, end_version=end)
    found = frame.select("id", "_change_type", "_commit_version").collect()
    return sorted((row[0], row[1], row[2]) for row in found)


def restored(builder, file, deleted=()):
    """What RESTORE commits: the file leaves with its marks and comes back with older ones."""
    [now] = [each for each in builder.files if each.add["path"] == file.add["path"]]
    builder.remove(now)
    return builder._stage_add(DataFile(file.add, file.rows, frozenset(deleted)))


def test_columns_are_the_tables_then_three_more_with_their_types(spark, builder):
    builder.file(rows(1)).commit()
    frame = ebbtide.read_changes(spark, str(builder.path), 0)
    assert frame.dtypes == [
        ("id", "bigint"),
        ("part", "string"),
        ("_change_type", "string"),
        ("_commit_version", "bigint"),
        ("_commit_timestamp", "timestamp"),
    ]


def test_files_that_come_are_inserts_without_their_marked_rows(spark, builder):
    builder.file(rows(1, 2, 3), deleted=[1]).commit().file(rows(4)).file(rows(5)).commit()
    expected = [(1, "insert", 0), (3, "insert", 0), (4, "insert", 1), (5, "insert", 1)]
    assert changes(spark, builder.path) == expected
    assert changes(spark, builder.path, 1) == expected[2:]
    assert changes(spark, builder.path, 0, 0) == expected[:2]


def test_files_that_leave_are_deletes_without_the_rows_that_were_gone_before(spark, builder):
    builder.file(rows(1, 2, 3), deleted=[1]).file(rows(4)).commit()
    for file in builder.files:
        builder.remove(file)
    builder.commit()
    assert changes(spark, builder.path, 1) == [(1, "delete", 1), (3, "delete", 1), (4, "delete", 1)]


@pytest.mark.one_kind(
    "the calls of test_vector_that_grows_tells_only_the_newly_marked_rows, which runs on both kinds; this adds values"
)
def test_file_that_came_and_left_with_marks_is_told_in_both_versions(spark, builder):
    builder.file(rows(1, 2, 3), deleted=[1]).commit()
    builder.remove(builder.files[0]).commit()
    assert changes(spark, builder.path) == [
        (1, "delete", 1),
        (1, "insert", 0),
        (3, "delete", 1),
        (3, "insert", 0),
    ]


def test_vector_that_grows_tells_only_the_newly_marked_rows(spark, builder):
    builder.file(rows(*range(10))).commit()
    builder.mark(builder.files[0], [2, 3]).commit()
    builder.mark(builder.files[0], [3, 7], vector="i").commit()
    assert changes(spark, builder.path, 1) == [(2, "delete", 1), (3, "delete", 1), (7, "delete", 2)]
    assert changes(spark, builder.path, 2) == [(7, "delete", 2)]


@pytest.mark.one_kind(
    "the calls of test_vector_that_grows_tells_only_the_newly_marked_rows, which runs on both kinds; this adds values"
)
def test_vector_that_shrinks_or_vanishes_tells_the_rows_that_came_back(spark, builder):
    builder.file(rows(*range(10))).commit()
    original = builder.files[0]
    builder.mark(original, [2, 3]).commit()
    smaller = builder.files[0]
    builder.mark(smaller, [7]).commit()
    restored(builder, smaller, [2, 3]).commit(operation="RESTORE")
    restored(builder, original).commit(operation="RESTORE")
    assert changes(spark, builder.path, 3, 3) == [(7, "insert", 3)]
    assert changes(spark, builder.path, 4) == [(2, "insert", 4), (3, "insert", 4)]
    assert changes(spark, builder.path, 1) == [
        (2, "delete", 1),
        (2, "insert", 4),
        (3, "delete", 1),
        (3, "insert", 4),
        (7, "delete", 2),
        (7, "insert", 3),
    ]


@pytest.mark.one_kind(
    "the calls of test_vector_that_grows_tells_only_the_newly_marked_rows, which runs on both kinds; this adds values"
)
def test_vector_that_changes_both_ways_tells_deletes_and_inserts(spark, builder):
    builder.file(rows(*range(6)), deleted=[0, 1]).commit()
    builder.mark(builder.files[0], [0, 1]).commit()
    original = builder.files[0]
    builder.remove(original)
    other = original.add | {"deletionVector": builder._vector(frozenset([1, 4]), "u", "")}
    builder._stage_add(DataFile(other, original.rows, frozenset([1, 4]))).commit()
    assert changes(spark, builder.path, 2) == [(0, "insert", 2), (4, "delete", 2)]


@pytest.mark.one_kind(
    "the calls of test_vector_that_grows_tells_only_the_newly_marked_rows, which runs on both kinds; this adds many rows"
)
def test_large_vectors_of_a_file_that_changes_often_are_told_right(spark, builder):
    count = 200_000
    builder.file(rows(*range(count)), row_group_size=30_000).commit()
    for version in range(1, 6):
        builder.mark(builder.files[0], range(version, count, 7)).commit()
    frame = ebbtide.read_changes(spark, str(builder.path), 1)
    wrong = frame.where("_change_type != 'delete' OR id % 7 != _commit_version").count()
    assert wrong == 0
    assert frame.count() == sum(len(range(version, count, 7)) for version in range(1, 6))
    assert frame.select("id").distinct().count() == frame.count()


def test_change_data_files_are_believed_and_the_other_actions_of_their_commit_ignored(spark, builder):
    builder.file(rows(1, 2)).commit()
    builder.remove(builder.files[0]).file(rows(1, 9))
    images = [
        {"id": 2, "part": "a", "_change_type": "update_preimage"},
        {"id": 9, "part": "a", "_change_type": "update_postimage"},
    ]
    builder.change_file(images).commit(operation="UPDATE")
    assert changes(spark, builder.path, 1) == [(2, "update_preimage", 1), (9, "update_postimage", 1)]
    assert changes(spark, builder.path)[:2] == [(1, "insert", 0), (2, "insert", 0)]


@pytest.mark.one_value("the same calls for another mapping")
@pytest.mark.parametrize("mapping", [None, "name", "id"])
def test_partition_values_come_from_the_log_in_every_kind_of_change(spark, tmp_path, mapping):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").deletion_vectors().change_data_feed()
    if mapping:
        builder.column_mapping(mapping)
    builder.file(rows(1, 2, part="ä b")).file(rows(3, part=None)).commit()
    builder.mark(builder.files[0], [0]).remove(builder.files[0]).commit()
    builder.change_file([{"id": 7, "part": "c/d", "_change_type": "delete"}]).commit()
    frame = ebbtide.read_changes(spark, str(builder.path), 0)
    found = {tuple(row) for row in frame.select("id", "part", "_change_type", "_commit_version").collect()}
    assert found == {
        (1, "ä b", "insert", 0),
        (2, "ä b", "insert", 0),
        (3, None, "insert", 0),
        (1, "ä b", "delete", 1),
        (3, None, "delete", 1),
        (7, "c/d", "delete", 2),
    }


@pytest.mark.one_kind("the log alone decides")
def test_layout_changes_and_merges_without_effect_are_no_changes(spark, builder):
    builder.file(rows(1, 2)).commit()
    [file] = builder.files
    builder.remove(file).file(rows(1, 2))
    for action in builder._staged:
        action[next(iter(action))]["dataChange"] = False
    builder.commit(operation="OPTIMIZE")
    builder.remove(builder.files[0]).file(rows(1, 2)).commit(operation="MERGE")
    path = builder.log / f"{2:020d}.json"
    metrics = dict.fromkeys(("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"), "0")
    path.write_text(path.read_text().replace('"operationParameters": {}', f'"operationMetrics": {json.dumps(metrics)}'))
    assert changes(spark, builder.path, 1) == []
    assert len(changes(spark, builder.path)) == 2


def test_times_are_those_of_the_commits_and_bound_the_range(spark, builder):
    for number in range(4):
        builder.file(rows(number)).commit()
    at = [
        dt.datetime.fromtimestamp((FIRST_COMMIT_MS + n * COMMIT_INTERVAL_MS) / 1000, dt.timezone.utc) for n in range(4)
    ]
    path = str(builder.path)
    frame = ebbtide.read_changes(spark, path, start_timestamp=at[1], end_timestamp=at[2])
    found = frame.selectExpr("id", "unix_millis(_commit_timestamp) AS ms").collect()
    assert sorted(map(tuple, found)) == [(n, FIRST_COMMIT_MS + n * COMMIT_INTERVAL_MS) for n in (1, 2)]
    second = dt.timedelta(seconds=1)
    between = ebbtide.read_changes(spark, path, start_timestamp=at[1] + second, end_timestamp=at[2] - second)
    assert between.collect() == []
    assert between.columns == frame.columns
    after = ebbtide.read_changes(spark, path, start_timestamp=at[1] + second)
    assert sorted(row.id for row in after.collect()) == [2, 3]
    early = ebbtide.read_changes(spark, path, start_timestamp=at[0] - second, end_version=0)
    assert [row.id for row in early.collect()] == [0]
    with pytest.raises(VersionNotFoundError) as caught:
        ebbtide.read_changes(spark, path, start_timestamp=at[3] + second)
    assert caught.value.error_class == "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"


@pytest.mark.one_value("times under these settings run on both kinds in test_table.py")
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_bounds_of_a_feed_are_understood_where_timestamps_have_no_zone(spark, builder, ansi):
    for number in range(4):
        builder.file(rows(number)).commit()
    start, end = (
        f"{dt.datetime.fromtimestamp((FIRST_COMMIT_MS + n * COMMIT_INTERVAL_MS) / 1000, dt.timezone.utc):%F %T}"
        for n in (1, 2)
    )
    path = str(builder.path)
    with session_settings(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.ansi.enabled": ansi}):
        for frame in (
            ebbtide.read_changes(spark, path, start_timestamp=start, end_timestamp=end),
            ebbtide.sql(spark, f"SELECT * FROM table_changes('{path}', '{start}', '{end}')"),
            ebbtide.sql(spark, f"SELECT * FROM table_changes('{path}', TIMESTAMP'{start}', TIMESTAMP'{end}')"),
        ):
            assert sorted(row.id for row in frame.collect()) == [1, 2]
            assert dict(frame.dtypes)["_commit_timestamp"] == "timestamp"


def test_session_may_allow_bounds_beyond_the_newest_version(spark, builder):
    builder.file(rows(1)).commit()
    with pytest.raises(RequestError) as caught:
        ebbtide.read_changes(spark, str(builder.path), start_version=1)
    assert caught.value.error_class == "DELTA_CDC_START_VERSION_AFTER_LATEST"
    setting = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"
    spark.conf.set(setting, "true")
    try:
        assert ebbtide.read_changes(spark, str(builder.path), start_version=1).collect() == []
    finally:
        spark.conf.unset(setting)


@pytest.mark.one_kind(
    "the calls of test_vector_that_grows_tells_only_the_newly_marked_rows, which runs on both kinds; this adds another bound"
)
def test_end_beyond_the_newest_version_means_the_newest(spark, builder):
    builder.file(rows(1)).commit()
    assert changes(spark, builder.path, 0, 99) == [(1, "insert", 0)]


def test_new_column_is_null_in_older_changes(spark, builder):
    builder.file(rows(1)).commit()
    builder.schema(SCHEMA.append(pa.field("more", pa.int32()))).file([{"id": 2, "part": "a", "more": 5}]).commit()
    frame = ebbtide.read_changes(spark, str(builder.path), 0)
    assert sorted(map(tuple, frame.select("id", "more").collect())) == [(1, None), (2, 5)]
    # Without column mapping the columns are those of the newest version, as in the reference.
    assert "more" in ebbtide.read_changes(spark, str(builder.path), 0, end_version=0).columns


@pytest.mark.one_kind("the log alone decides")
def test_mapped_table_shows_the_columns_of_the_last_version_asked_for(spark, builder):
    builder.column_mapping("name").file(rows(1)).commit()
    builder.schema(SCHEMA.append(pa.field("more", pa.int32()))).file([{"id": 2, "part": "a", "more": 5}]).commit()
    assert "more" not in ebbtide.read_changes(spark, str(builder.path), 0, end_version=0).columns
    assert "more" in ebbtide.read_changes(spark, str(builder.path), 0).columns


@pytest.mark.one_kind("refused before Spark is asked")
def test_data_file_that_was_vacuumed_is_named_with_its_version(spark, builder):
    builder.file(rows(1)).commit()
    [file] = builder.files
    builder.remove(file).commit()
    (builder.path / file.add["path"]).unlink()
    with pytest.raises(MissingDataFileError, match=r"version 0 .*VACUUM"):
        ebbtide.read_changes(spark, str(builder.path), 0)


@pytest.mark.one_kind(
    "the calls of test_vector_that_grows_tells_only_the_newly_marked_rows, which runs on both kinds; this adds an action without a size"
)
def test_removed_file_without_its_size_is_still_read(spark, builder):
    builder.file(rows(1)).commit()
    builder.remove(builder.files[0])
    del builder._staged[0]["remove"]["size"]
    builder.commit()
    assert changes(spark, builder.path, 1) == [(1, "delete", 1)]


@pytest.mark.one_kind(
    "the calls of test_vector_that_grows_tells_only_the_newly_marked_rows, which runs on both kinds; this adds many commits"
)
def test_hundreds_of_commits_are_read_in_a_handful_of_scans(spark, builder):
    """Inserts, deletes of whole files, and a file whose vector grows with every commit."""
    commits = 120
    builder.file(rows(*range(1000))).commit()
    for number in range(1, commits + 1):
        grown = next(file for file in builder.files if len(file.rows) == 1000)
        builder.mark(grown, [number]).file(rows(1000 + number)).commit()
    frame = ebbtide.read_changes(spark, str(builder.path), 1)
    found = sorted(map(tuple, frame.select("_commit_version", "_change_type", "id").collect()))
    expected = [(n, kind, n + plus) for n in range(1, commits + 1) for kind, plus in (("delete", 0), ("insert", 1000))]
    assert found == expected
    assert len(list(parquet_scans(frame))) == 2


@pytest.mark.one_value("the same calls for the other mode")
@pytest.mark.parametrize("vectors", ["on", "off"])
def test_changes_of_our_own_deletes_are_the_rows_they_deleted(spark, builder, vectors):
    builder.file(rows(*range(100))).file(rows(*range(100, 200))).file(rows(*range(200, 210))).commit()
    table = ebbtide.DeltaTable.forPath(spark, str(builder.path))
    table.delete("id % 10 = 3", deletion_vectors=vectors)
    table.delete("id >= 195", deletion_vectors=vectors)
    table.delete(deletion_vectors=vectors)
    has_change_data = [bool(actions_of(builder.path, version, "cdc")) for version in range(1, 4)]
    assert has_change_data == ([True, True, False] if vectors == "off" else [False] * 3)
    assert newest_version(builder.path) == 3
    first = [n for n in range(210) if n % 10 == 3]
    second = [n for n in range(195, 210) if n not in first]
    rest = [n for n in range(195) if n not in first]
    expected = [(n, "delete", 1 + i) for i, ids in enumerate((first, second, rest)) for n in ids]
    assert changes(spark, builder.path, 1) == sorted(expected)
