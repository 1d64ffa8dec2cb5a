"""Does a write put exactly these rows into the table, in one commit that says what it did?"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import actions_of, commit_info, log_state, newest_version
from tests.support.races import RacingStore
from tests.support.session_settings import session_settings

import ebbtide
from ebbtide import DeltaTable
from ebbtide.commands.write.command import WriteCommand
from ebbtide.commands.write.request import WriteRequest
from ebbtide.errors import (
    ConcurrentAppendException,
    ConstraintViolationError,
    DeltaError,
    RequestError,
    TableAlreadyExistsError,
)
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a b%20é" / "t"


def people(spark, *rows):
    return spark.createDataFrame(list(rows), "id long, name string")


def rows(spark, path, version=None):
    return sorted((tuple(row) for row in ebbtide.read(spark, str(path), version=version).collect()), key=repr)


def files_below(path):
    """Data files and vectors, whether the log names them or not."""
    return sorted(str(item) for item in path.rglob("*") if item.is_file() and "_delta_log" not in item.parts)


def live_files(path):
    return len(log_state(path).live)


# --- modes ------------------------------------------------------------------------------------------------------------


def test_a_table_is_made_with_the_rows_and_what_the_commit_says_of_them(spark, path):
    result = ebbtide.write(people(spark, (1, "a"), (2, None)), str(path))
    assert (result.version, result.num_affected_rows) == (0, 2)
    assert rows(spark, path) == [(1, "a"), (2, None)]
    info = commit_info(path, 0)
    assert info["operation"] == "WRITE"
    assert info["operationParameters"] == {"mode": "ErrorIfExists", "partitionBy": "[]"}
    size = sum(add["size"] for add in actions_of(path, 0, "add"))
    files = str(live_files(path))
    assert info["operationMetrics"] == {"numFiles": files, "numOutputRows": "2", "numOutputBytes": str(size)}
    assert info["isBlindAppend"] is True
    (protocol,) = actions_of(path, 0, "protocol")
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert "2 rows written" in repr(result)
    assert "numOutputRows" in result._repr_html_()


@pytest.mark.one_kind("refused before the frame is looked at")
def test_a_table_that_is_there_stays_as_it_is(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))
    with pytest.raises(TableAlreadyExistsError, match="DELTA_PATH_EXISTS"):
        ebbtide.write(people(spark, (2, "b")), str(path))
    ignored = ebbtide.write(people(spark, (2, "b")), str(path), mode="ignore")
    assert ignored.version is None
    assert "nothing written" in repr(ignored)
    assert rows(spark, path) == [(1, "a")]
    assert newest_version(path) == 0


@pytest.mark.one_kind(
    "the calls of test_a_table_is_made_with_the_rows_and_what_the_commit_says_of_them and test_an_append_matches_columns_by_name_and_casts_values, which run on both kinds"
)
@pytest.mark.parametrize("mode", ["append", "overwrite", "ignore"])
def test_every_mode_makes_a_table_where_there_is_none(spark, path, mode):
    assert ebbtide.write(people(spark, (1, "a")), str(path), mode=mode).version == 0
    assert rows(spark, path) == [(1, "a")]


def test_an_append_matches_columns_by_name_and_casts_values(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))
    frame = spark.createDataFrame([(dt.date(2024, 1, 2), 7)], "NAME date, Id int")
    result = ebbtide.write(frame, str(path), "append", user_metadata="by hand")
    assert result.version == 1
    assert rows(spark, path) == [(1, "a"), (7, "2024-01-02")]
    assert commit_info(path, 1)["userMetadata"] == "by hand"
    assert commit_info(path, 1)["isBlindAppend"] is True
    assert actions_of(path, 1, "metaData") == []


@pytest.mark.one_kind(
    "the calls of test_a_table_is_made_with_the_rows_and_what_the_commit_says_of_them and test_an_append_matches_columns_by_name_and_casts_values, which run on both kinds"
)
def test_an_append_leaves_columns_out_and_they_are_null(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))
    ebbtide.write(spark.createDataFrame([("b",)], "name string"), str(path), mode="append")
    assert rows(spark, path) == [(1, "a"), (None, "b")]


def test_an_overwrite_replaces_every_row_in_one_commit_and_the_old_version_stays(spark, path):
    ebbtide.write(people(spark, (1, "a"), (2, "b")), str(path))
    before = live_files(path)
    result = ebbtide.write(people(spark, (3, "c")), str(path), mode="overwrite")
    assert rows(spark, path) == [(3, "c")]
    assert rows(spark, path, version=0) == [(1, "a"), (2, "b")]
    assert len(actions_of(path, 1, "remove")) == before
    assert result.operation_metrics["numRemovedFiles"] == before
    assert commit_info(path, 1)["isBlindAppend"] is False
    assert actions_of(path, 1, "cdc") == []


def test_a_table_can_be_overwritten_with_a_query_over_itself(spark, path):
    ebbtide.write(spark.range(100).withColumn("name", F.lit("x")), str(path))
    table = ebbtide.read(spark, str(path))
    doubled = table.union(table).where("id % 2 = 0").withColumn("id", F.col("id") * 10)
    ebbtide.write(doubled, str(path), mode="overwrite")
    assert sorted(row[0] for row in rows(spark, path)) == sorted([i * 10 for i in range(0, 100, 2)] * 2)
    ebbtide.write(ebbtide.read(spark, str(path)).limit(3), str(path), mode="append")
    assert len(rows(spark, path)) == 103


def test_nothing_is_committed_for_a_frame_without_rows(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))
    assert ebbtide.write(people(spark), str(path), mode="append").version is None
    assert newest_version(path) == 0
    assert ebbtide.write(people(spark), str(path), mode="overwrite").version == 1
    assert rows(spark, path) == []
    assert ebbtide.write(people(spark), str(path), mode="overwrite").version is None


@pytest.mark.one_kind("test_nothing_is_committed_for_a_frame_without_rows writes such frames on both kinds")
def test_an_empty_frame_makes_an_empty_table(spark, path):
    assert ebbtide.write(people(spark), str(path)).version == 0
    assert rows(spark, path) == []
    assert ebbtide.read(spark, str(path)).columns == ["id", "name"]


@pytest.mark.one_kind(
    "the calls of test_a_table_is_made_with_the_rows_and_what_the_commit_says_of_them and test_an_append_matches_columns_by_name_and_casts_values, which run on both kinds"
)
def test_a_write_of_an_application_lands_once(spark, path):
    for _ in range(2):
        ebbtide.write(people(spark, (1, "a")), str(path), mode="append", txn=("nightly", 5))
    assert ebbtide.write(people(spark, (9, "z")), str(path), mode="overwrite", txn=("nightly", 4)).version is None
    assert rows(spark, path) == [(1, "a")]
    assert ebbtide.write(people(spark), str(path), mode="append", txn=("nightly", 6)).version == 1
    assert log_state(path).transactions == {"nightly": 6}


# --- schemas ----------------------------------------------------------------------------------------------------------


@pytest.mark.one_kind(
    "refused before anything of the frame runs; Spark's own refusals run on both kinds in write/test_rules.py and write/test_assignment.py"
)
def test_columns_that_the_table_lacks_are_refused_by_name(spark, path):
    ebbtide.write(spark.sql("SELECT 1L AS id, named_struct('a', 1) AS s"), str(path))
    frame = spark.sql("SELECT 2L AS id, named_struct('a', 1, 'b', 2) AS s, 'x' AS more")
    with pytest.raises(RequestError, match=r"s\.b, more.*merge_schema=True") as caught:
        ebbtide.write(frame, str(path), mode="append")
    assert caught.value.error_class == "DELTA_METADATA_MISMATCH"
    assert newest_version(path) == 0


@pytest.mark.one_value("the same calls for another mapping")
@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_merge_schema_adds_columns_at_every_level(spark, path, mapping):
    first = spark.sql("SELECT 1L AS id, named_struct('a', 1) AS s, array(named_struct('x', 1)) AS l")
    ebbtide.write(first, str(path), properties={"delta.columnMapping.mode": mapping})
    second = spark.sql(
        "SELECT 2 AS ID, named_struct('b', 'q', 'a', 5) AS s, array(named_struct('y', 2)) AS l, "
        "TIMESTAMP_NTZ'2024-01-01 00:00:00' AS t, null AS nothing"
    )
    ebbtide.write(second, str(path), mode="append", merge_schema=True)
    assert rows(spark, path) == [
        (1, (1, None), [(1, None)], None),
        (2, (5, "q"), [(None, 2)], dt.datetime(2024, 1, 1)),
    ]
    assert "timestampNtz" in log_state(path).protocol["writerFeatures"]
    ebbtide.write(first, str(path), mode="append", merge_schema=True)
    assert actions_of(path, 2, "metaData") == []


def test_overwrite_schema_puts_other_columns_and_partitions_in_the_place_of_the_old(spark, path):
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    ebbtide.write(people(spark, (1, "a")), str(path), partition_by=["name"], properties=properties)
    before = log_state(path).metadata
    other = spark.createDataFrame([("x", 1.5), ("y", None)], "id string, `v w` double")
    ebbtide.write(other, str(path), mode="overwrite", partition_by="id", overwrite_schema=True)
    assert rows(spark, path) == [("x", 1.5), ("y", None)]
    after = log_state(path).metadata
    assert after["id"] == before["id"]
    assert after["partitionColumns"] == ["id"]
    assert after["configuration"]["delta.enableDeletionVectors"] == "true"
    assert after["configuration"]["delta.columnMapping.maxColumnId"] == "4"
    assert rows(spark, path, version=0) == [(1, "a")]


def test_without_overwrite_schema_the_columns_stay(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))
    with pytest.raises(RequestError, match="DELTA_METADATA_MISMATCH"):
        ebbtide.write(spark.range(1).withColumnRenamed("id", "other"), str(path), mode="overwrite")
    with pytest.raises(RequestError, match=r"CAST_INVALID_INPUT.*'abc'"):
        ebbtide.write(spark.sql("SELECT 'abc' AS id"), str(path), mode="overwrite")
    assert rows(spark, path) == [(1, "a")]


# --- new tables -------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("the same calls for another mapping")
@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_partition_values_of_every_type_come_back(spark, path, mapping):
    frame = spark.sql(
        """
        SELECT 1 AS v, CAST(7 AS BYTE) AS b, CAST(-7 AS SHORT) AS sh, 7 AS i, 7L AS l, 1.5F AS f, -2.5D AS d,
               CAST(1.10 AS DECIMAL(10,2)) AS dec, true AS bo, 'ä/=%:\u00a0 x' AS s, X'0061' AS bin, DATE'0999-12-31' AS da,
               TIMESTAMP'2024-03-31 01:30:00.123456' AS ts, TIMESTAMP_NTZ'1900-01-01 00:00:00.000001' AS ntz
        UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        UNION ALL SELECT 3, 0, 0, 0, 0, CAST('NaN' AS FLOAT), DOUBLE('-Infinity'), 0, false, '', X'', DATE'1970-01-01',
               TIMESTAMP'1970-01-01 00:00:00', TIMESTAMP_NTZ'1970-01-01 00:00:00'"""
    )
    partitions = [name for name in frame.columns if name != "v"]
    ebbtide.write(frame, str(path), partition_by=partitions, properties={"delta.columnMapping.mode": mapping})
    written = {row["v"]: row.asDict() for row in ebbtide.read(spark, str(path)).collect()}
    expected = {row["v"]: row.asDict() for row in frame.collect()}
    # Where a partition value is an empty string or empty bytes, the log can only say null.
    expected[3] |= {"s": None, "bin": None}
    assert repr(written) == repr(expected)
    assert written[1]["dec"] == Decimal("1.10")
    assert log_state(path).metadata["partitionColumns"] == partitions


@pytest.mark.one_kind("about the contents of the log")
def test_properties_bring_the_features_that_they_need(spark, path):
    properties = {
        "delta.enableDeletionVectors": "true",
        "DELTA.ENABLECHANGEDATAFEED": "true",
        "delta.feature.v2Checkpoint": "supported",
        "delta.enableRowTracking": "true",
        "delta.enableInCommitTimestamps": "true",
        "mine": "kept",
        "comment": "people we know",
    }
    ebbtide.write(people(spark, (1, "a")), str(path), properties=properties)
    state = log_state(path)
    assert {"deletionVectors", "changeDataFeed", "v2Checkpoint", "rowTracking", "inCommitTimestamp"} <= set(
        state.protocol["writerFeatures"]
    )
    configuration = state.metadata["configuration"]
    assert configuration["delta.enableChangeDataFeed"] == "true"
    assert configuration["mine"] == "kept"
    assert not any(key.startswith("delta.feature.") for key in configuration)
    assert configuration["delta.rowTracking.materializedRowIdColumnName"].startswith("_row-id-col-")
    assert state.metadata["description"] == "people we know"
    ebbtide.write(people(spark, (2, "b")), str(path), mode="append", properties={"mine": "kept"})
    DeltaTable.forPath(spark, str(path)).delete("id = 1")
    assert rows(spark, path) == [(2, "b")]


def test_a_session_may_have_properties_for_every_new_table(spark, path):
    name = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
    spark.conf.set(name, "true")
    try:
        ebbtide.write(spark.range(1), str(path))
        ebbtide.write(spark.range(1), str(path / "b"), properties={"delta.enableDeletionVectors": "false"})
        spark.conf.set(name, "false")
        ebbtide.write(spark.range(1), str(path), mode="append")
    finally:
        spark.conf.unset(name)
    assert log_state(path).metadata["configuration"] == {"delta.enableDeletionVectors": "true"}
    assert log_state(path / "b").metadata["configuration"] == {"delta.enableDeletionVectors": "false"}


@pytest.mark.one_kind("refused by us; names are written on both kinds in write/test_write_files.py")
def test_names_that_files_cannot_have_need_column_mapping(spark, path):
    frame = spark.sql("SELECT 1 AS `a b`, named_struct('c,d', 2) AS s")
    with pytest.raises(RequestError, match="DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"):
        ebbtide.write(frame, str(path))
    assert not files_below(path)
    ebbtide.write(frame, str(path), properties={"delta.columnMapping.mode": "name"})
    assert rows(spark, path) == [(1, (2,))]


def test_columns_of_a_new_table_are_nullable_and_carry_no_marks_of_where_they_came_from(spark, path):
    frame = spark.range(1).select(
        F.col("id").alias("id", metadata={"delta.columnMapping.id": 9, "comment": "the key", "mine": 1})
    )
    ebbtide.write(frame, str(path))
    (field,) = json.loads(log_state(path).metadata["schemaString"])["fields"]
    assert field == {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "the key", "mine": 1}}


# --- rules ------------------------------------------------------------------------------------------------------------


def test_constraints_hold_for_every_write_and_a_broken_one_leaves_nothing(spark, path):
    properties = {"delta.constraints.positive": "id > 0"}
    with pytest.raises(ConstraintViolationError, match=r"positive.*\n - id : 0"):
        ebbtide.write(people(spark, (1, "a"), (0, "b")), str(path), properties=properties)
    assert not path.exists() or not any(path.rglob("*.*"))
    ebbtide.write(people(spark, (1, "a")), str(path), properties=properties)
    assert "checkConstraints" in log_state(path).protocol["writerFeatures"]
    before = files_below(path)
    for mode in ("append", "overwrite"):
        with pytest.raises(ConstraintViolationError, match="positive"):
            ebbtide.write(people(spark, (-1, "b")), str(path), mode=mode)
    assert files_below(path) == before
    assert newest_version(path) == 0


@pytest.mark.one_kind("test_constraints_hold_for_every_write_and_a_broken_one_leaves_nothing runs on both kinds")
def test_a_rewriting_delete_answers_for_the_rows_that_stay(spark, path):
    ebbtide.write(
        people(spark, (1, "a"), (2, "b")).coalesce(1), str(path), properties={"delta.constraints.c": "id > 0"}
    )
    table = DeltaTable.forPath(spark, str(path))
    table.delete("id = 1")
    assert rows(spark, path) == [(2, "b")]


@pytest.mark.one_kind("refused before the frame is looked at")
def test_an_append_only_table_takes_appends_and_nothing_else(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path), properties={"delta.appendOnly": "true"})
    ebbtide.write(people(spark, (2, "b")), str(path), mode="append")
    with pytest.raises(DeltaError, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        ebbtide.write(people(spark, (3, "c")), str(path), mode="overwrite")
    assert rows(spark, path) == [(1, "a"), (2, "b")]


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.one_value(
    "refused before anything of the frame runs; Spark's own refusals run on both kinds in write/test_rules.py and write/test_assignment.py"
)
@pytest.mark.parametrize(
    ("query", "arguments", "message"),
    [
        ("SELECT 1 AS a, 2 AS A", {}, "DELTA_DUPLICATE_COLUMNS_FOUND"),
        ("SELECT 1 AS a", {"partition_by": ["b"]}, "'b' is not among"),
        ("SELECT 1 AS a", {"partition_by": ["a"]}, "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION"),
        ("SELECT 1 AS a, array(1) AS b", {"partition_by": ["b"]}, "DELTA_INVALID_PARTITION_COLUMN_TYPE"),
        ("SELECT 1 AS a, 2 AS b", {"partition_by": ["b", "B"]}, "twice"),
        ("SELECT null AS a", {}, "at least one column"),
        ("SELECT array(null) AS a", {}, "void"),
        ("SELECT 1 AS a", {"properties": {"delta.nonsense": "1"}}, "DELTA_UNKNOWN_CONFIGURATION"),
        ("SELECT 1 AS a", {"properties": {"delta.enableDeletionVectors": "maybe"}}, "must be true or false"),
        ("SELECT 1 AS a", {"properties": {"delta.constraints.c": "nowhere > 1"}}, "UNRESOLVED_COLUMN"),
        ("SELECT 1 AS a", {"properties": {"delta.constraints.c": "a + 1"}}, "DATATYPE_MISMATCH"),
        ("SELECT 1 AS _change_type", {"properties": {"delta.enableChangeDataFeed": "true"}}, "RESERVED_CDC"),
        ("SELECT INTERVAL 1 DAY AS a", {}, "DELTA_UNSUPPORTED_DATA_TYPES"),
        ("SELECT 1 AS a", {"mode": "upsert"}, "mode='upsert'"),
        ("SELECT 1 AS a", {"replace_where": "a = 1"}, "needs mode='overwrite'"),
        ("SELECT 1 AS a", {"mode": "append", "overwrite_schema": True}, "needs mode='overwrite'"),
        ("SELECT 1 AS a", {"mode": "overwrite", "overwrite_schema": True, "replace_where": "a = 1"}, "cannot go with"),
        ("SELECT 1 AS a", {"txn": ("x",)}, "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"),
        ("SELECT 1 AS a", {"txn": ("x", -1)}, "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_is_refused_before_anything_is_written(spark, path, query, arguments, message):
    with pytest.raises(DeltaError, match=message):
        ebbtide.write(spark.sql(query), str(path), **arguments)
    assert not files_below(path)
    assert not DeltaTable.isDeltaTable(spark, str(path))


@pytest.mark.one_kind(
    "refused before anything of the frame runs; Spark's own refusals run on both kinds in write/test_rules.py and write/test_assignment.py"
)
def test_what_the_call_says_of_the_table_must_be_so(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path), partition_by="name")
    with pytest.raises(RequestError, match="DELTA_PARTITIONING_MISMATCH"):
        ebbtide.write(people(spark, (2, "b")), str(path), mode="append", partition_by="id")
    with pytest.raises(RequestError, match="SET TBLPROPERTIES"):
        ebbtide.write(people(spark, (2, "b")), str(path), mode="append", properties={"delta.appendOnly": "true"})
    ebbtide.write(people(spark, (2, "b")), str(path), mode="append", partition_by="NAME")
    assert rows(spark, path) == [(1, "a"), (2, "b")]


@pytest.mark.one_kind(
    "refused before anything of the frame runs; Spark's own refusals run on both kinds in write/test_rules.py and write/test_assignment.py"
)
def test_a_type_that_cannot_be_stored_is_refused_before_anything_is_written(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))
    before = files_below(path)
    with pytest.raises(RequestError, match=r"CANNOT_SAFELY_CAST.*'id'"):
        ebbtide.write(spark.sql("SELECT true AS id"), str(path), mode="append")
    with pytest.raises(RequestError, match=r"CAST_OVERFLOW.*'99999999999999999999'"):
        ebbtide.write(spark.sql("SELECT 99999999999999999999 AS id"), str(path), mode="append")
    assert files_below(path) == before


def test_a_frame_that_fails_while_it_is_written_leaves_nothing(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))
    before = files_below(path)
    broken = people(spark, (2, "b"), (3, "c")).withColumn("id", F.expr("IF(id = 3, raise_error('no'), id)"))
    with pytest.raises(RequestError, match="no"):
        ebbtide.write(broken, str(path), mode="overwrite")
    assert files_below(path) == before
    assert rows(spark, path) == [(1, "a")]


@pytest.mark.one_kind("the calls of test_an_overwrite_replaces_every_row_in_one_commit_and_the_old_version_stays")
def test_an_overwrite_leaves_nothing_of_partitions_without_new_rows(spark, path):
    ebbtide.write(people(spark, (1, "a"), (2, "b")), str(path), partition_by="name")
    ebbtide.write(people(spark, (3, "b")), str(path), mode="overwrite")
    assert rows(spark, path) == [(3, "b")]


def test_session_that_means_partitions_loses_no_others(spark, path):
    ebbtide.write(people(spark, (1, "a"), (2, "b")), str(path), partition_by="name")
    before = files_below(path)
    with session_settings(spark, {"spark.sql.sources.partitionOverwriteMode": "DYNAMIC"}):
        with pytest.raises(RequestError, match="replace_where"):
            ebbtide.write(people(spark, (3, "b")), str(path), mode="overwrite")
        assert files_below(path) == before
        ebbtide.write(people(spark, (4, "c")), str(path), mode="append")
        ebbtide.write(people(spark, (5, "c")), str(path), mode="overwrite", replace_where="name = 'c'")
        assert rows(spark, path) == [(1, "a"), (2, "b"), (5, "c")]
        ebbtide.write(people(spark, (6, "d")), str(path), mode="overwrite", overwrite_schema=True)
        assert rows(spark, path) == [(6, "d")]


@pytest.mark.one_kind("test_session_that_means_partitions_loses_no_others reads the setting on both kinds")
def test_table_without_partitions_is_overwritten_in_any_session(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))
    with session_settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        ebbtide.write(people(spark, (2, "b")), str(path), mode="overwrite")
    assert rows(spark, path) == [(2, "b")]


# --- others write, too ------------------------------------------------------------------------------------------------


def raced(spark, path, frame, rival, **request):
    """The write, with a rival that commits just before it."""
    store = RacingStore(open_store(str(path)), rival, first=newest_version(path) + 1)
    return WriteCommand(spark, WriteRequest(store, frame, **request)).run()


@pytest.mark.one_kind("after a lost race the log decides")
def test_an_append_goes_on_top_of_whoever_was_first(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))

    def rival():
        ebbtide.write(people(spark, (2, "b")), str(path), mode="overwrite")

    assert raced(spark, path, people(spark, (3, "c")), rival, mode="append").version == 2
    assert rows(spark, path) == [(2, "b"), (3, "c")]


@pytest.mark.one_kind("after a lost race the log decides")
def test_an_overwrite_does_not_take_away_rows_that_it_never_saw(spark, path):
    ebbtide.write(people(spark, (1, "a")), str(path))

    def rival():
        ebbtide.write(people(spark, (2, "b")), str(path), mode="append")

    with pytest.raises(ConcurrentAppendException):
        raced(spark, path, people(spark, (3, "c")), rival, mode="overwrite")
    assert rows(spark, path) == [(1, "a"), (2, "b")]
    assert len(files_below(path)) == live_files(path)
