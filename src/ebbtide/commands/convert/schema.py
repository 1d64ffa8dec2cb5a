"""Which columns does a folder of Parquet files have?

Spark reads the footers of all files and merges their schemas, so each type is the one that Spark reads. Partition
columns come from the directories, even where the files hold them too; the caller gives their types.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.commands.define.definition import schema_of
from ebbtide.errors import RequestError, SchemaMismatchError
from ebbtide.protocol.schema import CHAR_VARCHAR, StructField, StructType
from ebbtide.storage import ObjectStore

__all__ = ["folder_schema", "partition_fields_of"]


def partition_fields_of(given: str | T.StructType | None) -> tuple[StructField, ...]:
    """The partition columns, from SQL text such as "day DATE, country STRING" or from a StructType."""
    if given is None:
        return ()
    if isinstance(given, str):
        with border.spark_errors(f"reading the partition columns {given!r}"), border.asking_the_analyser():
            parsed = T.DataType.fromDDL(given)
        if not isinstance(parsed, T.StructType):
            raise RequestError(f"{given!r} are not partition columns. Write them like 'day DATE, country STRING'.")
        given = parsed
    return schema_of(given).fields


def folder_schema(
    spark: SparkSession, store: ObjectStore, partition_fields: Sequence[StructField], *, is_exact: bool
) -> StructType:
    """The columns of the files, with the partition columns in their places, or behind them."""
    doing = f"reading the schemas of the Parquet files in {store.url}"
    try:
        with border.spark_errors(doing), border.asking_the_analyser():
            found = border.merged_parquet_schema(spark, store.spark_path, store.spark_options)
    except RequestError as error:
        if not error.error_class.startswith("CANNOT_MERGE"):
            raise
        raise SchemaMismatchError(
            f"The columns of the files do not fit together. {error.args[0]}",
            error_class="DELTA_FAILED_MERGE_SCHEMA_FILE",
        ) from error
    if not found.fields:
        raise RequestError(
            f"The files in {store.url} have no columns, so there is no table to make of them.",
            error_class="DELTA_FAILED_INFER_SCHEMA",
        )
    return _with_partitions(schema_of(_without_lengths(found)), partition_fields, is_exact=is_exact)


def _with_partitions(files: StructType, partition_fields: Sequence[StructField], *, is_exact: bool) -> StructType:
    def key(name: str) -> str:
        return name if is_exact else name.lower()

    left = {key(field.name): field for field in partition_fields}
    columns = [left.pop(key(field.name), field) for field in files.fields]
    return StructType((*columns, *left.values()))


def _without_lengths(schema: T.StructType) -> T.StructType:
    """CHAR and VARCHAR were a rule of the table that the files came from; as in the reference, they are strings."""
    fields = [
        T.StructField(
            field.name,
            field.dataType,
            field.nullable,
            {key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR},
        )
        for field in schema.fields
    ]
    return T.StructType(fields)
