"""What would DESCRIBE DETAIL say about a snapshot?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide.errors import CorruptTableError
from ebbtide.log.outside_files import count_outside_files
from ebbtide.log.snapshot import Snapshot
from ebbtide.protocol.features import supported_features
from ebbtide.protocol.json_fields import load_json_object
from ebbtide.protocol.schema import StructType, physical_name

__all__ = ["TableDetail", "clustering_columns", "clustering_paths", "table_detail"]

_CLUSTERING_DOMAIN = "delta.clustering"


@dataclass(frozen=True, slots=True)
class TableDetail:
    """One row of DESCRIBE DETAIL, its columns in snake case; times in milliseconds since the epoch.

    The last column is Ebbtide's own: how many live files, or their vectors, lie outside of the table's directory.
    """

    format: str
    id: str
    name: str | None
    description: str | None
    location: str
    created_at_ms: int | None
    last_modified_ms: int
    partition_columns: tuple[str, ...]
    clustering_columns: tuple[str, ...]
    num_files: int
    size_in_bytes: int
    properties: Mapping[str, str]
    min_reader_version: int
    min_writer_version: int
    table_features: tuple[str, ...]
    num_files_outside_root: int


def table_detail(snapshot: Snapshot) -> TableDetail:
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return TableDetail(
        format="delta",
        id=metadata.id,
        name=metadata.name,
        description=metadata.description,
        location=snapshot.store.url,
        created_at_ms=metadata.created_time,
        last_modified_ms=snapshot.timestamp_ms,
        partition_columns=metadata.partition_columns,
        clustering_columns=clustering_columns(snapshot),
        num_files=snapshot.num_files,
        size_in_bytes=snapshot.size_in_bytes,
        properties=dict(metadata.configuration),
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        table_features=tuple(sorted(supported_features(protocol))),
        num_files_outside_root=count_outside_files(snapshot.live, snapshot.store),
    )


def clustering_columns(snapshot: Snapshot) -> tuple[str, ...]:
    """The logical names of the columns the table is clustered by, nested ones with dots."""
    return tuple(".".join(path) for path in clustering_paths(snapshot))


def clustering_paths(snapshot: Snapshot) -> tuple[tuple[str, ...], ...]:
    """The same, as the names from the outside in."""
    domain = snapshot.domain_metadata.get(_CLUSTERING_DOMAIN)
    if domain is None:
        return ()
    source = f"the domain {_CLUSTERING_DOMAIN}"
    columns = load_json_object(domain.configuration, source=source).get("clusteringColumns")
    if not isinstance(columns, list) or not all(_is_path(column) for column in columns):
        raise CorruptTableError(f"'clusteringColumns' of {source} must be a list of column paths")
    return tuple(tuple(_logical(snapshot.schema, column)) for column in columns)


def _is_path(column: object) -> bool:
    return isinstance(column, list) and bool(column) and all(isinstance(part, str) for part in column)


def _logical(schema: StructType, physical_path: list[str]) -> list[str]:
    """The names users know; a part that the schema no longer has stays as it is."""
    names = []
    level: object = schema
    for part in physical_path:
        fields = level.fields if isinstance(level, StructType) else ()
        field = next((field for field in fields if physical_name(field) == part), None)
        names.append(part if field is None else field.name)
        level = None if field is None else field.type
    return names
