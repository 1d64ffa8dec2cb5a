"""What does ALTER TABLE say?"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ebbtide.errors import InvalidSyntaxError
from ebbtide.protocol.schema_edits import Place
from ebbtide.sql.alter_statements import (
    AddColumns,
    AddConstraint,
    AddedColumn,
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
from ebbtide.sql.parse_tables import parse_column, parse_type
from ebbtide.sql.reader import SYNTAX, StatementReader

__all__ = ["parse_alter"]

_COLUMN: Final = "the name of a column"
_CHANGES: Final = "TYPE, COMMENT, SET DEFAULT, DROP DEFAULT, SET NOT NULL, DROP NOT NULL, SYNC IDENTITY, FIRST or AFTER"
_LIST_ENDS: Final = frozenset({",", ")"})


def parse_alter(reader: StatementReader) -> AlterStatement:
    path = reader.table()
    if reader.accept("set", "tblproperties"):
        return reader.end(SetProperties(path, reader.properties()))
    if reader.accept("unset", "tblproperties"):
        if_exists = reader.accept("if", "exists")
        return reader.end(UnsetProperties(path, tuple(reader.items()), if_exists))
    if reader.accept("add"):
        return _add(reader, path)
    if reader.accept("drop"):
        return _drop(reader, path)
    if reader.accept("rename", "column"):
        column = reader.path(_COLUMN)
        reader.expect("to")
        return reader.end(RenameColumn(path, column, reader.name("the new name of the column")))
    if reader.accept("replace", "columns"):
        return reader.end(ReplaceColumns(path, _replacing(reader)))
    if reader.accept("cluster", "by"):
        return reader.end(ClusterBy(path, () if reader.accept("none") else _columns(reader)))
    if reader.comes("alter") or reader.comes("change"):
        return _change(reader, path)
    raise reader.unknown_statement()


def _add(reader: StatementReader, path: str) -> AddConstraint | AddColumns:
    if reader.accept("constraint"):
        name = reader.name("the name of a constraint")
        reader.expect("check")
        return reader.end(AddConstraint(path, name, reader.in_parentheses("a condition")))
    if not (reader.accept("column") or reader.accept("columns")):
        raise reader.syntax_error("CONSTRAINT, COLUMN or COLUMNS")
    in_parentheses = reader.accept_sign("(")
    columns = [_added_column(reader)]
    while reader.accept_sign(","):
        columns.append(_added_column(reader))
    if in_parentheses:
        reader.expect_sign(")")
    return reader.end(AddColumns(path, tuple(columns)))


def _added_column(reader: StatementReader) -> AddedColumn:
    *parent, name = reader.path(_COLUMN)
    definition = parse_column(reader, name, stops=(("first",), ("after",)))
    if definition.generated_as is not None or definition.identity is not None:
        raise InvalidSyntaxError(
            f"The generated column '{name}' cannot be added to a table: rows written before would not have its value.",
            error_class=SYNTAX,
        )
    return AddedColumn(definition, tuple(parent), _place(reader))


def _replacing(reader: StatementReader) -> tuple[ColumnDefinition, ...]:
    """The columns in REPLACE COLUMNS (...): name, type and comment, as in Hive."""
    reader.expect_sign("(")
    columns = [_replacing_column(reader)]
    while reader.accept_sign(","):
        columns.append(_replacing_column(reader))
    reader.expect_sign(")")
    return tuple(columns)


def _replacing_column(reader: StatementReader) -> ColumnDefinition:
    name, at = reader.name(_COLUMN), reader.at
    definition = parse_column(reader, name, stops=(("first",), ("after",)))
    if definition == ColumnDefinition(name, definition.type, comment=definition.comment) and _place(reader) is None:
        return definition
    raise InvalidSyntaxError(
        f"REPLACE COLUMNS takes a name, a type and a COMMENT for each column, and '{name}' has more: "
        f"{reader.text(at, reader.at)!r}. Columns stand in the order in which they are named; rules are for ALTER "
        "COLUMN.",
        error_class=SYNTAX,
    )


def _drop(reader: StatementReader, path: str) -> DropConstraint | DropColumns | DropFeature:
    if reader.accept("constraint"):
        if_exists = reader.accept("if", "exists")
        return reader.end(DropConstraint(path, reader.name("the name of a constraint"), if_exists))
    if reader.accept("column") or reader.accept("columns"):
        if_exists = reader.accept("if", "exists")
        return reader.end(DropColumns(path, _columns(reader), if_exists))
    if reader.accept("feature"):
        name = reader.key("the name of a feature")
        return reader.end(DropFeature(path, name, reader.accept("truncate", "history")))
    raise reader.syntax_error("CONSTRAINT, COLUMN, COLUMNS or FEATURE")


def _columns(reader: StatementReader) -> tuple[tuple[str, ...], ...]:
    """Column names with commas between them; parentheses around all of them may be left out."""
    in_parentheses = reader.accept_sign("(")
    found = [reader.path(_COLUMN)]
    while reader.accept_sign(","):
        found.append(reader.path(_COLUMN))
    if in_parentheses:
        reader.expect_sign(")")
    return tuple(found)


# --- ALTER COLUMN -----------------------------------------------------------------------------------------------------


def _change(reader: StatementReader, path: str) -> ChangeColumns | SyncIdentity:
    is_change = reader.accept("change")
    if not is_change:
        reader.expect("alter")
    reader.accept("column")
    start = reader.at
    column = reader.path(_COLUMN)
    if reader.accept("sync", "identity"):
        return reader.end(SyncIdentity(path, column))
    reader.at = start
    columns = [_changed_column(reader, is_change=is_change)]
    while reader.accept_sign(","):
        columns.append(_changed_column(reader, is_change=False))
    return reader.end(ChangeColumns(path, tuple(columns)))


def _changed_column(reader: StatementReader, *, is_change: bool) -> ChangedColumn:
    column = ChangedColumn(reader.path(_COLUMN))
    if reader.accept("type"):
        return replace(column, type=parse_type(reader))
    if reader.accept("comment"):
        return replace(column, comment=reader.string("a comment in quotes"))
    if reader.accept("set", "not", "null") or reader.accept("drop", "not", "null"):
        before = reader.peek(-3)
        return replace(column, nullable=before is not None and before.text == "drop")
    if reader.accept("set", "default"):
        return replace(column, default=reader.expression("a default", signs=_LIST_ENDS))
    if reader.accept("drop", "default"):
        return replace(column, drops_default=True)
    if (place := _place(reader)) is not None:
        return replace(column, place=place)
    if not is_change or not reader.is_name():
        raise reader.syntax_error(_CHANGES)
    return _hive_style(reader, column)


def _hive_style(reader: StatementReader, column: ChangedColumn) -> ChangedColumn:
    """CHANGE COLUMN a a INT COMMENT 'text' FIRST: the name again, and everything at once."""
    name = reader.name("the name of the column again")
    if name.lower() != column.column[-1].lower():
        raise InvalidSyntaxError(
            f"CHANGE COLUMN does not rename '{column.column[-1]}' to '{name}'; write RENAME COLUMN ... TO.",
            error_class=SYNTAX,
        )
    kind = parse_type(reader, stops=(("first",), ("after",)))
    comment = reader.string("a comment in quotes") if reader.accept("comment") else None
    return replace(column, type=kind, comment=comment, place=_place(reader))


def _place(reader: StatementReader) -> Place | None:
    if reader.accept("first"):
        return Place()
    return Place(reader.name("the name of a column after AFTER")) if reader.accept("after") else None
