"""What does a table of files look like in memory?

The state of a Delta table is Arrow: one row per logical file, (path, deletion vector), live or removed. This module
owns the two schemas, the textual id of a deletion vector as a column, and the conversion of a row to an action object.
It does not know where the rows came from.

Paths stay as the log has them (URI-encoded).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor

__all__ = [
    "DELETION_VECTOR_TYPE",
    "LIVE_FILES_SCHEMA",
    "STRING_MAP_TYPE",
    "TOMBSTONES_SCHEMA",
    "add_files",
    "deletion_vector_ids",
]

STRING_MAP_TYPE = pa.map_(pa.string(), pa.string())
DELETION_VECTOR_TYPE = pa.struct(
    [
        ("storage_type", pa.string()),
        ("path_or_inline_dv", pa.string()),
        ("offset", pa.int32()),
        ("size_in_bytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
LIVE_FILES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partition_values", STRING_MAP_TYPE),
        ("size", pa.int64()),
        ("modification_time", pa.int64()),
        ("stats", pa.string()),
        ("tags", STRING_MAP_TYPE),
        ("deletion_vector", DELETION_VECTOR_TYPE),
        ("base_row_id", pa.int64()),
        ("default_row_commit_version", pa.int64()),
        ("clustering_provider", pa.string()),
    ]
)
# A checkpoint keeps neither tags nor statistics of a removed file, so neither does this table.
TOMBSTONES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("deletion_timestamp", pa.int64()),
        ("data_change", pa.bool_()),
        ("extended_file_metadata", pa.bool_()),
        ("partition_values", STRING_MAP_TYPE),
        ("size", pa.int64()),
        ("deletion_vector", DELETION_VECTOR_TYPE),
        ("base_row_id", pa.int64()),
        ("default_row_commit_version", pa.int64()),
    ]
)

# Rows are turned into objects this many at a time, so that iterating a large table never holds all of them.
_ROWS_AT_A_TIME = 4096


def deletion_vector_ids(vectors: pa.StructArray) -> pa.StringArray:
    """The `unique_id` of each vector as the protocol spells it; null where a file has none."""
    if vectors.null_count == len(vectors):
        return pa.nulls(len(vectors), pa.string())
    storage_type, path, offset = vectors.flatten()[:3]
    suffix = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    return pc.binary_join_element_wise(storage_type, path, suffix, "")


def add_files(files: pa.Table, *, data_change: bool = False) -> Iterator[AddFile]:
    """The rows of a live-files table as actions. Files that are live add nothing new: `data_change` is for others."""
    for row in _rows(files):
        yield AddFile(
            path=row["path"],
            partition_values=dict(row["partition_values"] or ()),
            size=row["size"],
            modification_time=row["modification_time"],
            data_change=data_change,
            stats=row["stats"],
            tags=_optional_map(row["tags"]),
            deletion_vector=_descriptor(row["deletion_vector"]),
            base_row_id=row["base_row_id"],
            default_row_commit_version=row["default_row_commit_version"],
            clustering_provider=row["clustering_provider"],
        )


def _rows(table: pa.Table) -> Iterator[Mapping[str, Any]]:
    for batch in table.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        yield from batch.to_pylist()


def _optional_map(entries: list[tuple[str, str]] | None) -> dict[str, str] | None:
    return None if entries is None else dict(entries)


def _descriptor(vector: Mapping[str, Any] | None) -> DeletionVectorDescriptor | None:
    if vector is None:
        return None
    return DeletionVectorDescriptor.from_json(
        {
            "storageType": vector["storage_type"],
            "pathOrInlineDv": vector["path_or_inline_dv"],
            "offset": vector["offset"],
            "sizeInBytes": vector["size_in_bytes"],
            "cardinality": vector["cardinality"],
        }
    )
