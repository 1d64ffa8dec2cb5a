"""Does a count come from the log alone where the log is exact?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.table_builder import TableBuilder

import ebbtide

SCHEMA = pa.schema({"id": pa.int64()})


class NoSpark(SparkSession):
    """A session that must not be used."""

    def __init__(self):
        """No Spark is started."""

    def __getattribute__(self, name):
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise AssertionError(f"the session was asked for '{name}'")


def rows(count):
    return [{"id": number} for number in range(count)]


def test_count_with_statistics_and_vectors_uses_neither_spark_nor_the_files(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file(rows(100), deleted=[1, 2, 99]).file(rows(50)).file(rows(7), deleted=range(7)).commit()
    for file in [*builder.path.glob("*.parquet"), *builder.path.glob("*.bin")]:
        file.unlink()
    assert ebbtide.DeltaTable.forPath(NoSpark(), str(builder.path)).count() == 97 + 50


def test_count_of_an_empty_table_is_zero(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).commit()
    assert ebbtide.DeltaTable.forPath(NoSpark(), str(builder.path)).count() == 0


def test_file_without_statistics_needs_the_session(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows(3), stats=False).commit()
    table = ebbtide.DeltaTable.forPath(NoSpark(), str(builder.path))
    with pytest.raises(AssertionError, match="the session was asked"):
        table.count()
