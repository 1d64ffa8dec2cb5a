"""Which table is behind a temporary view?

    CREATE TEMP VIEW people AS SELECT * FROM delta.`/data/people`
    DELETE FROM people WHERE id = 7

Spark keeps the view; what it is a view of is remembered here, a session at a time. A view that somebody replaced or
dropped since is not ours any more, and nothing is deleted through it. A view of some columns is there to be read: rows
are changed through a view of all of them only. After a change the views of the table are made anew, so that they show
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.config import EngineConfig
from ebbtide.errors import InvalidPredicateError, RequestError, UnknownColumnError
from ebbtide.table import DeltaTable

__all__ = ["create_view", "ensure_shown", "refresh_views", "table_behind"]


@dataclass(frozen=True, slots=True)
class _View:
    path: str
    url: str
    # Those that it shows; none named: all.
    columns: tuple[str, ...]
    frame: DataFrame
    storage_options: Mapping[str, str] | None
    config: EngineConfig


_views: MutableMapping[SparkSession, dict[str, _View]] = WeakKeyDictionary()


def create_view(
    spark: SparkSession,
    name: str,
    path: str,
    *,
    columns: tuple[str, ...] = (),
    or_replace: bool,
    storage_options: Mapping[str, str] | None,
    config: EngineConfig,
) -> None:
    """A temporary view of all rows of the table at `path`, with all columns or those named."""
    table = DeltaTable.forPath(spark, path, storage_options, config=config)
    with border.spark_errors(f"creating the view {name!r}"), border.asking_the_analyser():
        frame = table.toDF()
        if columns:
            frame = frame.select(*(border.column(column) for column in columns))
            border.analyse(frame)
        quoted = border.quoted(name)
        frame.createOrReplaceTempView(quoted) if or_replace else frame.createTempView(quoted)
    known = _views.setdefault(spark, {})
    known[name.lower()] = _View(path, table.url, columns, frame, storage_options, config)


def table_behind(spark: SparkSession, name: str) -> str:
    """The path of the table that the view shows whole; RequestError when it is not such a view."""
    view = _view(spark, name)
    if view is not None and not view.columns:
        return view.path
    if view is not None:
        raise RequestError(
            f"The view '{name}' shows only some columns of its table ({', '.join(view.columns)}), and no rows are "
            f"changed through such a view. Name the table itself: delta.`{view.path}`.",
            error_class="DELTA_UNSUPPORTED_SOURCE",
        )
    raise RequestError(
        f"There is no table to change behind the name '{name}': it is not a temporary view of a whole table that "
        "ebbtide.sql made. Name the table itself, as delta.`/path/to/table`.",
        error_class="DELTA_UNSUPPORTED_SOURCE",
    )


def ensure_shown(spark: SparkSession, name: str, expressions: Iterable[str], *, alias: str | None) -> None:
    """UnknownColumnError when an expression names what a view of some columns does not show.

    As in the reference, a name without a meaning is told before the view is refused as a target.
    """
    view = _view(spark, name)
    if view is None or not view.columns:
        return
    rows = spark.table(border.quoted(name)).alias(alias or name)
    doing = f"reading the columns of the view {name!r}"
    for text in expressions:
        # Anything else that may be wrong with it matters only where rows can be changed.
        with suppress(InvalidPredicateError), border.spark_errors(doing), border.asking_the_analyser():
            border.analyse(rows.select(F.expr(text)))


def refresh_views(spark: SparkSession, table_url: str) -> None:
    """Let the views of this table show its newest version."""
    for name, view in list(_views.get(spark, {}).items()):
        if view.url == table_url and _is_still(spark, name, view):
            _make_anew(spark, name, view)


def _make_anew(spark: SparkSession, name: str, view: _View) -> None:
    try:
        create_view(
            spark,
            name,
            view.path,
            columns=view.columns,
            or_replace=True,
            storage_options=view.storage_options,
            config=view.config,
        )
    except UnknownColumnError:
        # The table was replaced and has the column no more. A view that goes on showing the old rows would be wrong.
        spark.catalog.dropTempView(name)
        del _views[spark][name]


def _view(spark: SparkSession, name: str) -> _View | None:
    """What is known of the view of this name, if it is still the one that was made here."""
    view = _views.get(spark, {}).get(name.lower())
    return view if view is not None and _is_still(spark, name, view) else None


def _is_still(spark: SparkSession, name: str, view: _View) -> bool:
    quoted = border.quoted(name)
    return spark.catalog.tableExists(quoted) and spark.table(quoted).sameSemantics(view.frame)
