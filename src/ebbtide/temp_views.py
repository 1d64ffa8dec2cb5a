"""Which table is behind a temporary view, and which version of it does the view show?

    CREATE TEMP VIEW people AS SELECT * FROM delta.`/data/people`
    DELETE FROM people WHERE id = 7

Spark keeps the view; this module remembers its table, per session. A view holds its table's store, whose URL is
absolute, so it stays with its table when the working directory changes. A view that was replaced or dropped since is no
longer ours, and nothing is deleted through it. A view of some columns is for reading; rows are changed only through a
view of all columns.

Spark pins a view to the files it was made from. `refresh_changed` recreates the views of a table after every command
of ours on it; `refresh_all` does so before `ebbtide.sql` reads, for all views whose table has changed. `drop_views`
takes them away with their table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.config import EngineConfig
from ebbtide.errors import DeltaError, InvalidPredicateError, RequestError, UnknownColumnError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.scan import scan_rows
from ebbtide.sql_text import tokenize
from ebbtide.storage import ObjectStore
from ebbtide.storage.links import is_same_place

__all__ = [
    "ViewSource",
    "create_view",
    "drop_views",
    "ensure_shown",
    "refresh_all",
    "refresh_changed",
    "storage_options_behind",
    "table_behind",
]


@dataclass(frozen=True, slots=True)
class ViewSource:
    """What a view shows: `columns` of a table, or all of them when none is named."""

    store: ObjectStore
    columns: tuple[str, ...]
    storage_options: Mapping[str, str] | None = field(repr=False)  # secrets
    config: EngineConfig


@dataclass(frozen=True, slots=True)
class _View:
    source: ViewSource
    snapshot: Snapshot
    frame: DataFrame


_views: MutableMapping[SparkSession, dict[str, _View]] = WeakKeyDictionary()


def create_view(spark: SparkSession, name: str, source: ViewSource, *, or_replace: bool) -> None:
    """A temporary view of the newest version of a table."""
    _show(spark, name, source, load_snapshot(source.store, config=source.config), or_replace=or_replace)


def storage_options_behind(spark: SparkSession, name: str) -> Mapping[str, str] | None:
    """The options with which this view was created, if any."""
    view = _views.get(spark, {}).get(name.lower())
    return None if view is None else view.source.storage_options


def table_behind(spark: SparkSession, name: str) -> ViewSource:
    """The table of a view of all columns; RequestError for any other name."""
    view = _view(spark, name)
    if view is not None and not view.source.columns:
        return view.source
    if view is not None:
        raise RequestError(
            f"The view '{name}' shows only some columns of its table ({', '.join(view.source.columns)}), and no rows "
            f"are changed through such a view. Name the table itself: delta.`{view.source.store.spark_path}`.",
            error_class="DELTA_UNSUPPORTED_SOURCE",
        )
    raise RequestError(
        f"There is no table to change behind the name '{name}': it is not a temporary view of a whole table that "
        "ebbtide.sql made. Name the table itself, as delta.`/path/to/table`.",
        error_class="DELTA_UNSUPPORTED_SOURCE",
    )


def ensure_shown(spark: SparkSession, name: str, expressions: Iterable[str], *, alias: str | None) -> None:
    """UnknownColumnError when an expression names a column that a view of some columns does not show.

    As in the reference, an unknown name is reported before the view is refused as a target.
    """
    view = _view(spark, name)
    if view is None or not view.source.columns:
        return
    rows = spark.table(border.quote_name(name)).alias(alias or name)
    doing = f"reading the columns of the view {name!r}"
    for text in expressions:
        # Other errors in it matter only if rows can be changed.
        with suppress(InvalidPredicateError), border.spark_errors(doing), border.asking_the_analyser():
            border.analyse(rows.select(F.expr(text)))


# --- the newest version -----------------------------------------------------------------------------------------------


def refresh_changed(spark: SparkSession, table_url: str) -> None:
    """After a command on this table: make its views in the session show the newest version.

    The command has been committed, so a view that cannot be refreshed is only a warning; the next `ebbtide.sql` that
    reads it tries again.
    """
    for name, view in list(_views.get(spark, {}).items()):
        if is_same_place(view.source.store.url, table_url):
            try:
                _refresh(spark, name, view)
            except DeltaError as error:
                message = f"The view '{name}' still shows version {view.snapshot.version} of {table_url}: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=3)


def drop_views(spark: SparkSession, table_url: str) -> None:
    """After the table was dropped: drop its views in the session. One that Spark knows as another's is forgotten."""
    for name, view in list(_views.get(spark, {}).items()):
        if is_same_place(view.source.store.url, table_url):
            if _is_current(spark, name, view):
                spark.catalog.dropTempView(name)
            del _views[spark][name]


def refresh_all(spark: SparkSession, statement: str) -> None:
    """Before a statement runs: make every view of the session show the newest version, whoever wrote it.

    Spark may reach a view through another one, so all are refreshed. A table that cannot be read is an error only if
    the statement mentions its view.
    """
    if spark not in _views:
        return
    tokens = tokenize(statement, is_statement=True, is_substituted=False) or ()
    mentioned = {token.value.lower() for token in tokens if token.value is not None}
    for name, view in list(_views.get(spark, {}).items()):
        try:
            _refresh(spark, name, view)
        except DeltaError:
            if name in mentioned:
                raise


def _refresh(spark: SparkSession, name: str, view: _View) -> None:
    source = view.source
    newest = load_snapshot(source.store, config=source.config, hint=view.snapshot)
    is_same = newest.version == view.snapshot.version and newest.metadata == view.snapshot.metadata
    if is_same or not _is_current(spark, name, view):
        return
    try:
        _show(spark, name, source, newest, or_replace=True)
    except UnknownColumnError:
        # The table was replaced and no longer has the column. A view that kept showing the old rows would be wrong.
        spark.catalog.dropTempView(name)
        del _views[spark][name]


def _show(spark: SparkSession, name: str, source: ViewSource, snapshot: Snapshot, *, or_replace: bool) -> None:
    with border.spark_errors(f"creating the view {name!r}"), border.asking_the_analyser():
        frame = scan_rows(spark, snapshot, storage_options=source.storage_options)
        if source.columns:
            frame = frame.select(*(border.column(column) for column in source.columns))
            border.analyse(frame)
        quoted = border.quote_name(name)
        frame.createOrReplaceTempView(quoted) if or_replace else frame.createTempView(quoted)
    _views.setdefault(spark, {})[name.lower()] = _View(source, snapshot, frame)


def _view(spark: SparkSession, name: str) -> _View | None:
    """The view of this name, if it is still the one that was created here."""
    view = _views.get(spark, {}).get(name.lower())
    return view if view is not None and _is_current(spark, name, view) else None


def _is_current(spark: SparkSession, name: str, view: _View) -> bool:
    quoted = border.quote_name(name)
    return spark.catalog.tableExists(quoted) and spark.table(quoted).sameSemantics(view.frame)
