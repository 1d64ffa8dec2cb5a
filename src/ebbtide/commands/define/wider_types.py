"""May a column have this type from now on, although its files have the old one?

Yes for a wider type where the table has type widening on, and for strings with a longer limit or none. The rule for
numbers and dates is the one by which such files are read (`protocol.type_changes`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ebbtide.errors import SchemaMismatchError
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import CHAR_VARCHAR, ArrayType, MapType, PrimitiveType, StructField, StructType
from ebbtide.protocol.schema_edits import FieldPath, change_type, replace_field, shown_path, type_at
from ebbtide.protocol.type_changes import is_readable_type_change

__all__ = ["changed_type"]

_LENGTH: Final = re.compile(r"\s*(char|character|varchar)\s*\(\s*([0-9]{1,10})\s*\)\s*", re.IGNORECASE)
_PARTS: Final = {
    ArrayType: ("ARRAY_TYPE", "change '.element' instead"),
    MapType: ("MAP_TYPE", "change '.key' or '.value' instead"),
    StructType: ("STRUCT_TYPE", "add, drop or change its fields instead"),
}


def changed_type(schema: StructType, path: FieldPath, wanted: StructField, snapshot: Snapshot) -> StructType:
    """The schema with the wanted type at the path; the same object when that is the type already."""
    old, new = type_at(schema, path), wanted.type
    is_field = len(path) == 1 or isinstance(type_at(schema, path[:-1]), StructType)
    if old == new and is_field and isinstance(old, PrimitiveType):
        return _with_length(schema, path, wanted)
    if old == new and CHAR_VARCHAR not in wanted.metadata:
        return schema
    if isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType):
        can_widen = snapshot.properties.enable_type_widening and CHAR_VARCHAR not in wanted.metadata
        if can_widen and old.name != "void" and is_readable_type_change(old, new):
            return change_type(schema, path, new)
        raise _refusal(path, old.name, new.name, snapshot)
    kind, hint = _PARTS.get(type(old), ("STRUCT_TYPE", "add a column of the new type instead"))
    raise SchemaMismatchError(
        f"The type of '{shown_path(path)}' cannot be changed as a whole: {hint}.",
        error_class=f"CANNOT_UPDATE_FIELD.{kind}",
    )


def _with_length(schema: StructType, path: FieldPath, wanted: StructField) -> StructType:
    """The schema with another limit on the length of a string; the same object when nothing changes."""
    [parent, name] = [type_at(schema, path[:-1]), path[-1]]
    field = parent.get(name) if isinstance(parent, StructType) else None
    assert field is not None
    before, after = field.metadata.get(CHAR_VARCHAR), wanted.metadata.get(CHAR_VARCHAR)
    if before == after:
        return schema
    if len(path) > 1 or not _is_longer(before, after):
        raise _refusal(path, str(before or "string"), str(after or "string"))
    kept = {key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR}
    metadata = kept if after is None else {**kept, CHAR_VARCHAR: after}
    return replace_field(schema, path, lambda item: replace(item, metadata=metadata))


def _is_longer(before: object, after: object) -> bool:
    """Whether every string that fits before fits after. A CHAR is padded, so a VARCHAR cannot become one."""
    old, new = (_LENGTH.fullmatch(item) if isinstance(item, str) else None for item in (before, after))
    if before is None or (after is not None and new is None) or old is None:
        return False
    if new is None:
        return True
    return new[1].lower() == "varchar" and int(new[2]) >= int(old[2])


def _refusal(path: FieldPath, old: str, new: str, snapshot: Snapshot | None = None) -> SchemaMismatchError:
    hint = "Only a type that holds every value of the old one is possible; otherwise add another column."
    if snapshot is not None and not snapshot.properties.enable_type_widening:
        hint = (
            "Wider types need type widening, which every reader of the table must know: SET TBLPROPERTIES "
            "('delta.enableTypeWidening' = 'true')."
        )
    return SchemaMismatchError(
        f"The type of the column '{shown_path(path)}' cannot be changed from {old} to {new}. {hint}",
        error_class="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
    )
