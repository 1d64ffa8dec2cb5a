"""How do the file actions of another engine's checkpoint become our columns?

Writers differ: integers of any width, dictionary-encoded or large strings, maps as lists of pairs, statistics as JSON
or as a struct, columns left out, columns added. `live_file_batch` and `tombstone_batch` take an `add` or `remove`
struct as the file has it and return rows of our schemas. A missing required value raises CorruptTableError.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.errors import CorruptTableError
from ebbtide.log.file_tables import DELETION_VECTOR_TYPE, LIVE_FILES_SCHEMA, STRING_MAP_TYPE, TOMBSTONES_SCHEMA
from ebbtide.log.parsed_statistics import statistics_as_json

__all__ = ["ADD_CHILDREN", "REMOVE_CHILDREN", "live_file_batch", "partition_values_of_parsed", "tombstone_batch"]

_VECTOR_CHILDREN = {
    "storage_type": "storageType",
    "path_or_inline_dv": "pathOrInlineDv",
    "offset": "offset",
    "size_in_bytes": "sizeInBytes",
    "cardinality": "cardinality",
}
_JSON_NAMES = {
    "path": "path",
    "partition_values": "partitionValues",
    "size": "size",
    "modification_time": "modificationTime",
    "stats": "stats",
    "tags": "tags",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
    "clustering_provider": "clusteringProvider",
    "deletion_timestamp": "deletionTimestamp",
    "data_change": "dataChange",
    "extended_file_metadata": "extendedFileMetadata",
}
ADD_CHILDREN = tuple(_JSON_NAMES[name] for name in LIVE_FILES_SCHEMA.names)
REMOVE_CHILDREN = tuple(_JSON_NAMES[name] for name in TOMBSTONES_SCHEMA.names)


def live_file_batch(adds: pa.StructArray, *, source: str) -> pa.RecordBatch:
    """`add` structs as rows of `LIVE_FILES_SCHEMA`. Where `stats` is null, `stats_parsed` is used."""
    columns = _columns(adds, LIVE_FILES_SCHEMA, source)
    columns["modification_time"] = pc.fill_null(columns["modification_time"], 0)
    columns["stats"] = _with_parsed_stats(columns["stats"], _child(adds, "stats_parsed"))
    if columns["partition_values"].null_count:
        parsed = _child(adds, "partitionValues_parsed")
        if parsed is not None:
            columns["partition_values"] = partition_values_of_parsed(parsed)
    for required in ("path", "partition_values", "size"):
        _refuse_nulls(columns[required], f"add.{_JSON_NAMES[required]}", source)
    _refuse_empty_and_negative(columns, source)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=LIVE_FILES_SCHEMA)


def tombstone_batch(removes: pa.StructArray, *, source: str) -> pa.RecordBatch:
    """`remove` structs as rows of `TOMBSTONES_SCHEMA`."""
    columns = _columns(removes, TOMBSTONES_SCHEMA, source)
    columns["data_change"] = pc.fill_null(columns["data_change"], fill_value=False)
    _refuse_nulls(columns["path"], "remove.path", source)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=TOMBSTONES_SCHEMA)


def _columns(structs: pa.StructArray, schema: pa.Schema, source: str) -> dict[str, pa.Array]:
    columns = {}
    for field in schema:
        child = _child(structs, _JSON_NAMES[field.name])
        columns[field.name] = (
            pa.nulls(len(structs), field.type) if child is None else _normalise(child, field.type, source)
        )
    return columns


def _child(structs: pa.StructArray, name: str) -> pa.Array | None:
    index = structs.type.get_field_index(name)
    # flatten, unlike field, lets the struct's own nulls through.
    return None if index < 0 else structs.flatten()[index]


def _normalise(values: pa.Array, type: pa.DataType, source: str) -> pa.Array:
    if values.type == type:
        return values
    if type == DELETION_VECTOR_TYPE:
        return _vectors(values, source)
    if type == STRING_MAP_TYPE:
        return _string_map(values)
    return values.cast(type)


def _string_map(values: pa.Array) -> pa.MapArray:
    if pa.types.is_map(values.type):
        return values.cast(STRING_MAP_TYPE)
    # Some writers declare the map as a plain list of key/value structs.
    rows = [None if row is None else [tuple(entry.values()) for entry in row] for row in values.to_pylist()]
    return pa.array(rows, STRING_MAP_TYPE)


def _vectors(values: pa.StructArray, source: str) -> pa.StructArray:
    if values.null_count == len(values):
        return pa.nulls(len(values), DELETION_VECTOR_TYPE)
    children = []
    for field in DELETION_VECTOR_TYPE:
        child = _child(values, _VECTOR_CHILDREN[field.name])
        children.append(pa.nulls(len(values), field.type) if child is None else _normalise(child, field.type, source))
    # Some writers store "none" as a struct of nulls.
    is_absent = pc.and_(children[0].is_null(), children[1].is_null())
    for name, child in zip(_VECTOR_CHILDREN.values(), children, strict=True):
        if name != "offset":
            _refuse_nulls(child.filter(pc.invert(is_absent)), f"deletionVector.{name}", source)
    return pa.StructArray.from_arrays(children, fields=list(DELETION_VECTOR_TYPE), mask=is_absent)


def _with_parsed_stats(stats: pa.StringArray, parsed: pa.Array | None) -> pa.StringArray:
    if parsed is None or not stats.null_count:
        return stats
    return pc.coalesce(stats, statistics_as_json(parsed))


def partition_values_of_parsed(parsed: pa.StructArray) -> pa.MapArray:
    """Partition values as log strings, from the typed struct, for checkpoints that have only that."""
    names = [field.name for field in parsed.type]
    columns = [_as_text(child).to_pylist() for child in parsed.flatten()]
    rows = [
        list(zip(names, values, strict=True)) if is_valid else None
        for is_valid, *values in zip(parsed.is_valid().to_pylist(), *columns, strict=True)
    ]
    return pa.array(rows, STRING_MAP_TYPE)


def _as_text(values: pa.Array) -> pa.StringArray:
    text = values.cast(pa.string())
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        # With the T and the Z the text means one instant in every session time zone.
        return pc.replace_substring(text, " ", "T", max_replacements=1)
    return text


def _refuse_nulls(values: pa.Array, name: str, source: str) -> None:
    if values.null_count:
        raise CorruptTableError(f"field '{name}' is missing in {values.null_count} rows of {source}")


def _refuse_empty_and_negative(columns: dict[str, pa.Array], source: str) -> None:
    if pc.any(pc.equal(columns["path"], "")).as_py():
        raise CorruptTableError(f"field 'add.path' is empty in {source}")
    if pc.any(pc.less(columns["size"], 0)).as_py():
        raise CorruptTableError(f"field 'add.size' is negative in {source}")
