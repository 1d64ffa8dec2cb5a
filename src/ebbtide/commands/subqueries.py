"""How does a condition read other Delta tables?

    DELETE FROM delta.`/data/people` WHERE id IN (SELECT id FROM delta.`/data/gone`)

Spark does not know delta.`path`. So every table written that way behind FROM or JOIN is replaced by a temporary view
over our own scan, for as long as the command runs; the rest of the condition stays letter by letter. The target itself
may be among them and is then read as the command's snapshot has it, whoever commits in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.pruning.lexer import Token, tokenize
from ebbtide.scan import scan_rows
from ebbtide.storage import open_store
from ebbtide.storage.locations import parse_location

__all__ = ["TableReference", "condition_tables", "table_references"]

_JOINERS: Final = frozenset({"join", "table"})
# What ends the FROM clause of a query, so that a comma behind it no longer means another table.
_OTHER_CLAUSES: Final = frozenset(
    {
        "select", "where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "union",
        "intersect", "except", "minus", "window", "qualify", "tablesample", "pivot", "unpivot", "with",
    }
)  # fmt: skip
# trim(BOTH FROM x), extract(year FROM x) and `IS DISTINCT FROM x` are no FROM clauses.
_NO_QUERY_BEFORE_FROM: Final = frozenset({"distinct", "both", "leading", "trailing"})


@dataclass(frozen=True, slots=True)
class TableReference:
    """delta.`path` in a condition: `start` and `end` are places in its text."""

    path: str
    start: int
    end: int


@dataclass(slots=True)
class _Level:
    """One pair of parentheses: is it a query, and are we in its FROM clause?"""

    is_query: bool = False
    in_from: bool = False


def table_references(condition: str) -> list[TableReference]:
    """The tables that subqueries of the condition read. A column named `delta` is not taken for one."""
    tokens = tokenize(condition)
    if tokens is None:
        # Text that Spark's lexer does not know either: Spark will say so.
        return []
    found = []
    levels = [_Level()]
    for at, token in enumerate(tokens):
        preceding = tokens[at - 1] if at else None
        if token.kind == "operator" and token.text in {"(", ")"}:
            _step(levels, token, in_from=levels[-1].in_from and _starts_table(preceding, levels[-1]))
        elif token.kind == "word" and (preceding is None or preceding.text != "."):
            _read_keyword(levels[-1], tokens, at)
        if _is_delta_path(tokens, at) and _starts_table(preceding, levels[-1]):
            _refuse_time_travel(tokens, at + 3)
            found.append(TableReference(tokens[at + 2].value or "", token.start, tokens[at + 2].end))
    return found


@contextmanager
def condition_tables(spark: SparkSession, snapshot: Snapshot, request: DeleteRequest) -> Iterator[DeleteRequest]:
    """The request with views in place of delta.`path`; the views are gone when the block ends.

    A condition that reads the target cannot be followed file by file when another writer wins, so such a request is
    answered by the reference's rules.
    """
    condition = request.condition
    references = table_references(condition) if isinstance(condition, str) else []
    if not isinstance(condition, str) or not references:
        yield request
        return
    views: dict[str, str] = {}
    reads_target = False
    try:
        for path in dict.fromkeys(reference.path for reference in references):
            frame, is_target = _opened(spark, snapshot, path, request.options)
            reads_target |= is_target
            views[path] = f"__ebbtide_{uuid4().hex}"
            frame.createOrReplaceTempView(views[path])
        options = replace(request.options, conflicts="abort") if reads_target else request.options
        text = _with_views(condition, references, views)
        yield replace(request, condition=text, shown=request.shown or condition, options=options)
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


def _opened(spark: SparkSession, snapshot: Snapshot, path: str, options: WriteOptions) -> tuple[DataFrame, bool]:
    storage_options = _options_for(path, snapshot, options.storage_options)
    store = open_store(path, storage_options)
    is_target = store.url == snapshot.store.url
    read = snapshot if is_target else load_snapshot(store, config=options.config)
    return scan_rows(spark, read, storage_options=storage_options), is_target


def _options_for(path: str, snapshot: Snapshot, options: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Options are for the service that the target lies in; a table elsewhere finds its own credentials."""
    if not options:
        return None
    return options if parse_location(path).kind == parse_location(snapshot.store.url).kind else None


def _with_views(condition: str, references: list[TableReference], views: Mapping[str, str]) -> str:
    parts, position = [], 0
    for reference in references:
        parts += [condition[position : reference.start], views[reference.path]]
        position = reference.end
    return "".join([*parts, condition[position:]])


# --- where a table may stand ------------------------------------------------------------------------------------------


def _step(levels: list[_Level], token: Token, *, in_from: bool) -> None:
    if token.text == "(":
        # FROM (delta.`a` JOIN delta.`b` ...): parentheses where a table is expected hold tables, or a query.
        levels.append(_Level(is_query=in_from, in_from=in_from))
    elif len(levels) > 1:
        levels.pop()


def _read_keyword(level: _Level, tokens: tuple[Token, ...], at: int) -> None:
    word = tokens[at].text
    if word == "select":
        level.is_query = True
    if word == "from" and _opens_from_clause(level, tokens, at):
        level.is_query = level.in_from = True
    elif word == "join":
        level.in_from = level.is_query
    elif word in _OTHER_CLAUSES:
        level.in_from = False


def _opens_from_clause(level: _Level, tokens: tuple[Token, ...], at: int) -> bool:
    preceding = tokens[at - 1] if at else None
    if preceding is None or preceding.text in _NO_QUERY_BEFORE_FROM:
        return False
    opens_query = preceding.text == "(" and (at < 2 or tokens[at - 2].text != "trim")
    return level.is_query or opens_query


def _starts_table(preceding: Token | None, level: _Level) -> bool:
    if preceding is None:
        return False
    if preceding.kind == "word" and preceding.text in _JOINERS:
        return True
    is_opener = preceding.text in {",", "("} if preceding.kind == "operator" else preceding.text in {"from", "lateral"}
    return level.in_from and is_opener


def _is_delta_path(tokens: tuple[Token, ...], at: int) -> bool:
    if at + 2 >= len(tokens) or tokens[at].kind not in {"word", "quoted_name"}:
        return False
    catalog, dot, name = tokens[at : at + 3]
    return (catalog.value or "").lower() == "delta" and dot.text == "." and name.kind == "quoted_name"


def _refuse_time_travel(tokens: tuple[Token, ...], at: int) -> None:
    words = [token.text for token in tokens[at : at + 4] if token.kind == "word"]
    travels = {("version", "as", "of"), ("timestamp", "as", "of"), ("for", "version", "as"), ("for", "timestamp", "as")}
    if tuple(words[:3]) in travels or tuple(words[1:4]) in travels:
        raise RequestError(
            "A table in a condition is read at its newest version. For another one, make a view of "
            "ebbtide.read(spark, path, version=...) and name that in the condition."
        )
