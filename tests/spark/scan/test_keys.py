"""Does the driver compute the same file keys as Spark's expressions, and can two files never share one?"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from ebbtide.errors import InternalError
from ebbtide.scan.marks import hash_keys, path_hash, size_keys

pytestmark = pytest.mark.spark


@pytest.mark.matrix
def test_path_hash_is_the_one_that_spark_computes(spark):
    """The hash treats texts of fewer than 4, 8 and 32 bytes and their remainders differently."""
    texts = ["é" * (length % 3) + "x" * length for length in range(70)] + ["", "file:/t/a%20b/part-0.parquet"]
    frame = spark.createDataFrame([(text,) for text in texts], "text STRING")
    for text, hashed in frame.select("text", F.xxhash64("text")).collect():
        assert path_hash(text) == hashed


def prefixes_in_spark(spark, make, values):
    """The prefixes of the driver beside those of the expression, for the same values."""
    frame = spark.createDataFrame([(at, value) for at, value in enumerate(values)], "at INT, value BIGINT")
    keys = make(values, F.col("value"))
    found = dict(tuple(row) for row in frame.select("at", keys.expression).collect())
    return keys.prefixes, tuple(found[at] for at in range(len(values)))


def test_size_is_the_prefix_where_sizes_differ(spark):
    ours, sparks = prefixes_in_spark(spark, size_keys, [0, 1, 5_000_000, (1 << 36) - 1])
    assert ours == sparks
    assert len(set(ours)) == 4


@pytest.mark.parametrize("sizes", [[7, 7], [1, 1 << 36]])
def test_equal_or_enormous_sizes_are_no_keys(spark, sizes):
    assert size_keys(sizes, F.col("value")) is None


LOW_BITS = (1 << 27) - 1


@pytest.mark.parametrize(
    "hashes",
    [
        [0, 1 << 27, -1, -(1 << 63), (1 << 63) - 1],
        [5, 6, 7],  # alike in the upper 37 bits
        [(1 << 30) | 1, (1 << 30) | 2, (1 << 31) | 1],
        [LOW_BITS, LOW_BITS - 1, -LOW_BITS],
    ],
)
def test_window_of_the_hash_is_one_in_which_all_files_differ(spark, hashes):
    ours, sparks = prefixes_in_spark(spark, hash_keys, hashes)
    assert ours == sparks
    assert len(set(ours)) == len(hashes)
    assert all(prefix & LOW_BITS == 0 for prefix in ours)


def test_equal_hashes_of_two_files_are_found_on_the_driver(spark):
    with pytest.raises(InternalError, match="same path hash"):
        hash_keys([1, 2, 1], F.col("value"))


def test_hashes_that_differ_in_no_single_window_are_refused_rather_than_mixed_up(spark):
    # The first pair differs only in the lowest bit, the second only in the highest; no 37 bits hold both.
    hashes = [0, 1, -(1 << 63)]
    with pytest.raises(InternalError):
        hash_keys(hashes, F.col("value"))
