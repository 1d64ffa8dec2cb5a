"""What does a schema become when one of its columns, or a field inside one, is changed?

A path names a field as ALTER TABLE does: names from the outside in, `element` for what is in an array, `key` and
`value` for what is in a map, case ignored. Every function returns a new schema and knows nothing of files or
commits; whether the table allows the change is the caller's question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ebbtide.errors import RequestError, SchemaMismatchError, UnknownColumnError
from ebbtide.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from ebbtide.protocol.type_changes import TYPE_CHANGES

__all__ = [
    "FieldPath",
    "Place",
    "add_field",
    "change_type",
    "drop_field",
    "known_columns",
    "move_field",
    "rename_field",
    "replace_field",
    "shown_names",
    "shown_path",
    "spelled_path",
    "type_at",
]

FieldPath: TypeAlias = tuple[str, ...]
_Edit = Callable[[StructType], StructType]
_MAP_PARTS: Final = ("key", "value")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column goes among its neighbours: after the one that is named, or FIRST when none is."""

    after: str | None = None

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {self.after}"


def shown_path(path: Sequence[str]) -> str:
    """The path as the history and messages show it; a name with a dot or a backtick is quoted."""
    return ".".join(f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part for part in path)


def shown_names(names: Sequence[str]) -> str:
    """The names of columns after "it has"; a table, or a struct, may have none."""
    return ", ".join(names[:50]) or "no columns"


def known_columns(names: Sequence[str]) -> str:
    """The sentence that tells which columns there are."""
    return f"The columns are {shown_names(names)}." if names else "There are no columns."


def spelled_path(schema: StructType, path: FieldPath, *, is_exact: bool = False) -> FieldPath:
    """The path as the schema spells it; UnknownColumnError when there is no such field.

    `is_exact`: letter case counts, as it does in a session with spark.sql.caseSensitive=true.
    """
    spelled: list[str] = []
    current: DataType = schema
    for place, part in enumerate(path):
        name, current = _step(current, part, path, place)
        spelled.append(name)
        if is_exact and name != part:
            raise UnknownColumnError(
                f"There is no column '{shown_path(path)}': letter case counts in this session, which has "
                f"spark.sql.caseSensitive=true, and the name is '{shown_path(spelled)}'."
            )
    return tuple(spelled)


def type_at(schema: StructType, path: FieldPath) -> DataType:
    """The type of the field, or of the part of an array or map, at the path."""
    current: DataType = schema
    for place, part in enumerate(path):
        _, current = _step(current, part, path, place)
    return current


def add_field(schema: StructType, parent: FieldPath, field: StructField, place: Place | None = None) -> StructType:
    """The schema with a new field in the struct at `parent` (the table itself when empty), by default as the last."""
    path = (*parent, field.name)

    def add(struct: StructType) -> StructType:
        if struct.get(field.name) is not None:
            raise SchemaMismatchError(
                f"The column '{shown_path(path)}' cannot be added: there is one of that name (case does not count).",
                error_class="FIELD_ALREADY_EXISTS",
            )
        return _insert(struct, field, place, path)

    return _edit_parent(schema, path, add, "INVALID_FIELD_NAME", is_new=True)


def move_field(schema: StructType, path: FieldPath, place: Place) -> StructType:
    """The schema with the field at another place among its neighbours."""

    def move(struct: StructType) -> StructType:
        moved = _require_field(struct, path)
        if place.after is not None and place.after.lower() == moved.name.lower():
            return struct
        return _insert(StructType(tuple(item for item in struct.fields if item is not moved)), moved, place, path)

    return _edit_parent(schema, path, move, "INVALID_FIELD_NAME")


def rename_field(schema: StructType, path: FieldPath, name: str) -> StructType:
    """The schema with the field under another name. RequestError when the name is taken, even by itself."""

    def rename(struct: StructType) -> StructType:
        if struct.get(name) is not None:
            raise SchemaMismatchError(
                f"The column '{shown_path(path)}' cannot be renamed to '{name}': there is a column of that name (case "
                "does not count).",
                error_class="FIELD_ALREADY_EXISTS",
            )
        renamed = _require_field(struct, path)
        return StructType(tuple(replace(item, name=name) if item is renamed else item for item in struct.fields))

    return _edit_parent(schema, path, rename, "INVALID_FIELD_NAME")


def change_type(schema: StructType, path: FieldPath, new: DataType) -> StructType:
    """The schema with another type at the path, noted in the nearest field, as type widening wants it."""
    depth = len(path)
    while depth > 1 and not isinstance(type_at(schema, path[: depth - 1]), StructType):
        depth -= 1
    inside, old = path[depth:], type_at(schema, path)

    def change(field: StructField) -> StructField:
        entry = {"toType": new.to_json(), "fromType": old.to_json()}
        if inside:
            entry["fieldPath"] = ".".join(inside)
        metadata = {**field.metadata, TYPE_CHANGES: [*field.metadata.get(TYPE_CHANGES, ()), entry]}
        return replace(field, type=_with_type(field.type, inside, new), metadata=metadata)

    return replace_field(schema, path[:depth], change)


def drop_field(schema: StructType, path: FieldPath) -> StructType:
    """The schema without the field. RequestError for the only field of a struct, and for what is no struct's field."""

    def drop(struct: StructType) -> StructType:
        dropped = _require_field(struct, path)
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
        changed = _require_field(struct, path)
        return StructType(tuple(change(item) if item is changed else item for item in struct.fields))

    return _edit_parent(schema, path, change_one, "INVALID_FIELD_NAME")


def _insert(struct: StructType, field: StructField, place: Place | None, path: FieldPath) -> StructType:
    fields = struct.fields
    at = len(fields)
    if place is not None:
        at = 0 if place.after is None else fields.index(_require_field(struct, (*path[:-1], place.after))) + 1
    return StructType((*fields[:at], field, *fields[at:]))


def _with_type(current: DataType, path: FieldPath, new: DataType) -> DataType:
    if not path:
        return new
    _, inner = _step(current, path[0], path, 0)
    return _with_part(current, path[0], _with_type(inner, path[1:], new))


def _edit_parent(
    schema: StructType, path: FieldPath, edit: _Edit, error_class: str, *, is_new: bool = False
) -> StructType:
    """The schema with the struct that holds the field at the path edited; `error_class` is for what is no struct."""

    def descend(current: DataType, place: int) -> DataType:
        if place == len(path) - 1:
            if not (is_new and isinstance(current, StructType)):
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
            found = _require_field(current, path, place)
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


def _require_field(struct: StructType, path: FieldPath, place: int = -1) -> StructField:
    found = struct.get(path[place])
    if found is None:
        raise UnknownColumnError(f"There is no column '{shown_path(path)}'. {known_columns(struct.names)}")
    return found
