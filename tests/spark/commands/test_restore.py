"""Does a restored table show the rows of the older version, to readers and in its change feed, through every door?

What ends up in the log is tested without Spark (`tests/unit/commands/test_restore.py`).
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from tests.support.log_reading import commit_info, log_state, newest_version, vector_file
from tests.support.session_settings import session_settings
from tests.support.table_builder import FIRST_COMMIT_MS, TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import MissingDataFileError, RequestError, VersionNotFoundError
from ebbtide.session_settings import IGNORE_MISSING_FILES, RESTORE_DOWNGRADE

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})
COLUMNS = [
    "table_size_after_restore",
    "num_of_files_after_restore",
    "num_removed_files",
    "num_restored_files",
    "removed_files_size",
    "restored_files_size",
]


def rows_of(ids, part="a"):
    return [{"id": number, "p": part} for number in ids]


@pytest.fixture
def table(tmp_path):
    """0: ids 0-4 of a | 1: 0 and 1 marked | 2: 2 marked too | 3: ids 5-7 of `b c`."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p").deletion_vectors().change_data_feed()
    builder.file(rows_of(range(5))).commit()
    builder.mark(builder.files[0], [0, 1]).commit(operation="DELETE")
    builder.mark(builder.files[0], [2]).commit(operation="DELETE")
    return builder.file(rows_of(range(5, 8), "b c")).commit()


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


def test_restored_table_shows_the_rows_and_answers_with_counters(spark, table):
    delta = DeltaTable.forPath(spark, table.path)
    view = delta.toDF()
    assert ids(view) == [3, 4, 5, 6, 7]
    answer = delta.restoreToVersion(1)
    assert answer.columns == COLUMNS
    [row] = answer.collect()
    assert (row["num_of_files_after_restore"], row["num_removed_files"], row["num_restored_files"]) == (1, 2, 1)
    assert ids(delta.toDF()) == [2, 3, 4]
    assert delta.count() == 3
    newest = delta.history(1).collect()[0]
    assert (newest["operation"], newest["operationParameters"]["version"]) == ("RESTORE", "1")
    assert delta.restoreToVersion(4).collect() == []


def test_time_is_read_in_the_zone_of_the_session(spark, table):
    delta = DeltaTable.forPath(spark, table.path)
    with session_settings(spark, {"spark.sql.session.timeZone": "Asia/Kolkata"}):
        delta.restoreToTimestamp("2024-01-01 05:31:30")
    assert ids(delta.toDF()) == [2, 3, 4]
    assert commit_info(table.path, 4)["operationParameters"] == {"version": None, "timestamp": "2024-01-01 05:31:30.0"}


@pytest.mark.one_kind("a datetime is turned into text as in the reads that run on both")
def test_time_can_be_a_datetime(spark, table):
    moment = dt.datetime.fromtimestamp(FIRST_COMMIT_MS / 1000 + 130, dt.timezone.utc)
    DeltaTable.forPath(spark, table.path).restoreToTimestamp(moment)
    assert ids(ebbtide.read(spark, table.path)) == [3, 4]


def test_statement_restores_to_a_version_and_to_a_time(spark, table):
    place = f"delta.`{table.path}`"
    [row] = ebbtide.sql(spark, f"RESTORE TABLE {place} TO VERSION AS OF 0").collect()
    assert row["num_restored_files"] == 1
    assert ids(ebbtide.read(spark, table.path)) == [0, 1, 2, 3, 4]
    ebbtide.sql(spark, f"RESTORE {place} TO TIMESTAMP AS OF '2024-01-01 00:02:00'").collect()
    assert ids(ebbtide.read(spark, table.path)) == [3, 4]
    ebbtide.sql(spark, f"restore {place} to timestamp as of (timestamp'2024-01-01 00:00:00' + interval 1 minute)")
    assert ids(ebbtide.read(spark, table.path)) == [2, 3, 4]


def test_views_of_the_table_show_the_restored_rows(spark, table):
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW restored_view AS SELECT * FROM delta.`{table.path}`")
    try:
        DeltaTable.forPath(spark, table.path).restoreToVersion(0)
        assert ids(spark.table("restored_view")) == [0, 1, 2, 3, 4]
    finally:
        spark.catalog.dropTempView("restored_view")


@pytest.mark.one_kind("the feed's own tests run its scans on both")
@pytest.mark.parametrize(
    ("version", "inserted", "deleted"),
    [(0, [0, 1, 2], [5, 6, 7]), (1, [2], [5, 6, 7]), (2, [], [5, 6, 7])],
)
def test_change_feed_tells_which_rows_came_back_and_which_went(spark, table, version, inserted, deleted):
    DeltaTable.forPath(spark, table.path).restoreToVersion(version)
    feed = ebbtide.read_changes(spark, table.path, 4)
    assert ids(feed.where("_change_type = 'insert'")) == inserted
    assert ids(feed.where("_change_type = 'delete'")) == deleted
    assert feed.count() == len(inserted) + len(deleted)


@pytest.mark.one_kind("the log alone decides")
def test_restore_hides_rows_again_and_the_feed_tells_it(spark, table):
    delta = DeltaTable.forPath(spark, table.path)
    delta.restoreToVersion(0)
    delta.restoreToVersion(2)
    feed = ebbtide.read_changes(spark, table.path, 5)
    assert sorted((row["id"], row["_change_type"]) for row in feed.collect()) == [
        (0, "delete"),
        (1, "delete"),
        (2, "delete"),
    ]


@pytest.mark.one_kind("what another command finds in the log is the same on both")
def test_deletes_and_updates_go_on_from_the_restored_rows(spark, table):
    delta = DeltaTable.forPath(spark, table.path)
    delta.restoreToVersion(1)
    assert delta.delete("id = 3").num_affected_rows == 1
    assert delta.update("id = 2", {"id": "20"}).num_affected_rows == 1
    assert ids(delta.toDF()) == [4, 20]


def test_session_setting_leaves_missing_files_out(spark, table):
    path = log_state(table.path, 3).adds[0]["path"]
    delta = DeltaTable.forPath(spark, table.path)
    delta.delete()
    (table.path / path).unlink()
    with pytest.raises(MissingDataFileError, match="ignoreMissingFiles"):
        delta.restoreToVersion(3)
    with session_settings(spark, {IGNORE_MISSING_FILES: "true"}):
        delta.restoreToVersion(3)
    assert ids(delta.toDF()) == [5, 6, 7]


@pytest.mark.one_kind("which files are there is asked without Spark")
def test_vacuumed_vector_is_refused_before_anything_is_changed(spark, table):
    [add] = log_state(table.path, 1).adds
    vector_file(table.path, add["deletionVector"]).unlink()
    with pytest.raises(MissingDataFileError, match="deletion-vector file"):
        ebbtide.sql(spark, f"RESTORE delta.`{table.path}` TO VERSION AS OF 1")
    assert newest_version(table.path) == 3


@pytest.mark.one_kind("test_session_setting_leaves_missing_files_out reads a setting on both kinds")
def test_session_setting_lets_the_protocol_go_back(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows_of([1])).commit()
    builder.deletion_vectors().file(rows_of([2, 3]), deleted=[0]).commit()
    delta = DeltaTable.forPath(spark, builder.path)
    with session_settings(spark, {RESTORE_DOWNGRADE: "true"}):
        delta.restoreToVersion(0)
    assert log_state(builder.path).protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert ids(delta.toDF()) == [1]


@pytest.mark.one_kind("the analyser is not asked")
@pytest.mark.parametrize(
    ("rest", "error", "error_class"),
    [
        ("TO VERSION AS OF 9", VersionNotFoundError, "DELTA_CANNOT_RESTORE_TABLE_VERSION"),
        ("TO TIMESTAMP AS OF '2001-01-01'", VersionNotFoundError, "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER"),
        ("TO TIMESTAMP AS OF '2101-01-01'", VersionNotFoundError, "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER"),
        ("TO TIMESTAMP AS OF 'soon'", RequestError, "DELTA_TIMESTAMP_INVALID"),
        ("TO VERSION 2", RequestError, "PARSE_SYNTAX_ERROR"),
        ("TO VERSION AS OF 2 CASCADE", RequestError, "PARSE_SYNTAX_ERROR"),
        ("", RequestError, "PARSE_SYNTAX_ERROR"),
    ],
)
def test_statement_that_cannot_be_served_changes_nothing(spark, table, rest, error, error_class):
    with pytest.raises(error) as refused:
        ebbtide.sql(spark, f"RESTORE TABLE delta.`{table.path}` {rest}")
    assert refused.value.error_class == error_class
    assert newest_version(table.path) == 3


@pytest.mark.one_kind("arguments are checked before Spark is asked")
@pytest.mark.parametrize("version", ["1", 1.0, True, None])
def test_version_must_be_an_int(spark, table, version):
    with pytest.raises(TypeError, match="version must be an int"):
        DeltaTable.forPath(spark, table.path).restoreToVersion(version)
