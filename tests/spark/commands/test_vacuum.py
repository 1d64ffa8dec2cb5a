"""VACUUM through the Python and SQL doors: what the session's settings ask for, and what comes back."""

from __future__ import annotations

import os
import time

import pytest
from tests.support.session_settings import session_settings
from tests.support.vacuum_tables import names_below

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import ArgumentTypeError, RequestError, StorageError

pytestmark = pytest.mark.spark

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
LITE = "spark.databricks.delta.vacuum.lite.enabled"
LOGGING = "spark.databricks.delta.vacuum.logging.enabled"
WEEK_AGO = time.time() - 200 * 3600


@pytest.fixture
def table(spark, tmp_path):
    """Three rows, one of them marked, an old orphan beside them."""
    path = tmp_path / "a table"
    ebbtide.write(spark.range(3).coalesce(1), path, properties={"delta.enableDeletionVectors": "true"})
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 1")
    (path / "orphan.parquet").write_bytes(b"orphan")
    os.utime(path / "orphan.parquet", (WEEK_AGO, WEEK_AGO))
    return table


def path_of(table):
    return table._store.spark_path.removeprefix("file:")


def ids(table):
    return sorted(row.id for row in table.toDF().collect())


@pytest.mark.matrix
def test_vacuum_returns_what_it_did_and_changes_no_row(table, tmp_path):
    done = table.vacuum()
    assert set(done.paths) == {"orphan.parquet"}
    assert (done.version, done.metrics.num_deleted_files, done.status) == (3, 1, "COMPLETED")
    assert ids(table) == [0, 2]
    operations = [row.operation for row in table.history(2).collect()]
    assert operations == ["VACUUM END", "VACUUM START"]
    metrics = table.history(1).collect()[0].operationMetrics
    assert metrics == {"numDeletedFiles": "1", "numVacuumedDirectories": "1"}


def test_settings_of_the_session_are_followed_and_arguments_come_first(spark, table):
    with session_settings(spark, {LITE: "true", LOGGING: "false"}):
        assert not table.vacuum().paths
        assert table.version() == 1
        assert len(table.vacuum(lite=False, dry_run=True).paths) == 1
    with pytest.raises(RequestError, match="DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"):
        table.vacuum(0)
    with session_settings(spark, {CHECK: "false"}):
        with pytest.raises(RequestError, match="TOO_SHORT"):
            table.vacuum(0, retention_check=True)
        table.vacuum(0, keep_versions=[0, 1])
    assert table.vacuum(0, retention_check=False).version == 5
    assert ids(table) == [0, 2]


@pytest.mark.one_kind("arguments are checked before Spark is asked")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"retentionHours": "1"}, "retentionHours must be a number"),
        ({"retentionHours": True}, "retentionHours must be a number"),
        ({"keep_versions": 3}, "keep_versions must be a list of ints"),
        ({"keep_versions": ["3"]}, "but it holds the str '3'"),
        ({"lite": "yes"}, "lite must be True or False"),
        ({"dry_run": None}, "dry_run must be True or False"),
    ],
)
def test_argument_of_a_wrong_type_is_refused(table, arguments, said):
    with pytest.raises(ArgumentTypeError, match=said):
        table.vacuum(**arguments)


@pytest.mark.matrix
def test_sql_answers_as_the_reference_does(spark, table, tmp_path):
    path = path_of(table)
    dry = ebbtide.sql(spark, f"VACUUM delta.`{path}` DRY RUN")
    assert dry.columns == ["path"]
    assert [row.path for row in dry.collect()] == [f"file:{path}/orphan.parquet"]
    assert "orphan.parquet" in names_below(tmp_path / "a table")
    done = ebbtide.sql(spark, f"VACUUM delta.`{path}` FULL RETAIN 168 HOURS")
    assert [row.path for row in done.collect()] == [f"file:{path}"]
    assert "orphan.parquet" not in names_below(tmp_path / "a table")
    assert ebbtide.sql(spark, f"VACUUM '{path}' DRY RUN").collect() == []


@pytest.mark.one_kind("what a statement refuses does not depend on the session")
def test_sql_says_when_files_could_not_be_deleted(spark, table, monkeypatch):
    unlink = os.unlink

    def refuse(name, **options):
        if name == "orphan.parquet":
            raise PermissionError(1, "Operation not permitted")
        unlink(name, **options)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(StorageError, match=r"1 could not be deleted: .*orphan\.parquet"):
        ebbtide.sql(spark, f"VACUUM delta.`{path_of(table)}`")
    assert table.history(1).collect()[0].operationParameters == {"status": "FAILED"}


@pytest.mark.one_kind("what a statement refuses does not depend on the session")
def test_partition_directory_is_no_table(spark, tmp_path):
    path = tmp_path / "t"
    ebbtide.write(spark.range(2).selectExpr("id", "id AS p"), path, partition_by=["p"])
    with pytest.raises(ebbtide.DeltaError, match="is a directory inside the Delta table"):
        ebbtide.sql(spark, f"VACUUM delta.`{path}/p=1`")


@pytest.mark.one_kind("the log is written without Spark")
def test_log_is_looked_after_from_python(table):
    compacted = table.compact_log(0, 1)
    assert (compacted.version, compacted.end_version, compacted.is_new) == (0, 1, True)
    assert table.checkpoint().version == 1
    assert table.clean_log() == ()
    assert table.clean_log(dry_run=True) == ()
    assert ids(table) == [0, 2]
    with pytest.raises(RequestError, match="not a range of at least two commits"):
        table.compact_log()
