"""Does a VACUUM delete what delta-spark deletes, and record what delta-spark records?

Tables are written by delta-spark, some of their files made old, orphans put beside them; then both engines vacuum a copy each,
in one session. The files that are left, the dry run, the commits and the progress of VACUUM LITE must be the same, and each
engine must go on from where the other stopped. What differs on purpose is tested to differ: links, directories that are
not empty, vectors with an absolute path, and hours that delta-spark ignores.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.log_reading import commit_info, log_state, newest_version, vector_file
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import SCHEMA, names_below

import ebbtide
from ebbtide import DeltaTable

pytestmark = [pytest.mark.reference, pytest.mark.spark]

NO_CHECK = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
OLD_HOURS = 500
COMPARED = ("operation", "operationParameters", "operationMetrics", "readVersion", "isolationLevel", "isBlindAppend")
STATEMENTS = (
    "INSERT INTO {t} SELECT id, cast(id % 2 AS STRING) FROM range(0, 20, 1, 1)",
    "DELETE FROM {t} WHERE id = 3",
    "DELETE FROM {t} WHERE id IN (4, 5)",
    "UPDATE {t} SET id = id + 100 WHERE id = 6",
    "DELETE FROM {t} WHERE id > 15",
    "INSERT INTO {t} SELECT id, '9' FROM range(50, 55, 1, 1)",
)


@dataclass
class Pair:
    """The same table twice."""

    spark: Any
    ours: Path
    theirs: Path

    def vacuum(self, clauses: str = "", **settings: str) -> tuple[list[str], list[str]]:
        """The answers of both, below the table's location."""
        with session_settings(self.spark, NO_CHECK | settings):
            mine = ebbtide.sql(self.spark, f"VACUUM delta.`{self.ours}` {clauses}").collect()
            other = self.spark.sql(f"VACUUM delta.`{self.theirs}` {clauses}").collect()
        return self._below(mine, self.ours), self._below(other, self.theirs)

    @staticmethod
    def _below(rows: list[Any], root: Path) -> list[str]:
        assert all(row.path.startswith(f"file:{root}") for row in rows), rows
        return sorted(row.path.removeprefix(f"file:{root}") for row in rows)

    def assert_same_files(self) -> None:
        assert visible(self.ours) == visible(self.theirs)

    def assert_same_commits(self, since: int) -> None:
        assert newest_version(self.ours) == newest_version(self.theirs)
        for version in range(since, newest_version(self.ours) + 1):
            mine, other = commit_info(self.ours, version), commit_info(self.theirs, version)
            assert {key: mine.get(key) for key in COMPARED} == {key: other.get(key) for key in COMPARED}

    def assert_same_versions(self) -> None:
        """Each engine reads every version of both tables, and all show the same."""
        for version in range(newest_version(self.ours) + 1):
            shown = [
                sorted(read.collect())
                for path in map(str, (self.ours, self.theirs))
                for read in (
                    self.spark.read.format("delta").option("versionAsOf", version).load(path),
                    ebbtide.read(self.spark, path, version),
                )
            ]
            assert shown == [shown[0]] * 4

    def assert_same_rows(self) -> None:
        mine = self.spark.read.format("delta").load(str(self.ours)).collect()
        other = ebbtide.read(self.spark, str(self.theirs)).collect()
        assert sorted(mine) == sorted(other)


def visible(table: Path) -> set[str]:
    """Files below the root; Hadoop keeps checksums beside those that it wrote."""
    return {name for name in names_below(table) if not name.endswith(".crc")}


def age(path: Path, hours: float = OLD_HOURS) -> None:
    then = time.time() - hours * 3600
    os.utime(path, (then, then), follow_symlinks=False)


def put(table: Path, name: str, hours: float = OLD_HOURS) -> None:
    file = table / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(name.encode())
    age(file, hours)


@pytest.fixture(autouse=True)
def _asks_delta_spark_here(spark_kind):
    if spark_kind != "reference":
        pytest.skip("asks delta-spark in the same session: --spark=reference")


@pytest.fixture
def make(spark, tmp_path):
    def made(*, partitioned: bool = True, prepare: Any = None, **properties: str) -> Pair:
        pair = Pair(spark, tmp_path / "ours", tmp_path / "theirs")
        wanted = {"delta.enableDeletionVectors": "true"} | properties
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in wanted.items())
        by = "PARTITIONED BY (p)" if partitioned else ""
        spark.sql(f"CREATE TABLE delta.`{pair.ours}` (id BIGINT, p STRING) USING delta {by} TBLPROPERTIES ({listed})")
        for statement in STATEMENTS:
            spark.sql(statement.format(t=f"delta.`{pair.ours}`"))
        if prepare is not None:
            prepare(pair.ours)
        shutil.copytree(pair.ours, pair.theirs, symlinks=True)
        return pair

    return made


def orphans(table: Path) -> None:
    put(table, "orphan.parquet")
    put(table, "a b#%20.parquet")
    put(table, "p=0/orphan.parquet")
    put(table, "p=0/young.parquet", hours=1)
    put(table, "_hidden/x.parquet")
    put(table, ".hidden")
    put(table, "_p=0/x.parquet")
    put(table, "deletion_vector_0b4b4e5c-54a5-4b09-a1f1-d8f4a1c9c3cf.bin")


# --- full -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitioned", [True, False])
def test_orphans_go_and_everything_in_retention_stays(make, partitioned):
    pair = make(partitioned=partitioned, prepare=orphans)
    before = visible(pair.ours)
    since = newest_version(pair.ours) + 1
    mine, other = pair.vacuum("DRY RUN")
    assert mine == other
    assert len(mine) == 4
    assert pair.vacuum("") == ([""], [""])
    pair.assert_same_files()
    assert len(before - visible(pair.ours)) == 4
    pair.assert_same_commits(since)
    pair.assert_same_versions()


@pytest.mark.parametrize("partitioned", [True, False])
def test_without_retention_only_the_newest_version_is_left(make, partitioned):
    pair = make(partitioned=partitioned, prepare=orphans)
    since = newest_version(pair.ours) + 1
    mine, other = pair.vacuum("RETAIN 0 HOURS DRY RUN")
    assert mine == other
    pair.vacuum("FULL RETAIN 0 HOURS")
    pair.assert_same_files()
    pair.assert_same_commits(since)
    pair.assert_same_rows()
    live = {path for path, _ in log_state(pair.ours).live}
    vectors = {
        vector_file(pair.ours, add["deletionVector"]).name
        for add in log_state(pair.ours).adds
        if add.get("deletionVector")
    }
    kept = {name for name in visible(pair.ours) if not name.startswith(("_hidden", ".hidden", "_p="))}
    assert kept == live | vectors


def test_change_data_goes_with_its_age(make):
    pair = make(**{"delta.enableChangeDataFeed": "true"})
    assert any(name.startswith("_change_data/") for name in visible(pair.ours))
    pair.vacuum("")
    pair.assert_same_files()
    pair.vacuum("RETAIN 0 HOURS")
    pair.assert_same_files()
    assert not any(name.startswith("_change_data/") for name in visible(pair.ours))


def test_empty_directories_go(make):
    def prepare(table):
        (table / "empty/inner").mkdir(parents=True)
        for name in ("empty/inner", "empty"):
            age(table / name)

    pair = make(prepare=prepare)
    since = newest_version(pair.ours) + 1
    mine, other = pair.vacuum("DRY RUN")
    assert mine == other == ["/empty", "/empty/inner"]
    pair.vacuum("")
    assert not (pair.ours / "empty").exists()
    assert commit_info(pair.ours, since)["operationMetrics"] == commit_info(pair.theirs, since)["operationMetrics"]
    # Which of the two delta-spark deletes first is left to chance; a directory that is not empty stays.
    assert commit_info(pair.ours, since + 1)["operationMetrics"]["numDeletedFiles"] == "2"


def test_in_commit_timestamps_are_kept(make):
    pair = make(prepare=orphans, **{"delta.enableInCommitTimestamps": "true"})
    pair.vacuum("")
    pair.assert_same_files()
    pair.assert_same_rows()


def test_nothing_to_delete_is_recorded_by_both(make):
    pair = make()
    since = newest_version(pair.ours) + 1
    pair.vacuum("")
    pair.assert_same_commits(since)


def test_setting_decides_whether_the_history_knows(make):
    pair = make()
    version = newest_version(pair.ours)
    pair.vacuum("", **{"spark.databricks.delta.vacuum.logging.enabled": "false"})
    assert newest_version(pair.ours) == newest_version(pair.theirs) == version


# --- lite -------------------------------------------------------------------------------------------------------------


def info(table: Path) -> dict[str, int]:
    return json.loads((table / "_delta_log/_last_vacuum_info").read_text())


@pytest.mark.parametrize("feed", ["true", "false"])
def test_lite_deletes_what_the_log_names(make, feed):
    pair = make(prepare=orphans, **{"delta.enableChangeDataFeed": feed})
    since = newest_version(pair.ours) + 1
    mine, other = pair.vacuum("LITE RETAIN 0 HOURS DRY RUN")
    assert mine == other
    assert mine
    pair.vacuum("LITE RETAIN 0 HOURS")
    pair.assert_same_files()
    assert info(pair.ours) == info(pair.theirs)
    assert "orphan.parquet" in visible(pair.ours)
    start = commit_info(pair.ours, since)["operationMetrics"]
    # delta-spark counts a vector as long as it is in the log; the file has a few bytes more.
    assert start["numFilesToDelete"] == commit_info(pair.theirs, since)["operationMetrics"]["numFilesToDelete"]
    ends = [commit_info(table, since + 1)["operationMetrics"] for table in (pair.ours, pair.theirs)]
    assert ends[0] == ends[1]
    pair.assert_same_rows()


def test_each_engine_goes_on_where_the_other_stopped(make, spark):
    pair = make()
    pair.vacuum("LITE RETAIN 0 HOURS")
    pair.ours, pair.theirs = pair.theirs, pair.ours
    for table in (pair.ours, pair.theirs):
        spark.sql(f"DELETE FROM delta.`{table}` WHERE id < 8")
    pair.vacuum("LITE RETAIN 0 HOURS")
    pair.assert_same_rows()
    live = [{path for path, _ in log_state(table).live} for table in (pair.ours, pair.theirs)]
    for table, paths in zip((pair.ours, pair.theirs), live, strict=True):
        assert {name for name in visible(table) if name.endswith(".parquet")} == paths


def test_nothing_expired_yet_for_both(make):
    pair = make()
    assert pair.vacuum("LITE DRY RUN") == ([], [])
    pair.vacuum("LITE")
    assert info(pair.ours) == info(pair.theirs) == {}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clauses", ["RETAIN 0 HOURS", "FULL FULL", "RETAIN 0 HOURS DRY RUN"])
def test_both_refuse_with_the_same_class(make, spark, clauses):
    pair = make()
    with pytest.raises(Exception) as mine:
        ebbtide.sql(spark, f"VACUUM delta.`{pair.ours}` {clauses}")
    with pytest.raises(Exception) as other:
        spark.sql(f"VACUUM delta.`{pair.theirs}` {clauses}").collect()
    assert mine.value.getCondition() == other.value.getCondition()
    assert mine.value.getSqlState() == other.value.getSqlState()


# --- what differs on purpose ------------------------------------------------------------------------------------------


def test_links_are_followed_by_the_reference_alone(make, tmp_path):
    put(tmp_path, "outside/x.parquet")
    put(tmp_path, "elsewhere/x.parquet")
    pair = make(partitioned=False)
    (pair.ours / "link").symlink_to(tmp_path / "outside")
    (pair.theirs / "link").symlink_to(tmp_path / "elsewhere")
    pair.vacuum("")
    assert (tmp_path / "outside/x.parquet").exists()
    assert not (tmp_path / "elsewhere/x.parquet").exists(), "the reference no longer follows links: say so in the pages"


def test_live_vector_with_an_absolute_path_is_deleted_by_the_reference_alone(spark, tmp_path):
    for name in ("ours", "theirs"):
        table = TableBuilder(tmp_path / name, SCHEMA).deletion_vectors()
        table.file([{"id": number, "part": "a"} for number in range(3)], deleted=[0], vector="p").commit()
        for file in table.path.rglob("*.*"):
            age(file)
    pair = Pair(spark, tmp_path / "ours", tmp_path / "theirs")
    pair.vacuum("")
    assert ebbtide.read(spark, str(pair.ours)).count() == 2
    assert not list(pair.theirs.glob("*.bin")), "the reference protects such vectors now: say so in the pages"


def test_hours_are_ignored_by_the_reference_alone(make):
    pair = make(prepare=lambda table: put(table, "orphan.parquet", hours=200))
    mine, other = pair.vacuum("RETAIN 300 HOURS DRY RUN")
    assert mine == []
    assert other == ["/orphan.parquet"], "the reference honours RETAIN now: say so in the pages"


# --- the log ----------------------------------------------------------------------------------------------------------


def test_reference_reads_our_compacted_log(make, spark):
    pair = make()
    DeltaTable.forPath(spark, str(pair.ours)).compact_log()
    java = spark._jvm
    nothing = java.scala.Option.empty()
    java.org.apache.spark.sql.delta.DeltaLog.clearCache()
    log = java.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(pair.ours))
    used = log.update(False, nothing, nothing).logSegment().deltas().toString()
    assert ".compacted.json" in used
    pair.assert_same_rows()
    mine = spark.read.format("delta").load(str(pair.ours)).collect()
    other = spark.read.format("delta").load(str(pair.theirs)).collect()
    assert sorted(mine) == sorted(other)


def test_reference_reads_our_checkpoint(make, spark):
    pair = make()
    assert DeltaTable.forPath(spark, str(pair.ours)).checkpoint().is_new
    pair.assert_same_rows()
