"""Does this Spark still behave the way the engine was built on?

Nothing of Ebbtide runs here. When a new PySpark release breaks the engine, these tests say whether it was Spark that moved.
"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from ebbtide import spark_border

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

ROWS = 70_000  # more than one 65,536-row container and more than one 32,768-bit bucket


@pytest.fixture(scope="module")
def parquet(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("facts") / "one file")
    spark.range(ROWS).coalesce(1).write.parquet(path)
    return path


def test_row_index_stays_the_physical_position_below_a_pushed_filter(spark, parquet):
    rows = spark.read.parquet(parquet).where("id % 10000 = 9999").selectExpr("id", "_metadata.row_index AS position")
    assert {row.id: row.position for row in rows.collect()} == {n: n for n in range(9999, ROWS, 10000)}


def test_file_path_of_the_metadata_column_is_encoded_and_has_one_slash(spark, parquet):
    (row,) = spark.read.parquet(parquet).selectExpr("_metadata.file_path AS path").distinct().collect()
    assert row.path.startswith(f"file:{parquet.replace(' ', '%20')}/part-")


def test_reader_fills_the_row_index_column_that_the_requested_schema_names(spark, parquet, tmp_path):
    assert spark_border.fills_reader_row_index(spark)
    schema = f"id BIGINT, {spark_border.READER_ROW_INDEX} BIGINT"
    rows = spark.read.schema(schema).parquet(parquet).where("id % 10000 = 9999").collect()
    assert {row.id: row[spark_border.READER_ROW_INDEX] for row in rows} == {n: n for n in range(9999, ROWS, 10000)}


def test_bitmap_buckets_count_from_one(spark):
    positions = [0, 32_767, 32_768, 65_536]
    bits = spark.createDataFrame([(n,) for n in positions], "row_index BIGINT").select(
        F.expr("bitmap_bucket_number(row_index + 1)").alias("bucket"),
        F.expr("bitmap_bit_position(row_index + 1)").alias("bit"),
    )
    assert sorted((row.bucket, row.bit) for row in bits.collect()) == [(1, 0), (1, 32_767), (2, 0), (3, 0)]


def test_bitmap_aggregate_sets_the_bits_least_significant_first(spark):
    (row,) = (
        spark.createDataFrame([(0,), (9,)], "row_index BIGINT")
        .select(F.expr("bitmap_construct_agg(bitmap_bit_position(row_index + 1))").alias("bitmap"))
        .collect()
    )
    assert bytes(row.bitmap).rstrip(b"\0") == bytes([0b1, 0b10])
    assert len(row.bitmap) == 4096


def test_condition_that_is_null_is_not_true(spark):
    assert spark.sql("SELECT * FROM VALUES (1), (NULL) AS t(x) WHERE NOT coalesce(x > 5, false)").count() == 2
    assert spark.sql("SELECT * FROM VALUES (1), (NULL) AS t(x) WHERE NOT (x > 5)").count() == 1
