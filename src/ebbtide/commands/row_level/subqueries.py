"""How does a condition, or a new value, read other Delta tables?

    DELETE FROM delta.`/data/people` WHERE id IN (SELECT id FROM delta.`/data/gone`)

Spark does not know delta.`path`. So every table written that way after FROM or JOIN is replaced by a temporary view
over our own scan, for as long as the command runs; the rest of the condition stays as it is. The target itself may
be among them and is then read at the command's snapshot, even if others commit in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession

from ebbtide.commands.requests import DeleteRequest, UpdateRequest, WriteOptions
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.scan import scan_rows
from ebbtide.sql_text import delta_path_at, match_brackets, table_places, time_travel_at, tokenize
from ebbtide.storage import open_store
from ebbtide.storage.locations import parse_location

__all__ = ["OpenedTables", "TableReference", "condition_tables", "open_tables", "table_references", "update_tables"]


@dataclass(frozen=True, slots=True)
class TableReference:
    """delta.`path` in a condition: `start` and `end` are places in its text."""

    path: str
    start: int
    end: int


def table_references(condition: str) -> list[TableReference]:
    """The tables that subqueries of the condition read. A column named `delta` is not taken for one."""
    tokens = tokenize(condition, is_substituted=False)
    if tokens is None:
        # Spark's lexer cannot read this text either: Spark will report it.
        return []
    found = []
    for at in table_places(tokens):
        path = delta_path_at(tokens, at)
        if path is None:
            continue
        if time_travel_at(condition, tokens, match_brackets(tokens), at + 3) is not None:
            raise RequestError(
                "A table in a condition is read at its newest version. For another one, make a view of "
                "ebbtide.read(spark, path, version=...) and name that in the condition."
            )
        found.append(TableReference(path, tokens[at].start, tokens[at + 2].end))
    return found


@dataclass(frozen=True, slots=True)
class OpenedTables:
    """Texts that Spark can read: views stand in place of delta.`path`. Columns pass as they are."""

    texts: tuple[str | Column | None, ...]
    reads_target: bool

    def options(self, options: WriteOptions) -> WriteOptions:
        """The options, with the reference's conflict rules if the texts read the target.

        Such a request cannot be rebased file by file when another writer wins.
        """
        return replace(options, conflicts="abort") if self.reads_target else options


@contextmanager
def open_tables(
    spark: SparkSession, snapshot: Snapshot, texts: Sequence[str | Column | None], options: WriteOptions
) -> Iterator[OpenedTables]:
    """The texts of a command on `snapshot` with their tables opened; the views are gone when the block ends."""
    references = [table_references(text) if isinstance(text, str) else [] for text in texts]
    views: dict[str, str] = {}
    reads_target = False
    try:
        for path in dict.fromkeys(reference.path for found in references for reference in found):
            frame, is_target = _open_table(spark, snapshot, path, options)
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
    """The request with views in place of delta.`path`; the views are dropped when the block ends."""
    condition = request.condition
    if not isinstance(condition, str) or not table_references(condition):
        yield request
        return
    with open_tables(spark, snapshot, [condition], request.options) as opened:
        options = opened.options(request.options)
        yield replace(
            request, condition=opened.texts[0], display_text=request.display_text or condition, options=options
        )


@contextmanager
def update_tables(spark: SparkSession, snapshot: Snapshot, request: UpdateRequest) -> Iterator[UpdateRequest]:
    """The same for the condition and the new values of an UPDATE."""
    condition, values = request.condition, [value for _, value in request.assignments]
    with open_tables(spark, snapshot, [condition, *values], request.options) as opened:
        names = [name for name, _ in request.assignments]
        assignments = [(name, value) for name, value in zip(names, opened.texts[1:], strict=True) if value is not None]
        display_text = request.display_text or (condition if isinstance(condition, str) else None)
        yield replace(
            request,
            condition=opened.texts[0],
            assignments=assignments,
            display_text=display_text,
            options=opened.options(request.options),
        )


def _open_table(spark: SparkSession, snapshot: Snapshot, path: str, options: WriteOptions) -> tuple[DataFrame, bool]:
    storage_options = _options_for(path, snapshot, options.storage_options)
    store = open_store(path, storage_options)
    is_target = store.url == snapshot.store.url
    read = snapshot if is_target else load_snapshot(store, config=options.config)
    return scan_rows(spark, read, storage_options=storage_options), is_target


def _options_for(path: str, snapshot: Snapshot, options: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Options are for the service that holds the target; a table elsewhere finds its own credentials."""
    if not options:
        return None
    return options if parse_location(path).kind == parse_location(snapshot.store.url).kind else None


def _with_views(condition: str, references: list[TableReference], views: Mapping[str, str]) -> str:
    parts, position = [], 0
    for reference in references:
        parts += [condition[position : reference.start], views[reference.path]]
        position = reference.end
    return "".join([*parts, condition[position:]])
