"""How do the columns of a table change?

Only the log is read and written: no Spark, no data file. A dropped column stays in the files and is no longer shown,
which takes column mapping: without it, a later column of the same name would show the old values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from ebbtide import spark_border as border
from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.define.dependents import refuse_dependents, refuse_lengths_inside
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import SchemaMismatchError, UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.log.detail import clustering_paths
from ebbtide.protocol.actions import Action
from ebbtide.protocol.schema import StructField, find_field
from ebbtide.protocol.schema_edits import FieldPath, drop_field, replace_field, shown_path, spelled_path
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation

__all__ = ["drop_columns", "drop_default"]

# What Spark knows of a default, and what readers of other formats take for the value in older files.
_DEFAULTS: Final = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")
# Metadata of columns that the history does not show.
_INTERNAL: Final = ("delta.columnMapping.", "delta.generationExpression", "delta.identity.")


def drop_columns(
    store: ObjectStore, paths: Sequence[FieldPath], *, if_exists: bool = False, options: WriteOptions
) -> AlterResult:
    """Drop columns, or fields inside them. Their values stay in the files until those are rewritten."""

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        dropped = [path for path in (_existing(snapshot, path, if_exists=if_exists) for path in paths) if path]
        schema = snapshot.schema
        if dropped and snapshot.properties.column_mapping_mode == "none":
            raise _needs_mapping(snapshot, dropped[0])
        for path in dropped:
            _refuse_layout(snapshot, path)
            refuse_dependents(snapshot, path, "dropped")
            refuse_lengths_inside(schema, path)
            schema = drop_field(schema, path)
        names = orjson.dumps([shown_path(path) for path in dropped]).decode()
        operation = Operation("DROP COLUMNS", {"columns": names}, user_metadata=options.user_metadata)
        metadata = replace(snapshot.metadata, schema_string=schema.to_schema_string())
        return [metadata] if dropped else [], operation

    return commit_change(store, change, options)


def drop_default(store: ObjectStore, path: FieldPath, *, options: WriteOptions) -> AlterResult:
    """Drop the default of a column: rows that give it no value get null from then on."""

    def without_default(field: StructField) -> StructField:
        return replace(field, metadata={key: item for key, item in field.metadata.items() if key not in _DEFAULTS})

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        spelled = spelled_path(snapshot.schema, path)
        schema = replace_field(snapshot.schema, spelled, without_default)
        chain = find_field(schema, spelled)
        assert chain is not None
        shown = orjson.dumps(_shown_field(chain[-1], spelled)).decode()
        operation = Operation("CHANGE COLUMN", {"column": shown}, user_metadata=options.user_metadata)
        return [replace(snapshot.metadata, schema_string=schema.to_schema_string())], operation

    return commit_change(store, change, options)


def _existing(snapshot: Snapshot, path: FieldPath, *, if_exists: bool) -> FieldPath | None:
    try:
        return spelled_path(snapshot.schema, path)
    except UnknownColumnError:
        if if_exists:
            return None
        raise


def _needs_mapping(snapshot: Snapshot, path: FieldPath) -> SchemaMismatchError:
    table = border.quoted(snapshot.store.spark_path)
    return SchemaMismatchError(
        f"The column '{shown_path(path)}' of the table at {snapshot.store.url} cannot be dropped: its values would "
        "stay in the files and show again under a later column of that name. Turn column mapping on first: ALTER TABLE "
        f"delta.{table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name'). Readers of the table must know column "
        "mapping from then on.",
        error_class="DELTA_UNSUPPORTED_DROP_COLUMN",
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


def _shown_field(field: StructField, path: FieldPath) -> dict[str, Any]:
    """The field as the history shows it: its whole name, and the metadata that users gave it."""
    kept = {key: value for key, value in field.metadata.items() if not key.startswith(_INTERNAL)}
    return {**replace(field, metadata=kept).to_json(), "name": shown_path(path)}
