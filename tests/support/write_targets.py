"""How does a test of the writer describe the table it writes to?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ebbtide.protocol.actions import Protocol
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from ebbtide.storage import ObjectStore, open_store
from ebbtide.write.target import WriteTarget

__all__ = ["with_physical_names", "struct", "write_target"]


def struct(**fields: str | DataType) -> StructType:
    """A schema; types without parts by their name."""
    return StructType(
        tuple(
            StructField(name, PrimitiveType(kind) if isinstance(kind, str) else kind) for name, kind in fields.items()
        )
    )


def with_physical_names(schema: StructType) -> StructType:
    """The schema with column mapping: physical names `p1`, `p2`, ... and ids, at every level, in schema order."""
    counter = iter(range(1, 1000))

    def of_type(data_type: DataType) -> DataType:
        if isinstance(data_type, StructType):
            return StructType(tuple(of_field(field) for field in data_type.fields))
        if isinstance(data_type, ArrayType):
            return ArrayType(of_type(data_type.element_type))
        if isinstance(data_type, MapType):
            return MapType(of_type(data_type.key_type), of_type(data_type.value_type))
        return data_type

    def of_field(field: StructField) -> StructField:
        number = next(counter)
        metadata: dict[str, Any] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"p{number}",
        }
        return StructField(field.name, of_type(field.type), field.nullable, metadata)

    return StructType(tuple(of_field(field) for field in schema.fields))


def write_target(
    where: Path | ObjectStore,
    schema: StructType,
    partition_columns: Sequence[str] = (),
    *,
    mapping: str = "none",
    properties: Mapping[str, str] | None = None,
    features: Iterable[str] = (),
) -> WriteTarget:
    store = open_store(str(where)) if isinstance(where, Path) else where
    configuration = {"delta.columnMapping.mode": mapping, **(properties or {})}
    return WriteTarget(
        store=store,
        schema=schema,
        partition_columns=tuple(partition_columns),
        column_mapping_mode=mapping,
        properties=TableProperties.parse(configuration),
        protocol=Protocol(3, 7, frozenset(), frozenset(features)),
    )
