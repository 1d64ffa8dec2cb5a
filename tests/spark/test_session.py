"""Does the session that tests ask for have the kind and the settings they count on, and does Ebbtide leave them alone?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import spark_border
from ebbtide.errors import RequestError, UnknownColumnError
from ebbtide.session_settings import TXN_APP_ID, TXN_AUTO_RESET, TXN_VERSION


def test_session_is_of_the_kind_asked_for_on_the_command_line(spark, spark_kind):
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect.")
    assert is_remote == (spark_kind == "connect")


def test_session_reads_timestamps_in_utc_and_has_no_hive_catalog(spark):
    (row,) = spark.sql("SELECT unix_timestamp(TIMESTAMP'1970-01-02 00:00:00') AS seconds").collect()
    assert row.seconds == 24 * 60 * 60
    assert spark.conf.get("spark.sql.catalogImplementation") == "in-memory"


SETTING = "spark.sql.parquet.pushdown.inFilterThreshold"


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_settings_of_a_search_are_put_back_when_the_last_of_several_ends(spark, first_to_end):
    with session_settings(spark, {SETTING: "17", "spark.sql.shuffle.partitions": "100"}):
        searches = [spark_border.search_settings(spark, few_shuffles=few) for few in (True, False)]
        for search in searches:
            search.__enter__()
        assert (spark.conf.get(SETTING), spark.conf.get("spark.sql.shuffle.partitions")) == ("256", "8")
        searches.pop(first_to_end).__exit__(None, None, None)
        assert spark.conf.get(SETTING) == "256"
        searches.pop().__exit__(None, None, None)
        assert (spark.conf.get(SETTING), spark.conf.get("spark.sql.shuffle.partitions")) == ("17", "100")


def test_larger_settings_of_the_user_are_kept(spark):
    with session_settings(spark, {SETTING: "1000"}), spark_border.search_settings(spark, few_shuffles=False):
        assert spark.conf.get(SETTING) == "1000"


# Beyond this many files Spark would look for them with a job of one task per file.
MANY_FILES = 40


@pytest.fixture
def many_files(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    for number in range(MANY_FILES):
        builder.file([{"id": number}, {"id": number + 100}], deleted=[1] if number % 2 else [])
    return builder.commit()


def test_commands_leave_every_setting_of_the_session_as_it_was(spark, many_files):
    path = str(many_files.path)
    before = dict(spark.conf.getAll)
    table = ebbtide.DeltaTable.forPath(spark, path)
    assert ebbtide.read(spark, path, where="id < 100").count() == MANY_FILES
    assert table.toDF().count() == MANY_FILES * 3 // 2
    assert table.delete("id = 0").metrics.num_deleted_rows == 1
    table.update("id = 2", {"id": "1000"})
    table.alias("t").merge(spark.range(3, 4).alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    ebbtide.write(spark.range(1), path, "append")
    assert dict(spark.conf.getAll) == before


@pytest.mark.one_value("the same setting with another value")
@pytest.mark.parametrize("sources", ["", "avro,csv"])
def test_session_with_the_newer_parquet_reader_reads_and_changes_tables(spark, many_files, sources):
    path = str(many_files.path)
    with session_settings(spark, {"spark.sql.sources.useV1SourceList": sources}):
        table = ebbtide.DeltaTable.forPath(spark, path)
        assert ebbtide.read(spark, path, where="id >= 100").count() == MANY_FILES // 2
        assert table.delete("id < 100 AND id % 2 = 0").metrics.num_deleted_rows == MANY_FILES // 2
        assert table.update("id = 1", {"id": "1000"}).metrics.num_updated_rows == 1
        merge = table.alias("t").merge(spark.range(1000, 1002).alias("s"), "t.id = s.id")
        merge.whenMatchedDelete().whenNotMatchedInsertAll().execute()
        assert table.toDF().where("id >= 1000").collect() == [(1001,)]


@pytest.mark.one_kind("test_time_travel_works_where_timestamps_have_no_zone in test_table.py runs on both kinds")
def test_session_of_timestamps_without_zone_travels_in_time(spark, many_files):
    path = str(many_files.path)
    at = ebbtide.DeltaTable.forPath(spark, path).history(1).selectExpr("CAST(timestamp AS STRING)").first()[0]
    with session_settings(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        assert ebbtide.read(spark, path, timestamp=at).count() == MANY_FILES * 3 // 2


def test_second_command_is_not_dropped_where_the_session_resets_its_transaction(spark, many_files):
    path = str(many_files.path)
    table = ebbtide.DeltaTable.forPath(spark, path)
    calls = [
        lambda: ebbtide.write(spark.range(1), path, "append"),
        lambda: table.delete("id = 1"),
        lambda: table.update("id = 2", {"id": "id"}),
        lambda: table.alias("t").merge(spark.range(1).alias("s"), "t.id = s.id").whenMatchedDelete().execute(),
        lambda: ebbtide.sql(spark, f"DELETE FROM delta.`{path}` WHERE id = 3"),
        lambda: ebbtide.sql(spark, f"INSERT INTO delta.`{path}` SELECT 4L"),
        lambda: ebbtide.sql(spark, f"CREATE OR REPLACE TABLE delta.`{path}` AS SELECT 4L AS id"),
        lambda: ebbtide.sql(spark, f"TRUNCATE TABLE delta.`{path}`"),
    ]
    for number, call in enumerate(calls):
        with session_settings(spark, {TXN_APP_ID: "nightly", TXN_VERSION: str(number), TXN_AUTO_RESET: "true"}):
            before = table.version()
            call()
            assert table.version() == before + 1
            assert spark.conf.get(TXN_VERSION, None) is None
            with pytest.raises(RequestError, match="needs both"):
                call()


def test_command_that_changes_no_rows_does_not_ask_for_the_transaction_that_the_session_has_reset(spark, tmp_path):
    path, clone = tmp_path / "t", tmp_path / "clone"
    named = f"delta.`{path}`"
    spark.range(3).write.parquet(str(tmp_path / "parquet"))
    with session_settings(spark, {TXN_APP_ID: "nightly", TXN_VERSION: "1", TXN_AUTO_RESET: "true"}):
        ebbtide.write(spark.range(3), path)
        table = ebbtide.DeltaTable.forPath(spark, path)
        for call in (
            lambda: table.optimize().executeCompaction(),
            table.purge,
            table.vacuum,
            table.fsck,
            table.maintain,
            lambda: table.restoreToVersion(0),
            lambda: table.clone(str(clone), True),
            lambda: table.addFeatureSupport("deletionVectors"),
            lambda: table.upgradeTableProtocol(3, 7),
            lambda: ebbtide.DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path / 'parquet'}`"),
            lambda: ebbtide.DeltaTable.create(spark).location(tmp_path / "built").addColumn("id", "long").execute(),
            lambda: ebbtide.sql(spark, f"CREATE TABLE delta.`{tmp_path / 'made'}` (id LONG)"),
            lambda: ebbtide.sql(spark, f"OPTIMIZE {named}"),
            lambda: ebbtide.sql(spark, f"REORG TABLE {named} APPLY (PURGE)"),
            lambda: ebbtide.sql(spark, f"VACUUM {named}"),
            lambda: ebbtide.sql(spark, f"FSCK REPAIR TABLE {named} DRY RUN"),
            lambda: ebbtide.sql(spark, f"ALTER TABLE {named} ADD COLUMN x INT"),
            lambda: ebbtide.sql(spark, f"RESTORE TABLE {named} TO VERSION AS OF 0"),
        ):
            call()
        with pytest.raises(RequestError, match="needs both"):
            table.delete("id = 1")


def test_setting_is_on_however_spark_lets_its_user_write_true(spark, tmp_path):
    ebbtide.write(spark.sql("SELECT DATE'2020-01-01' AS d, 1 AS s"), tmp_path / "t")
    table = ebbtide.DeltaTable.forPath(spark, tmp_path / "t")
    dates_as_text = "spark.sql.legacy.typeCoercion.datetimeToString.enabled"
    for value in ("true", "True", " TRUE "):
        with session_settings(spark, {dates_as_text: value, "spark.sql.ansi.enabled": "false"}):
            # As dates the two are equal.
            assert ebbtide.read(spark, tmp_path / "t", where="d > '2020'").count() == 1
        with session_settings(spark, {"spark.sql.caseSensitive": value}), pytest.raises(UnknownColumnError):
            table.update("s = 1", {"S": "2"})


def test_user_is_warned_once_of_a_setting_that_is_not_followed(spark, many_files, caplog):
    table = ebbtide.DeltaTable.forPath(spark, str(many_files.path))
    with session_settings(spark, {"spark.databricks.delta.optimizeWrite.enabled": "true"}):
        for number in (1, 2):
            table.delete(f"id = {number}")
    [warning] = [record for record in caplog.records if "optimizeWrite" in record.getMessage()]
    assert "works as with 'false'" in warning.getMessage()


def test_condition_with_a_function_of_the_user_is_recorded_without_paths(spark, many_files):
    table = ebbtide.DeltaTable.forPath(spark, str(many_files.path))
    is_seven = F.udf(lambda number: number == 7, "boolean")
    assert table.delete(is_seven(F.col("id"))).metrics.num_deleted_rows == 1
    table.update(is_seven(F.col("id")), {"id": F.udf(lambda number: number + 1, "bigint")("id")})
    merge = table.alias("t").merge(spark.range(3, 4).alias("s"), is_seven("t.id") & is_seven("s.id"))
    merge.whenMatchedDelete(is_seven("t.id")).whenNotMatchedInsertAll(is_seven("s.id")).execute()
    for row in table.history(3).collect():
        recorded = " ".join(row.operationParameters.values())
        assert not any(word in recorded for word in ("/", ".py", ".java", "$", "0x", "__ebb")), recorded


def test_error_about_a_column_is_pysparks_and_names_no_helper(spark, many_files):
    table = ebbtide.DeltaTable.forPath(spark, str(many_files.path))
    with pytest.raises(UnknownColumnError, match="nowhere") as caught:
        table.delete("nowhere = 1")
    assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert caught.value.getSqlState() == "42703"
    assert caught.value.getMessageParameters()["objectName"] == "`nowhere`"
    with pytest.raises(UnknownColumnError) as caught:
        table.merge(spark.range(1), "nowhere = 1").whenMatchedDelete().execute()
    assert "__ebb" not in str(caught.value)
    assert "__ebb" not in str(caught.value.getMessageParameters())
