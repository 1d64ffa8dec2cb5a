"""What do OPTIMIZE and REORG say?"""

from __future__ import annotations

from ebbtide.sql.maintenance_statements import Optimize, Reorg
from ebbtide.sql.reader import StatementReader
from ebbtide.sql.table_names import TableName

__all__ = ["parse_optimize", "parse_reorg"]


def parse_optimize(reader: StatementReader) -> Optimize:
    path = _table(reader)
    full = reader.accept("full")
    where = _where(reader, ("zorder", "by"))
    columns = _columns(reader) if reader.accept("zorder", "by") else ()
    return reader.end(Optimize(path, where, columns, full))


def _table(reader: StatementReader) -> TableName:
    token = reader.peek()
    if token is not None and token.kind == "string":
        return reader.table_or_path()
    return reader.table_or_view(not_a_name=frozenset({"where", "zorder", "full"}))


def parse_reorg(reader: StatementReader) -> Reorg:
    path = reader.table_or_view(not_a_name=frozenset({"where", "apply"}))
    where = _where(reader, ("apply",))
    reader.expect("apply")
    reader.expect_sign("(")
    if not reader.accept("purge"):
        raise reader.syntax_error("PURGE: nothing else can be applied here")
    reader.expect_sign(")")
    return reader.end(Reorg(path, where))


def _where(reader: StatementReader, stop: tuple[str, ...]) -> str | None:
    if not reader.accept("where"):
        return None
    return reader.expression("a condition after WHERE", words=(stop,))


def _columns(reader: StatementReader) -> tuple[str, ...]:
    """Columns with commas between them, in parentheses or without."""
    is_enclosed = reader.accept_sign("(")
    found = [reader.dotted_name("the name of a column")]
    while reader.accept_sign(","):
        found.append(reader.dotted_name("the name of a column"))
    if is_enclosed:
        reader.expect_sign(")")
    return tuple(found)
