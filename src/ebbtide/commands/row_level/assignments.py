"""What does SET give to which column?

    SET name = upper(name), address.city = 'Boston'

A target is a column or a field of a struct at any depth; a value is an expression over the *old* row. Targets are
found in the table's schema and may not overlap. Spark's analyser checks the values before any work is done, and they
are cast to the type of their target by the rules of store assignment. A struct with a target inside is rebuilt: its
other fields keep their values, and a struct that was null becomes one whose other fields are null, as in the reference.

A value is computed once per row, even if it is random and read more than once later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.errors import InvalidPredicateError, RequestError, SchemaMismatchError, UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import StructField, StructType, split_column_path
from ebbtide.protocol.schema_edits import shown_names
from ebbtide.scan.conditions import empty_frame
from ebbtide.write import WriteTarget, cast_for_column, default_value

__all__ = [
    "Assignment",
    "BoundAssignments",
    "Target",
    "assigned_column",
    "bind_assignments",
    "find_target",
    "refuse_identity",
]

_NOT_OF_ONE_ROW = (
    "INVALID_WHERE_CONDITION",
    "UNSUPPORTED_EXPR_FOR_OPERATOR",
    "UNSUPPORTED_GENERATOR",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE",
)


@dataclass(frozen=True, slots=True)
class Target:
    """What is assigned to: the names from the column down to the field, as the schema spells them."""

    path: tuple[str, ...]
    field: StructField

    @property
    def dotted_name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Assignment:
    target: Target
    value: Column
    # The type of the value, as Spark sees it.
    given: T.DataType


@dataclass(frozen=True, slots=True)
class BoundAssignments:
    """A SET that holds for this table; `alias` is the table's name in the values."""

    schema: StructType
    assignments: tuple[Assignment, ...]
    alias: str | None
    policy: str

    @property
    def columns(self) -> frozenset[str]:
        """The columns that get a new value, or a new field, in lower case."""
        return frozenset(assignment.target.path[0].lower() for assignment in self.assignments)

    def apply(self, frame: DataFrame, *, only: str | None = None, old_row: str | None = None) -> DataFrame:
        """The rows with their new values. `frame` has the table's columns; its other columns are kept, after them.

        `only` names a column that is true for rows to change; the others stay, and no value is computed for them.
        `old_row` names an extra column: a struct with a changed row's old values.
        """
        named = frame.alias(self.alias) if self.alias else frame
        is_changed = None if only is None else border.column(only)
        # Values are computed in a step of their own, so that even a random one is the same wherever it is read.
        helpers = border.HelperNames(frame.columns, [old_row] if old_row else [])
        names = [helpers.pick(f"value_{place}") for place in range(len(self.assignments))]
        values = [
            _only(is_changed, assignment.value).alias(name)
            for assignment, name in zip(self.assignments, names, strict=True)
        ]
        step = named.select(*(border.column(name) for name in frame.columns), *values)
        new: dict[str, dict[tuple[str, ...], Column]] = {}
        for assignment, name in zip(self.assignments, names, strict=True):
            value = cast_for_column(F.col(name), assignment.given, assignment.target.field, policy=self.policy)
            first, *inner = assignment.target.path
            new.setdefault(first, {})[tuple(inner)] = value
        columns = []
        for field in self.schema.fields:
            old = border.column(field.name)
            if field.name not in new:
                columns.append(old)
                continue
            value = assigned_column(field, old, new[field.name])
            columns.append(_only(is_changed, value, otherwise=old).alias(field.name))
        others = [border.column(name) for name in frame.columns if self.schema.get(name) is None]
        before = F.struct(*(border.column(name) for name in self.schema.names))
        before_column = [_only(is_changed, before).alias(old_row)] if old_row else []
        return step.select(*columns, *others, *before_column)


def bind_assignments(
    spark: SparkSession,
    snapshot: Snapshot,
    assignments: Sequence[tuple[str, str | Column]],
    *,
    alias: str | None = None,
) -> BoundAssignments:
    """Check a SET against the table's columns.

    UnknownColumnError for a target or a column in a value that is not there, RequestError for targets that overlap or
    cannot be assigned to, InvalidPredicateError for a value that is no expression over a row.
    """
    schema = snapshot.schema
    is_exact = border.is_case_sensitive(spark)
    targets = [find_target(schema, name, alias=alias, is_exact=is_exact) for name, _ in assignments]
    for target in targets:
        refuse_identity(target.field)
    _refuse_overlaps(targets)
    frame = empty_frame(spark, snapshot)
    named = frame.alias(alias) if alias else frame
    values = [_value(value, target, spark, snapshot) for target, (_, value) in zip(targets, assignments, strict=True)]
    types = _types_of(named, values, targets)
    bound = [Assignment(*parts) for parts in zip(targets, values, types, strict=True)]
    policy = spark.conf.get("spark.sql.storeAssignmentPolicy") or "ANSI"
    found = BoundAssignments(schema, tuple(bound), alias, policy)
    # Types that cannot be stored are refused here, where nothing has been read yet.
    with border.spark_errors("reading the new values"), border.asking_the_analyser():
        assert found.apply(frame).schema is not None
    return found


def find_target(schema: StructType, name: str, *, alias: str | None = None, is_exact: bool = False) -> Target:
    """The column or field that a name means; the table's alias may stand in front of it.

    `is_exact`: letter case counts, as it does in a session with spark.sql.caseSensitive=true.
    """
    parts = split_column_path(name)
    if len(parts) > 1 and _is_alias(parts[0], alias, is_exact) and _field_of(schema, parts[1], is_exact) is not None:
        parts = parts[1:]
    path: list[str] = []
    fields: StructType | object = schema
    field: StructField | None = None
    for part in parts:
        if not isinstance(fields, StructType):
            raise _not_a_struct(name, path)
        field = _field_of(fields, part, is_exact)
        if field is None:
            raise _unknown_column_error(name, part, path, fields)
        path.append(field.name)
        fields = field.type
    if field is None:
        raise RequestError(f"{name!r} does not name a column.")
    return Target(tuple(path), field)


def refuse_identity(field: StructField) -> None:
    """SchemaMismatchError for a column that gives every row its number, once."""
    if field.is_identity:
        raise SchemaMismatchError(
            f"'{field.name}' is an identity column: a row keeps the number that it got when it was inserted. Leave the "
            "column out of SET.",
            error_class="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
        )


def _field_of(fields: StructType, name: str, is_exact: bool) -> StructField | None:
    field = fields.get(name)
    return None if field is None or (is_exact and field.name != name) else field


def _is_alias(name: str, alias: str | None, is_exact: bool) -> bool:
    return alias is not None and (name == alias or (not is_exact and name.lower() == alias.lower()))


def assigned_column(field: StructField, old: Column, values: Mapping[tuple[str, ...], Column]) -> Column:
    """The column `field` with new values: for itself at the path (), or for fields inside it at theirs."""
    if () in values:
        return values[()]
    if not isinstance(field.type, StructType):
        raise _not_a_struct(field.name, [field.name])
    inner: dict[str, dict[tuple[str, ...], Column]] = {}
    for path, value in values.items():
        inner.setdefault(path[0], {})[path[1:]] = value
    parts = []
    for part in field.type.fields:
        kept = old.getField(part.name)
        parts.append(assigned_column(part, kept, inner[part.name]) if part.name in inner else kept)
    return F.struct(*(part.alias(name) for part, name in zip(parts, field.type.names, strict=True)))


def _value(value: str | Column, target: Target, spark: SparkSession, snapshot: Snapshot) -> Column:
    if isinstance(value, Column):
        return value
    if not value.strip():
        raise RequestError(f"The new value of '{target.dotted_name}' is empty. For an empty string write \"''\".")
    if value.strip().lower() == "default" and snapshot.schema.get("default") is None:
        return default_value(target.field, WriteTarget.of(snapshot), spark)
    with border.spark_errors(f"reading the new value {value!r} of '{target.dotted_name}'"):
        return F.expr(value)


def _types_of(frame: DataFrame, values: Sequence[Column], targets: Sequence[Target]) -> list[T.DataType]:
    """The types of all values. One query asks for all; single ones follow only to find out which value is wrong."""
    if len(values) > 1:
        try:
            with border.asking_the_analyser():
                border.analyse(frame.where(F.struct(*values).isNull()))
                named = [value.alias(f"c{place}") for place, value in enumerate(values)]
                return [field.dataType for field in frame.select(*named).schema.fields]
        except PySparkException:
            pass
    return [_type_of(frame, value, target) for value, target in zip(values, targets, strict=True)]


def _type_of(frame: DataFrame, value: Column, target: Target) -> T.DataType:
    doing = f"reading the new value of '{target.dotted_name}'"
    with border.spark_errors(doing), border.asking_the_analyser():
        try:
            # A filter refuses what reads or makes several rows: aggregates, windows, explode.
            border.analyse(frame.where(value.isNull()))
        except PySparkException as error:
            if border.condition_of(error).startswith(_NOT_OF_ONE_ROW):
                raise _not_of_one_row(target) from error
            raise
        return frame.select(value.alias("value")).schema["value"].dataType


def _refuse_overlaps(targets: Sequence[Target]) -> None:
    for index, one in enumerate(targets):
        for other in targets[index + 1 :]:
            shorter = min(len(one.path), len(other.path))
            if one.path[:shorter] == other.path[:shorter]:
                names = one.dotted_name if one.path == other.path else f"{one.dotted_name}, {other.dotted_name}"
                raise RequestError(
                    f"The SET columns overlap: {names} would get more than one value. Keep one of them.",
                    error_class="DELTA_CONFLICT_SET_COLUMN",
                )


def _not_of_one_row(target: Target) -> InvalidPredicateError:
    return InvalidPredicateError(
        f"The new value of '{target.dotted_name}' is unsupported: it looks at more rows than its own (a window or "
        "aggregate function) or makes several. Compute it in a DataFrame and use merge.",
        error_class="UNSUPPORTED_EXPR_FOR_OPERATOR",
    )


def _not_a_struct(name: str, path: Sequence[str]) -> RequestError:
    return RequestError(
        f"SET {name}: '{'.'.join(path)}' is not a StructType, and only fields of structs can be assigned to. Give the "
        "whole column a new value, for example with transform(...).",
        error_class="DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT",
    )


def _unknown_column_error(name: str, part: str, path: Sequence[str], fields: StructType) -> UnknownColumnError:
    where = f"'{'.'.join(path)}' has no struct field" if path else "the table has no column"
    hint = " A name with special characters is put in backticks." if "." in name or "-" in name else ""
    return UnknownColumnError(
        f"SET {name}: {where} '{part}'; it has {shown_names(fields.names)}.{hint}",
        error_class="FIELD_NOT_FOUND" if path else "DELTA_MISSING_SET_COLUMN",
    )


def _only(is_changed: Column | None, value: Column, *, otherwise: Column | None = None) -> Column:
    if is_changed is None:
        return value
    guarded = F.when(is_changed, value)
    return guarded if otherwise is None else guarded.otherwise(otherwise)
