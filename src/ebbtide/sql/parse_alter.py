"""What does ALTER TABLE say?"""

from __future__ import annotations

from ebbtide.sql.alter_statements import (
    AlterStatement,
    DropColumns,
    DropConstraint,
    DropDefault,
    SetProperties,
    UnsetProperties,
)
from ebbtide.sql.reader import StatementReader

__all__ = ["parse_alter"]

_COLUMN = "the name of a column"


def parse_alter(reader: StatementReader) -> AlterStatement:
    path = reader.table()
    if reader.accept("set", "tblproperties"):
        return reader.end(SetProperties(path, reader.properties()))
    if reader.accept("unset", "tblproperties"):
        if_exists = reader.accept("if", "exists")
        return reader.end(UnsetProperties(path, tuple(reader.items()), if_exists))
    if reader.accept("drop", "constraint"):
        if_exists = reader.accept("if", "exists")
        return reader.end(DropConstraint(path, reader.name("the name of a constraint"), if_exists))
    if reader.accept("drop", "column") or reader.accept("drop", "columns"):
        if_exists = reader.accept("if", "exists")
        return reader.end(DropColumns(path, _columns(reader), if_exists))
    if reader.accept("alter") or reader.accept("change"):
        reader.accept("column")
        return _alter_column(reader, path)
    raise reader.unknown_statement()


def _alter_column(reader: StatementReader, path: str) -> DropDefault:
    column = reader.path(_COLUMN)
    reader.expect("drop", "default")
    return reader.end(DropDefault(path, column))


def _columns(reader: StatementReader) -> tuple[tuple[str, ...], ...]:
    """Column names with commas between them; parentheses around all of them may be left out."""
    in_parentheses = reader.accept_sign("(")
    found = [reader.path(_COLUMN)]
    while reader.accept_sign(","):
        found.append(reader.path(_COLUMN))
    if in_parentheses:
        reader.expect_sign(")")
    return tuple(found)
