"""What do DESCRIBE TABLE and the SHOW statements answer?

Everything is in the log; no data file is read. The columns of the answers are those of Spark and delta-spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.errors import SchemaMismatchError, UnknownColumnError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.detail import clustering_paths
from ebbtide.protocol.features import supported_features
from ebbtide.protocol.partition_values import to_arrow
from ebbtide.protocol.schema import CHAR_VARCHAR, StructField, partition_fields, physical_name
from ebbtide.protocol.schema_edits import known_columns
from ebbtide.sql.session import SqlSession
from ebbtide.sql.statements import DescribeTable, ShowColumns, ShowPartitions, ShowProperties
from ebbtide.write.columns import spark_type

__all__ = ["run_describe"]

_COLUMNS: Final = "col_name STRING, data_type STRING, comment STRING"


def run_describe(
    session: SqlSession, statement: DescribeTable | ShowColumns | ShowProperties | ShowPartitions
) -> DataFrame:
    snapshot = load_snapshot(session.store(statement.path), config=session.config)
    spark = session.spark
    match statement:
        case DescribeTable(column=None):
            rows = [*_table_rows(snapshot), *(_detail_rows(snapshot) if statement.is_extended else ())]
            return spark.createDataFrame(rows, _COLUMNS)
        case DescribeTable(column=name):
            return spark.createDataFrame(_described_column(snapshot, name or ""), "info_name STRING, info_value STRING")
        case ShowColumns():
            return spark.createDataFrame([(name,) for name in snapshot.schema.names], "col_name STRING")
        case ShowProperties():
            return spark.createDataFrame(_properties(snapshot, statement.key), "key STRING, value STRING")
        case ShowPartitions():
            return _partitions(session, snapshot)


def _described_column(snapshot: Snapshot, name: str) -> list[tuple[str, str]]:
    field = snapshot.schema.get(name)
    if field is None:
        raise UnknownColumnError(f"There is no column '{name}'. {known_columns(snapshot.schema.names)}")
    shown = zip(("col_name", "data_type", "comment"), _column_row(field), strict=True)
    return [(key, "NULL" if value is None else value) for key, value in shown]


def _column_row(field: StructField) -> tuple[str, str, str | None]:
    declared_type = field.metadata.get(CHAR_VARCHAR)
    kind = declared_type if isinstance(declared_type, str) else spark_type(field.type).simpleString()
    comment = field.metadata.get("comment")
    return field.name, kind, comment if isinstance(comment, str) else None


def _table_rows(snapshot: Snapshot) -> Iterator[tuple[str, str, str | None]]:
    yield from map(_column_row, snapshot.schema.fields)
    if snapshot.metadata.partition_columns:
        yield "# Partition Information", "", ""
        yield "# col_name", "data_type", "comment"
        yield from map(_column_row, partition_fields(snapshot.schema, snapshot.metadata.partition_columns))


def _detail_rows(snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    """What EXTENDED adds. No catalog knows the table, so none is named."""
    yield "", "", ""
    yield "# Detailed Table Information", "", ""
    if snapshot.metadata.description is not None:
        yield "Comment", snapshot.metadata.description, ""
    yield "Location", snapshot.store.spark_path, ""
    yield "Provider", "delta", ""
    shown = ",".join(f"{key}={value}" for key, value in sorted(_all_properties(snapshot).items()))
    yield "Table Properties", f"[{shown}]", ""


def _properties(snapshot: Snapshot, key: str | None) -> list[tuple[str, str]]:
    found = _all_properties(snapshot)
    if key is None:
        return sorted(found.items())
    value = found.get(key)
    return [(key, f"The table at {snapshot.store.url} does not have the property {key}" if value is None else value)]


def _all_properties(snapshot: Snapshot) -> dict[str, str]:
    """The table's properties, and its protocol and clustering as properties, as the reference shows them."""
    protocol = snapshot.protocol
    found = dict(snapshot.metadata.configuration)
    if "delta.clustering" in snapshot.domain_metadata:
        found["clusteringColumns"] = orjson.dumps(clustering_paths(snapshot)).decode()
    found["delta.minReaderVersion"] = str(protocol.min_reader_version)
    found["delta.minWriterVersion"] = str(protocol.min_writer_version)
    if protocol.writer_features is not None:
        found |= {f"delta.feature.{name}": "supported" for name in supported_features(protocol)}
    return found


def _partitions(session: SqlSession, snapshot: Snapshot) -> DataFrame:
    """The partitions that have files, each once, with typed values."""
    fields = partition_fields(snapshot.schema, snapshot.metadata.partition_columns)
    if not fields:
        raise SchemaMismatchError(
            f"The table at {snapshot.store.url} is not partitioned, so it has no partitions to show.",
            error_class="DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",
        )
    is_mapped = snapshot.properties.column_mapping_mode != "none"
    names = [physical_name(field) if is_mapped else field.name for field in fields]
    values = (dict(entries or ()) for entries in snapshot.files.column("partition_values").to_pylist())
    texts = {tuple(value.get(name) or None for name in names) for value in values}
    rows = sorted(texts, key=lambda row: [(text is None, text or "") for text in row])
    zone = session.spark.conf.get("spark.sql.session.timeZone") or "UTC"
    columns = {
        field.name: to_arrow(
            pa.array([row[place] for row in rows], pa.string()), field.type, column=field.name, time_zone=zone
        )
        for place, field in enumerate(fields)
    }
    schema = T.StructType([T.StructField(field.name, spark_type(field.type)) for field in fields])
    return border.frame_from_arrow(session.spark, pa.table(columns), schema)
