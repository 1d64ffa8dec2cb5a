"""Does the driver compute the same file numbers as Spark's expressions?"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from ebbtide.scan.file_numbers import path_hash

pytestmark = pytest.mark.spark


@pytest.mark.matrix
def test_path_hash_is_the_one_that_spark_computes(spark):
    """The hash treats texts of fewer than 4, 8 and 32 bytes and their remainders differently."""
    texts = ["é" * (length % 3) + "x" * length for length in range(70)] + ["", "file:/t/a%20b/part-0.parquet"]
    frame = spark.createDataFrame([(text,) for text in texts], "text STRING")
    for text, hashed in frame.select("text", F.xxhash64("text")).collect():
        assert path_hash(text) == hashed
