"""Which files hold a column with a type that it had before, and how are they rewritten?

With type widening a column gets a wider type in the log alone: its values stay in the files as they are, and a reader
that does not know the feature cannot read them. Only the footers know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from ebbtide.commands.purge.command import PurgeCommand, PurgePass
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.schema import (
    PARQUET_FIELD_ID,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_fields,
    physical_schema,
)
from ebbtide.protocol.type_changes import TYPE_CHANGES
from ebbtide.write import footer_of

__all__ = ["TypePass", "TypeRewrite", "has_older_types", "without_type_changes"]

_FOOTER_THREADS: Final = 16
# What the types to which a column can be widened are in Arrow. Decimals are compared by their digits.
_ARROW: Final = {
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass(slots=True)
class TypePass(PurgePass):
    """One REORG that rewrites the files with older types."""

    def choose(self, snapshot: Snapshot, considered: pa.Table) -> list[AddFile]:
        columns = _widened_columns(snapshot)
        if not columns:
            return []

        def is_older(add: AddFile) -> bool:
            footer = footer_of(snapshot, add, storage_options=self.request.options.storage_options)
            return has_older_types(footer.schema.to_arrow_schema(), columns)

        adds = list(add_files(considered))
        with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
            found = pool.map(is_older, adds)
            return [add for add, is_found in zip(adds, found, strict=True) if is_found]


@dataclass(slots=True)
class TypeRewrite(PurgeCommand):
    """As many passes as it takes until no live file has a type of before."""

    PASS: ClassVar[type[PurgePass]] = TypePass


def has_older_types(found: Iterable[pa.Field], columns: Sequence[StructField]) -> bool:
    """Whether a file has one of the columns, or a part of it, with another type.

    One that is not there has none; where columns are found by their ids, it may stand there under another name.
    """
    types = {field.name.lower(): field.type for field in found}
    for column in columns:
        kind = types.get(column.name.lower())
        if PARQUET_FIELD_ID in column.metadata if kind is None else _differs(kind, column.type):
            return True
    return False


def without_type_changes(data_type: DataType) -> DataType:
    """The type without notes of the types that its fields had before."""
    match data_type:
        case StructType():
            return StructType(tuple(_without_note(field) for field in data_type.fields))
        case ArrayType():
            return ArrayType(without_type_changes(data_type.element_type), data_type.contains_null)
        case MapType():
            key, value = without_type_changes(data_type.key_type), without_type_changes(data_type.value_type)
            return MapType(key, value, data_type.value_contains_null)
    return data_type


def _without_note(field: StructField) -> StructField:
    kept = {key: value for key, value in field.metadata.items() if key != TYPE_CHANGES}
    return StructField(field.name, without_type_changes(field.type), field.nullable, kept)


def _widened_columns(snapshot: Snapshot) -> list[StructField]:
    """The columns in which something was widened, with the names that files have; partition columns are in the log."""
    physical = physical_schema(snapshot.schema, snapshot.properties.column_mapping_mode)
    partitioned = {name.lower() for name in snapshot.metadata.partition_columns}
    return [
        column
        for logical, column in zip(snapshot.schema.fields, physical.fields, strict=True)
        if logical.name.lower() not in partitioned
        and any(TYPE_CHANGES in field.metadata for field in all_fields(StructType((logical,))))
    ]


def _differs(found: pa.DataType, wanted: DataType) -> bool:
    match wanted:
        case StructType():
            return not pa.types.is_struct(found) or has_older_types(list(found), wanted.fields)
        case ArrayType():
            return not pa.types.is_list(found) or _differs(found.value_type, wanted.element_type)
        case MapType():
            is_map = pa.types.is_map(found)
            return (
                not is_map or _differs(found.key_type, wanted.key_type) or _differs(found.item_type, wanted.value_type)
            )
    return _is_other_primitive(found, wanted)


def _is_other_primitive(found: pa.DataType, wanted: PrimitiveType) -> bool:
    bounds = wanted.decimal_bounds
    if bounds is not None:
        return not pa.types.is_decimal(found) or (found.precision, found.scale) != bounds
    # Other types are never the result of widening.
    return wanted.name in _ARROW and found != _ARROW[wanted.name]
