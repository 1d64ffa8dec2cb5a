"""May an expression that came with the table be run, and as which Column?

A CHECK constraint, a generation expression or a default is text in a table that somebody else may have made. Spark
would run it as it runs any text: with every function of the session, with subqueries, and after replacing `${...}` by
variables of the session and of the environment. So the text is read here first, by a reader that accepts only what it
knows. What it does not know never reaches Spark, not even the analyser, which already evaluates constants. Names must
be columns of the table: others could be variables of the session. Functions must be listed in
`write.allowed_functions` or in the session setting, and must be Spark's own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.errors import UnknownColumnError, UnsupportedFeatureError
from ebbtide.sql_text.tokens import Token
from ebbtide.write.allowed_functions import ALLOWED_EVERYWHERE, CLOCK, NEVER_ALLOWED, USER
from ebbtide.write.expression_reading import ExpressionReading, UnknownSyntaxError, read_expression
from ebbtide.write.target import WriteTarget

__all__ = ["ALLOWED_FUNCTIONS_SETTING", "TableExpression", "trusted_columns"]

ALLOWED_FUNCTIONS_SETTING: Final = "spark.databricks.delta.tableExpressions.allowedFunctions"
Kind = Literal["check", "invariant", "generated", "default"]
_ERROR_CLASSES: Final[dict[Kind, str]] = {
    "check": "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT",
    "invariant": "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT",
    "generated": "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
    "default": "INVALID_DEFAULT_VALUE",
}
_TITLES: Final[dict[Kind, str]] = {
    "check": "CHECK constraint",
    "invariant": "invariant of the column",
    "generated": "generation expression of the column",
    "default": "default of the column",
}
_FUNCTIONS: Final[dict[Kind, frozenset[str]]] = {
    "check": ALLOWED_EVERYWHERE | CLOCK,
    "invariant": ALLOWED_EVERYWHERE | CLOCK,
    "generated": ALLOWED_EVERYWHERE,
    "default": ALLOWED_EVERYWHERE | CLOCK | USER,
}
# Functions that may be called without parentheses, where no column has their name.
_BARE_CALLS: Final = CLOCK | USER
_SHOWN_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class TableExpression:
    """`name` is the constraint's, or the column's. `is_new`: it is about to be given to the table."""

    kind: Kind
    name: str
    text: str
    is_new: bool = False


def trusted_columns(expressions: Sequence[TableExpression], target: WriteTarget, spark: SparkSession) -> list[Column]:
    """The expressions as columns. UnsupportedFeatureError for the first that may not be run."""
    if not expressions:
        return []
    found = [_check_expression(expression, target, spark) for expression in expressions]
    calls = {name: expression for expression, (_, names) in zip(expressions, found, strict=True) for name in names}
    shadowed = border.functions_of_the_session(spark, calls)
    if shadowed:
        name = shadowed[0]
        raise _refusal(
            calls[name],
            target,
            f"it calls {name}, and this session has a function of its own under that name. Drop that function to "
            "write to the table",
        )
    return [F.expr(text) for text, _ in found]


def _check_expression(
    expression: TableExpression, target: WriteTarget, spark: SparkSession
) -> tuple[str, frozenset[str]]:
    """The text to give to Spark, and the functions that it calls."""
    try:
        reading = read_expression(expression.text)
    except UnknownSyntaxError as error:
        raise _refusal(expression, target, str(error)) from None
    columns = set() if expression.kind == "default" else {name.lower() for name in target.schema.names}
    calls = set(reading.calls)
    for parts in reading.names:
        name = parts[0].lower()
        if name in columns:
            continue
        if len(parts) > 1 or name not in _BARE_CALLS:
            raise _unknown_name(expression, target, parts)
        calls.add(name)
    for name in sorted(calls - _FUNCTIONS[expression.kind]):
        if name in NEVER_ALLOWED or name not in target.allowed_functions or not border.is_built_in(spark, name):
            raise _refusal(expression, target, _not_allowed(name))
    return _rewrite(expression, target, reading, columns), frozenset(calls)


def _rewrite(
    expression: TableExpression, target: WriteTarget, reading: ExpressionReading, columns: Collection[str]
) -> str:
    """The text, rewritten so that Spark replaces no variable in it, and only columns are names in double quotes."""
    text = expression.text
    if "${" not in text and '"' not in text:
        return text
    rewritten = " ".join(_spell(token, text, columns) for token in reading.tokens)
    if "${" in rewritten:
        raise _refusal(expression, target, "it has ${ in a name, which Spark would replace")
    return rewritten


def _spell(token: Token, source: str, columns: Collection[str]) -> str:
    text = source[token.start : token.end]
    if token.kind != "string":
        return text
    if text.startswith('"') and token.value is not None and "'" not in text and token.value.lower() not in columns:
        text = f"'{token.value}'"
    opening = text[: text.index(text[-1]) + 1]
    # Strings side by side are one string.
    return text.replace("${", f"${text[-1]} {opening}{{")


def _not_allowed(name: str) -> str:
    if name in NEVER_ALLOWED:
        return f"it calls {name}, which runs whatever code it is given"
    return (
        f"it calls {name}, which is not among the functions that a table's own expressions may call. If you trust the "
        f"table and {name} is a function of Spark's own, name it in the session setting {ALLOWED_FUNCTIONS_SETTING}"
    )


def _unknown_name(expression: TableExpression, target: WriteTarget, parts: Sequence[str]) -> UnknownColumnError:
    what = "A default names no columns." if expression.kind == "default" else "It is no column of the table."
    return UnknownColumnError(
        f"The {_TITLES[expression.kind]} {expression.name} of the table at {target.store.url} "
        f"({expression.text[:_SHOWN_CHARACTERS]}) uses the name {'.'.join(parts)[:200]}. {what} "
        f"{_remedy(expression, target)}"
    )


def _refusal(expression: TableExpression, target: WriteTarget, reason: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"The {_TITLES[expression.kind]} {expression.name} of the table at {target.store.url} was not run: {reason}. "
        f"The expression is: {expression.text[:_SHOWN_CHARACTERS]}. {_remedy(expression, target)}",
        error_class=_ERROR_CLASSES[expression.kind],
    )


def _remedy(expression: TableExpression, target: WriteTarget) -> str:
    if expression.is_new:
        return "The table was not changed."
    alter = f"ALTER TABLE delta.{border.quote_name(target.store.spark_path)}"
    name = border.quote_name(expression.name)
    match expression.kind:
        case "check":
            return f"The owner of the table can drop it: {alter} DROP CONSTRAINT {name}."
        case "default":
            return f"The owner of the table can drop it: {alter} ALTER COLUMN {name} DROP DEFAULT."
        case "generated":
            return _remedy_for_column(expression, target, alter)
        case "invariant":
            return (
                f"The owner of the table can take delta.invariants out of the metadata of the column {name} by "
                "replacing the table's schema."
            )


def _remedy_for_column(expression: TableExpression, target: WriteTarget, alter: str) -> str:
    if expression.name.lower() in {name.lower() for name in target.partition_columns}:
        return "The table is partitioned by that column, so its owner can only replace the table by one without it."
    drop = f"{alter} DROP COLUMN {border.quote_name(expression.name)}"
    if target.column_mapping_mode != "none":
        return f"The owner of the table can drop it with the column: {drop}."
    mapping = f"{alter} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    return (
        f"The owner of the table can drop it with the column, in two steps: {mapping}; {drop}. After the first, "
        "readers of the table must know column mapping."
    )
