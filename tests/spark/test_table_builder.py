"""Do the builders make the tables they describe?"""

from __future__ import annotations

import json

import pytest
from pyspark.sql import types as T
from tests.support.log_reading import actions_of, commit_info, log_state, newest_version

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import (
    ConstraintViolationError,
    DeltaError,
    RequestError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnknownColumnError,
)

pytestmark = pytest.mark.spark


def schema_of(path):
    return {field["name"]: field for field in json.loads(log_state(path).metadata["schemaString"])["fields"]}


def rows(spark, path):
    return sorted(tuple(row) for row in ebbtide.read(spark, str(path)).collect())


@pytest.mark.parametrize("door", ["python", "sql"])
def test_new_table_is_clustered_as_delta_spark_does_it(spark, tmp_path, door):
    path = tmp_path / "t"
    if door == "python":
        builder = DeltaTable.create(spark).location(str(path)).addColumn("a", "INT").addColumn("s", "STRUCT<x: INT>")
        builder.property("delta.columnMapping.mode", "name").clusterBy("a", "S.x").execute()
    else:
        columns = "(a INT, s STRUCT<x: INT>) USING delta CLUSTER BY (a, S.x)"
        ebbtide.sql(spark, f"CREATE TABLE delta.`{path}` {columns} TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    table = DeltaTable.forPath(spark, str(path))
    assert table.detail().collect()[0]["clusteringColumns"] == ["a", "s.x"]
    assert commit_info(path, 0)["operationParameters"]["clusterBy"] == '["a","S.x"]'
    [protocol] = actions_of(path, 0, "protocol")
    assert {"clustering", "domainMetadata"} <= set(protocol["writerFeatures"])
    [domain] = actions_of(path, 0, "domainMetadata")
    assert [len(names) for names in json.loads(domain["configuration"])["clusteringColumns"]] == [1, 2]
    # Files know columns by other names than the table.
    assert '"a"' not in domain["configuration"]
    ebbtide.write(spark.range(20).selectExpr("CAST(-id AS INT) AS a", "struct(1 AS x) AS s"), str(path), mode="append")
    table.optimize().executeCompaction()
    assert [row["a"] for row in table.toDF().collect()] == list(range(-19, 1))


@pytest.mark.parametrize(
    ("clause", "error_class"),
    [
        ("CLUSTER BY (nope)", "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        ("CLUSTER BY (a, A)", "DELTA_DUPLICATE_COLUMNS_FOUND.CLUSTER_BY"),
        ("CLUSTER BY (s)", "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"),
        (
            "CLUSTER BY (s.x) TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '1')",
            "DELTA_CLUSTERING_COLUMN_MISSING_STATS",
        ),
        ("PARTITIONED BY (p) CLUSTER BY (a)", "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"),
        ("CLUSTER BY (a) AS SELECT 1 AS a", "PARSE_SYNTAX_ERROR"),
    ],
)
@pytest.mark.one_kind("refused before Spark is asked")
def test_table_that_cannot_be_clustered_is_not_made(spark, tmp_path, clause, error_class):
    columns = "" if "SELECT" in clause else "(a INT, s STRUCT<x: INT>, p INT)"
    with pytest.raises(ebbtide.DeltaError) as caught:
        ebbtide.sql(spark, f"CREATE TABLE delta.`{tmp_path / 't'}` {columns} USING delta {clause}")
    assert caught.value.error_class == error_class
    assert not (tmp_path / "t").exists()


def test_a_table_is_made_as_described(spark, tmp_path):
    path = tmp_path / "t"
    table = (
        DeltaTable.create(spark)
        .location(str(path))
        .addColumn("id", "BIGINT", nullable=False, comment="the key")
        .addColumn("day", T.DateType(), generatedAlwaysAs="CAST(at AS DATE)")
        .addColumns(
            T.StructType([T.StructField("at", T.TimestampType()), T.StructField("tags", T.ArrayType(T.StringType()))])
        )
        .addColumn("code", "varchar(3)")
        .partitionedBy("day")
        .property("delta.enableDeletionVectors", "true")
        .property("delta.constraints.positive", "id > 0")
        .comment("what happened")
        .execute()
    )
    assert table.version() == 0
    assert table.toDF().columns == ["id", "day", "at", "tags", "code"]
    fields = schema_of(path)
    assert fields["id"] == {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "the key"}}
    assert fields["day"]["metadata"] == {"delta.generationExpression": "CAST(at AS DATE)"}
    assert fields["code"]["type"] == "string"
    state = log_state(path)
    assert (state.metadata["partitionColumns"], state.metadata["description"]) == (["day"], "what happened")
    assert {"deletionVectors", "generatedColumns", "checkConstraints"} <= set(state.protocol["writerFeatures"])
    info = commit_info(path, 0)
    assert info["operation"] == "CREATE TABLE"
    assert info["operationParameters"]["partitionBy"] == '["day"]'
    assert (info["operationParameters"]["isManaged"], info["operationParameters"]["clusterBy"]) == ("false", "[]")

    ebbtide.write(spark.sql("SELECT 1 AS id, TIMESTAMP'2024-05-06 07:08:09' AS at"), str(path), mode="append")
    assert [str(row["day"]) for row in table.toDF().collect()] == ["2024-05-06"]
    for bad in ("0 AS id", "CAST(NULL AS INT) AS id", "1 AS id, 'long' AS code", "1 AS id, DATE'2000-01-01' AS day"):
        with pytest.raises(ConstraintViolationError):
            ebbtide.write(spark.sql(f"SELECT {bad}"), str(path), mode="append")
    assert newest_version(path) == 1


@pytest.mark.one_kind("refused before Spark is asked")
def test_a_table_that_is_there_is_refused_or_left_alone(spark, tmp_path):
    path = str(tmp_path / "t")
    DeltaTable.create(spark).location(path).addColumn("id", "INT").execute()
    with pytest.raises(TableAlreadyExistsError):
        DeltaTable.create(spark).location(path).addColumn("id", "INT").execute()
    table = DeltaTable.createIfNotExists(spark).location(path).addColumn("other", "INT").execute()
    assert (table.version(), table.toDF().columns) == (0, ["id"])


@pytest.mark.one_value("the same calls under another name")
@pytest.mark.parametrize("how", ["replace", "createOrReplace"])
def test_a_replaced_table_keeps_its_id_and_history_and_loses_its_rows(spark, tmp_path, how):
    path = tmp_path / "t"
    properties = {"delta.enableDeletionVectors": "true", "mine": "1"}
    ebbtide.write(spark.range(5), str(path), properties=properties)
    before = log_state(path)
    builder = getattr(DeltaTable, how)(spark).location(str(path))
    builder.addColumn("name", "STRING").property("delta.columnMapping.mode", "name").execute()
    after = log_state(path)
    assert after.metadata["id"] == before.metadata["id"]
    assert set(after.metadata["configuration"]) == {"delta.columnMapping.mode", "delta.columnMapping.maxColumnId"}
    assert {"deletionVectors", "columnMapping"} <= set(after.protocol["writerFeatures"])
    assert rows(spark, path) == []
    assert len(actions_of(path, 1, "remove")) == len(before.live)
    assert commit_info(path, 1)["operation"] == ("REPLACE TABLE" if how == "replace" else "CREATE OR REPLACE TABLE")
    ebbtide.write(spark.sql("SELECT 'x' AS name"), str(path), mode="append")
    assert rows(spark, path) == [("x",)]
    assert ebbtide.read(spark, str(path), version=0).count() == 5


@pytest.mark.one_kind("refused before Spark is asked")
def test_replace_needs_a_table_and_create_or_replace_does_not(spark, tmp_path):
    path = str(tmp_path / "t")
    with pytest.raises(TableNotFoundError, match="DELTA_CANNOT_REPLACE_MISSING_TABLE"):
        DeltaTable.replace(spark).location(path).addColumn("id", "INT").execute()
    assert DeltaTable.createOrReplace(spark).location(path).addColumn("id", "INT").execute().version() == 0


@pytest.mark.one_value(
    "constraints that Spark refuses run on both kinds in write/test_rules.py; the others are refused by us"
)
@pytest.mark.parametrize(
    ("describe", "error"),
    [
        (lambda b: b.addColumn("a", "NOTATYPE"), RequestError),
        (lambda b: b.addColumn("a", "INT").addColumn("A", "INT"), RequestError),
        (lambda b: b.addColumn("a", "INT").partitionedBy("b"), RequestError),
        (lambda b: b.addColumn("a", "INT").addColumn("g", "INT", generatedAlwaysAs="nowhere + 1"), UnknownColumnError),
        (lambda b: b.addColumn("a", "INT").addColumn("g", "INT", generatedAlwaysAs="g + 1"), UnknownColumnError),
        (lambda b: b.addColumn("a", "INT").addColumn("g", "DATE", generatedAlwaysAs="a > 1"), RequestError),
        (lambda b: b.addColumn("a", "INT").property("delta.constraints.c", "b > 1"), UnknownColumnError),
        (lambda b: b.addColumn("a", "INT").property("delta.enableIcebergCompatV2", "true"), DeltaError),
        (lambda b: b.addColumn("a", "INT").property("delta.columnMapping.maxColumnId", "3"), RequestError),
    ],
)
def test_a_table_that_cannot_be_is_refused_and_not_made(spark, tmp_path, describe, error):
    path = str(tmp_path / "t")
    with pytest.raises(error):
        describe(DeltaTable.create(spark).location(path)).execute()
    assert not DeltaTable.isDeltaTable(spark, path)


@pytest.mark.one_kind("refused before Spark is asked")
def test_a_builder_needs_a_place(spark):
    with pytest.raises(RequestError, match="location"):
        DeltaTable.create(spark).addColumn("a", "INT").execute()
