"""How do the file actions of JSON log files become columns?

Turns the parsed JSON objects of many `add` or `remove` actions into one Arrow batch. Nearly all objects are well formed
and are converted column by column. A batch that holds anything unusual goes through `AddFile.from_json` and
`RemoveFile.from_json`, which read leniently where that is safe and otherwise name the field that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ebbtide.errors import InternalError
from ebbtide.log.file_tables import DELETION_VECTOR_TYPE, LIVE_FILES_SCHEMA, TOMBSTONES_SCHEMA
from ebbtide.protocol.actions import AddFile, RemoveFile

__all__ = ["add_batch", "remove_batch"]


class _UnusualError(Exception):
    """A value is not of the plain type its column expects. Never leaves this module."""


@dataclass(frozen=True, slots=True)
class _Column:
    json_name: str
    # The only type, besides None, that the fast path accepts.
    plain_type: type
    is_required: bool = False
    default: Any = None


_VECTOR_COLUMNS = (
    _Column("storageType", str, is_required=True),
    _Column("pathOrInlineDv", str, is_required=True),
    _Column("offset", int),
    _Column("sizeInBytes", int, is_required=True),
    _Column("cardinality", int, is_required=True),
)
_COMMON_COLUMNS = {
    "path": _Column("path", str, is_required=True),
    "stats": _Column("stats", str),
    "tags": _Column("tags", dict),
    "deletion_vector": _Column("deletionVector", dict),
    "base_row_id": _Column("baseRowId", int),
    "default_row_commit_version": _Column("defaultRowCommitVersion", int),
}
_ADD_COLUMNS = _COMMON_COLUMNS | {
    "partition_values": _Column("partitionValues", dict, is_required=True),
    "size": _Column("size", int, is_required=True),
    "modification_time": _Column("modificationTime", int, default=0),
    "clustering_provider": _Column("clusteringProvider", str),
}
_REMOVE_COLUMNS = _COMMON_COLUMNS | {
    "deletion_timestamp": _Column("deletionTimestamp", int),
    # A removal without the field may have taken rows away: conflict checks must not overlook it.
    "data_change": _Column("dataChange", bool, default=True),
    "extended_file_metadata": _Column("extendedFileMetadata", bool),
    "partition_values": _Column("partitionValues", dict),
    "size": _Column("size", int),
}


def add_batch(adds: Sequence[Any], *, source: str) -> pa.RecordBatch:
    """`add` objects as rows of `LIVE_FILES_SCHEMA`; CorruptTableError names the first wrong field."""
    try:
        return _batch(adds, LIVE_FILES_SCHEMA, _ADD_COLUMNS)
    except _UnusualError:
        return _batch_of_checked(adds, LIVE_FILES_SCHEMA, _ADD_COLUMNS, AddFile.from_json, source)


def remove_batch(removes: Sequence[Any], *, source: str) -> pa.RecordBatch:
    """`remove` objects as rows of `TOMBSTONES_SCHEMA`; CorruptTableError names the first wrong field."""
    try:
        return _batch(removes, TOMBSTONES_SCHEMA, _REMOVE_COLUMNS)
    except _UnusualError:
        return _batch_of_checked(removes, TOMBSTONES_SCHEMA, _REMOVE_COLUMNS, RemoveFile.from_json, source)


def _batch_of_checked(
    objects: Sequence[Any],
    schema: pa.Schema,
    columns: dict[str, _Column],
    parse: Callable[..., AddFile | RemoveFile],
    source: str,
) -> pa.RecordBatch:
    plain = [parse(obj, source=source).to_json() for obj in objects]
    try:
        return _batch(plain, schema, columns)
    except _UnusualError as error:
        raise InternalError(f"actions of {source} passed their checks and still do not fit: {error}") from error


def _batch(objects: Sequence[Any], schema: pa.Schema, columns: dict[str, _Column]) -> pa.RecordBatch:
    if not set(map(type, objects)) <= {dict}:
        raise _UnusualError("an action is not an object")
    arrays = [_array(objects, columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(objects: Sequence[dict[str, Any]], column: _Column, type: pa.DataType) -> pa.Array:
    values = _values(objects, column)
    if type == DELETION_VECTOR_TYPE:
        return _vectors(values)
    try:
        return pa.array(values, type)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise _UnusualError(f"{column.json_name}: {error}") from error


def _values(objects: Sequence[dict[str, Any]], column: _Column) -> list[Any]:
    name = column.json_name
    values = [obj.get(name) for obj in objects]
    # pyarrow would silently cut 1.5 to 1 and read bytes as text, so types are compared exactly.
    kinds = set(map(type, values))
    if not kinds <= {column.plain_type, type(None)}:
        raise _UnusualError(f"{name} is not of type {column.plain_type.__name__}")
    if type(None) in kinds:
        if column.is_required:
            raise _UnusualError(f"{name} is missing")
        if column.default is not None:
            return [column.default if value is None else value for value in values]
    if name == "path" and not all(values):
        raise _UnusualError("a path is empty")
    if name == "size" and any(value is not None and value < 0 for value in values):
        raise _UnusualError("a size is negative")
    return values


def _vectors(values: list[dict[str, Any] | None]) -> pa.StructArray:
    if not any(values):
        if {} in values:
            raise _UnusualError("a deletion vector is empty")
        return pa.nulls(len(values), DELETION_VECTOR_TYPE)
    present = [value for value in values if value is not None]
    children = [
        _array(present, column, field.type) for column, field in zip(_VECTOR_COLUMNS, DELETION_VECTOR_TYPE, strict=True)
    ]
    if any(value < 0 for child in children[2:] for value in child.to_pylist() if value is not None):
        raise _UnusualError("a number of a deletion vector is negative")
    packed = pa.StructArray.from_arrays(children, fields=list(DELETION_VECTOR_TYPE))
    if len(present) == len(values):
        return packed
    positions = iter(range(len(present)))
    return packed.take(pa.array([None if value is None else next(positions) for value in values], pa.int32()))
