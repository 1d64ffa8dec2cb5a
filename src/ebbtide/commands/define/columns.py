"""How are columns added to a table, renamed and dropped?

Only the log is read and written: no Spark, no data file. A column that is dropped or renamed keeps its place in the
files under its physical name, which needs column mapping: without it, a later column of the same name would show the
old values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from ebbtide import spark_border as border
from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.define.dependents import refuse_dependents, refuse_lengths_inside
from ebbtide.commands.define.schemas import schema_actions, shown_field, with_stats_columns
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import SchemaMismatchError, UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.log.detail import clustering_paths
from ebbtide.protocol.actions import Action
from ebbtide.protocol.schema import CHAR_VARCHAR, PrimitiveType, StructField, StructType, all_fields
from ebbtide.protocol.schema_edits import (
    FieldPath,
    Place,
    add_field,
    drop_field,
    rename_field,
    shown_path,
    spelled_path,
)
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation

__all__ = ["NewColumn", "add_columns", "drop_columns", "refuse_drop", "refuse_rules", "rename_column"]


@dataclass(frozen=True, slots=True)
class NewColumn:
    """`parent` is the struct that the field is added to; empty for a column of the table."""

    field: StructField
    parent: FieldPath = ()
    place: Place | None = None


def add_columns(store: ObjectStore, columns: Sequence[NewColumn], *, options: WriteOptions) -> AlterResult:
    """Add columns, or fields inside columns. Rows written before show null in them."""
    for column in columns:
        refuse_rules(column)

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        schema, shown = snapshot.schema, []
        for column in columns:
            parent = spelled_path(schema, column.parent, is_exact=options.is_case_sensitive)
            path = (*parent, column.field.name)
            refuse_lengths_inside(schema, path)
            if options.is_case_sensitive and column.place is not None and column.place.after is not None:
                spelled_path(schema, (*parent, column.place.after), is_exact=True)
            schema = add_field(schema, parent, column.field, column.place)
            entry = {"column": shown_field(_as_declared(column.field), path)}
            shown.append(entry if column.place is None else {**entry, "position": str(column.place)})
        operation = Operation(
            "ADD COLUMNS", {"columns": orjson.dumps(shown).decode()}, user_metadata=options.user_metadata
        )
        return schema_actions(snapshot, schema, added=[column.field for column in columns]), operation

    return commit_change(store, change, options)


def rename_column(store: ObjectStore, path: FieldPath, name: str, *, options: WriteOptions) -> AlterResult:
    """Give a column, or a field inside one, another name. Files and statistics keep the physical name."""

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        old = spelled_path(snapshot.schema, path, is_exact=options.is_case_sensitive)
        new = (*old[:-1], name)
        if snapshot.properties.column_mapping_mode == "none":
            raise _needs_mapping(snapshot, old, "renamed", "DELTA_UNSUPPORTED_RENAME_COLUMN")
        refuse_dependents(snapshot, old, "renamed")
        refuse_lengths_inside(snapshot.schema, old)
        schema = rename_field(snapshot.schema, old, name)
        partition_columns = tuple(
            name if len(old) == 1 and column.lower() == old[0].lower() else column
            for column in snapshot.metadata.partition_columns
        )
        actions = schema_actions(
            snapshot,
            schema,
            added=[StructField(name, PrimitiveType("string"))],
            partition_columns=partition_columns,
            configuration=with_stats_columns(snapshot.metadata.configuration, old, new),
        )
        parameters = {"oldColumnPath": shown_path(old), "newColumnPath": shown_path(new)}
        return actions, Operation("RENAME COLUMN", parameters, user_metadata=options.user_metadata)

    return commit_change(store, change, options)


def drop_columns(
    store: ObjectStore, paths: Sequence[FieldPath], *, if_exists: bool = False, options: WriteOptions
) -> AlterResult:
    """Drop columns, or fields inside them. Their values stay in the files until those are rewritten."""

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        is_exact = options.is_case_sensitive
        found = [_existing(snapshot, path, if_exists=if_exists, is_exact=is_exact) for path in paths]
        dropped = [path for path in found if path]
        schema, current = snapshot.schema, snapshot.metadata.configuration
        if dropped and snapshot.properties.column_mapping_mode == "none":
            raise _needs_mapping(snapshot, dropped[0], "dropped", "DELTA_UNSUPPORTED_DROP_COLUMN")
        for path in dropped:
            schema = drop_field(schema, path)
            refuse_drop(snapshot, path)
            current = with_stats_columns(current, path, None)
        names = orjson.dumps([shown_path(path) for path in dropped]).decode()
        operation = Operation("DROP COLUMNS", {"columns": names}, user_metadata=options.user_metadata)
        return schema_actions(snapshot, schema, configuration=current) if dropped else [], operation

    return commit_change(store, change, options)


def _as_declared(field: StructField) -> StructField:
    """The field with CHAR(n) or VARCHAR(n) as its type, as the history shows a new column."""
    declared = field.metadata.get(CHAR_VARCHAR)
    if not isinstance(declared, str) or not isinstance(field.type, PrimitiveType):
        return field
    kept = {key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR}
    return replace(field, type=PrimitiveType(declared), metadata=kept)


def refuse_drop(snapshot: Snapshot, path: FieldPath) -> None:
    """RequestError for a column that something else in the table needs."""
    _refuse_layout(snapshot, path)
    refuse_dependents(snapshot, path, "dropped")
    refuse_lengths_inside(snapshot.schema, path)


def refuse_rules(column: NewColumn) -> None:
    """Refuse a new column whose rule the rows that are there could not keep."""
    name = shown_path((*column.parent, column.field.name))
    if any(not field.nullable for field in all_fields(StructType((column.field,)))):
        raise SchemaMismatchError(
            f"The column '{name}' cannot be added as NOT NULL: rows written before have null in it. Leave NOT NULL "
            f"out, fill the column, and add a CHECK ({border.quote_name(column.field.name)} IS NOT NULL).",
            error_class="DELTA_OPERATION_NOT_ALLOWED",
        )
    if "CURRENT_DEFAULT" in column.field.metadata:
        raise SchemaMismatchError(
            f"The column '{name}' cannot be added with a default: it would not hold for the rows written before. Add "
            "it without one, then run ALTER TABLE ... ALTER COLUMN ... SET DEFAULT for later rows.",
            error_class="WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED",
        )


def _existing(snapshot: Snapshot, path: FieldPath, *, if_exists: bool, is_exact: bool) -> FieldPath | None:
    try:
        return spelled_path(snapshot.schema, path, is_exact=is_exact)
    except UnknownColumnError:
        if if_exists:
            return None
        raise


def _needs_mapping(snapshot: Snapshot, path: FieldPath, doing: str, error_class: str) -> SchemaMismatchError:
    table = border.quote_name(snapshot.store.spark_path)
    return SchemaMismatchError(
        f"The column '{shown_path(path)}' of the table at {snapshot.store.url} cannot be {doing}: the files know it by "
        "this name, and a later column of that name would show its values. Turn column mapping on first: ALTER TABLE "
        f"delta.{table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name'). Readers of the table must know column "
        "mapping from then on.",
        error_class=error_class,
    )


def _refuse_layout(snapshot: Snapshot, path: FieldPath) -> None:
    """Refuse to drop what the files are arranged by."""
    if len(path) == 1 and path[0].lower() in {name.lower() for name in snapshot.metadata.partition_columns}:
        raise SchemaMismatchError(
            f"The column '{path[0]}' cannot be dropped: the table at {snapshot.store.url} is partitioned by it.",
            error_class="DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN",
        )
    if any(column[: len(path)] == path for column in clustering_paths(snapshot)):
        raise SchemaMismatchError(
            f"The column '{shown_path(path)}' cannot be dropped: the table at {snapshot.store.url} is clustered by it.",
            error_class="DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN",
        )
