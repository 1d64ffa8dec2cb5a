"""Can this condition decide which rows to change, and what is it about?

Spark's own analyser checks a condition before any work is done: it must resolve, be boolean, and be
deterministic, because it may be evaluated more than once. The columns it uses decide the branch of a DELETE: if it
resolves against the partition columns alone, the log answers it without reading data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.commands.requests import DeleteRequest, MatchingKeys
from ebbtide.errors import InvalidPredicateError, RequestError, UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.protocol.partition_values import to_arrow
from ebbtide.protocol.schema import StructType, logical_schema, partition_fields, physical_name
from ebbtide.protocol.schema_edits import shown_names
from ebbtide.pruning import is_partition_only, nondeterministic_functions, partition_only_conjuncts
from ebbtide.scan.columns import spark_type
from ebbtide.scan.conditions import condition_text, empty_frame, prune_snapshot, reading_settings
from ebbtide.sql_text import text_has_subquery
from ebbtide.transaction import ReadPredicate

__all__ = ["BoundCondition", "KeyMatcher", "Matcher", "bind_condition", "bind_matcher", "partition_predicate"]

_NOT_DETERMINISTIC = "INVALID_NON_DETERMINISTIC_EXPRESSIONS"


class Matcher(Protocol):
    """Which rows an operation changes, chosen by a condition or by keys."""

    @property
    def display_text(self) -> str:
        """For people, and for the commit's record."""

    @property
    def is_partition_only(self) -> bool:
        """Whether partition values alone decide, so that each file matches as a whole or not at all."""

    @property
    def is_row_local(self) -> bool:
        """Whether the row alone decides, without a join to another table."""

    def matching(self, frame: DataFrame) -> DataFrame:
        """The matching rows of a frame that has the table's columns, its other columns kept."""

    def candidates(self, spark: SparkSession, snapshot: Snapshot) -> pa.Table:
        """The live files that can hold a matching row."""

    def read_predicate(self, spark: SparkSession, snapshot: Snapshot) -> ReadPredicate:
        """What was read, for the check against concurrent writers."""


@dataclass(frozen=True, slots=True)
class BoundCondition:
    """A condition that was checked against this table.

    `column` is what to filter by, over a frame aliased `alias`; `text` is SQL of the same meaning where that is known;
    `display_text` is for the commit's record. `is_partition_only`: partition values alone decide it.
    """

    column: Column
    text: str | None
    display_text: str
    alias: str | None
    is_partition_only: bool
    is_row_local: bool = True

    def matching(self, frame: DataFrame) -> DataFrame:
        """The rows for which the condition is true; a row for which it is null does not match."""
        named = frame.alias(self.alias) if self.alias else frame
        return named.where(self.column)

    def candidates(self, spark: SparkSession, snapshot: Snapshot) -> pa.Table:
        """The live files that can hold a matching row."""
        if self.is_partition_only:
            return _files_by_values(spark, snapshot, self)
        return prune_snapshot(spark, snapshot, self.text, alias=self.alias)

    def read_predicate(self, spark: SparkSession, snapshot: Snapshot) -> ReadPredicate:
        return partition_predicate(spark, snapshot, self.text, alias=self.alias)


@dataclass(frozen=True, slots=True)
class KeyMatcher:
    """Rows whose key columns equal those of some row of `keys`. A null equals nothing, so it never matches."""

    keys: DataFrame
    on: tuple[str, ...]

    @property
    def display_text(self) -> str:
        return f"({', '.join(self.on)}) IN (keys of a DataFrame)"

    @property
    def is_partition_only(self) -> bool:
        return False

    @property
    def is_row_local(self) -> bool:
        return False

    def matching(self, frame: DataFrame) -> DataFrame:
        return frame.join(self.keys, list(self.on), "left_semi").select(
            *(border.column(name) for name in frame.columns)
        )

    def candidates(self, spark: SparkSession, snapshot: Snapshot) -> pa.Table:
        """All files: the keys are not known to the driver."""
        del spark
        return snapshot.files

    def read_predicate(self, spark: SparkSession, snapshot: Snapshot) -> ReadPredicate:
        del spark, snapshot
        return ReadPredicate()


def partition_predicate(
    spark: SparkSession, snapshot: Snapshot, text: str | None, *, alias: str | None
) -> ReadPredicate:
    """The part of a condition that partition values decide, for the check against concurrent writers."""
    if text is None:
        return ReadPredicate()
    parts = partition_only_conjuncts(text, snapshot.schema, snapshot.metadata.partition_columns, alias=alias)
    if not parts:
        return ReadPredicate()
    settings = reading_settings(spark, snapshot.schema)
    return ReadPredicate(" AND ".join(f"({part})" for part in parts), alias, settings)


def bind_matcher(spark: SparkSession, snapshot: Snapshot, request: DeleteRequest) -> Matcher | None:
    """What the request chooses in this table; None: every row."""
    if request.condition is None:
        return None
    if isinstance(request.condition, MatchingKeys):
        return bind_keys(spark, snapshot, request.condition)
    return bind_condition(spark, snapshot, request.condition, alias=request.alias, display_text=request.display_text)


def bind_keys(spark: SparkSession, snapshot: Snapshot, keys: MatchingKeys) -> KeyMatcher:
    """The keys, checked against both sides and computed once: they may be read more than once."""
    on = (keys.on,) if isinstance(keys.on, str) else tuple(keys.on)
    if not on:
        raise RequestError("delete_matching needs at least one key column: on=['id'].")
    is_exact = border.is_case_sensitive(spark)
    _require_columns(on, snapshot.schema.names, f"the table at {snapshot.store.url}", is_exact=is_exact)
    _require_columns(on, keys.source.columns, "the source DataFrame", is_exact=is_exact)
    with border.spark_errors("reading the keys to delete"):
        distinct_keys = keys.source.select(*(border.column(name) for name in on)).distinct().localCheckpoint()
    return KeyMatcher(distinct_keys, on)


def _require_columns(wanted: Sequence[str], present: Sequence[str], where: str, *, is_exact: bool) -> None:
    """`is_exact`: letter case counts."""
    known = set(present) if is_exact else {name.lower() for name in present}
    missing = [name for name in wanted if (name if is_exact else name.lower()) not in known]
    if missing:
        raise UnknownColumnError(f"{where} has no column {missing[0]!r}; it has {shown_names(present)}.")


def bind_condition(
    spark: SparkSession,
    snapshot: Snapshot,
    condition: str | Column,
    *,
    alias: str | None = None,
    display_text: str | None = None,
) -> BoundCondition:
    """Check the condition against the table's columns: InvalidPredicateError or UnknownColumnError if it is wrong."""
    if not isinstance(condition, str | Column):
        raise RequestError(f"A condition is SQL text or a Column, not {type(condition).__name__}: {condition!r}.")
    if isinstance(condition, str) and not condition.strip():
        raise InvalidPredicateError(
            "The condition is empty. Leave it out to mean every row, or write one like 'id = 5'."
        )
    column = F.expr(condition) if isinstance(condition, str) else condition
    display_text = display_text or (condition if isinstance(condition, str) else border.printed_column(condition))
    frame = empty_frame(spark, snapshot)
    named = frame.alias(alias) if alias else frame
    has_subquery = text_has_subquery(display_text)
    with border.spark_errors(f"reading the condition {display_text!r}"), border.asking_the_analyser():
        _check(spark, named, column, display_text, has_subquery=has_subquery)
    text = condition if isinstance(condition, str) else condition_text(named, condition)
    return BoundCondition(
        column=column,
        text=text,
        display_text=display_text,
        alias=alias,
        is_row_local=not has_subquery,
        is_partition_only=not has_subquery and _is_partition_only(spark, snapshot, column, text, alias),
    )


def _check(spark: SparkSession, frame: DataFrame, column: Column, display_text: str, *, has_subquery: bool) -> None:
    """Analyse the condition as a filter, then as a join condition, where Spark allows no randomness."""
    found = nondeterministic_functions(display_text)
    if found:
        _refuse_random(display_text, ", ".join(f"{name}()" for name in sorted(found)))
    if has_subquery:
        border.analyse(frame.where(column))
        return
    other = spark.range(1).select(F.lit(1).alias(border.HelperNames(frame.columns).pick("other")))
    try:
        # A join condition must be deterministic, a filter need not be. So this covers functions unknown to us.
        border.analyse(frame.join(other, column, "left_semi"))
    except PySparkException as error:
        if border.condition_of(error).startswith(_NOT_DETERMINISTIC):
            _refuse_random(display_text, "a function whose answer changes from call to call")
        # Other errors are reported without the join, where the message is clearer.
        border.analyse(frame.where(column))
        raise


def _refuse_random(display_text: str, what: str) -> None:
    raise InvalidPredicateError(
        f"The condition {display_text!r} uses {what}: it could choose other rows each time it is evaluated. "
        "Store the choice in a column first, or select the keys into a DataFrame and use delete_matching.",
        error_class=_NOT_DETERMINISTIC,
    )


def _is_partition_only(
    spark: SparkSession, snapshot: Snapshot, column: Column, text: str | None, alias: str | None
) -> bool:
    partition_columns = snapshot.metadata.partition_columns
    if text is not None:
        return is_partition_only(text, snapshot.schema, partition_columns, alias=alias) is True
    if not partition_columns:
        return False
    frame = _values_frame(spark, snapshot, snapshot.files.slice(0, 0))
    try:
        # What resolves against the partition columns alone uses no other column.
        with border.asking_the_analyser():
            border.analyse((frame.alias(alias) if alias else frame).where(column))
    except PySparkException:
        return False
    return True


def _files_by_values(spark: SparkSession, snapshot: Snapshot, condition: BoundCondition) -> pa.Table:
    """The files whose partition values make the condition true, as Spark itself evaluates it."""
    files = snapshot.files
    places = _values_frame(spark, snapshot, files)
    ordinal = places.columns[-1]
    with border.spark_errors(f"evaluating the condition {condition.display_text!r} on partition values"):
        kept = condition.matching(places).select(border.column(ordinal)).collect()
    return files.take(pa.array(sorted(row[0] for row in kept), pa.int64()))


def _values_frame(spark: SparkSession, snapshot: Snapshot, files: pa.Table) -> DataFrame:
    """One row per file: its typed partition values, and its position in the list as the last column."""
    fields = partition_fields(snapshot.schema, snapshot.metadata.partition_columns)
    mapped = snapshot.properties.column_mapping_mode != "none"
    values = files["partition_values"].to_pylist()
    columns: dict[str, pa.Array] = {}
    for field in fields:
        name = physical_name(field) if mapped else field.name
        texts = pa.array([dict(row).get(name) for row in values], pa.string())
        columns[field.name] = to_arrow(texts, field.type, column=field.name)
    ordinal = border.HelperNames(snapshot.schema.names).pick("ordinal")
    columns[ordinal] = pa.array(range(len(values)), pa.int64())
    schema = T.StructType(
        [*spark_type(logical_schema(StructType(tuple(fields)))).fields, T.StructField(ordinal, T.LongType())]
    )
    return border.frame_from_arrow(spark, pa.table(columns), schema)
