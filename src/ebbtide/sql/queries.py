"""How does Spark run a query over tables that it does not know?

    SELECT * FROM delta.`/data/people` VERSION AS OF 3 JOIN table_changes('/data/orders', 5) o ON ...

Every table written as delta.`path`, with or without a version or time, and every call of table_changes becomes a
DataFrame of our own scan. Spark gets the query with those in their places; the rest of the text is unchanged.
`spark.sql(text, name=frame)` makes the frames part of the query's own plan, so the result stays valid for as long as it
is used, on Spark Connect too, where a query is analysed again whenever it runs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from ebbtide.changes import read_changes
from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError
from ebbtide.spark_border import spark_errors
from ebbtide.sql.reader import StatementReader
from ebbtide.sql_text import delta_path_at, is_sign, table_places, time_travel_at, tokenize
from ebbtide.table import read

__all__ = ["ChangesReference", "PathReference", "instant", "run_query", "table_mentions"]

_CHANGES: Final = frozenset({"table_changes", "table_changes_by_path"})
_COMMA: Final = frozenset({","})
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True, slots=True)
class PathReference:
    """delta.`path`, optionally at a version or a time; the time is SQL text."""

    path: str
    version: int | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class ChangesReference:
    """table_changes('path', start[, end]); the bounds are SQL text."""

    path: str
    start: str
    end: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a query names a table: the text from `start` to `end`."""

    reference: PathReference | ChangesReference
    start: int
    end: int


def run_query(
    spark: SparkSession, text: str, storage_options: Mapping[str, str] | None, config: EngineConfig
) -> DataFrame:
    """The rows of a query. A table that is named twice is read once, at one version."""
    places = list(table_mentions(text))
    names: dict[PathReference | ChangesReference, str] = {}
    frames: dict[str, Any] = {}
    for place in places:
        if place.reference not in names:
            name = names[place.reference] = f"table_{len(names)}"
            frames[name] = _open(spark, place.reference, storage_options, config)
    with spark_errors("running the query"):
        frame = spark.sql(_with_names(text, places, names), **frames) if frames else spark.sql(text)
        # Connect analyses a query only when asked for something.
        assert frame.columns is not None
        return frame


def _with_names(text: str, places: list[Place], names: Mapping[PathReference | ChangesReference, str]) -> str:
    """The text as `spark.sql` formats it: a name in braces is a frame, and the user's own braces are doubled."""
    parts, position = [], 0
    for place in places:
        parts += [_double_braces(text[position : place.start]), "{", names[place.reference], "}"]
        position = place.end
    return "".join([*parts, _double_braces(text[position:])])


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


# --- which tables -----------------------------------------------------------------------------------------------------


def table_mentions(text: str) -> Iterator[Place]:
    """The tables in a query that Spark does not know, in the order of the text."""
    tokens = tokenize(text, is_statement=True, is_substituted=False) or ()
    reader = StatementReader(text, tokens)
    for at in table_places(tokens, is_query=True):
        reader.at = at
        path = delta_path_at(tokens, at)
        if path is not None:
            reader.at += 3
            reference: PathReference | ChangesReference = _read_reference(reader, path)
        elif tokens[at].text in _CHANGES and is_sign(tokens, at + 1, "("):
            reader.at += 1
            reference = _changes(reader)
        else:
            continue
        yield Place(reference, tokens[at].start, tokens[reader.at - 1].end)


def _read_reference(reader: StatementReader, path: str) -> PathReference:
    travel = time_travel_at(reader.source, reader.tokens, reader.brackets, reader.at)
    if travel is None:
        return PathReference(path)
    reader.at = travel.end
    return PathReference(path, travel.version, travel.timestamp)


def _changes(reader: StatementReader) -> ChangesReference:
    reader.expect_sign("(")
    path = reader.string("the path of a table, as a string")
    if not reader.accept_sign(","):
        raise RequestError(
            "table_changes needs a start: table_changes('path', from[, to]), as versions or timestamps.",
            error_class="DELTA_NO_START_FOR_CDC_READ",
        )
    start = reader.expression("the first version or time", signs=_COMMA)
    end = reader.expression("the last version or time", signs=_COMMA) if reader.accept_sign(",") else None
    reader.expect_sign(")")
    return ChangesReference(_strip_delta(path), start, end)


def _strip_delta(path: str) -> str:
    """The path in '/path' or in 'delta.`/path`'."""
    tokens = tokenize(path, is_substituted=False) or ()
    return (delta_path_at(tokens, 0) if len(tokens) == 3 else None) or path


# --- opening them -----------------------------------------------------------------------------------------------------


def _open(
    spark: SparkSession,
    reference: PathReference | ChangesReference,
    storage_options: Mapping[str, str] | None,
    config: EngineConfig,
) -> DataFrame:
    if isinstance(reference, PathReference):
        time = None if reference.timestamp is None else instant(spark, reference.timestamp)
        return read(spark, reference.path, reference.version, time, storage_options, config=config)
    start_version, start_time = _bound(spark, reference.start)
    end_version, end_time = (None, None) if reference.end is None else _bound(spark, reference.end)
    return read_changes(
        spark,
        reference.path,
        start_version,
        start_time,
        end_version,
        end_time,
        storage_options=storage_options,
        config=config,
    )


def _bound(spark: SparkSession, text: str) -> tuple[int | None, dt.datetime | None]:
    """An integer is a version; what Spark can read as a timestamp is a time."""
    if text.isdecimal():
        return int(text), None
    with spark_errors(f"reading the bound {text} of table_changes"):
        row = spark.sql(f"SELECT {text} AS bound, typeof({text}) AS type").first()
    if row is not None and row["type"] in {"tinyint", "smallint", "int", "bigint"} and row["bound"] is not None:
        return int(row["bound"]), None
    return None, instant(spark, text)


def instant(spark: SparkSession, text: str) -> dt.datetime:
    """The moment that an expression in SQL text means, in the session's time zone; RequestError if it is none."""
    with spark_errors(f"reading the timestamp {text}"):
        # Spark reads the text, so that every spelling that works in Spark SQL works here, in the session's time zone.
        row = spark.sql(f"SELECT unix_millis(try_cast({text} AS TIMESTAMP_LTZ)) AS ms").first()
    if row is None or row["ms"] is None:
        raise RequestError(
            f"{text} is not a timestamp. Write it like '2026-01-31 12:00:00'.", error_class="DELTA_TIMESTAMP_INVALID"
        )
    return _EPOCH + dt.timedelta(milliseconds=int(row["ms"]))
