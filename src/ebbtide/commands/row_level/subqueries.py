"""How does a condition, or a new value, read other Delta tables?

    DELETE FROM delta.`/data/people` WHERE id IN (SELECT id FROM delta.`/data/gone`)

Spark does not know delta.`path`. So every table written that way behind FROM or JOIN is replaced by a temporary view
over our own scan, for as long as the command runs; the rest of the condition stays letter by letter. The target itself
may be among them and is then read as the command's snapshot has it, whoever commits in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession

from ebbtide.commands.requests import DeleteRequest, UpdateRequest, WriteOptions
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.pruning.lexer import Token, tokenize
from ebbtide.scan import scan_rows
from ebbtide.storage import open_store
from ebbtide.storage.locations import parse_location

__all__ = ["OpenedTables", "TableReference", "condition_tables", "is_delta_path", "opened_tables"]
__all__ += ["table_places", "table_references", "update_tables"]

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
    for at in table_places(tokens):
        if is_delta_path(tokens, at):
            _refuse_time_travel(tokens, at + 3)
            found.append(TableReference(tokens[at + 2].value or "", tokens[at].start, tokens[at + 2].end))
    return found


def table_places(tokens: tuple[Token, ...], *, is_query: bool = False) -> Iterator[int]:
    """Where a table may begin: behind FROM, JOIN and the commas between them, at any depth.

    With `is_query` the tokens are a query themselves, not a condition that may hold some.
    """
    levels = [_Level(is_query=is_query)]
    for at, token in enumerate(tokens):
        preceding = tokens[at - 1] if at else None
        if token.kind == "operator" and token.text in {"(", ")"}:
            _step(levels, token, in_from=levels[-1].in_from and _starts_table(preceding, levels[-1]))
        elif token.kind == "word" and (preceding is None or preceding.text != "."):
            _read_keyword(levels[-1], tokens, at)
        if _starts_table(preceding, levels[-1]):
            yield at


@dataclass(frozen=True, slots=True)
class OpenedTables:
    """Texts that Spark can read: views stand in place of delta.`path`. Columns pass as they are."""

    texts: tuple[str | Column | None, ...]
    reads_target: bool

    def options(self, options: WriteOptions) -> WriteOptions:
        """What reads the target cannot be followed file by file when another writer wins.

        Such a request is answered by the reference's rules.
        """
        return replace(options, conflicts="abort") if self.reads_target else options


@contextmanager
def opened_tables(
    spark: SparkSession, snapshot: Snapshot, texts: Sequence[str | Column | None], options: WriteOptions
) -> Iterator[OpenedTables]:
    """The texts of a command on `snapshot` with their tables opened; the views are gone when the block ends."""
    references = [table_references(text) if isinstance(text, str) else [] for text in texts]
    views: dict[str, str] = {}
    reads_target = False
    try:
        for path in dict.fromkeys(reference.path for found in references for reference in found):
            frame, is_target = _opened(spark, snapshot, path, options)
            reads_target |= is_target
            views[path] = f"__ebbtide_{uuid4().hex}"
            frame.createOrReplaceTempView(views[path])
        replaced = (
            _with_views(text, found, views) if isinstance(text, str) else text
            for text, found in zip(texts, references, strict=True)
        )
        yield OpenedTables(tuple(replaced), reads_target)
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


@contextmanager
def condition_tables(spark: SparkSession, snapshot: Snapshot, request: DeleteRequest) -> Iterator[DeleteRequest]:
    """The request with views in place of delta.`path`; the views are gone when the block ends."""
    condition = request.condition
    if not isinstance(condition, str) or not table_references(condition):
        yield request
        return
    with opened_tables(spark, snapshot, [condition], request.options) as opened:
        options = opened.options(request.options)
        yield replace(request, condition=opened.texts[0], shown=request.shown or condition, options=options)


@contextmanager
def update_tables(spark: SparkSession, snapshot: Snapshot, request: UpdateRequest) -> Iterator[UpdateRequest]:
    """The same for the condition and the new values of an UPDATE."""
    condition, values = request.condition, [value for _, value in request.assignments]
    with opened_tables(spark, snapshot, [condition, *values], request.options) as opened:
        names = [name for name, _ in request.assignments]
        assignments = [(name, value) for name, value in zip(names, opened.texts[1:], strict=True) if value is not None]
        shown = request.shown or (condition if isinstance(condition, str) else None)
        yield replace(
            request,
            condition=opened.texts[0],
            assignments=assignments,
            shown=shown,
            options=opened.options(request.options),
        )


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
    if preceding is None:
        return level.is_query
    if preceding.text in _NO_QUERY_BEFORE_FROM:
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


def is_delta_path(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether delta.`path` is written there."""
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
