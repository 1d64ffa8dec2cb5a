"""How do a table's history and detail look as DataFrames?

The columns are those of DESCRIBE HISTORY and DESCRIBE DETAIL in delta-spark, with the same names and types.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession

from ebbtide.log import CommitRecord, TableDetail

__all__ = ["DETAIL_SCHEMA", "HISTORY_SCHEMA", "detail_frame", "history_frame"]

HISTORY_SCHEMA = """
    version BIGINT, timestamp TIMESTAMP, userId STRING, userName STRING, operation STRING,
    operationParameters MAP<STRING, STRING>, job MAP<STRING, STRING>, notebook MAP<STRING, STRING>, clusterId STRING,
    readVersion BIGINT, isolationLevel STRING, isBlindAppend BOOLEAN, operationMetrics MAP<STRING, STRING>,
    userMetadata STRING, engineInfo STRING
"""

DETAIL_SCHEMA = """
    format STRING, id STRING, name STRING, description STRING, location STRING, createdAt TIMESTAMP,
    lastModified TIMESTAMP, partitionColumns ARRAY<STRING>, clusteringColumns ARRAY<STRING>, numFiles BIGINT,
    sizeInBytes BIGINT, properties MAP<STRING, STRING>, minReaderVersion INT, minWriterVersion INT,
    tableFeatures ARRAY<STRING>
"""


def history_frame(spark: SparkSession, commits: Sequence[CommitRecord]) -> DataFrame:
    return spark.createDataFrame([_history_row(commit) for commit in commits], HISTORY_SCHEMA)


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
        dict(detail.properties),
        detail.min_reader_version,
        detail.min_writer_version,
        list(detail.table_features),
    )
    return spark.createDataFrame([row], DETAIL_SCHEMA)


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
    """An instant Spark cannot mistake for local time; one beyond what Python can name has no value."""
    if milliseconds is None:
        return None
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def _texts(values: Mapping[str, Any] | None) -> dict[str, str | None] | None:
    """Parameters hold JSON of any kind; text stays as it is, everything else is shown as JSON."""
    if values is None:
        return None
    return {
        key: value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
        for key, value in values.items()
    }
