"""How does an ALTER TABLE statement become a call?"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import types as T

from ebbtide.commands.define.alter import set_properties, unset_properties
from ebbtide.commands.define.clustering import cluster_by
from ebbtide.commands.define.column_changes import (
    ColumnChange,
    ColumnEdit,
    SetComment,
    SetDefault,
    SetNullable,
    SetType,
    change_columns,
)
from ebbtide.commands.define.columns import NewColumn, add_columns, drop_columns, rename_column
from ebbtide.commands.define.constraints import add_constraint, drop_constraint
from ebbtide.commands.define.definition import schema_of
from ebbtide.commands.define.identity import sync_identity
from ebbtide.commands.define.replaced_columns import replace_columns
from ebbtide.commands.drop_feature.command import DropFeatureCommand, DropFeatureRequest
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import StructField
from ebbtide.session_settings import optimize_settings
from ebbtide.sql.alter_statements import (
    AddColumns,
    AddConstraint,
    AlterStatement,
    ChangeColumns,
    ChangedColumn,
    ClusterBy,
    ColumnDefinition,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
    ReplaceColumns,
    SetProperties,
    SyncIdentity,
    UnsetProperties,
)
from ebbtide.sql.mapping_commands import takes_mapping, without_mapping
from ebbtide.sql.session import SqlSession
from ebbtide.sql.table_commands import spark_field
from ebbtide.temp_views import refresh_changed

__all__ = ["rewrites_files", "run_alter"]


def run_alter(session: SqlSession, statement: AlterStatement) -> None:
    store, options = session.store(statement.path), session.options(statement.path, in_transaction=False)
    match statement:
        case SetProperties() | UnsetProperties():
            match without_mapping(session, statement):
                case SetProperties(properties=properties):
                    set_properties(store, properties, options=options)
                case UnsetProperties(keys=keys, if_exists=if_exists):
                    unset_properties(store, keys, if_exists=if_exists, options=options)
        case AddConstraint():
            add_constraint(session.spark, store, statement.name, statement.expression, options=options)
        case DropConstraint():
            drop_constraint(store, statement.name, if_exists=statement.if_exists, options=options)
        case AddColumns():
            columns = [NewColumn(_field(one.definition), one.parent, one.place) for one in statement.columns]
            add_columns(store, columns, options=options)
        case DropColumns():
            drop_columns(store, statement.columns, if_exists=statement.if_exists, options=options)
        case RenameColumn():
            rename_column(store, statement.column, statement.name, options=options)
        case ReplaceColumns():
            replace_columns(store, [_field(one) for one in statement.columns], options=options)
        case ChangeColumns():
            edits = [ColumnEdit(one.column, tuple(_changes(one))) for one in statement.columns]
            change_columns(session.spark, store, edits, options=options)
        case SyncIdentity():
            sync_identity(session.spark, store, statement.column, options=options)
        case ClusterBy():
            cluster_by(store, statement.columns, options=options)
        case DropFeature():
            request = DropFeatureRequest(
                store,
                statement.name,
                statement.truncate_history,
                optimize_settings(session.spark),
                options,
            )
            DropFeatureCommand(session.spark, request).run()
    refresh_changed(session.spark, store.url)


def rewrites_files(statement: AlterStatement, snapshot: Snapshot) -> bool:
    """Whether the change may write data files, and not only the log."""
    if isinstance(statement, SetProperties | UnsetProperties):
        return takes_mapping(statement, snapshot)
    return isinstance(statement, DropFeature)


def _changes(column: ChangedColumn) -> Iterator[ColumnChange]:
    if column.type is not None:
        yield SetType(_field(ColumnDefinition(column.column[-1], column.type)))
    if column.comment is not None:
        yield SetComment(column.comment)
    if column.nullable is not None:
        yield SetNullable(column.nullable)
    if column.default is not None or column.drops_default:
        yield SetDefault(column.default)
    if column.place is not None:
        yield column.place


def _field(column: ColumnDefinition) -> StructField:
    [field] = schema_of(T.StructType([spark_field(column)]), keeps_rules=True).fields
    return field
