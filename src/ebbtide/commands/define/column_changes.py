"""How does ALTER COLUMN change a column: its type, comment, default, place, and whether it may be null?

Files stay as they are, so only what holds for the rows in them is allowed: a wider type where the table has type
widening, a longer VARCHAR, null where it was forbidden. Spark is asked only whether a new default can be stored in the
column; a default that goes is never evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import orjson
from pyspark.sql import SparkSession

from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.define.defaults import check_defaults
from ebbtide.commands.define.dependents import refuse_dependents
from ebbtide.commands.define.schemas import schema_actions, shown_field
from ebbtide.commands.define.wider_types import changed_type
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import SchemaMismatchError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.protocol.schema import ArrayType, MapType, StructField, StructType
from ebbtide.protocol.schema_edits import FieldPath, Place, move_field, replace_field, shown_path, spelled_path, type_at
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation

__all__ = ["ColumnEdit", "SetComment", "SetDefault", "SetNullable", "SetType", "change_columns"]

# What Spark knows of a default, and what readers of other formats take for the value in older files.
_DEFAULTS: Final = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")


@dataclass(frozen=True, slots=True)
class SetType:
    """`field` has the wanted type, and the lengths of CHAR and VARCHAR in its metadata."""

    field: StructField


@dataclass(frozen=True, slots=True)
class SetComment:
    text: str


@dataclass(frozen=True, slots=True)
class SetNullable:
    nullable: bool


@dataclass(frozen=True, slots=True)
class SetDefault:
    """None drops the default."""

    text: str | None


ColumnChange: TypeAlias = SetType | SetComment | SetNullable | SetDefault | Place


@dataclass(frozen=True, slots=True)
class ColumnEdit:
    """What one statement changes of one column."""

    path: FieldPath
    changes: tuple[ColumnChange, ...]


def change_columns(
    spark: SparkSession, store: ObjectStore, edits: Sequence[ColumnEdit], *, options: WriteOptions
) -> AlterResult:
    """Change columns, or fields inside columns, in one commit."""

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        schema, shown, places, new_defaults = snapshot.schema, [], [], []
        for edit in edits:
            path = spelled_path(schema, edit.path, is_exact=options.is_case_sensitive)
            schema = _apply_changes(snapshot, schema, path, edit.changes)
            shown.append(_column_for_history(snapshot.schema, schema, path))
            new_defaults += [path[0] for one in edit.changes if isinstance(one, SetDefault) and one.text is not None]
            moves = [one for one in edit.changes if isinstance(one, Place)]
            places += [_spelled_place(schema, path, one, is_exact=options.is_case_sensitive) for one in moves]
        actions = schema_actions(snapshot, schema)
        check_defaults(spark, snapshot, actions, new_defaults, config=options.config)
        if _is_same_type(edits) and schema == snapshot.schema:
            actions = []
        return actions, _operation(shown, places, options)

    return commit_change(store, change, options)


def _apply_changes(
    snapshot: Snapshot, schema: StructType, path: FieldPath, changes: Sequence[ColumnChange]
) -> StructType:
    for change in changes:
        match change:
            case SetType():
                _refuse_identity(schema, path, change)
                if (new := changed_type(schema, path, change.field, snapshot)) is not schema:
                    refuse_dependents(snapshot, path, "given another type")
                    schema = new
            case SetComment():
                _refuse_parts(schema, path, "have a comment", "DELTA_UNSUPPORTED_COMMENT_MAP_ARRAY")
                schema = _with_metadata(schema, path, {"comment": change.text})
            case SetNullable():
                schema = _with_nullable(schema, path, change.nullable)
                _refuse_identity(schema, path, change)
            case SetDefault():
                _refuse_identity(schema, path, change)
                _refuse_nested_default(path, change)
                given = {} if change.text is None else {"CURRENT_DEFAULT": change.text}
                schema = _with_metadata(schema, path, given, without=_DEFAULTS)
            case Place():
                schema = move_field(schema, path, change)
    return schema


def _refuse_identity(schema: StructType, path: FieldPath, change: SetType | SetNullable | SetDefault) -> None:
    """Refuse what would change an identity column, except to the type that it has."""
    field = schema.get(path[0]) if len(path) == 1 else None
    if field is None or not field.is_identity:
        return
    if not isinstance(change, SetType) or change.field.type != field.type:
        raise SchemaMismatchError(
            f"'{field.name}' is an identity column: ALTER COLUMN can change its comment and its place, and SYNC "
            "IDENTITY how far it has counted.",
            error_class="DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED",
        )


def _refuse_nested_default(path: FieldPath, change: SetDefault) -> None:
    if len(path) > 1 and change.text is not None:
        raise SchemaMismatchError(
            f"'{shown_path(path)}' is inside a column, and only a whole column can have a default.",
            error_class="INVALID_DEFAULT_VALUE",
        )


def _with_metadata(
    schema: StructType, path: FieldPath, given: dict[str, Any], *, without: Sequence[str] = ()
) -> StructType:
    def change(field: StructField) -> StructField:
        kept = {key: value for key, value in field.metadata.items() if key not in without}
        return replace(field, metadata={**kept, **given})

    return replace_field(schema, path, change)


def _with_nullable(schema: StructType, path: FieldPath, nullable: bool) -> StructType:
    _refuse_parts(schema, path, "be NOT NULL or not", "INVALID_FIELD_NAME")

    def change(field: StructField) -> StructField:
        if field.nullable and not nullable:
            raise SchemaMismatchError(
                f"The column '{shown_path(path)}' may be null, and rows that are there may have used that, so it "
                f"cannot become NOT NULL. Add a constraint, which looks at the rows first: ADD CONSTRAINT name CHECK "
                f"({shown_path(path)} IS NOT NULL).",
                error_class="DELTA_ALTER_TABLE_CHANGE_COL_NOT_SUPPORTED",
            )
        return replace(field, nullable=nullable)

    return replace_field(schema, path, change)


def _refuse_parts(schema: StructType, path: FieldPath, wanted: str, error_class: str) -> None:
    """Refuse what the elements of an array, or the keys and values of a map, cannot have."""
    if len(path) > 1 and not isinstance(type_at(schema, path[:-1]), StructType):
        raise SchemaMismatchError(
            f"'{shown_path(path)}' is a part of an array or a map and cannot {wanted}.", error_class=error_class
        )


def _is_same_type(edits: Sequence[ColumnEdit]) -> bool:
    """As in the reference, a type that the column has already is no commit."""
    return all(isinstance(change, SetType) for edit in edits for change in edit.changes)


# --- history ----------------------------------------------------------------------------------------------------------


def _column_for_history(before: StructType, after: StructType, path: FieldPath) -> dict[str, Any]:
    """The column as the history shows it. The reference leaves the newest change of its type out."""
    match type_at(after, path[:-1]):
        case ArrayType(element_type=kind, contains_null=nullable):
            return shown_field(StructField(path[-1], kind, nullable), path)
        case MapType() as entries if path[-1] == "key":
            return shown_field(StructField(path[-1], entries.key_type, False), path)
        case MapType() as entries:
            return shown_field(StructField(path[-1], entries.value_type, entries.value_contains_null), path)
    found = _field_at(after, path)
    former = _field_at(before, path).metadata.get("delta.typeChanges")
    metadata = {key: value for key, value in found.metadata.items() if key != "delta.typeChanges"}
    return shown_field(replace(found, metadata=metadata | ({"delta.typeChanges": former} if former else {})), path)


def _field_at(schema: StructType, path: FieldPath) -> StructField:
    parent = type_at(schema, path[:-1])
    field = parent.get(path[-1]) if isinstance(parent, StructType) else None
    assert field is not None
    return field


def _spelled_place(schema: StructType, path: FieldPath, place: Place, *, is_exact: bool) -> str:
    if place.after is None:
        return str(place)
    return str(Place(spelled_path(schema, (*path[:-1], place.after), is_exact=is_exact)[-1]))


def _operation(shown: Sequence[dict[str, Any]], places: Sequence[str], options: WriteOptions) -> Operation:
    if len(shown) > 1:
        parameters = {"columns": orjson.dumps(shown).decode()}
        return Operation("CHANGE COLUMNS", parameters, user_metadata=options.user_metadata)
    parameters = {"column": orjson.dumps(shown[0]).decode(), **({"position": places[0]} if places else {})}
    return Operation("CHANGE COLUMN", parameters, user_metadata=options.user_metadata)
