"""What does a schema become when one of its columns, or a field inside one, is changed?

A path names a field as ALTER TABLE does: names from the outside in, `element` for what is in an array, `key` and
`value` for what is in a map, case ignored. Every function returns a new schema and knows nothing of files or
commits; whether the table allows the change is the caller's question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from ebbtide.errors import RequestError, UnknownColumnError
from ebbtide.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

__all__ = ["FieldPath", "drop_field", "replace_field", "shown_path", "spelled_path"]

FieldPath: TypeAlias = tuple[str, ...]
_Edit = Callable[[StructType], StructType]
_MAP_PARTS: Final = ("key", "value")


def shown_path(path: Sequence[str]) -> str:
    """The path as the history and messages show it; a name with a dot or a backtick is quoted."""
    return ".".join(f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part for part in path)


def spelled_path(schema: StructType, path: FieldPath) -> FieldPath:
    """The path as the schema spells it; UnknownColumnError when there is no such field."""
    spelled: list[str] = []
    current: DataType = schema
    for place, part in enumerate(path):
        name, current = _step(current, part, path, place)
        spelled.append(name)
    return tuple(spelled)


def drop_field(schema: StructType, path: FieldPath) -> StructType:
    """The schema without the field. RequestError for the only field of a struct, and for what is no struct's field."""

    def drop(struct: StructType) -> StructType:
        dropped = _named(struct, path)
        if len(struct.fields) == 1:
            raise RequestError(
                f"The column '{shown_path(path)}' cannot be dropped: it is the only one there, and a table or a struct "
                "needs at least one. Add another first.",
                error_class="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
            )
        return StructType(tuple(item for item in struct.fields if item is not dropped))

    return _edit_parent(schema, path, drop, "DELTA_UNSUPPORTED_DROP_NESTED_COLUMN_FROM_NON_STRUCT_TYPE")


def replace_field(schema: StructType, path: FieldPath, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with the field at the path changed."""

    def change_one(struct: StructType) -> StructType:
        changed = _named(struct, path)
        return StructType(tuple(change(item) if item is changed else item for item in struct.fields))

    return _edit_parent(schema, path, change_one, "INVALID_FIELD_NAME")


def _edit_parent(schema: StructType, path: FieldPath, edit: _Edit, error_class: str) -> StructType:
    """The schema with the struct that holds the field at the path edited; `error_class` is for what is no struct."""

    def descend(current: DataType, place: int) -> DataType:
        if place == len(path) - 1:
            _step(current, path[place], path, place)
            if not isinstance(current, StructType):
                raise RequestError(
                    f"'{shown_path(path)}' is not a field of a struct but a part of an array or a map, which cannot be "
                    "changed on its own.",
                    error_class=error_class,
                )
            return edit(current)
        return _with_part(current, path[place], descend(_step(current, path[place], path, place)[1], place + 1))

    edited = descend(schema, 0)
    assert isinstance(edited, StructType)
    return edited


def _step(current: DataType, part: str, path: FieldPath, place: int) -> tuple[str, DataType]:
    """The part as the schema spells it, and its type."""
    lowered = part.lower()
    match current:
        case StructType():
            found = _named(current, path, place)
            return found.name, found.type
        case ArrayType() if lowered == "element":
            return lowered, current.element_type
        case MapType() if lowered in _MAP_PARTS:
            return lowered, current.key_type if lowered == "key" else current.value_type
    raise UnknownColumnError(
        f"There is no column '{shown_path(path)}': '{shown_path(path[:place])}' is not a struct. Inside an array write "
        "'element', inside a map 'key' or 'value'.",
        error_class="INVALID_FIELD_NAME",
    )


def _with_part(current: DataType, part: str, new: DataType) -> DataType:
    match current:
        case StructType():
            changed = current.get(part)
            return StructType(tuple(replace(item, type=new) if item is changed else item for item in current.fields))
        case ArrayType():
            return replace(current, element_type=new)
        case MapType():
            return replace(current, key_type=new) if part.lower() == "key" else replace(current, value_type=new)
    return current


def _named(struct: StructType, path: FieldPath, place: int = -1) -> StructField:
    found = struct.get(path[place])
    if found is None:
        raise UnknownColumnError(
            f"There is no column '{shown_path(path)}'. The columns there are {', '.join(struct.names[:50])}."
        )
    return found
