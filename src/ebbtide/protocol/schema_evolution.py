"""What does a table's schema become when rows with new columns are written to it?

Columns and nested fields that the table lacks are added after those it has, at every level, and are nullable: older
rows show null in them. Existing columns keep their type, name and place. Where columns are mapped, each new field gets
an id above all earlier ones and a physical name of its own. See "Column Mapping" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final
from uuid import uuid4

from ebbtide.protocol.actions import Metadata
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import (
    COLUMN_ID,
    PHYSICAL_NAME,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    field_id,
    parse_schema,
)

__all__ = ["evolved_metadata", "evolved_schema", "mapped_metadata", "unmapped_metadata", "with_schema"]

MAPPING_MODE: Final = "delta.columnMapping.mode"
MAX_COLUMN_ID: Final = "delta.columnMapping.maxColumnId"
_MAPPING_NOTES: Final = frozenset(
    {COLUMN_ID, PHYSICAL_NAME, "delta.columnMapping.nested.ids", "parquet.field.id", "parquet.field.nested.ids"}
)

_NewField = Callable[[StructField], StructField]


def evolved_schema(schema: StructType, incoming: StructType) -> StructType:
    """The schema with every column and nested field of `incoming` that it lacks; names are compared without case."""
    return _merge_struct(schema, incoming, _plain)


def evolved_metadata(metadata: Metadata, incoming: StructType, *, column_mapping_mode: str) -> Metadata:
    """The same object when `incoming` (columns of the rows to write) has nothing that the table lacks."""
    schema = parse_schema(metadata.schema_string)
    if evolved_schema(schema, incoming) == schema:
        return metadata
    if column_mapping_mode == "none":
        return replace(metadata, schema_string=evolved_schema(schema, incoming).to_schema_string())
    mapping = _Mapping(max(_highest_id(schema), int(metadata.configuration.get(MAX_COLUMN_ID, 0))))
    evolved = _merge_struct(schema, incoming, mapping.map_field)
    configuration = {**metadata.configuration, MAX_COLUMN_ID: str(mapping.highest)}
    return replace(metadata, schema_string=evolved.to_schema_string(), configuration=configuration)


def mapped_metadata(metadata: Metadata) -> Metadata:
    """The metadata with an id for every field, and its name as physical name: that is what existing files have."""
    highest = TableProperties.parse(metadata.configuration).column_mapping_max_column_id

    def name_field(field: StructField) -> StructField:
        nonlocal highest
        highest += 1
        metadata = {**field.metadata, COLUMN_ID: highest, PHYSICAL_NAME: field.name}
        return replace(field, type=_each_field(field.type, name_field), metadata=metadata)

    schema = _each_field(parse_schema(metadata.schema_string), name_field)
    assert isinstance(schema, StructType)
    configuration = {**metadata.configuration, MAX_COLUMN_ID: str(highest)}
    return replace(metadata, schema_string=schema.to_schema_string(), configuration=configuration)


def unmapped_metadata(metadata: Metadata, *, keeps_mode: bool) -> Metadata:
    """The metadata without column mapping: its files must have the names of the columns.

    `keeps_mode`: the property stays, as 'none'.
    """

    def unmap(field: StructField) -> StructField:
        kept = {key: value for key, value in field.metadata.items() if key not in _MAPPING_NOTES}
        return replace(field, type=_each_field(field.type, unmap), metadata=kept)

    schema = _each_field(parse_schema(metadata.schema_string), unmap)
    assert isinstance(schema, StructType)
    mapping = {MAPPING_MODE.lower(), MAX_COLUMN_ID.lower()}
    kept = {key: value for key, value in metadata.configuration.items() if key.lower() not in mapping}
    configuration = {**kept, MAPPING_MODE: "none"} if keeps_mode else kept
    return replace(metadata, schema_string=schema.to_schema_string(), configuration=configuration)


def with_schema(metadata: Metadata, schema: StructType) -> Metadata:
    """The metadata with another schema. Where columns are mapped, fields without an id get one and a physical name."""
    properties = TableProperties.parse(metadata.configuration)
    if properties.column_mapping_mode == "none":
        return replace(metadata, schema_string=schema.to_schema_string())
    highest = max(_highest_id(schema), properties.column_mapping_max_column_id)

    def map_field(field: StructField) -> StructField:
        nonlocal highest
        metadata = dict(field.metadata)
        if COLUMN_ID not in metadata:
            highest += 1
            metadata |= {COLUMN_ID: highest, PHYSICAL_NAME: f"col-{uuid4()}"}
        return replace(field, type=_each_field(field.type, map_field), metadata=metadata)

    numbered = _each_field(schema, map_field)
    assert isinstance(numbered, StructType)
    configuration = {**metadata.configuration, MAX_COLUMN_ID: str(highest)}
    return replace(metadata, schema_string=numbered.to_schema_string(), configuration=configuration)


class _Mapping:
    """Gives out column ids."""

    def __init__(self, highest: int) -> None:
        self.highest = highest

    def map_field(self, field: StructField) -> StructField:
        self.highest += 1
        metadata = {COLUMN_ID: self.highest, PHYSICAL_NAME: f"col-{uuid4()}"}
        return StructField(field.name, _new_type(field.type, self.map_field), True, metadata)


def _plain(field: StructField) -> StructField:
    """A new field keeps nothing of its origin: no metadata, and null is allowed."""
    return StructField(field.name, _new_type(field.type, _plain), True, {})


def _new_type(data_type: DataType, new: _NewField) -> DataType:
    if isinstance(data_type, StructType):
        return StructType(tuple(new(field) for field in data_type.fields))
    if isinstance(data_type, ArrayType):
        return ArrayType(_new_type(data_type.element_type, new))
    if isinstance(data_type, MapType):
        return MapType(_new_type(data_type.key_type, new), _new_type(data_type.value_type, new))
    return data_type


def _each_field(data_type: DataType, new: _NewField) -> DataType:
    match data_type:
        case StructType():
            return StructType(tuple(new(field) for field in data_type.fields))
        case ArrayType():
            return replace(data_type, element_type=_each_field(data_type.element_type, new))
        case MapType():
            key, value = _each_field(data_type.key_type, new), _each_field(data_type.value_type, new)
            return replace(data_type, key_type=key, value_type=value)
    return data_type


def _merge_struct(schema: StructType, incoming: StructType, new: _NewField) -> StructType:
    kept = []
    for field in schema.fields:
        other = incoming.get(field.name)
        kept.append(field if other is None else replace(field, type=_merge_type(field.type, other.type, new)))
    added = [new(field) for field in incoming.fields if schema.get(field.name) is None]
    return StructType((*kept, *added))


def _merge_type(data_type: DataType, incoming: DataType, new: _NewField) -> DataType:
    match data_type, incoming:
        case StructType(), StructType():
            return _merge_struct(data_type, incoming, new)
        case ArrayType(), ArrayType():
            return replace(data_type, element_type=_merge_type(data_type.element_type, incoming.element_type, new))
        case MapType(), MapType():
            return replace(
                data_type,
                key_type=_merge_type(data_type.key_type, incoming.key_type, new),
                value_type=_merge_type(data_type.value_type, incoming.value_type, new),
            )
    return data_type


def _highest_id(data_type: DataType) -> int:
    match data_type:
        case StructType():
            found = [max(field_id(field) or 0, _highest_id(field.type)) for field in data_type.fields]
            return max(found, default=0)
        case ArrayType():
            return _highest_id(data_type.element_type)
        case MapType():
            return max(_highest_id(data_type.key_type), _highest_id(data_type.value_type))
    return 0
