"""Does Spark or Hadoop ever put a variable in the place of a name, a value or a comment of a table?

Hadoop replaces `${spark.app.name}` and `${env.HOME}` in the schema of every Parquet scan, Spark replaces `${env:HOME}` in SQL
text. What the variable stands for must appear nowhere: not in files, not in rows, not in messages.
"""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import UnsupportedFeatureError

pytestmark = pytest.mark.spark

VARIABLES = ["${spark.app.name}", "${env.HOME}", "${env:HOME}", "${system:user.home}"]


def secrets(spark):
    return {os.environ["HOME"], spark.conf.get("spark.app.name")}


def footers(path):
    found = [pq.read_metadata(file) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts]
    return " ".join(f"{footer.schema} {footer.metadata}" for footer in found)


def refused(spark, call):
    with pytest.raises(UnsupportedFeatureError) as caught:
        call()
    assert "Rename the column" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in secrets(spark))


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.one_value("the table is refused before Spark hears of it")
def test_a_table_with_a_variable_for_a_name_is_refused_by_every_verb(spark, tmp_path, name):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), name: pa.int64()}))
    path = str(builder.file([{"id": 1, name: 2}]).commit().path)
    table = ebbtide.DeltaTable.forPath(spark, path)
    refused(spark, lambda: ebbtide.read(spark, path).collect())
    refused(spark, lambda: table.delete("id = 1"))
    refused(spark, lambda: table.update("id = 1", {"id": "2"}))
    refused(spark, lambda: ebbtide.write(spark.range(1), path, mode="append"))
    source = spark.range(1).alias("s")
    refused(spark, lambda: table.alias("t").merge(source, "t.id = s.id").whenMatchedDelete().execute())
    assert table.version() == 0


@pytest.mark.one_kind("the table is refused before Spark hears of it")
def test_a_mapped_table_with_a_variable_for_a_physical_name_is_refused(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).column_mapping("name")
    path = builder.file([{"id": 1}]).commit().path
    log = path / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            schema["fields"][0]["metadata"]["delta.columnMapping.physicalName"] = VARIABLES[0]
            line["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    refused(spark, lambda: ebbtide.read(spark, str(path)).collect())
    refused(spark, lambda: ebbtide.write(spark.range(1), str(path), mode="append"))


@pytest.mark.one_value("the table is refused before Spark hears of it")
@pytest.mark.parametrize("name", VARIABLES[:2])
def test_rows_with_a_variable_for_a_name_make_no_table(spark, tmp_path, name):
    path = tmp_path / "t"
    refused(spark, lambda: ebbtide.write(spark.range(1).withColumnRenamed("id", name), str(path)))
    assert not path.exists() or not list(path.rglob("*"))
    ebbtide.write(spark.range(1), str(path))
    wider = spark.range(1).selectExpr("id", "id AS other").withColumnRenamed("other", name)
    refused(spark, lambda: ebbtide.write(wider, str(path), mode="append", merge_schema=True))


@pytest.mark.one_value("the same calls for another spelling")
@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_in_a_comment_stays_out_of_the_files(spark, tmp_path, variable):
    path = tmp_path / "t"
    builder = ebbtide.DeltaTable.create(spark).location(str(path)).comment(variable)
    builder.addColumn("id", "long", comment=variable).addColumn("v", "string").execute()
    ebbtide.write(spark.createDataFrame([(1, "a"), (2, "b")], "id long, v string"), str(path), mode="append")
    ebbtide.DeltaTable.forPath(spark, str(path)).update("id = 1", {"v": "'z'"})
    commented = spark.range(5, 6).select(F.col("id").alias("id", metadata={"comment": variable}))
    ebbtide.write(commented, str(path), mode="append")
    assert not any(secret in footers(path) for secret in secrets(spark))
    assert ebbtide.read(spark, str(path)).count() == 3


def test_variables_in_values_and_paths_are_text(spark, tmp_path):
    path = tmp_path / VARIABLES[0] / "t"
    rows = [(number, variable) for number, variable in enumerate(VARIABLES)]
    ebbtide.write(spark.createDataFrame(rows, "id long, p string"), str(path), partition_by=["p"])
    table = ebbtide.DeltaTable.forPath(spark, str(path))
    table.update("id = 0", {"id": "10"})
    table.delete("id = 1")
    expected = {(10, VARIABLES[0]), (2, VARIABLES[2]), (3, VARIABLES[3])}
    assert {tuple(row) for row in ebbtide.read(spark, str(path)).collect()} == expected
