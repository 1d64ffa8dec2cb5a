"""What do the rows of a checkpoint look like in Arrow?

A checkpoint has one column per kind of action and one row per action, null in all columns but its own. `FileRows` holds
the file actions of a snapshot as such columns, built from the snapshot's columns without one object per file;
`small_actions` gives everything else. Names and types are those of "Checkpoint Schema" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.errors import CorruptTableError
from ebbtide.log.file_tables import STRING_MAP_TYPE
from ebbtide.log.snapshot import Snapshot
from ebbtide.log.statistics_columns import statistics_type
from ebbtide.log.typed_statistics import typed_statistics
from ebbtide.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from ebbtide.protocol.features import column_mapping_mode
from ebbtide.protocol.partition_values import arrow_type, parse_partition_value
from ebbtide.protocol.schema import StructField, partition_fields, physical_schema

__all__ = ["SMALL_ACTION_TYPES", "FileRows", "SmallAction", "action_columns", "file_rows", "small_actions"]

SmallAction = Protocol | Metadata | SetTransaction | DomainMetadata

_STRINGS: Final = pa.list_(pa.string())
_VECTOR_TYPE: Final = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_REMOVE_TYPE: Final = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP_TYPE),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
SMALL_ACTION_TYPES: Final = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP_TYPE)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _STRINGS),
            ("configuration", STRING_MAP_TYPE),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _STRINGS),
            ("writerFeatures", _STRINGS),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}
_SMALL_ACTION_NAMES: Final = {
    SetTransaction: "txn",
    Metadata: "metaData",
    Protocol: "protocol",
    DomainMetadata: "domainMetadata",
}


@dataclass(frozen=True, slots=True)
class FileRows:
    """The live files and the tombstones to keep, as columns `add` and `remove` of equal length."""

    table: pa.Table
    num_adds: int

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)


def file_rows(snapshot: Snapshot, *, now_ms: int) -> FileRows:
    """The file actions of a checkpoint of this snapshot; tombstones that have expired at `now_ms` are left out."""
    shape = _AddShape.of(snapshot)
    adds = [shape.structs(batch) for batch in snapshot.files.to_batches() if batch.num_rows]
    oldest_ms = now_ms - snapshot.properties.deleted_file_retention_ms
    removes = [_remove_structs(batch) for batch in _drop_expired(snapshot.tombstones(), oldest_ms).to_batches()]
    num_adds, num_removes = sum(map(len, adds)), sum(map(len, removes))
    table = pa.table(
        {
            "add": pa.chunked_array([*adds, pa.nulls(num_removes, shape.type)], shape.type),
            "remove": pa.chunked_array([pa.nulls(num_adds, _REMOVE_TYPE), *removes], _REMOVE_TYPE),
        }
    )
    return FileRows(table, num_adds)


def small_actions(snapshot: Snapshot, *, now_ms: int) -> list[SmallAction]:
    """Protocol, metadata, transaction identifiers that have not expired, and domains."""
    retention_ms = snapshot.properties.set_transaction_retention_ms
    transactions = [
        transaction
        for transaction in snapshot.transactions.values()
        # One without a time is kept: forgetting it could let a batch be written twice.
        if retention_ms is None or transaction.last_updated is None or transaction.last_updated > now_ms - retention_ms
    ]
    return [snapshot.protocol, snapshot.metadata, *transactions, *snapshot.domain_metadata.values()]


def action_columns(actions: Sequence[SmallAction]) -> dict[str, pa.Array]:
    """The small actions as columns, one row per action."""
    rows = [(_SMALL_ACTION_NAMES[type(action)], _pairs(action.to_json())) for action in actions]
    return {
        column: pa.array([value if name == column else None for name, value in rows], struct)
        for column, struct in SMALL_ACTION_TYPES.items()
    }


def _pairs(body: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an action with its maps as lists of pairs, as Arrow expects them."""
    if "schemaString" not in body:
        return body
    file_format = body["format"] | {"options": list(body["format"]["options"].items())}
    return body | {"format": file_format, "configuration": list(body["configuration"].items())}


@dataclass(frozen=True, slots=True)
class _AddShape:
    """Which columns `add` has besides the fixed ones, by the table's properties."""

    json_stats: Literal["all", "of vectors", "none"]
    statistics_type: pa.StructType | None
    # By physical name.
    partitions: tuple[StructField, ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> _AddShape:
        properties = snapshot.properties
        as_struct = properties.checkpoint_write_stats_as_struct
        # A file with a deletion vector must state its row count, even when the table wants no statistics.
        otherwise: Literal["of vectors", "none"] = "none" if as_struct or not _has_vectors(snapshot) else "of vectors"
        return cls(
            json_stats="all" if properties.checkpoint_write_stats_as_json else otherwise,
            statistics_type=statistics_type(snapshot.metadata, snapshot.protocol) if as_struct else None,
            partitions=_typed_partitions(snapshot) if as_struct else (),
        )

    @property
    def type(self) -> pa.StructType:
        fields = [
            pa.field("path", pa.string()),
            pa.field("partitionValues", STRING_MAP_TYPE),
            pa.field("size", pa.int64()),
            pa.field("modificationTime", pa.int64()),
            pa.field("dataChange", pa.bool_()),
            pa.field("tags", STRING_MAP_TYPE),
            pa.field("deletionVector", _VECTOR_TYPE),
            pa.field("baseRowId", pa.int64()),
            pa.field("defaultRowCommitVersion", pa.int64()),
            pa.field("clusteringProvider", pa.string()),
        ]
        if self.json_stats != "none":
            fields.append(pa.field("stats", pa.string()))
        if self.partitions:
            fields.append(pa.field("partitionValues_parsed", _partition_type(self.partitions)))
        if self.statistics_type is not None:
            fields.append(pa.field("stats_parsed", self.statistics_type))
        return pa.struct(fields)

    def structs(self, files: pa.RecordBatch) -> pa.StructArray:
        """Rows of `LIVE_FILES_SCHEMA` as `add` structs."""
        columns = [
            files.column("path"),
            files.column("partition_values"),
            files.column("size"),
            files.column("modification_time"),
            pa.repeat(False, files.num_rows),
            files.column("tags"),
            _vectors(files.column("deletion_vector")),
            files.column("base_row_id"),
            files.column("default_row_commit_version"),
            files.column("clustering_provider"),
        ]
        if self.json_stats != "none":
            columns.append(self._json_stats(files))
        if self.partitions:
            columns.append(_partition_structs(files.column("partition_values"), self.partitions))
        if self.statistics_type is not None:
            columns.append(typed_statistics(files.column("stats"), self.statistics_type))
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _json_stats(self, files: pa.RecordBatch) -> pa.StringArray:
        stats = files.column("stats")
        if self.json_stats == "all":
            return stats
        return pc.if_else(files.column("deletion_vector").is_valid(), stats, pa.scalar(None, pa.string()))


def _has_vectors(snapshot: Snapshot) -> bool:
    vectors = snapshot.files.column("deletion_vector")
    return bool(vectors.null_count < len(vectors))


def _remove_structs(tombstones: pa.RecordBatch) -> pa.StructArray:
    columns = [
        tombstones.column("path"),
        tombstones.column("deletion_timestamp"),
        pa.repeat(False, tombstones.num_rows),
        tombstones.column("extended_file_metadata"),
        tombstones.column("partition_values"),
        tombstones.column("size"),
        _vectors(tombstones.column("deletion_vector")),
        tombstones.column("base_row_id"),
        tombstones.column("default_row_commit_version"),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(_REMOVE_TYPE))


def _drop_expired(tombstones: pa.Table, oldest_ms: int) -> pa.Table:
    # A removal without a time counts as one of 1970.
    return tombstones.filter(pc.greater(pc.fill_null(tombstones.column("deletion_timestamp"), 0), oldest_ms))


def _vectors(vectors: pa.StructArray) -> pa.StructArray:
    """The descriptors under the protocol's names. Absent ones are null as a whole: readers take a struct of empty
    members for a vector."""
    return pa.StructArray.from_arrays(vectors.flatten(), fields=list(_VECTOR_TYPE), mask=vectors.is_null())


def _typed_partitions(snapshot: Snapshot) -> tuple[StructField, ...]:
    logical = partition_fields(snapshot.schema, snapshot.metadata.partition_columns)
    physical = physical_schema(snapshot.schema, column_mapping_mode(snapshot.protocol, snapshot.metadata))
    renamed = dict(zip(snapshot.schema.names, physical.fields, strict=True))
    fields = [renamed[field.name] for field in logical]
    # Parquet has no column that is only ever null.
    return tuple(field for field in fields if not pa.types.is_null(arrow_type(field.type, column=field.name)))


def _partition_type(partitions: Iterable[StructField]) -> pa.StructType:
    return pa.struct([(field.name, arrow_type(field.type, column=field.name)) for field in partitions])


def _partition_structs(values: pa.MapArray, partitions: Sequence[StructField]) -> pa.StructArray:
    children = [_partition_column(pc.map_lookup(values, field.name, "first"), field) for field in partitions]
    return pa.StructArray.from_arrays(children, fields=list(_partition_type(partitions)))


def _partition_column(texts: pa.StringArray, field: StructField) -> pa.Array:
    """Typed values, each distinct text parsed once. A text that is not valid for its type is null here, as in the
    reference; the map next to it keeps the log's text."""
    encoded = texts.dictionary_encode()
    values = [_partition_value(text, field) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, arrow_type(field.type, column=field.name)).take(encoded.indices)


def _partition_value(text: str | None, field: StructField) -> Any:
    try:
        return parse_partition_value(text, field.type, column=field.name)
    except CorruptTableError:
        return None
