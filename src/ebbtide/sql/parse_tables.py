"""What do CREATE, DROP, DESCRIBE and SHOW say?"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ebbtide.commands.clone.command import CloneHow
from ebbtide.errors import InvalidSyntaxError
from ebbtide.protocol.schema_edits import FieldPath
from ebbtide.sql.alter_statements import ColumnDefinition, IdentitySpec
from ebbtide.sql.maintenance_statements import Clone
from ebbtide.sql.parse_maintenance import parse_clone
from ebbtide.sql.reader import SYNTAX, StatementReader
from ebbtide.sql.statements import (
    CreateTable,
    CreateView,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    DropTable,
    ShowColumns,
    ShowPartitions,
    ShowProperties,
    TableName,
)

__all__ = ["parse_column", "parse_create", "parse_describe", "parse_drop", "parse_show", "parse_type"]

# What may follow a column's type.
_AFTER_TYPE: Final = (("not", "null"), ("comment",), ("default",), ("generated",), ("primary",), ("check",))
_LIST_ENDS: Final = frozenset({",", ")"})


def parse_describe(reader: StatementReader) -> DescribeHistory | DescribeDetail | DescribeTable:
    if reader.accept("detail"):
        return reader.end(DescribeDetail(reader.table_or_path()))
    if reader.accept("history"):
        return _history(reader)
    is_table = reader.accept("table")
    is_extended = reader.accept("extended") or reader.accept("formatted")
    if not is_table and not is_extended and not reader.comes("delta"):
        raise reader.unknown_statement()
    path = reader.table()
    column = None if reader.is_done() else reader.name("the name of a column")
    return reader.end(DescribeTable(path, column, is_extended))


def _history(reader: StatementReader) -> DescribeHistory:
    path = reader.table_or_path()
    return reader.end(DescribeHistory(path, reader.number("a number after LIMIT") if reader.accept("limit") else None))


def parse_show(reader: StatementReader) -> ShowColumns | ShowProperties | ShowPartitions:
    if reader.accept("columns"):
        if not (reader.accept("in") or reader.accept("from")):
            raise reader.syntax_error("IN or FROM")
        return reader.end(ShowColumns(reader.table()))
    if reader.accept("partitions"):
        return reader.end(ShowPartitions(reader.table()))
    if not reader.accept("tblproperties"):
        raise reader.unknown_statement()
    path, key = reader.table(), None
    if reader.accept_sign("("):
        key = reader.key()
        reader.expect_sign(")")
    return reader.end(ShowProperties(path, key))


def parse_create(reader: StatementReader) -> CreateView | CreateTable | Clone:
    or_replace = reader.accept("or", "replace")
    if reader.accept("table"):
        return _table(reader, or_replace=or_replace)
    if (reader.accept("temp") or reader.accept("temporary")) and reader.accept("view"):
        name = reader.name("the name of the view")
        reader.expect("as")
        columns = _shown_columns(reader)
        return reader.end(CreateView(name, _whole_table(reader), or_replace, columns))
    raise reader.unknown_statement()


def parse_drop(reader: StatementReader) -> DropTable:
    if not reader.accept("table"):
        raise reader.unknown_statement()
    if_exists = reader.accept("if", "exists")
    return reader.end(DropTable(reader.table(), if_exists))


def _shown_columns(reader: StatementReader) -> tuple[str, ...]:
    """The columns in SELECT a, b FROM; none for SELECT *. Stops before FROM."""
    reader.expect("select")
    if reader.accept_sign("*"):
        return ()
    columns = [reader.name("'*' or the name of a column")]
    while reader.accept_sign(","):
        columns.append(reader.name("the name of a column"))
    if not reader.comes("from"):
        raise reader.syntax_error("',' or FROM: a view shows columns of one table, as they are")
    return tuple(columns)


def _whole_table(reader: StatementReader) -> TableName:
    """The table in FROM table, even inside any number of nested SELECT * FROM (...)."""
    if not reader.accept("from"):
        raise reader.syntax_error("FROM a table: a view shows one table")
    if reader.accept_sign("("):
        if not (reader.accept("select") and reader.accept_sign("*")):
            raise reader.syntax_error("SELECT * FROM a table")
        table = _whole_table(reader)
        reader.expect_sign(")")
    else:
        table = reader.table_or_view()
    reader.alias()
    return table


# --- CREATE TABLE -----------------------------------------------------------------------------------------------------


def _table(reader: StatementReader, *, or_replace: bool) -> CreateTable | Clone:
    if_not_exists = reader.accept("if", "not", "exists")
    if if_not_exists and or_replace:
        raise InvalidSyntaxError("Write either OR REPLACE or IF NOT EXISTS, not both.", error_class=SYNTAX)
    path = reader.table()
    how: CloneHow = "create_or_replace" if or_replace else "create_if_not_exists" if if_not_exists else "create"
    clone = parse_clone(reader, path, how)
    if clone is not None:
        return clone
    columns = _columns(reader) if reader.is_next("(") else ()
    table = CreateTable(path, columns, if_not_exists=if_not_exists, or_replace=or_replace)
    table = _options(reader, table)
    if not reader.accept("as"):
        return reader.end(table)
    if table.cluster_by:
        raise InvalidSyntaxError(
            "A table that is created from a query cannot be clustered in the same statement. Create it without CLUSTER "
            "BY, then use ALTER TABLE ... CLUSTER BY.",
            error_class=SYNTAX,
        )
    if columns:
        raise InvalidSyntaxError(
            "A table that is created from a query takes its columns from the query. Leave the list of columns out.",
            error_class=SYNTAX,
        )
    return replace(table, query=reader.rest("a query after AS"))


def _options(reader: StatementReader, table: CreateTable) -> CreateTable:
    """The clauses between the columns and the query, in any order, each once."""
    seen: set[str] = set()
    while True:
        token = reader.peek()
        if token is None or token.kind != "word" or token.text == "as":
            return table
        if token.text in seen:
            raise InvalidSyntaxError(f"{token.text.upper()} is given twice.", error_class=SYNTAX)
        seen.add(token.text)
        if reader.accept("using"):
            if reader.name("a format after USING").lower() != "delta":
                reader.at -= 1
                raise reader.syntax_error("USING delta")
        elif reader.accept("partitioned", "by"):
            table = replace(table, partition_by=reader.names("the name of a column"))
        elif reader.accept("cluster", "by"):
            table = replace(table, cluster_by=_field_paths(reader))
        elif reader.accept("comment"):
            table = replace(table, comment=reader.string("a comment in quotes"))
        elif reader.accept("tblproperties"):
            table = replace(table, properties=reader.properties())
        else:
            raise reader.syntax_error("USING delta, PARTITIONED BY, CLUSTER BY, COMMENT, TBLPROPERTIES or AS")


def _field_paths(reader: StatementReader) -> tuple[FieldPath, ...]:
    reader.expect_sign("(")
    paths = [reader.path("the name of a column")]
    while reader.accept_sign(","):
        paths.append(reader.path("the name of a column"))
    reader.expect_sign(")")
    return tuple(paths)


def _columns(reader: StatementReader) -> tuple[ColumnDefinition, ...]:
    reader.expect_sign("(")
    columns = [_column(reader)]
    while reader.accept_sign(","):
        columns.append(_column(reader))
    reader.expect_sign(")")
    return tuple(columns)


def _column(reader: StatementReader) -> ColumnDefinition:
    return parse_column(reader, reader.name("the name of a column"))


def parse_column(reader: StatementReader, name: str, *, stops: tuple[tuple[str, ...], ...] = ()) -> ColumnDefinition:
    """The type and the rules of a column; `stops` are further words that may follow them."""
    column = ColumnDefinition(name, parse_type(reader, stops=stops))
    while True:
        if reader.accept("not", "null"):
            column = replace(column, nullable=False)
        elif reader.accept("comment"):
            column = replace(column, comment=reader.string("a comment in quotes"))
        elif reader.accept("default"):
            default = reader.expression("a default", words=(*_AFTER_TYPE, *stops), signs=_LIST_ENDS)
            column = replace(column, default=default)
        elif reader.accept("generated"):
            column = _generation(reader, column)
        else:
            return column


def _generation(reader: StatementReader, column: ColumnDefinition) -> ColumnDefinition:
    """What follows GENERATED."""
    if column.generated_as is not None or column.identity is not None:
        raise InvalidSyntaxError(
            f"The column '{column.name}' is GENERATED twice.", error_class="CREATE_TABLE_COLUMN_DESCRIPTOR_DUPLICATE"
        )
    by_default = reader.accept("by", "default", "as")
    if not by_default and not reader.accept("always", "as"):
        raise reader.syntax_error("ALWAYS AS or BY DEFAULT AS")
    if reader.accept("identity"):
        return replace(column, identity=_identity(reader, by_default=by_default))
    if by_default:
        raise reader.syntax_error("IDENTITY")
    return replace(column, generated_as=reader.in_parentheses("IDENTITY, or an expression in parentheses"))


def _identity(reader: StatementReader, *, by_default: bool) -> IdentitySpec:
    found: dict[str, int] = {}
    if reader.accept_sign("("):
        while not reader.accept_sign(")"):
            if reader.accept("start", "with"):
                name = "start"
            elif reader.accept("increment", "by"):
                name = "step"
            else:
                raise reader.syntax_error("START WITH, INCREMENT BY or ')'")
            if name in found:
                raise InvalidSyntaxError(
                    f"IDENTITY has two values for its {name}. Write START WITH and INCREMENT BY once each.",
                    error_class="IDENTITY_COLUMNS_DUPLICATED_SEQUENCE_GENERATOR_OPTION",
                )
            found[name] = reader.integer("a whole number of 64 bits")
    return IdentitySpec(by_default, **found)


def parse_type(reader: StatementReader, *, stops: tuple[tuple[str, ...], ...] = ()) -> str:
    """The text of a type; STRUCT<a: INT, b: INT> has commas of its own."""
    first, angles, depth, ends = reader.at, 0, 0, (*_AFTER_TYPE, *stops)
    while (token := reader.peek()) is not None:
        is_outside = angles == 0 and depth == 0
        if is_outside and (token.text in _LIST_ENDS or any(reader.comes(*words) for words in ends)):
            break
        if token.kind == "operator":
            angles += (token.text == "<") - (token.text == ">")
            depth += (token.text == "(") - (token.text == ")")
        reader.at += 1
    if reader.at == first:
        raise reader.syntax_error("the type of the column")
    return reader.text(first, reader.at)
