"""Which table is behind a temporary view?

    CREATE TEMP VIEW people AS SELECT * FROM delta.`/data/people`
    DELETE FROM people WHERE id = 7

Spark keeps the view; what it is a view of is remembered here, a session at a time. A view that somebody replaced or
dropped since is not ours any more, and nothing is deleted through it. After a change the views of the table are made
anew, so that they show it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError
from ebbtide.spark_border import quoted, spark_errors
from ebbtide.table import DeltaTable

__all__ = ["create_view", "refresh_views", "table_behind"]


@dataclass(frozen=True, slots=True)
class _View:
    path: str
    url: str
    frame: DataFrame
    storage_options: Mapping[str, str] | None
    config: EngineConfig


_views: MutableMapping[SparkSession, dict[str, _View]] = WeakKeyDictionary()


def create_view(
    spark: SparkSession,
    name: str,
    path: str,
    *,
    or_replace: bool,
    storage_options: Mapping[str, str] | None,
    config: EngineConfig,
) -> None:
    """A temporary view of all rows and columns of the table at `path`."""
    table = DeltaTable.forPath(spark, path, storage_options, config=config)
    frame = table.toDF()
    with spark_errors(f"creating the view {name!r}"):
        frame.createOrReplaceTempView(quoted(name)) if or_replace else frame.createTempView(quoted(name))
    known = _views.setdefault(spark, {})
    known[name.lower()] = _View(path, table.url, frame, storage_options, config)


def table_behind(spark: SparkSession, name: str) -> str:
    """The path of the table that the view shows whole; RequestError when it is not such a view."""
    view = _views.get(spark, {}).get(name.lower())
    if view is not None and _is_still(spark, name, view):
        return view.path
    raise RequestError(
        f"There is no table to change behind the name '{name}': it is not a temporary view of a whole table that "
        "ebbtide.sql made. Name the table itself, as delta.`/path/to/table`.",
        error_class="DELTA_UNSUPPORTED_SOURCE",
    )


def refresh_views(spark: SparkSession, table_url: str) -> None:
    """Let the views of this table show its newest version."""
    known = _views.get(spark, {})
    for name, view in list(known.items()):
        if view.url == table_url and _is_still(spark, name, view):
            create_view(
                spark, name, view.path, or_replace=True, storage_options=view.storage_options, config=view.config
            )


def _is_still(spark: SparkSession, name: str, view: _View) -> bool:
    """Whether Spark's view of this name is the one that was made here."""
    if not spark.catalog.tableExists(quoted(name)):
        return False
    return spark.table(quoted(name)).sameSemantics(view.frame)
