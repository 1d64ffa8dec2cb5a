"""How do the columns of Parquet files become the columns of the table?

Column mapping gives columns one name in the files and another in the table, at every level of nesting. This module is
the one place where physical names turn into logical ones. Partition columns are not read from the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import PrimitiveType, StructField, StructType, all_fields, logical_schema, physical_schema
from ebbtide.protocol.variables import holds_variable, refuse_variables

__all__ = ["TableColumns", "spark_type"]

_VOID = PrimitiveType("void")
_STRING = PrimitiveType("string")
_FLOATS = (PrimitiveType("float"), PrimitiveType("double"))


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A table's columns on both sides.

    `read_schema` is what to ask of the Parquet reader, `logical` the schema of the result, and `partition_fields` the
    columns whose values the log holds, with their physical names.
    """

    read_schema: T.StructType
    logical: T.StructType
    partition_fields: tuple[tuple[str, StructField], ...]
    reads_by_id: bool
    _pairs: tuple[tuple[str, StructField], ...]

    @classmethod
    def of(cls, snapshot: Snapshot, *, also: Sequence[str] = ()) -> TableColumns:
        """`also` names string columns that the files have besides the table's, with the same name in both."""
        refuse_variables(snapshot.schema)
        mode = snapshot.properties.column_mapping_mode
        physical = physical_schema(snapshot.schema, mode)
        partitioned = {name.lower() for name in snapshot.metadata.partition_columns}
        pairs = tuple((found.name, field) for found, field in zip(physical.fields, snapshot.schema.fields, strict=True))
        # Spark refuses to read a column of type void; it can only be null.
        read = [
            found
            for found, field in zip(physical.fields, snapshot.schema.fields, strict=True)
            if field.name.lower() not in partitioned and field.type != _VOID
        ]
        extra = tuple(StructField(name, _STRING) for name in also)
        order = [name.lower() for name in snapshot.metadata.partition_columns]
        partition_pairs = sorted(
            (pair for pair in pairs if pair[1].name.lower() in partitioned),
            key=lambda pair: order.index(pair[1].name.lower()),
        )
        return cls(
            read_schema=spark_type(StructType((*read, *extra))),
            logical=spark_type(logical_schema(StructType((*snapshot.schema.fields, *extra)))),
            partition_fields=tuple(partition_pairs),
            reads_by_id=mode == "id",
            _pairs=(*pairs, *((field.name, field) for field in extra)),
        )

    def partition_schema(self) -> T.StructType:
        """The partition columns under their physical names."""
        return spark_type(StructType(tuple(StructField(name, f.type, True, {}) for name, f in self.partition_fields)))

    def to_logical(self) -> list[Column | str]:
        """What to select from a frame with the physical columns to get the table's columns, in order.

        A column with the same name in both is selected by name: that takes a tenth of the calls into the JVM.
        """
        targets = {field.name: field.dataType for field in self.logical.fields}
        return [self._logical_column(name, field, targets[field.name]) for name, field in self._pairs]

    def _logical_column(self, physical_name: str, field: StructField, target: T.DataType) -> Column | str:
        comment = field.metadata.get("comment")
        if comment is not None and holds_variable(comment):
            # Rows are also scanned to be written again, and Hadoop would replace it on the way into the files.
            comment = None
        is_renamed_inside = _has_renamed_fields(field)
        is_float = field.type in _FLOATS and physical_name not in {name for name, _ in self.partition_fields}
        is_plain = not comment and not is_renamed_inside and not is_float and field.type != _VOID
        if physical_name == field.name and is_plain:
            return border.quote_name(physical_name)
        value = F.lit(None) if field.type == _VOID else border.column(physical_name)
        if is_renamed_inside:
            value = value.cast(target)
        if is_float:
            value = border.not_pushed(value)
        return value.alias(field.name, metadata={"comment": comment}) if comment else value.alias(field.name)


def spark_type(schema: StructType) -> T.StructType:
    """Spark's form of the schema, every level nullable: a reader cannot promise more than the file holds."""
    return border.schema_from_json(_make_nullable(schema.to_json()))


def _make_nullable(value: object) -> dict[str, object]:
    relaxed = _relax(value)
    assert isinstance(relaxed, dict)
    return relaxed


def _relax(value: object) -> object:
    if isinstance(value, dict):
        names = {"nullable", "containsNull", "valueContainsNull"}
        return {
            key: True if key in names else item if key == "metadata" else _relax(item) for key, item in value.items()
        }
    return [_relax(item) for item in value] if isinstance(value, list) else value


def _has_renamed_fields(field: StructField) -> bool:
    """Whether a nested field has another name in the files. A cast of the struct renames by position."""
    nested = all_fields(field.type)
    return any(item.metadata.get("delta.columnMapping.physicalName", item.name) != item.name for item in nested)
