"""How are an Arrow schema and Arrow values written in a Delta log?

Test support, independent of `ebbtide.protocol`: schema JSON with and without column mapping, the physical form of data for
Parquet, partition value strings, and statistics.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "ColumnIds",
    "MappedField",
    "log_path",
    "map_columns",
    "partition_string",
    "schema_string",
    "statistics",
    "to_physical",
]

_PRIMITIVES = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
# What Hive's rule escapes in the name of a partition directory.
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in (*range(1, 32), 127)}
_NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
_STRING_PREFIX = 32


class ColumnIds:
    """Which id has each column under column mapping? An id stays with its path for the life of the table."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, ...], int] = {}

    def of(self, path: tuple[str, ...]) -> int:
        return self._by_path.setdefault(path, len(self._by_path) + 1)

    @property
    def highest(self) -> int:
        return len(self._by_path)


class MappedField:
    """One struct field under its logical name, with the physical name and id that column mapping gave it (if any)."""

    def __init__(self, field: pa.Field, ids: ColumnIds | None, parents: tuple[str, ...] = ()) -> None:
        path = (*parents, field.name)
        self.name = field.name
        self.nullable = field.nullable
        self.field_id = ids.of(path) if ids else None
        self.physical_name = f"col-{self.field_id}" if ids else field.name
        self.logical_type = field.type
        self.type = _mapped_type(field.type, ids, path)

    @property
    def physical_type(self) -> pa.DataType:
        return _physical_type(self.type)

    @property
    def arrow_field(self) -> pa.Field:
        metadata = None if self.field_id is None else {"PARQUET:field_id": str(self.field_id)}
        return pa.field(self.physical_name, self.physical_type, metadata=metadata)

    def to_json(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        if self.field_id is not None:
            metadata = {"delta.columnMapping.id": self.field_id, "delta.columnMapping.physicalName": self.physical_name}
        return {"name": self.name, "type": _type_json(self.type), "nullable": self.nullable, "metadata": metadata}


def map_columns(schema: pa.Schema, ids: ColumnIds | None) -> list[MappedField]:
    """The fields of a schema; `ids` is there when the table maps columns."""
    return [MappedField(field, ids) for field in schema]


def schema_string(fields: list[MappedField]) -> str:
    return json.dumps({"type": "struct", "fields": [field.to_json() for field in fields]})


# A mapped type is a tuple for what is nested, ("struct", fields) / ("list", type) / ("map", key, value), else an Arrow type.
def _mapped_type(data_type: pa.DataType, ids: ColumnIds | None, path: tuple[str, ...]) -> Any:
    if pa.types.is_struct(data_type):
        return ("struct", [MappedField(field, ids, path) for field in data_type])
    if pa.types.is_list(data_type):
        return ("list", _mapped_type(data_type.value_type, ids, (*path, "element")))
    if pa.types.is_map(data_type):
        key = _mapped_type(data_type.key_type, ids, (*path, "key"))
        return ("map", key, _mapped_type(data_type.item_type, ids, (*path, "value")))
    return data_type


def _physical_type(mapped: Any) -> pa.DataType:
    match mapped:
        case ("struct", fields):
            return pa.struct([field.arrow_field for field in fields])
        case ("list", element):
            return pa.list_(_physical_type(element))
        case ("map", key, value):
            return pa.map_(_physical_type(key), _physical_type(value))
    return mapped


def _type_json(mapped: Any) -> Any:
    match mapped:
        case ("struct", fields):
            return {"type": "struct", "fields": [field.to_json() for field in fields]}
        case ("list", element):
            return {"type": "array", "elementType": _type_json(element), "containsNull": True}
        case ("map", key, value):
            types = {"keyType": _type_json(key), "valueType": _type_json(value)}
            return {"type": "map", **types, "valueContainsNull": True}
    if pa.types.is_decimal128(mapped):
        return f"decimal({mapped.precision},{mapped.scale})"
    return _PRIMITIVES[mapped]


def to_physical(rows: list[dict[str, Any]], fields: list[MappedField]) -> pa.Table:
    """Rows under logical names as the table a data file holds. A column that no row names is left out of the file."""
    present = [field for field in fields if any(field.name in row for row in rows)]
    arrays = []
    for field in present:
        logical = pa.array([row.get(field.name) for row in rows], type=field.logical_type)
        arrays.append(_rebuild(logical, field.physical_type))
    return pa.Table.from_arrays(arrays, schema=pa.schema([field.arrow_field for field in present]))


def _rebuild(array: pa.Array, physical: pa.DataType) -> pa.Array:
    """The same values under the physical type: only the names inside structs differ."""
    if pa.types.is_struct(physical):
        children = [_rebuild(array.field(at), physical.field(at).type) for at in range(physical.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(physical), mask=array.is_null())
    if pa.types.is_list(physical):
        values = _rebuild(array.values, physical.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=physical, mask=array.is_null())
    if pa.types.is_map(physical):
        keys, items = _rebuild(array.keys, physical.key_type), _rebuild(array.items, physical.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=physical, mask=array.is_null())
    return array


# --- partition values and paths ---------------------------------------------------------------------------------------


def partition_string(value: Any) -> str | None:
    """A partition value as the log writes it; null and the empty string are both null there."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return value.decode() if isinstance(value, bytes) else str(value)


def log_path(values: dict[str, str | None], file_name: str) -> tuple[str, str]:
    """Where a file of a partition lies: its path on disk, and the same path as the log encodes it."""
    directories = [f"{_hive_escaped(name)}={_hive_escaped(value)}" for name, value in values.items()]
    on_disk = "/".join([*directories, file_name])
    return on_disk, quote(on_disk, safe="/!$&'()*+,;=:@-._~")


def _hive_escaped(text: str | None) -> str:
    if text is None:
        return _NULL_DIRECTORY
    return "".join(f"%{ord(char):02X}" if char in _HIVE_ESCAPED else char for char in text)


# --- statistics -------------------------------------------------------------------------------------------------------


def statistics(table: pa.Table, *, tight: bool) -> str:
    """Statistics of a data file by physical names; bounds are of all physical rows, `tight` says whether all are live."""
    bounds = {column: _bounds(table[column]) for column in table.column_names}
    content = {
        "numRecords": table.num_rows,
        "minValues": {name: each[0] for name, each in bounds.items() if each[0] not in (None, {})},
        "maxValues": {name: each[1] for name, each in bounds.items() if each[1] not in (None, {})},
        "nullCount": {column: _null_count(table[column]) for column in table.column_names},
        "tightBounds": tight,
    }
    # JSON has one kind of number; a decimal must not go through a float on its way there.
    return json.dumps(content).replace('"<decimal ', "").replace(' decimal>"', "")


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    data_type = column.type
    if pa.types.is_struct(data_type):
        children = {field.name: _bounds(pc.struct_field(column, [field.name])) for field in data_type}
        low = {name: each[0] for name, each in children.items() if each[0] not in (None, {})}
        return low, {name: each[1] for name, each in children.items() if each[1] not in (None, {})}
    if pa.types.is_nested(data_type) or pa.types.is_boolean(data_type) or pa.types.is_binary(data_type):
        return None, None
    if column.null_count == len(column):
        return None, None
    if pa.types.is_floating(data_type) and not all(math.isfinite(value) for value in column.drop_null().to_pylist()):
        return None, None
    extremes = pc.min_max(column)
    return _bound(extremes["min"].as_py(), is_maximum=False), _bound(extremes["max"].as_py(), is_maximum=True)


def _bound(value: Any, *, is_maximum: bool) -> Any:
    if isinstance(value, str):
        # A prefix is a lower bound of what it was cut from, not an upper one.
        return None if is_maximum and len(value) > _STRING_PREFIX else value[:_STRING_PREFIX]
    if isinstance(value, dt.datetime):
        # Delta keeps milliseconds in bounds, cut off on both sides.
        text = value.isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    return f"<decimal {value} decimal>" if isinstance(value, Decimal) else value


def _null_count(column: pa.ChunkedArray) -> Any:
    if pa.types.is_struct(column.type):
        return {field.name: _null_count(pc.struct_field(column, [field.name])) for field in column.type}
    return column.null_count
