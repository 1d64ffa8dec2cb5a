"""Which columns does a change feed have, and can all its versions be read with them?

As in the reference: without column mapping, the columns of the newest version; with it (at the start, at the end or
now), those of the last version of the range. A column that was added within the range is null before that. A column
that was renamed, dropped or given another type makes rows of different versions incomparable: the feed is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError
from ebbtide.log.snapshot import Snapshot, load_snapshot
from ebbtide.log.table_state import TableHead, read_head
from ebbtide.protocol.actions import Metadata
from ebbtide.protocol.change_columns import refuse_change_feed
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import ArrayType, DataType, MapType, StructField, StructType, parse_schema, physical_name
from ebbtide.storage.store import ObjectStore

__all__ = ["ensure_same_columns", "read_snapshot"]


def read_snapshot(store: ObjectStore, first: TableHead, end: int, newest: Snapshot, config: EngineConfig) -> Snapshot:
    """The version whose columns the feed from `first` to version `end` has."""
    if end == newest.version:
        return newest
    heads = [first.metadata, newest.metadata, read_head(store, version=end, config=config).metadata]
    is_mapped = any(TableProperties.parse(head.configuration).column_mapping_mode != "none" for head in heads)
    return load_snapshot(store, version=end, config=config) if is_mapped else newest


def ensure_same_columns(metadata: Metadata, snapshot: Snapshot, *, version: int, is_change: bool) -> None:
    """Every column of an older version is still there, under its name and with its type."""
    refuse_change_feed(snapshot.schema.names, "The changes cannot be read")
    problem = _Comparison(_stored_name(metadata), _stored_name(snapshot.metadata)).struct(
        parse_schema(metadata.schema_string), snapshot.schema, ""
    )
    if problem is None and metadata.partition_columns != snapshot.metadata.partition_columns:
        problem = "the table is partitioned by other columns"
    if problem is None:
        return
    what = "SCHEMA_CHANGE" if is_change else "DATA_SCHEMA"
    raise RequestError(
        f"The changes cannot be read with the columns of version {snapshot.version}: compared with version {version}, "
        f"{problem}. Read the versions before and after that change separately.",
        error_class=f"DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_{what}",
    )


def _stored_name(metadata: Metadata) -> Callable[[StructField], str]:
    """The name of a column in files. A table that switched mapping off may still carry the physical name."""
    mode = TableProperties.parse(metadata.configuration).column_mapping_mode
    return (lambda field: field.name) if mode == "none" else physical_name


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What does the older type have that the newer one lacks? The first difference."""

    older_name: Callable[[StructField], str]
    newer_name: Callable[[StructField], str]

    def struct(self, older: StructType, newer: StructType, at: str) -> str | None:
        found = {self.newer_name(field): field for field in newer.fields}
        for field in older.fields:
            name = f"{at}.{field.name}" if at else field.name
            now = found.get(self.older_name(field))
            if now is None:
                return f"the column '{name}' is gone"
            if now.name != field.name:
                return f"the column '{name}' is called '{now.name}'"
            if problem := self.types(field.type, now.type, name):
                return problem
        return None

    def types(self, older: DataType, newer: DataType, at: str) -> str | None:
        match older, newer:
            case StructType(), StructType():
                return self.struct(older, newer, at)
            case ArrayType(), ArrayType():
                return self.types(older.element_type, newer.element_type, f"{at}.element")
            case MapType(), MapType():
                in_key = self.types(older.key_type, newer.key_type, f"{at}.key")
                return in_key or self.types(older.value_type, newer.value_type, f"{at}.value")
            case _:
                return None if older == newer else f"the column '{at}' has another type"
