"""Which columns go into the files, under which names?

Rows have the table's logical columns; files have the physical ones, with field ids where columns are mapped. The order
in a file is: data columns, partition columns (only where the table wants them in the files too), extra columns that a
command adds (materialised row ids), the change type. Columns of type void are never written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.errors import InternalError
from ebbtide.protocol.change_columns import CHANGE_TYPE, refuse_change_columns
from ebbtide.protocol.schema import (
    PARQUET_FIELD_ID,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from ebbtide.protocol.variables import holds_variable, refuse_variables
from ebbtide.write.target import WriteTarget

__all__ = ["FileColumns", "same_shape", "spark_type"]

_VOID = PrimitiveType("void")


@dataclass(frozen=True, slots=True)
class FileColumns:
    """`selected` makes a file's columns from a frame; `table_columns` are the ones that are in the schema.

    `table_columns` have physical names and come first in the file, in that order.
    """

    selected: tuple[Column, ...]
    names: tuple[str, ...]
    table_columns: StructType

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        target: WriteTarget,
        *,
        change_type_column: str | None,
        extra_columns: Mapping[str, str],
    ) -> FileColumns:
        refuse_variables(target.schema)
        pairs = _in_file_order(target)
        _check_types(frame, [logical for logical, _ in pairs])
        plain = _without_metadata(frame)
        selected = [_physical_column(logical, physical, plain) for logical, physical in pairs]
        names = [physical.name for _, physical in pairs]
        for frame_name, file_name in extra_columns.items():
            selected.append(border.column(frame_name).alias(file_name))
            names.append(file_name)
        if change_type_column is not None:
            refuse_change_columns(target.schema.names)
            selected.append(border.column(change_type_column).cast("string").alias(CHANGE_TYPE))
            names.append(CHANGE_TYPE)
        return cls(tuple(selected), tuple(names), StructType(tuple(physical for _, physical in pairs)))

    def leaf_paths(self) -> frozenset[str]:
        """The Parquet columns of such a file, as its footer spells them."""
        known = [path for field in self.table_columns.fields for path in _leaf_paths(field.type, field.name)]
        return frozenset({*known, *self.names[len(self.table_columns.fields) :]})


def _leaf_paths(data_type: DataType, path: str) -> Iterator[str]:
    match data_type:
        case StructType():
            for field in data_type.fields:
                yield from _leaf_paths(field.type, f"{path}.{field.name}")
        case ArrayType():
            yield from _leaf_paths(data_type.element_type, f"{path}.list.element")
        case MapType():
            yield from _leaf_paths(data_type.key_type, f"{path}.key_value.key")
            yield from _leaf_paths(data_type.value_type, f"{path}.key_value.value")
        case PrimitiveType(name="variant"):
            yield from (f"{path}.value", f"{path}.metadata")
        case _:
            yield path


def _in_file_order(target: WriteTarget) -> list[tuple[StructField, StructField]]:
    """(logical, physical) of every table column that the files hold."""
    pairs = [
        (logical, physical)
        for logical, physical in zip(target.schema.fields, target.physical_schema.fields, strict=True)
        if logical.type != _VOID
    ]
    partition_names = {field.name for field in target.partition_fields}
    data = [pair for pair in pairs if pair[0].name not in partition_names]
    repeated = [pair for pair in pairs if pair[0].name in partition_names] if target.repeats_partition_columns else []
    return data + repeated


def _check_types(frame: DataFrame, fields: list[StructField]) -> None:
    """A cast here would hide a wrong plan, and could change values; commands give rows of the table's own types."""
    given = {field.name.lower(): field.dataType for field in frame.schema.fields}
    for field in fields:
        found = given.get(field.name.lower())
        expected = spark_type(field.type)
        if found is None or not same_shape(found, expected):
            shown = "missing" if found is None else found.simpleString()
            raise InternalError(
                f"The rows to write have column '{field.name}' {shown}; {expected.simpleString()} needed."
            )


def _without_metadata(frame: DataFrame) -> frozenset[str]:
    """Columns, in lower case, whose metadata must not go into the files: Hadoop would replace variables in it."""
    return frozenset(field.name.lower() for field in frame.schema.fields if holds_variable(field.jsonValue()))


def _physical_column(logical: StructField, physical: StructField, plain: frozenset[str]) -> Column:
    identifier = physical.metadata.get(PARQUET_FIELD_ID)
    if identifier is None and logical.name.lower() in plain:
        return border.column(logical.name).cast(spark_type(physical.type)).alias(physical.name, metadata={})
    if identifier is None:
        return border.column(logical.name, physical.name)
    value = border.column(logical.name)
    if isinstance(logical.type, (StructType, ArrayType, MapType)):
        # A cast between structs goes by position, so it renames nested fields and gives them their ids.
        value = value.cast(spark_type(physical.type))
    return value.alias(physical.name, metadata={PARQUET_FIELD_ID: identifier})


def spark_type(data_type: DataType) -> T.DataType:
    """Spark's form of a type, every level nullable."""
    described = StructType((StructField("c", _nullable(data_type)),)).to_json()
    return border.schema_from_json(described).fields[0].dataType


def same_shape(one: T.DataType, other: T.DataType) -> bool:
    """Whether two types are equal apart from nullability and metadata."""
    return _shape(one.jsonValue()) == _shape(other.jsonValue())


def _nullable(data_type: DataType) -> DataType:
    if isinstance(data_type, StructType):
        return StructType(tuple(StructField(f.name, _nullable(f.type), True, f.metadata) for f in data_type.fields))
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable(data_type.element_type))
    if isinstance(data_type, MapType):
        return MapType(_nullable(data_type.key_type), _nullable(data_type.value_type))
    return data_type


def _shape(described: object) -> object:
    """A type's JSON without nullability and metadata."""
    if isinstance(described, dict):
        ignored = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {key: _shape(value) for key, value in described.items() if key not in ignored}
    return [_shape(item) for item in described] if isinstance(described, list) else described
