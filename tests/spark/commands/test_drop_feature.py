"""Are files rewritten as far as it takes before a feature goes, and do rows and older versions stay?"""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.support.log_reading import commit_info, data_file, log_state, newest_version
from tests.support.races import RacingStore

import ebbtide
from ebbtide import DeltaTable
from ebbtide.commands.drop_feature.command import DropFeatureCommand, DropFeatureRequest
from ebbtide.errors import DeltaConcurrentModificationException, RequestError
from ebbtide.log import load_snapshot
from ebbtide.protocol.features import supported_features
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark


def create(spark, path, columns, *properties):
    listed = ", ".join(f"'{name}' = 'true'" for name in properties)
    ebbtide.sql(spark, f"CREATE TABLE delta.`{path}` ({columns}) USING delta TBLPROPERTIES ({listed})")


def sql(spark, path, statement):
    return ebbtide.sql(spark, statement.replace("{t}", f"delta.`{path}`"))


def shown(spark, path, version=None):
    return sorted(tuple(row) for row in ebbtide.read(spark, str(path), version=version).collect())


def features(path):
    return supported_features(load_snapshot(open_store(str(path))).protocol)


def operations(path, first):
    return [commit_info(path, version)["operation"] for version in range(first, newest_version(path) + 1)]


def test_marked_rows_leave_the_files_and_views_follow(spark, tmp_path):
    path = tmp_path / "t"
    create(spark, path, "id INT", "delta.enableDeletionVectors")
    sql(spark, path, "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(6)")
    sql(spark, path, "DELETE FROM {t} WHERE id = 3")
    sql(spark, path, "CREATE TEMP VIEW dropped_vectors AS SELECT * FROM {t}")
    DeltaTable.forPath(spark, path).dropFeatureSupport("deletionVectors")
    assert "deletionVectors" not in features(path)
    assert operations(path, 3)[:3] == ["UNSET TBLPROPERTIES", "REORG", "Deletion Vector Tombstones"]
    assert shown(spark, path) == shown(spark, path, 2) == [(0,), (1,), (2,), (4,), (5,)]
    assert spark.table("dropped_vectors").count() == 5
    spark.catalog.dropTempView("dropped_vectors")


@pytest.mark.one_kind("PURGE, which rewrites the files, is tested on both kinds")
def test_files_with_older_types_are_rewritten_and_the_note_goes(spark, tmp_path):
    path = tmp_path / "t"
    columns = "v SMALLINT, s STRUCT<n: INT>, a ARRAY<TINYINT>, d DECIMAL(5, 2), u INT"
    create(spark, path, columns, "delta.enableTypeWidening", "delta.enableDeletionVectors")
    sql(spark, path, "INSERT INTO {t} VALUES (1, named_struct('n', 1), array(1Y), 1.25, 1)")
    for change in ("v TYPE BIGINT", "s.n TYPE BIGINT", "a.element TYPE INT", "d TYPE DECIMAL(10, 3)"):
        sql(spark, path, f"ALTER TABLE {{t}} ALTER COLUMN {change}")
    sql(spark, path, "INSERT INTO {t} VALUES (2, named_struct('n', 2L), array(2), 2.125, 2)")
    before, newest = shown(spark, path), newest_version(path)
    kept = {add["path"] for add in log_state(path).adds} - {add["path"] for add in log_state(path, 1).adds}
    sql(spark, path, "ALTER TABLE {t} DROP FEATURE typeWidening")
    assert (
        "typeWidening" not in features(path)
        and "typeChanges" not in load_snapshot(open_store(str(path))).metadata.schema_string
    )
    assert operations(path, newest + 1)[:3] == ["UNSET TBLPROPERTIES", "REORG", "DROP FEATURE"]
    assert shown(spark, path) == before and shown(spark, path, newest) == before
    live = log_state(path).adds
    assert kept <= {add["path"] for add in live}, "a file with today's types was rewritten"
    types = {str(pq.read_schema(data_file(path, add)).field("v").type) for add in live}
    assert types == {"int64"}


@pytest.mark.one_kind("the history is a matter of the log; unit tests have the rest")
def test_truncated_history_is_said_in_python_and_in_sql(spark, tmp_path):
    path = tmp_path / "t"
    create(spark, path, "id INT", "delta.enableDeletionVectors")
    sql(spark, path, "INSERT INTO {t} VALUES (1), (2)")
    with pytest.raises(RequestError, match="DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"):
        DeltaTable.forPath(spark, path).dropFeatureSupport("deletionVectors", True)
    with pytest.raises(RequestError, match="DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"):
        sql(spark, path, "ALTER TABLE {t} DROP FEATURE deletionVectors TRUNCATE HISTORY")
    assert shown(spark, path) == [(1,), (2,)]


def test_replaced_columns_keep_their_values(spark, tmp_path):
    path = tmp_path / "t"
    sql(spark, path, "CREATE TABLE {t} (id INT, s STRUCT<a: INT, b: INT>, p INT) USING delta PARTITIONED BY (p)")
    sql(spark, path, "INSERT INTO {t} VALUES (1, named_struct('a', 2, 'b', 3), 4)")
    sql(spark, path, "ALTER TABLE {t} REPLACE COLUMNS (p INT, s STRUCT<b: INT, c: STRING, a: INT>, new DATE, id INT)")
    assert shown(spark, path) == [(4, (3, None, 2), None, 1)]
    sql(spark, path, "INSERT INTO {t} VALUES (5, named_struct('b', 6, 'c', 'x', 'a', 7), DATE'2026-01-01', NULL)")
    sql(spark, path, "UPDATE {t} SET new = DATE'2026-01-02' WHERE s.a = 2")
    assert [row.new.day for row in ebbtide.read(spark, str(path)).orderBy("p").collect()] == [2, 1]


MAPPED = "id INT, `a b` STRING, s STRUCT<x: INT>, p STRING"


@pytest.fixture
def mapped(spark, tmp_path):
    """Renamed and dropped columns, a deleted row, partitions that need escaping."""
    path = tmp_path / "t"
    sql(
        spark,
        path,
        f"CREATE TABLE {{t}} ({MAPPED}) USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true', 'mine' = '1')",
    )
    sql(spark, path, "INSERT INTO {t} SELECT id, 'v', named_struct('x', id), 'a:b' FROM range(4)")
    sql(spark, path, "INSERT INTO {t} VALUES (9, 'w', NULL, NULL)")
    sql(spark, path, "DELETE FROM {t} WHERE id = 1")
    sql(spark, path, "ALTER TABLE {t} RENAME COLUMN id TO key")
    sql(spark, path, "ALTER TABLE {t} RENAME COLUMN s.x TO y")
    return path


def test_table_loses_its_column_mapping_with_all_its_rows(spark, mapped):
    with pytest.raises(RequestError, match="DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING"):
        sql(spark, mapped, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
    sql(spark, mapped, "ALTER TABLE {t} DROP COLUMN `a b`")
    before, newest = shown_nullable(spark, mapped), newest_version(mapped)
    sql(spark, mapped, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none', 'mine' = '2')")
    assert operations(mapped, newest + 1) == ["REMOVE COLUMN MAPPING", "SET TBLPROPERTIES"]
    assert shown_nullable(spark, mapped) == shown_nullable(spark, mapped, newest) == before
    snapshot = load_snapshot(open_store(str(mapped)))
    assert "columnMapping" not in snapshot.metadata.schema_string
    assert snapshot.metadata.configuration["delta.columnMapping.mode"] == "none"
    assert "delta.columnMapping.maxColumnId" not in snapshot.metadata.configuration
    for add in log_state(mapped).adds:
        assert set(add["partitionValues"]) == {"p"}
        names = pq.read_schema(data_file(mapped, add)).names
        assert names[:2] == ["key", "s"] and not any(name.startswith("col-") for name in names)
    sql(spark, mapped, "INSERT INTO {t} VALUES (5, named_struct('y', 5), 'c')")
    sql(spark, mapped, "UPDATE {t} SET p = 'd' WHERE key = 9")
    assert sorted(row.key for row in ebbtide.read(spark, str(mapped), where="s.y >= 2").collect()) == [2, 3, 5]
    DeltaTable.forPath(spark, mapped).dropFeatureSupport("columnMapping")
    assert "columnMapping" not in features(mapped)


@pytest.mark.one_kind("the commit that loses is a matter of the log")
def test_writer_that_wins_keeps_the_mapping_and_nothing_is_left_behind(spark, mapped):
    sql(spark, mapped, "ALTER TABLE {t} DROP COLUMN `a b`")
    store, newest = open_store(str(mapped)), newest_version(mapped)
    before = {file for file in mapped.rglob("*") if file.is_file() and "_delta_log" not in file.parts}

    def append():
        sql(spark, mapped, "INSERT INTO {t} VALUES (7, NULL, 'x')")

    racing = RacingStore(store, append, first=newest + 1)
    request = DropFeatureRequest(racing, "columnMapping")
    with pytest.raises(DeltaConcurrentModificationException):
        DropFeatureCommand(spark, request).run()
    after = {file for file in mapped.rglob("*") if file.is_file() and "_delta_log" not in file.parts}
    assert len(after - before) == 1, "what was written for the commit that lost is gone; the winner's file is there"
    assert load_snapshot(store).properties.column_mapping_mode == "name"
    assert len(shown_nullable(spark, mapped)) == 5


def shown_nullable(spark, path, version=None):
    return sorted((tuple(row) for row in ebbtide.read(spark, str(path), version=version).collect()), key=str)
