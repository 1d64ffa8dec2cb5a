"""Which type changes has a column been through, and can files from before them still be read?

With the feature `typeWidening` a column's metadata lists its former types (`delta.typeChanges`). Old data files keep
the narrow type, and a reader must refuse a table with a change that it cannot convert. A file with a former type is
read straight into today's type, so only that step is checked; the types in between do not matter.
See "Type Change Metadata" in PROTOCOL.md.
"""

from __future__ import annotations

from typing import Final

from ebbtide.errors import CorruptTableError, UnsupportedFeatureError
from ebbtide.protocol.json_fields import JsonFields
from ebbtide.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_fields,
    parse_primitive,
)

__all__ = ["TYPE_CHANGES", "ensure_type_changes_readable", "is_readable_type_change"]

TYPE_CHANGES: Final = "delta.typeChanges"

_WIDER: Final = {
    "byte": {"short", "integer", "long", "double"},
    "short": {"integer", "long", "double"},
    "integer": {"long", "double"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
}
# Decimal digits that the values of an integer type need before the point.
_INTEGRAL_DIGITS: Final = {"byte": 10, "short": 10, "integer": 10, "long": 20}


def ensure_type_changes_readable(schema: StructType) -> None:
    """Raise UnsupportedFeatureError for the first former type that Spark's Parquet reader cannot read as today's."""
    for column in all_fields(schema):
        changes = column.metadata.get(TYPE_CHANGES)
        if changes is None:
            continue
        if not isinstance(changes, list):
            raise CorruptTableError(f"{TYPE_CHANGES} of column '{column.name}' must be an array")
        for change in changes:
            _ensure_readable(column, JsonFields(change, subject=f"{TYPE_CHANGES} of column '{column.name}'"))


def _ensure_readable(column: StructField, change: JsonFields) -> None:
    former = change.string("fromType")
    today = _type_at(column.type, change.optional_string("fieldPath"))
    if isinstance(today, PrimitiveType):
        old = parse_primitive(former, at=f"{TYPE_CHANGES} of column '{column.name}'")
        if is_readable_type_change(old, today):
            return
    raise UnsupportedFeatureError(
        f"column '{column.name}' was of type {former[:80]} once, which cannot be read as {column.type.to_json()}",
        error_class="DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA",
    )


def _type_at(data_type: DataType, field_path: str | None) -> DataType | None:
    """The type inside arrays and maps that a path such as `element.value` leads to; None when it leads nowhere."""
    current: DataType | None = data_type
    for step in field_path.split(".") if field_path else ():
        if isinstance(current, ArrayType) and step == "element":
            current = current.element_type
        elif isinstance(current, MapType) and step in {"key", "value"}:
            current = current.key_type if step == "key" else current.value_type
        else:
            return None
    return current


def is_readable_type_change(old: PrimitiveType, new: PrimitiveType) -> bool:
    if old == new or old.name == "void" or new.name in _WIDER.get(old.name, ()):
        return True
    bounds = new.decimal_bounds
    if bounds is None:
        return False
    precision, scale = bounds
    if old.decimal_bounds is not None:
        old_precision, old_scale = old.decimal_bounds
        return scale >= old_scale and precision - scale >= old_precision - old_scale
    digits = _INTEGRAL_DIGITS.get(old.name)
    return digits is not None and precision - scale >= digits
