"""How do a table's history and detail, and the answers of RESTORE and CLONE, look as DataFrames?

The columns are those of DESCRIBE HISTORY, DESCRIBE DETAIL, RESTORE and CLONE in delta-spark, with the same names and
types.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from ebbtide.commands.clone.results import CloneResult
from ebbtide.commands.restore.results import RestoreResult
from ebbtide.log import CommitRecord, TableDetail
from ebbtide.spark_border import frame_from_arrow

__all__ = [
    "CLONE_SCHEMA",
    "DETAIL_SCHEMA",
    "HISTORY_SCHEMA",
    "RESTORE_SCHEMA",
    "clone_frame",
    "detail_frame",
    "history_frame",
    "restore_frame",
    "rows_frame",
]

_TEXTS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.string())
_INSTANT = pa.timestamp("us", tz="UTC")

HISTORY_SCHEMA = pa.schema(
    {
        "version": pa.int64(),
        "timestamp": _INSTANT,
        "userId": pa.string(),
        "userName": pa.string(),
        "operation": pa.string(),
        "operationParameters": _TEXTS,
        "job": _TEXTS,
        "notebook": _TEXTS,
        "clusterId": pa.string(),
        "readVersion": pa.int64(),
        "isolationLevel": pa.string(),
        "isBlindAppend": pa.bool_(),
        "operationMetrics": _TEXTS,
        "userMetadata": pa.string(),
        "engineInfo": pa.string(),
    }
)

DETAIL_SCHEMA = pa.schema(
    {
        "format": pa.string(),
        "id": pa.string(),
        "name": pa.string(),
        "description": pa.string(),
        "location": pa.string(),
        "createdAt": _INSTANT,
        "lastModified": _INSTANT,
        "partitionColumns": _NAMES,
        "clusteringColumns": _NAMES,
        "numFiles": pa.int64(),
        "sizeInBytes": pa.int64(),
        "properties": _TEXTS,
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "tableFeatures": _NAMES,
        "numFilesOutsideRoot": pa.int64(),
    }
)

RESTORE_SCHEMA = pa.schema(
    {
        "table_size_after_restore": pa.int64(),
        "num_of_files_after_restore": pa.int64(),
        "num_removed_files": pa.int64(),
        "num_restored_files": pa.int64(),
        "removed_files_size": pa.int64(),
        "restored_files_size": pa.int64(),
    }
)

CLONE_SCHEMA = pa.schema(
    {
        "source_table_size": pa.int64(),
        "source_num_of_files": pa.int64(),
        "num_removed_files": pa.int64(),
        "num_copied_files": pa.int64(),
        "removed_files_size": pa.int64(),
        "copied_files_size": pa.int64(),
    }
)

_SPARK_TYPES: Mapping[pa.DataType, T.DataType] = {
    pa.string(): T.StringType(),
    pa.int64(): T.LongType(),
    pa.int32(): T.IntegerType(),
    pa.bool_(): T.BooleanType(),
    _INSTANT: T.TimestampType(),
    _TEXTS: T.MapType(T.StringType(), T.StringType()),
    _NAMES: T.ArrayType(T.StringType()),
}


def history_frame(spark: SparkSession, commits: Sequence[CommitRecord]) -> DataFrame:
    return rows_frame(spark, [_history_row(commit) for commit in commits], HISTORY_SCHEMA)


def detail_frame(spark: SparkSession, detail: TableDetail) -> DataFrame:
    row = (
        detail.format,
        detail.id,
        detail.name,
        detail.description,
        detail.location,
        _moment(detail.created_at_ms),
        _moment(detail.last_modified_ms),
        list(detail.partition_columns),
        list(detail.clustering_columns),
        detail.num_files,
        detail.size_in_bytes,
        list(detail.properties.items()),
        detail.min_reader_version,
        detail.min_writer_version,
        list(detail.table_features),
        detail.num_files_outside_root,
    )
    return rows_frame(spark, [row], DETAIL_SCHEMA)


def restore_frame(spark: SparkSession, result: RestoreResult) -> DataFrame:
    """One row; none when the table was at that version already."""
    rows = [] if result.version is None else [astuple(result.metrics)]
    return rows_frame(spark, rows, RESTORE_SCHEMA)


def clone_frame(spark: SparkSession, result: CloneResult) -> DataFrame:
    """One row; none when a table was there already and was left alone."""
    rows = [] if result.version is None else [astuple(result.metrics)]
    return rows_frame(spark, rows, CLONE_SCHEMA)


def rows_frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    """A small answer as a DataFrame. Through Arrow, because Spark starts a Python worker for a list of rows."""
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    fields = [T.StructField(field.name, _SPARK_TYPES[field.type]) for field in schema]
    return frame_from_arrow(spark, pa.Table.from_arrays(columns, schema=schema), T.StructType(fields))


def _history_row(commit: CommitRecord) -> tuple[Any, ...]:
    return (
        commit.version,
        _moment(commit.timestamp_ms),
        commit.user_id,
        commit.user_name,
        commit.operation,
        _texts(commit.operation_parameters),
        _texts(commit.job),
        _texts(commit.notebook),
        commit.cluster_id,
        commit.read_version,
        commit.isolation_level,
        commit.is_blind_append,
        _texts(commit.operation_metrics),
        commit.user_metadata,
        commit.engine_info,
    )


def _moment(milliseconds: int | None) -> dt.datetime | None:
    """An instant that Spark cannot mistake for local time; None for one that Python's datetime cannot hold."""
    if milliseconds is None:
        return None
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def _texts(values: Mapping[str, Any] | None) -> list[tuple[str, str | None]] | None:
    """Parameters hold JSON of any kind; text stays as it is, everything else is shown as JSON."""
    if values is None:
        return None
    return [
        (key, value if value is None or isinstance(value, str) else orjson.dumps(value).decode())
        for key, value in values.items()
    ]
