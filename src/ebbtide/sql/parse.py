"""Which statement is this text?"""

from __future__ import annotations

from typing import Final

from ebbtide.errors import InvalidSyntaxError
from ebbtide.sql.parse_alter import parse_alter
from ebbtide.sql.parse_maintenance import parse_maintenance
from ebbtide.sql.parse_rows import parse_delete, parse_insert, parse_merge, parse_update
from ebbtide.sql.parse_tables import parse_create, parse_describe, parse_drop, parse_show
from ebbtide.sql.reader import SYNTAX, StatementReader, excerpt
from ebbtide.sql.statements import Explain, Query, Statement, Truncate
from ebbtide.sql_text import Token, is_sign, tokenize

__all__ = ["parse_statement"]

_QUERY_WORDS: Final = frozenset({"select", "from", "values", "table"})
_EXPLAIN_MODES: Final = ("extended", "codegen", "cost", "formatted")


def parse_statement(text: str) -> Statement:
    """Parse one statement; RequestError says what was expected, or which statements there are."""
    # Spark replaces ${...} in the parts that we pass on; our own keywords are read as they were written.
    tokens = tokenize(text, is_statement=True, is_substituted=False)
    if tokens is None:
        raise InvalidSyntaxError(
            f"The statement {excerpt(text)} holds text that is not Spark SQL: a string, name or comment that is not "
            "closed, or a character that SQL does not use.",
            error_class=SYNTAX,
        )
    return _statement(StatementReader(*_single_statement(text, tokens)))


def _single_statement(text: str, tokens: tuple[Token, ...]) -> tuple[str, tuple[Token, ...]]:
    """The text before the closing semicolon; RequestError when another statement follows."""
    end = next((at for at in range(len(tokens)) if is_sign(tokens, at, ";")), None)
    if end is None:
        return text, tokens
    rest = next((token for token in tokens[end:] if token.text != ";"), None)
    if rest is not None:
        raise InvalidSyntaxError(
            f"There is more than one statement: after the first semicolon comes {excerpt(text[rest.start :])}. "
            "Run them one at a time.",
            error_class=SYNTAX,
        )
    return text[: tokens[end].start], tokens[:end]


def _statement(reader: StatementReader) -> Statement:
    ctes = _common_tables(reader)
    if reader.comes("merge"):
        return parse_merge(reader, ctes)
    if reader.comes("insert"):
        return parse_insert(reader, ctes)
    if _is_query(reader):
        return Query(reader.source.strip())
    if ctes:
        raise reader.syntax_error("SELECT, MERGE or INSERT after WITH")
    if reader.accept("delete", "from"):
        return parse_delete(reader)
    if reader.accept("truncate", "table"):
        return reader.end(Truncate(reader.table_or_view()))
    if reader.accept("update"):
        return parse_update(reader)
    if reader.accept("alter", "table"):
        return parse_alter(reader)
    if reader.accept("describe") or reader.accept("desc"):
        return parse_describe(reader)
    if reader.accept("show"):
        return parse_show(reader)
    if reader.accept("explain"):
        return _explain(reader)
    if reader.accept("create"):
        return parse_create(reader)
    if reader.accept("drop"):
        return parse_drop(reader)
    maintenance = parse_maintenance(reader)
    if maintenance is None:
        raise reader.unknown_statement()
    return maintenance


def _is_query(reader: StatementReader) -> bool:
    token = reader.peek()
    return token is not None and (token.text in _QUERY_WORDS or token.text == "(")


def _common_tables(reader: StatementReader) -> str:
    """WITH name AS (query), ... in front of the statement proper, as it was written; empty when there is none."""
    first = reader.at
    if not reader.accept("with"):
        return ""
    reader.accept("recursive")
    while True:
        reader.name("the name of a query after WITH")
        if reader.is_next("("):
            reader.names("the name of a column")
        # RECURSIVE may limit its levels before AS.
        if reader.accept("max", "recursion", "level"):
            reader.number("a number of levels")
        reader.accept("as")
        reader.in_parentheses("a query")
        if not reader.accept_sign(","):
            return reader.text(first, reader.at)


def _explain(reader: StatementReader) -> Explain:
    # Spark's modes say how much of a plan to print; ours has one form.
    any(reader.accept(mode) for mode in _EXPLAIN_MODES)
    ctes = _common_tables(reader)
    if reader.comes("merge"):
        return Explain(parse_merge(reader, ctes))
    if not ctes and reader.accept("update"):
        return Explain(parse_update(reader))
    if not ctes and reader.accept("delete", "from"):
        return Explain(parse_delete(reader))
    raise reader.syntax_error("MERGE after WITH" if ctes else "DELETE FROM, UPDATE or MERGE")
