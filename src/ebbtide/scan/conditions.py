"""What does a condition mean, as SQL text that the driver can reason about?

Users give SQL text or a PySpark Column. Pruning reasons about SQL text. A Column prints itself in a prefix form,

    and(>(id, 1), =(name, 'x y'))

which is turned into SQL as a guess, and the guess counts only when Spark itself says that both mean the same
(`DataFrame.sameSemantics`). Without that proof nothing is pruned, so a literal that looks like code can do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide.log import Snapshot
from ebbtide.protocol.schema import PrimitiveType, StructType
from ebbtide.pruning import Scope, harmless_part, prune
from ebbtide.scan.columns import TableColumns
from ebbtide.spark_border import asking_the_analyser, is_case_sensitive, is_switched_on, printed_column, quote_name
from ebbtide.sql_text import DATES_AS_TEXT, TIME_ZONE, ReadingSettings

__all__ = [
    "safe_on_deleted_rows",
    "column_text",
    "condition_text",
    "empty_frame",
    "prune_snapshot",
    "reading_settings",
    "find_condition_text",
]

_TOKEN = re.compile(r"\s*(?:('(?:[^'\\]|\\.)*')|([(),])|([^(),']+))", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d+)?")
_INFIX = {
    "=": "=",
    "==": "=",
    "<=>": "<=>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "and": "AND",
    "or": "OR",
    **{sign: sign for sign in ("+", "-", "*", "/", "%")},
}
_DATES = frozenset({"date", "timestamp", "timestamp_ntz"})
_QUOTED_NAME = re.compile(r"`((?:[^`]|``)*)`(?=\.|$)")
_QUALIFIER = re.compile(r"(\w+)\.(?=\w)")
_LONGEST_TEXT = 1_000_000


def find_condition_text(spark: SparkSession, snapshot: Snapshot, condition: str | Column) -> str | None:
    """The condition over the table's columns as SQL text; None when no text could be proven equal."""
    return condition if isinstance(condition, str) else condition_text(empty_frame(spark, snapshot), condition)


def safe_on_deleted_rows(spark: SparkSession, snapshot: Snapshot, text: str | None) -> str | None:
    """The part of a condition that a scan may evaluate on rows that are already deleted (`pruning.harmless`)."""
    scope = Scope(
        snapshot.schema,
        tuple(snapshot.metadata.partition_columns),
        snapshot.properties.column_mapping_mode,
        case_sensitive=is_case_sensitive(spark),
    )
    return harmless_part(text, scope)


def prune_snapshot(spark: SparkSession, snapshot: Snapshot, text: str | None, *, alias: str | None = None) -> pa.Table:
    """The files of a snapshot that a condition cannot exclude, under the settings of this session."""
    settings = reading_settings(spark, snapshot.schema)
    return prune(
        snapshot.files,
        text,
        schema=snapshot.schema,
        partition_columns=snapshot.metadata.partition_columns,
        column_mapping_mode=snapshot.properties.column_mapping_mode,
        alias=alias,
        case_sensitive=settings.case_sensitive,
        session_timezone=settings.session_timezone,
        compares_dates_as_text=settings.compares_dates_as_text,
    )


def reading_settings(spark: SparkSession, schema: StructType) -> ReadingSettings:
    """The session settings that change what a condition on these columns means. Each costs a call to Spark."""
    names = {kind.name for kind in _primitive_types(schema)}
    return ReadingSettings(
        case_sensitive=is_case_sensitive(spark),
        session_timezone=spark.conf.get(TIME_ZONE) if "timestamp" in names else None,
        compares_dates_as_text=bool(names & _DATES) and is_switched_on(spark, DATES_AS_TEXT),
    )


def _primitive_types(schema: StructType) -> Iterator[PrimitiveType]:
    """The types that a condition can compare with a literal: of columns, and of fields of structs."""
    for field in schema.fields:
        if isinstance(field.type, StructType):
            yield from _primitive_types(field.type)
        elif isinstance(field.type, PrimitiveType):
            yield field.type


def empty_frame(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """No rows, but the table's columns: what a condition is resolved against."""
    return _without_rows(spark, TableColumns.of(snapshot).logical)


@lru_cache(maxsize=8)
def _without_rows(spark: SparkSession, schema: T.StructType) -> DataFrame:
    """Cached: a command needs it several times, and making it takes thirty calls into the JVM."""
    return spark.createDataFrame([], schema)


def condition_text(frame: DataFrame, condition: Column, *, qualified: bool = False) -> str | None:
    """SQL text that Spark considers equal to the condition over `frame`; None when no text could be proven equal.

    `qualified`: names may have the alias of a side of a join in front.
    """
    printed = printed_column(condition)
    if len(printed) > _LONGEST_TEXT:
        return None
    guesses = [column_text(condition, {name: quote_name(name) for name in frame.columns}, qualified=qualified), printed]
    return next((guess for guess in guesses if guess and _means_the_same(frame, condition, guess)), None)


def column_text(column: Column, names: Mapping[str, str], *, qualified: bool = False) -> str | None:
    """A guess at SQL for a Column, from its printed form; `names` maps columns to their names in the SQL.

    None when the printed form is unknown. The caller must prove that the text means the same.
    """
    printed = printed_column(column)
    tokens = _tokens(printed)
    if tokens is None:
        return None
    qualifiers = set(_QUALIFIER.findall(printed)) if qualified else set()
    try:
        text, rest = _expression(tokens, {name.lower(): text for name, text in names.items()}, qualifiers)
    except (IndexError, RecursionError):
        return None
    return text if not rest else None


def _means_the_same(frame: DataFrame, condition: Column, guess: str) -> bool:
    try:
        with asking_the_analyser():
            return frame.where(F.expr(guess)).sameSemantics(frame.where(condition))
    except PySparkException:
        # A condition that does not resolve is reported where it is used, not here.
        return False


def _tokens(shown: str) -> list[tuple[str, str]] | None:
    tokens, position = [], 0
    while position < len(shown):
        match = _TOKEN.match(shown, position)
        if match is None:
            return None
        quoted, mark, words = match.groups()
        tokens.append(("string", quoted) if quoted else ("mark", mark) if mark else ("words", words.strip()))
        position = match.end()
    return tokens


def _expression(
    tokens: Sequence[tuple[str, str]], names: Mapping[str, str], qualifiers: set[str]
) -> tuple[str, Sequence[tuple[str, str]]]:
    kind, text = tokens[0]
    rest = tokens[1:]
    if kind == "string":
        return text, rest
    if kind == "mark":
        raise IndexError(text)
    if not rest or rest[0] != ("mark", "("):
        return _leaf(text, names, qualifiers), rest
    arguments: list[str] = []
    while rest[0] != ("mark", ")"):
        argument, rest = _expression(rest[1:], names, qualifiers)
        arguments.append(argument)
    return _call(text, arguments), rest[1:]


def _leaf(text: str, names: Mapping[str, str], qualifiers: set[str]) -> str:
    """A name or a literal. Spark Connect prints strings without quotes; both print dates that way."""
    if text.lower() in names:
        return names[text.lower()]
    first, inner = _split_name(text)
    if first.lower() in names:
        return names[first.lower()] + inner
    if text.startswith("`") or first in qualifiers:
        return text
    if _NUMBER.fullmatch(text) or text.lower() in {"true", "false", "null"}:
        return text
    if _DATE.fullmatch(text):
        return f"DATE'{text}'"
    if _TIMESTAMP.fullmatch(text):
        return f"TIMESTAMP'{text}'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _split_name(text: str) -> tuple[str, str]:
    """The first part of a dotted name without its quotes, and the rest with its dot."""
    quoted = _QUOTED_NAME.match(text)
    if quoted is not None:
        return quoted.group(1).replace("``", "`"), text[quoted.end() :]
    first, dot, inner = text.partition(".")
    return first, dot + inner


def _call(name: str, arguments: list[str]) -> str:
    lowered = name.lower()
    if lowered in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[lowered]} {arguments[1]})"
    if lowered in {"!", "not"} and len(arguments) == 1:
        return f"(NOT {arguments[0]})"
    if lowered in {"isnull", "isnotnull"} and len(arguments) == 1:
        return f"({arguments[0]} IS {'NOT ' if lowered == 'isnotnull' else ''}NULL)"
    if lowered == "in" and len(arguments) > 1:
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if lowered == "like" and len(arguments) == 2:
        return f"({arguments[0]} LIKE {arguments[1]})"
    return f"{name}({', '.join(arguments)})"
