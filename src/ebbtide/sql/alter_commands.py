"""How does an ALTER TABLE statement become a call?"""

from __future__ import annotations

from ebbtide.commands.define.alter import set_properties, unset_properties
from ebbtide.commands.define.columns import drop_columns, drop_default
from ebbtide.commands.define.constraints import drop_constraint
from ebbtide.sql.alter_statements import (
    AlterStatement,
    DropColumns,
    DropConstraint,
    DropDefault,
    SetProperties,
    UnsetProperties,
)
from ebbtide.sql.session import SqlSession
from ebbtide.temp_views import refresh_changed

__all__ = ["run_alter"]


def run_alter(session: SqlSession, statement: AlterStatement) -> None:
    store, options = session.store(statement.path), session.options(statement.path)
    match statement:
        case SetProperties():
            set_properties(store, statement.properties, options=options)
        case UnsetProperties():
            unset_properties(store, statement.keys, if_exists=statement.if_exists, options=options)
        case DropConstraint():
            drop_constraint(store, statement.name, if_exists=statement.if_exists, options=options)
        case DropColumns():
            drop_columns(store, statement.columns, if_exists=statement.if_exists, options=options)
        case DropDefault():
            drop_default(store, statement.column, options=options)
    refresh_changed(session.spark, store.url)
