"""What do the clauses of a MERGE mean for this table and this source?

Everything is checked by Spark's own analyser before any work is done. ON and WHEN MATCHED see the columns of both
sides, INSERT those of the source only, WHEN NOT MATCHED BY SOURCE those of the target only. Conditions must be boolean
and deterministic and look at one row. Values are stored by the rules of store assignment. A clause without a condition
holds for every row; a condition that is null does not hold.

`*` means the columns of the target, each of which the source must have. With schema evolution it means those of the
source, and what the target lacks is added to its schema (`protocol.schema_evolution`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.merge.bound_columns import Rebinder
from ebbtide.commands.merge.evolution import UNRESOLVED, evolve_metadata, has_same_fields, split_by_field
from ebbtide.commands.merge.request import DeleteClause, Expression, InsertClause, MergeRequest, UpdateClause, ValuesOf
from ebbtide.commands.merge.source import Source
from ebbtide.commands.row_level.assignments import Assignment, Target, find_target, refuse_identity
from ebbtide.errors import InvalidPredicateError, RequestError, UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Metadata
from ebbtide.protocol.schema import StructField, StructType, parse_schema
from ebbtide.pruning import nondeterministic_functions
from ebbtide.scan.conditions import condition_text, empty_frame
from ebbtide.sql_text import text_has_subquery
from ebbtide.write import WriteTarget, default_value
from ebbtide.write.identity import refuse_given_numbers

__all__ = ["BoundClause", "BoundMerge", "bind_merge"]

_NOT_DETERMINISTIC: Final = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"
_AGGREGATE: Final = "DELTA_AGGREGATION_NOT_SUPPORTED"
# Spark's errors for an expression that reads or makes more than one row.
_NOT_OF_ONE_ROW: Final = (
    "INVALID_WHERE_CONDITION",
    "UNSUPPORTED_EXPR_FOR_OPERATOR",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE",
    "UNSUPPORTED_GENERATOR",
)
_GENERATED: Final = "delta.generationExpression"

Kind = Literal["update", "delete", "insert"]


@dataclass(frozen=True, slots=True)
class BoundClause:
    """A clause that was checked against this table; `condition` is true if none was given."""

    kind: Kind
    condition: Column
    # The user's condition, for the commit's record.
    display_text: str | None
    text: str | None
    assignments: tuple[Assignment, ...] = ()
    # SET * or INSERT *: all values are columns of the source.
    is_star: bool = False

    def takes_source_row(self, schema: StructType) -> bool:
        """Whether the row that this clause makes is the source's row, whatever the target's was."""
        paths = {assignment.target.path for assignment in self.assignments}
        return self.is_star and self.display_text is None and paths == {(name,) for name in schema.names}

    @property
    def columns(self) -> frozenset[str]:
        """The columns that get a value, or a field with one, in lower case."""
        return frozenset(assignment.target.path[0].lower() for assignment in self.assignments)


@dataclass(frozen=True, slots=True)
class BoundMerge:
    """A merge that was checked against this snapshot. `metadata` is the table's, plus the merge's new columns."""

    condition: Column
    text: str | None
    display_text: str
    alias: str
    matched: tuple[BoundClause, ...]
    not_matched: tuple[BoundClause, ...]
    by_source: tuple[BoundClause, ...]
    metadata: Metadata
    schema: StructType
    policy: str

    @property
    def updates_to_source_rows(self) -> bool:
        """Whether every matched row becomes its source row, so that the old row is not needed."""
        return len(self.matched) == 1 and self.matched[0].takes_source_row(self.schema)

    @property
    def inserts_source_rows(self) -> bool:
        return len(self.not_matched) == 1 and self.not_matched[0].takes_source_row(self.schema)

    @property
    def needs_partners(self) -> bool:
        """Whether it matters which source rows have a match."""
        return bool(self.not_matched) or self.updates_to_source_rows


def bind_merge(spark: SparkSession, snapshot: Snapshot, request: MergeRequest, source: Source) -> BoundMerge:
    """The request, checked against both sides; a RequestError if it cannot be done."""
    alias = request.target_alias or border.HelperNames(snapshot.schema.names, source.columns).pick("target")
    # Without an alias from the user the frame gets none, so that Spark's messages show no name of ours.
    target = empty_frame(spark, snapshot)
    target = target.alias(alias) if request.target_alias else target
    metadata = evolve_metadata(snapshot, request, source)
    schema = snapshot.schema if metadata is snapshot.metadata else parse_schema(metadata.schema_string)
    rebinder = Rebinder(spark, target, alias, source)
    place = WriteTarget.of(snapshot)
    binder = _Binder(spark, source, schema, alias, request.schema_evolution, rebinder, place)
    with _ask_analyser("the source and the target"):
        both = target.crossJoin(source.given)
    condition = binder.condition(both, request.condition, "ON")
    text = request.condition if isinstance(request.condition, str) else None
    if text is None and condition is request.condition:
        text = condition_text(both, condition, qualified=True)
    return BoundMerge(
        condition=condition,
        text=text,
        display_text=request.display_text or _text_of(request.condition),
        alias=alias,
        matched=tuple(binder.clause(both, clause, "WHEN MATCHED") for clause in request.matched),
        not_matched=tuple(binder.clause(source.given, clause, "WHEN NOT MATCHED") for clause in request.not_matched),
        by_source=tuple(
            binder.clause(target, clause, "WHEN NOT MATCHED BY SOURCE") for clause in request.not_matched_by_source
        ),
        metadata=metadata,
        schema=schema,
        policy=spark.conf.get("spark.sql.storeAssignmentPolicy") or "ANSI",
    )


@dataclass(frozen=True, slots=True)
class _Binder:
    spark: SparkSession
    source: Source
    schema: StructType
    alias: str
    evolves: bool
    rebinder: Rebinder
    write_target: WriteTarget

    def clause(self, scope: DataFrame, clause: UpdateClause | DeleteClause | InsertClause, where: str) -> BoundClause:
        given = clause.condition
        condition = F.lit(True) if given is None else self.condition(scope, given, f"{where} AND")
        display_text = None if given is None else _text_of(given)
        text = given if isinstance(given, str) else None
        if isinstance(clause, DeleteClause):
            return BoundClause("delete", condition, display_text, text)
        kind: Kind = "update" if isinstance(clause, UpdateClause) else "insert"
        assignments = self.assignments(scope, clause.values, kind)
        _refuse_overlaps(assignments, kind)
        return BoundClause(kind, condition, display_text, text, assignments, clause.values is None)

    def condition(self, scope: DataFrame, condition: Expression, where: str) -> Column:
        """The condition as a column, checked against `scope`."""
        text = _text_of(condition)
        if not isinstance(condition, str | Column):
            raise RequestError(f"The condition of {where} is SQL text or a Column, not {type(condition).__name__}.")
        if not text.strip():
            raise InvalidPredicateError(f"The condition of {where} is empty. Write one like 't.id = s.id'.")
        if text_has_subquery(text):
            raise InvalidPredicateError(
                f"The condition {text!r} of {where} has a subquery, which a merge does not take. Join what it reads "
                "to the source first.",
                error_class="DELTA_UNSUPPORTED_SUBQUERY",
            )
        if found := nondeterministic_functions(text):
            names = ", ".join(f"{name}()" for name in sorted(found))
            raise InvalidPredicateError(
                f"The condition {text!r} of {where} uses {names}: it could choose other rows each time it is "
                "evaluated. Compute the choice as a column of the source.",
                error_class=_NOT_DETERMINISTIC,
            )
        with _ask_analyser(f"the condition {text!r} of {where}"):
            column = F.expr(condition) if isinstance(condition, str) else condition
            border.analyse(scope.where(column))
            # A join condition must be deterministic, a filter need not be.
            name = border.HelperNames(self.schema.names, self.source.columns).pick("other")
            border.analyse(scope.join(self.spark.range(1).select(F.lit(1).alias(name)), column, "left_semi"))
            return self.rebinder.rebind(condition) if isinstance(condition, Column) else column

    def _value(self, value: Expression, target: Target) -> Column:
        if isinstance(value, Column):
            return value
        if not value.strip():
            raise RequestError(f"The value of '{target.dotted_name}' is empty. For an empty string write \"''\".")
        if value.strip().lower() == "default":
            return default_value(target.field, self.write_target, self.spark)
        with _ask_analyser(f"the value {value!r} of '{target.dotted_name}'"):
            return F.expr(value)

    def assignments(self, scope: DataFrame, values: ValuesOf, kind: Kind) -> tuple[Assignment, ...]:
        if values is None:
            return tuple(self._star(kind))
        targets = [self._target(name, kind) for name, _ in values]
        columns = []
        for target, (_, value) in zip(targets, values, strict=True):
            columns.append(self._value(value, target))
        with _ask_analyser(f"the values of {kind.upper()}"):
            # A filter refuses what reads or makes several rows: aggregates, windows, explode.
            # One filter for all: the analyser's time per question grows with the columns.
            border.analyse(scope.where((columns[0] if len(columns) == 1 else F.struct(*columns)).isNull()))
            types = scope.select(*(column.alias(f"c{place}") for place, column in enumerate(columns))).schema.fields
            # Values that are SQL text are not bound to anything.
            own = [
                self.rebinder.rebind(column) if isinstance(value, Column) else column
                for column, (_, value) in zip(columns, values, strict=True)
            ]
        found = tuple(
            Assignment(target, column, field.dataType)
            for target, column, field in zip(targets, own, types, strict=True)
        )
        for assignment in found:
            self._check_nested(assignment)
        return found

    def _target(self, name: str, kind: Kind) -> Target:
        try:
            target = find_target(self.schema, name, alias=self.alias, is_exact=self.source.is_exact)
        except UnknownColumnError as error:
            raise UnknownColumnError(_strip_error_class(error), error_class=UNRESOLVED) from error
        if kind == "insert" and len(target.path) > 1:
            raise RequestError(
                f"INSERT gives a value to '{target.dotted_name}', a field of a struct. Give the whole column "
                f"'{target.path[0]}' a value.",
                error_class="DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
            )
        self._refuse_number(target.field, kind)
        return target

    def _refuse_number(self, field: StructField, kind: Kind) -> None:
        """Refuse a value for an identity column: always in an UPDATE, and where the column allows none in an INSERT."""
        if kind == "insert":
            refuse_given_numbers(self.write_target, [field.name.lower()])
        else:
            refuse_identity(field)

    def _star(self, kind: Kind) -> Iterator[Assignment]:
        names = (
            [field.name for field in self.source.fields.values()]
            if self.evolves
            else [field.name for field in self.schema.fields]
        )
        fields = {self.source.key(field.name): field for field in self.schema.fields}
        for name in names:
            field, column = fields.get(self.source.key(name)), self.source.get(name)
            if field is None:
                raise UnknownColumnError(
                    f"{kind.upper()} * has no column '{name}' to write to: letter case counts in this session "
                    "(spark.sql.caseSensitive=true). Rename the column in the source.",
                    error_class=UNRESOLVED,
                )
            if column is None:
                if _GENERATED in field.metadata or field.is_identity:
                    continue
                raise UnknownColumnError(
                    f"{kind.upper()} * needs the column '{name}' in the source, which has "
                    f"{', '.join(found.name for found in self.source.fields.values())}. Name the columns instead, or "
                    "use schema evolution.",
                    error_class=UNRESOLVED,
                )
            value = self.source.copy_of(name)
            self._refuse_number(field, kind)
            whole = Assignment(Target((field.name,), field), value, column.dataType)
            if kind == "update" and self.evolves:
                yield from split_by_field(whole)
            else:
                self._check_nested(whole)
                yield whole

    def _check_nested(self, assignment: Assignment) -> None:
        """Without evolution a struct has exactly the fields of its column: nothing is silently dropped or filled in."""
        if not self.evolves and not has_same_fields(assignment.given, assignment.target.field.type):
            raise RequestError(
                f"The value for '{assignment.target.dotted_name}' is {assignment.given.simpleString()}, and the column "
                f"has other fields. All nested columns must match; schema evolution would add those that are missing.",
                error_class="DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
            )


# --- words ------------------------------------------------------------------------------------------------------------


def _refuse_overlaps(assignments: Sequence[Assignment], kind: Kind) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for assignment in assignments:
        path = assignment.target.path
        for other, name in seen.items():
            shorter = min(len(path), len(other))
            if path[:shorter] == other[:shorter]:
                both = name if path == other else f"{name}, {assignment.target.dotted_name}"
                raise RequestError(
                    f"There is a conflict among the SET columns: {kind.upper()} gives more than one value to {both}. "
                    "Keep one of them.",
                    error_class="DELTA_CONFLICT_SET_COLUMN"
                    if kind == "update"
                    else "DELTA_DUPLICATE_COLUMNS_ON_INSERT",
                )
        seen[path] = assignment.target.dotted_name


def _text_of(condition: Expression) -> str:
    return condition if isinstance(condition, str) else border.printed_column(condition)


def _strip_error_class(error: Exception) -> str:
    """The message without the error class in front."""
    return re.sub(r"^\[[\w.]+\] ", "", str(error))


@contextmanager
def _ask_analyser(what: str) -> Iterator[None]:
    """Ask the analyser, and report its errors in the terms of a merge."""
    try:
        with border.spark_errors(f"reading {what}"), border.asking_the_analyser():
            yield
    except UnknownColumnError as error:
        if error.error_class.startswith("AMBIGUOUS"):
            raise
        raise UnknownColumnError(_strip_error_class(error), error_class=UNRESOLVED) from error
    except InvalidPredicateError as error:
        if error.error_class.startswith("INVALID_NON_DETERMINISTIC"):
            raise InvalidPredicateError(_strip_error_class(error), error_class=_NOT_DETERMINISTIC) from error
        if error.error_class.startswith(_NOT_OF_ONE_ROW):
            raise InvalidPredicateError(
                f"{_strip_error_class(error)} Aggregate functions, window functions and generators are not supported "
                "here.",
                error_class=_AGGREGATE,
            ) from error
        raise
