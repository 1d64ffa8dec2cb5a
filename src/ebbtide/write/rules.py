"""Which rows may be in this table, and what fills the columns that were not given?

A table's rules are NOT NULL (at every level), CHECK constraints and column invariants, the expressions of generated
columns, and the lengths of char and varchar. All of them become one expression that is null for a good row and text for
a bad one, and the first column of the table is computed through it. So the rules are checked when, and only when, a row
is written: Spark cannot drop the check without dropping a column that is written, and cannot move it in front of a
filter as it could move a condition. A row that a later filter removes breaks no rule.

As in the reference, a CHECK that is null is violated, and so is a field that must not be null when its struct is null.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.errors import CorruptTableError, InternalError
from ebbtide.protocol.features import is_feature_supported
from ebbtide.protocol.schema import (
    CHAR_VARCHAR,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    find_field,
)
from ebbtide.protocol.variables import refuse_variables
from ebbtide.sql_text import names_in, tokenize
from ebbtide.write.assignment import cast_for_column
from ebbtide.write.char_lengths import has_too_long_string
from ebbtide.write.columns import spark_type
from ebbtide.write.identity import identity_columns
from ebbtide.write.table_expressions import TableExpression, trusted_columns
from ebbtide.write.target import WriteTarget

__all__ = [
    "breaks_check",
    "complete_rows",
    "default_value",
    "enforce_condition",
    "enforce_rules",
    "generated_columns",
]

CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"
GENERATION_EXPRESSION: Final = "delta.generationExpression"
INVARIANTS: Final = "delta.invariants"
_VIOLATED: Final = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
_NULL: Final = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
_MISMATCH: Final = "DELTA_REPLACE_WHERE_MISMATCH"
_BY: Final = "violated by row with values:"
_TOO_LONG: Final = "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
_VOID: Final = PrimitiveType("void")
_EMPTY_IS_NULL: Final = (PrimitiveType("string"), PrimitiveType("binary"))
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class _Rule:
    """`is_broken` is never null; `message` is text, for the row that broke it."""

    is_broken: Column
    error_class: str
    message: Column


def enforce_rules(frame: DataFrame, target: WriteTarget) -> DataFrame:
    """The frame, with every rule of the table enforced: a row that breaks one fails the query.

    `frame` has the table's logical columns; further columns are kept. Run the query under `spark_border.spark_errors`,
    which turns the failure into a ConstraintViolationError.
    """
    refuse_variables(target.schema)
    with border.spark_errors(f"reading the constraints of {target.store.url}"), border.asking_the_analyser():
        rules = list(_rules(target, frame.sparkSession))
        return _check_rows(_with_empty_as_null(frame, target), target, rules) if rules else frame


def enforce_condition(frame: DataFrame, target: WriteTarget, condition: str) -> DataFrame:
    """The frame, with the condition enforced: a row for which it is not true fails the query."""
    what = f"A row to write is not of those that replace_where ({condition}) replaces; its values:"
    with border.spark_errors(f"reading the condition {condition!r}"), border.asking_the_analyser():
        holds = F.coalesce(F.expr(condition), F.lit(False))
        rule = _Rule(~holds, _MISMATCH, _values_message(target, what, condition))
        return _check_rows(frame, target, [rule])


def breaks_check(target: WriteTarget, expression: TableExpression, value: Column) -> tuple[Column, Column]:
    """Whether a row breaks a CHECK constraint, whose expression is `value`, and what to say about the row."""
    rule = _check(target, expression, value)
    return rule.is_broken, rule.message


def complete_rows(frame: DataFrame, target: WriteTarget, *, given: Collection[str]) -> DataFrame:
    """The frame with every column of the table, in the table's order, then its other columns.

    Columns not in `given` (names in lower case) are generated, or filled with their default or null; a column of the
    frame with such a name is ignored. Generated columns are computed from the filled ones. Identity columns must be
    given: `write.identity` numbers the rows.
    """
    refuse_variables(target.schema)
    names = {name.lower(): name for name in frame.columns}
    missing = [field for field in target.schema.fields if field.name.lower() not in given]
    lost = [name for name in given if name not in names and target.schema.get(name) is not None]
    if lost:
        raise InternalError(f"The column '{lost[0]}' is said to be given, but the rows do not have it.")
    uncounted = [field for field in identity_columns(target) if field in missing]
    if uncounted:
        raise InternalError(f"The identity column '{uncounted[0].name}' has no numbers for the new rows.")
    generated = generated_columns(target)
    computed = {field.name: generated[field.name] for field in missing if field.name in generated}
    filled = _fill_columns(frame, target, names, {field.name for field in missing})
    if not computed:
        return filled
    with border.spark_errors(f"computing the generated columns of {target.store.url}"), border.asking_the_analyser():
        return _generate_columns(filled, target, computed)


def generated_columns(target: WriteTarget) -> Mapping[str, str]:
    """Column name to generation expression."""
    if not is_feature_supported(target.protocol, "generatedColumns"):
        return {}
    found = {}
    for field in target.schema.fields:
        expression = field.metadata.get(GENERATION_EXPRESSION)
        if isinstance(expression, str):
            found[field.name] = expression
    return found


def default_value(field: StructField, target: WriteTarget, spark: SparkSession) -> Column:
    """What the word DEFAULT stands for in an assignment to the column: its default, or null."""
    text = field.metadata.get(CURRENT_DEFAULT)
    if not isinstance(text, str):
        return F.lit(None)
    [value] = trusted_columns([TableExpression("default", field.name, text)], target, spark)
    return value


def _generations(target: WriteTarget) -> list[TableExpression]:
    return [TableExpression("generated", name, text) for name, text in generated_columns(target).items()]


# --- filling ----------------------------------------------------------------------------------------------------------


def _fill_columns(frame: DataFrame, target: WriteTarget, names: Mapping[str, str], missing: set[str]) -> DataFrame:
    own = {field.name.lower() for field in target.schema.fields}
    defaults = _defaults(frame, target, missing)
    columns = []
    for field in target.schema.fields:
        if field.name not in missing:
            columns.append(border.column(names[field.name.lower()], field.name))
        elif field.name in defaults:
            columns.append(defaults[field.name].alias(field.name))
        else:
            columns.append(F.lit(None).cast(spark_type(field.type)).alias(field.name))
    columns += [border.column(name) for lowered, name in names.items() if lowered not in own]
    return frame.select(*columns)


def _defaults(frame: DataFrame, target: WriteTarget, missing: set[str]) -> dict[str, Column]:
    if not is_feature_supported(target.protocol, "allowColumnDefaults"):
        return {}
    fields = [f for f in target.schema.fields if f.name in missing and isinstance(f.metadata.get(CURRENT_DEFAULT), str)]
    if not fields:
        return {}
    expressions = [TableExpression("default", field.name, field.metadata[CURRENT_DEFAULT]) for field in fields]
    with border.spark_errors(f"reading the default values of {target.store.url}"), border.asking_the_analyser():
        values = trusted_columns(expressions, target, frame.sparkSession)
        types = frame.select(*(value.alias(f"v{place}") for place, value in enumerate(values))).schema.fields
    return {
        field.name: cast_for_column(value, kind.dataType, field)
        for field, value, kind in zip(fields, values, types, strict=True)
    }


def _generate_columns(frame: DataFrame, target: WriteTarget, computed: Mapping[str, str]) -> DataFrame:
    expressions = [TableExpression("generated", name, text) for name, text in computed.items()]
    values = dict(zip(computed, trusted_columns(expressions, target, frame.sparkSession), strict=True))
    types = frame.select(*(value.alias(f"v{place}") for place, value in enumerate(values.values()))).schema.fields
    fields = {field.name: field for field in target.schema.fields}
    columns = {
        name: cast_for_column(value, kind.dataType, fields[name]).alias(name)
        for (name, value), kind in zip(values.items(), types, strict=True)
    }
    return frame.select(*(columns.get(name, border.column(name)) for name in frame.columns))


def _with_empty_as_null(frame: DataFrame, target: WriteTarget) -> DataFrame:
    """The log stores an empty partition value as null, so the rules must see null too, as readers will."""
    texts = {field.name.lower() for field in target.partition_fields if field.type in _EMPTY_IS_NULL}
    if not texts:
        return frame

    def of(name: str) -> Column:
        value = border.column(name)
        return F.when(F.length(value) > 0, value).alias(name) if name.lower() in texts else value

    return frame.select(*(of(name) for name in frame.columns))


def _check_rows(frame: DataFrame, target: WriteTarget, rules: Sequence[_Rule]) -> DataFrame:
    """The frame with one column computed through the rules."""
    carrier = _carrier(target)
    if not rules or carrier is None:
        return frame
    message = F.coalesce(
        *(F.when(rule.is_broken, border.failure_message(rule.error_class, rule.message)) for rule in rules)
    )
    checked = F.when(message.isNull(), border.column(carrier.name)).otherwise(F.raise_error(message))
    result = frame.select(
        *(
            checked.alias(name) if name.lower() == carrier.name.lower() else border.column(name)
            for name in frame.columns
        )
    )
    # Otherwise Connect would report an unresolved expression only when the rows are written.
    assert result.schema is not None
    return result


# --- rules ------------------------------------------------------------------------------------------------------------


def _carrier(target: WriteTarget) -> StructField | None:
    """The column that is computed through the rules. It is always written, and is a data column if there is one."""
    written = [field for field in target.schema.fields if field.type != _VOID]
    partitioned = {name.lower() for name in target.partition_columns}
    data = [field for field in written if field.name.lower() not in partitioned]
    return next(iter(data or written), None)


def _rules(target: WriteTarget, spark: SparkSession) -> Iterator[_Rule]:
    checks = _checks(target)
    generated = _generations(target)
    # Every expression of the table is checked before Spark sees any of them.
    values = trusted_columns([*checks, *generated], target, spark)
    for field in target.schema.fields:
        if field.type != _VOID:
            yield from _not_null(border.column(field.name), field, field.name)
    for field in target.schema.fields:
        yield from _lengths(border.column(field.name), field)
    for check, value in zip(checks, values, strict=False):
        yield _check(target, check, value)
    fields = {field.name: field for field in target.schema.fields}
    for generation, value in zip(generated, values[len(checks) :], strict=True):
        yield _generation(target, generation, value, fields[generation.name])


def _not_null(value: Column, field: StructField, where: str) -> Iterator[_Rule]:
    broken = _broken_nulls(value, field.type, field.nullable, where)
    for is_broken, place in broken:
        yield _Rule(is_broken, _NULL, F.lit(f"NOT NULL constraint violated for column: {place}."))


def _broken_nulls(value: Column, kind: DataType, nullable: bool, where: str) -> Iterator[tuple[Column, str]]:
    """(whether a part is null that must not be, which part) for the value and everything in it."""
    if not nullable:
        yield value.isNull(), where
    match kind:
        case StructType():
            for field in kind.fields:
                yield from _broken_nulls(
                    value.getField(field.name), field.type, field.nullable, f"{where}.{field.name}"
                )
        case ArrayType():
            yield from _broken_elements(value, kind.element_type, kind.contains_null, f"{where}.element")
        case MapType():
            yield from _broken_elements(F.map_keys(value), kind.key_type, True, f"{where}.key")
            yield from _broken_elements(
                F.map_values(value), kind.value_type, kind.value_contains_null, f"{where}.value"
            )


def _broken_elements(value: Column, kind: DataType, nullable: bool, where: str) -> Iterator[tuple[Column, str]]:
    probe = [place for _, place in _broken_nulls(F.lit(None), kind, nullable, where)]
    if not probe:
        return

    def is_broken(element: Column) -> Column:
        return reduce(Column.__or__, (broken for broken, _ in _broken_nulls(element, kind, nullable, where)))

    yield F.coalesce(F.exists(value, is_broken), F.lit(False)), " or ".join(probe)


def _lengths(value: Column, field: StructField) -> Iterator[_Rule]:
    broken = has_too_long_string(value, field)
    if broken is None:
        return
    declared = str(field.metadata.get(CHAR_VARCHAR)).strip()
    limit = f"exceeds a length of the column '{field.name}', which is {declared}."
    message = F.concat(F.lit("The value '"), _value_text(value), F.lit(f"' {limit}"))
    yield _Rule(broken, _TOO_LONG, message)


def _checks(target: WriteTarget) -> list[TableExpression]:
    """The table's constraints, and the invariants of single columns."""
    found = [TableExpression("check", name, text) for name, text in target.properties.constraints.items()]
    for field in _struct_fields(target.schema):
        text = field.metadata.get(INVARIANTS)
        if text is not None:
            found.append(TableExpression("invariant", field.name, _invariant(field.name, text)))
    return found


def _struct_fields(schema: StructType) -> Iterator[StructField]:
    for field in schema.fields:
        yield field
        if isinstance(field.type, StructType):
            yield from _struct_fields(field.type)


def _invariant(column: str, text: object) -> str:
    try:
        expression = json.loads(text)["expression"]["expression"] if isinstance(text, str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        expression = None
    if not isinstance(expression, str):
        raise CorruptTableError(f"The column '{column}' has an invariant that cannot be read: {str(text)[:200]}")
    return expression


def _check(target: WriteTarget, expression: TableExpression, value: Column) -> _Rule:
    name = expression.name if expression.kind == "check" else f"EXPRESSION({expression.text})"
    message = _values_message(target, f"CHECK constraint {name} ({expression.text}) {_BY}", expression.text)
    return _Rule(~F.coalesce(value, F.lit(False)), _VIOLATED, message)


def _generation(target: WriteTarget, expression: TableExpression, value: Column, field: StructField) -> _Rule:
    shown = f"{border.quote_name(field.name)} <=> {expression.text}"
    message = _values_message(target, f"CHECK constraint Generated Column ({shown}) {_BY}", shown)
    computed = value.cast(spark_type(field.type))
    return _Rule(~border.column(field.name).eqNullSafe(computed), _VIOLATED, message)


def _values_message(target: WriteTarget, what: str, expression: str) -> Column:
    """`what`, and the values of the columns that the expression reads."""
    parts = [F.lit(what)]
    for path in _read_columns(target.schema, expression):
        value = border.column(path[0])
        for name in path[1:]:
            value = value.getField(name)
        parts += [F.lit(f"\n - {'.'.join(path)} : "), _value_text(value)]
    return F.concat(*parts)


def _read_columns(schema: StructType, expression: str) -> list[tuple[str, ...]]:
    """The columns that the text names, as far as a reader without Spark's analyser can tell."""
    paths = [name.parts for name in names_in(tokenize(expression, is_substituted=False) or ())]
    chains = [_longest_chain(schema, path) for path in paths]
    return list(dict.fromkeys(tuple(field.name for field in chain) for chain in chains if chain is not None))


def _longest_chain(schema: StructType, path: tuple[str, ...]) -> tuple[StructField, ...] | None:
    chains = (find_field(schema, path[:length]) for length in range(len(path), 0, -1))
    return next((chain for chain in chains if chain is not None), None)


def _value_text(value: Column) -> Column:
    return F.coalesce(F.substring(value.cast("string"), 1, _SHOWN_CHARACTERS), F.lit("null"))
