"""Can a condition be true, false or null for some row of each file?

`evaluate` gives three masks, one bit per file. They err towards yes: a mask is false only where no row can have that
outcome. SQL's three-valued AND, OR and NOT then work mask by mask, whatever their operands are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.protocol.schema import PrimitiveType
from ebbtide.pruning.bounds import ColumnBounds
from ebbtide.pruning.intervals import (
    DOUBLE_STEP,
    Interval,
    Scalar,
    list_intervals,
    literal_interval,
    prefix_successor,
)
from ebbtide.pruning.predicate import (
    And,
    Between,
    Comparison,
    ComparisonOperator,
    Constant,
    InList,
    IsNull,
    Name,
    Not,
    NullSafeEqual,
    Opaque,
    Or,
    Predicate,
    StartsWith,
)
from ebbtide.pruning.scope import Column, Scope
from ebbtide.sql_text import Literal

__all__ = ["Files", "Outcomes", "evaluate"]

_EXACT_INTEGERS: Final = 2.0**53
_DATES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
# Up to here, one vectorised test per value of an IN list is faster than one search per file.
_FEW_VALUES: Final = 16


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One bit per file: may some row have this outcome?"""

    true: pa.BooleanArray
    false: pa.BooleanArray
    null: pa.BooleanArray


@dataclass(frozen=True, slots=True)
class Files:
    """What is known about `count` files. A name without a column, or a column without bounds, is unknown."""

    count: int
    scope: Scope
    columns: Mapping[Name, Column]
    bounds: Mapping[Column, ColumnBounds]
    session_timezone: str | None
    # Spark turns dates and timestamps into text when they are compared with strings.
    compares_dates_as_text: bool = False

    def is_certainly_value(self, column: Column, literal: Literal) -> bool:
        """Whether a literal is compared as a value of the column's own type, and is not a column name."""
        is_text_of_date = literal.kind == "string" and _type_name(column) in _DATES
        return self.scope.is_certainly_literal(literal) and not (is_text_of_date and self.compares_dates_as_text)


def evaluate(predicate: Predicate, files: Files) -> Outcomes:
    if isinstance(predicate, And | Or):
        return _combine(predicate, files)
    if isinstance(predicate, Not):
        inner = evaluate(predicate.part, files)
        return Outcomes(true=inner.false, false=inner.true, null=inner.null)
    if isinstance(predicate, Constant):
        return _constant(predicate.value, files.count)
    return _leaf(predicate, files) or _anything(files.count)


def _anything(count: int) -> Outcomes:
    yes = pa.repeat(True, count)
    return Outcomes(yes, yes, yes)


def _constant(value: bool | None, count: int) -> Outcomes:
    yes, no = pa.repeat(True, count), pa.repeat(False, count)
    return Outcomes(
        true=yes if value is True else no, false=yes if value is False else no, null=yes if value is None else no
    )


def _combine(predicate: And | Or, files: Files) -> Outcomes:
    """AND is false when any part is; it is null when a part is null and no part is false. OR is its mirror image."""
    parts = [evaluate(part, files) for part in predicate.parts]
    is_and = isinstance(predicate, And)
    every = reduce(pc.and_, (part.true if is_and else part.false for part in parts))
    some = reduce(pc.or_, (part.false if is_and else part.true for part in parts))
    null = reduce(pc.or_, (part.null for part in parts))
    undecided = reduce(pc.and_, (pc.or_(part.null, part.true if is_and else part.false) for part in parts))
    if isinstance(predicate, And):
        every = reduce(pc.and_, _joint_ranges(predicate, files), every)
        return Outcomes(true=every, false=some, null=pc.and_(null, undecided))
    return Outcomes(true=some, false=every, null=pc.and_(null, undecided))


def _joint_ranges(predicate: And, files: Files) -> list[pa.BooleanArray]:
    """`x > 5 AND x < 9` on a float column: each half alone may be true for NaN, both together cannot."""
    ends: dict[Column, tuple[list[Interval], list[Interval]]] = {}
    for part in predicate.parts:
        if not isinstance(part, Comparison) or part.operator == "<>":
            continue
        column = files.columns.get(part.name)
        interval = None if column is None else _interval(column, part.literal, files)
        if column is None or interval is None or not _is_float(column):
            continue
        lows, highs = ends.setdefault(column, ([], []))
        if part.operator in {">", ">=", "="}:
            lows.append(interval)
        if part.operator in {"<", "<=", "="}:
            highs.append(interval)
    masks: list[pa.BooleanArray] = []
    for column, (lows, highs) in ends.items():
        bounds = files.bounds.get(column)
        if bounds is not None and lows and highs:
            masks.extend(_may_pass(pc.greater_equal, bounds.upper, low.low) for low in lows)
            masks.extend(_may_pass(pc.less_equal, bounds.lower, high.high) for high in highs)
    return masks


def _leaf(predicate: Predicate, files: Files) -> Outcomes | None:
    """None when nothing is known about it."""
    if isinstance(predicate, And | Or | Not | Constant | Opaque):
        return None
    column = files.columns.get(predicate.name)
    bounds = None if column is None else files.bounds.get(column)
    if column is None or bounds is None:
        return None
    if isinstance(predicate, IsNull):
        return Outcomes(bounds.may_be_null, bounds.may_be_value, pa.repeat(False, files.count))
    if isinstance(predicate, InList):
        return _in_list(predicate, column, bounds, files)
    if isinstance(predicate, Between):
        return _between(predicate, column, bounds, files)
    if isinstance(predicate, StartsWith):
        return _starts_with(predicate, column, bounds, files)
    interval = _interval(column, predicate.literal, files)
    if interval is None:
        return None
    if isinstance(predicate, NullSafeEqual):
        equal = _compare("=", bounds, interval)
        return Outcomes(equal.true, pc.or_(equal.false, bounds.may_be_null), pa.repeat(False, files.count))
    return _compare(predicate.operator, bounds, interval)


def _interval(column: Column, literal: Literal, files: Files) -> Interval | None:
    if not files.is_certainly_value(column, literal):
        return None
    return literal_interval(column, literal, files.session_timezone)


def _compare(operator: ComparisonOperator, bounds: ColumnBounds, interval: Interval) -> Outcomes:
    """A column within bounds against a literal within an interval."""
    lower, upper = _on_scale(bounds, interval)
    if operator in {"=", "<>"}:
        may_equal = pc.and_(
            _may_pass(pc.less_equal, lower, interval.high), _may_pass(pc.greater_equal, upper, interval.low)
        )
        may_differ = _nan_or(bounds, pc.invert(_all_equal(lower, upper, interval)))
        yes, no = (may_equal, may_differ) if operator == "=" else (may_differ, may_equal)
    elif operator in {"<", ">="}:
        yes = _may_pass(pc.less, lower, interval.high)
        no = _nan_or(bounds, _may_pass(pc.greater_equal, upper, interval.low))
    else:
        yes = _may_pass(pc.less_equal, lower, interval.high)
        no = _nan_or(bounds, _may_pass(pc.greater, upper, interval.low))
    if operator in {">", ">="}:
        yes, no = no, yes
    return _for_values(bounds, yes, no)


def _between(predicate: Between, column: Column, bounds: ColumnBounds, files: Files) -> Outcomes | None:
    """Evaluated as one, not as two comparisons: NaN may pass the low end, but is never within a range."""
    low, high = _interval(column, predicate.low, files), _interval(column, predicate.high, files)
    if low is None or high is None:
        at_least = Comparison(">=", predicate.name, predicate.low, predicate.span)
        at_most = Comparison("<=", predicate.name, predicate.high, predicate.span)
        return evaluate(And((at_least, at_most), predicate.span), files)
    over_low, under_high = _compare(">=", bounds, low), _compare("<=", bounds, high)
    upper, lower = _on_scale(bounds, low)[1], _on_scale(bounds, high)[0]
    inside = pc.and_(_may_pass(pc.greater_equal, upper, low.low), _may_pass(pc.less_equal, lower, high.high))
    return _for_values(bounds, inside, pc.or_(over_low.false, under_high.false))


def _in_list(predicate: InList, column: Column, bounds: ColumnBounds, files: Files) -> Outcomes | None:
    """A list that holds a null is never false: a value that is not found might have been the null."""
    if not all(files.is_certainly_value(column, literal) for literal in predicate.literals):
        return None
    intervals = list_intervals(column, predicate.literals, files.session_timezone)
    if intervals is None:
        return None
    hits = pa.repeat(False, files.count)
    always = pa.repeat(False, files.count)
    if intervals:
        lower, upper = _on_scale(bounds, intervals[0])
        values = sorted({interval.low for interval in intervals})
        hits = _any_within(lower, upper, values)
        is_listed = pc.is_in(lower, value_set=pa.array(values, lower.type))
        always = pc.and_(pc.fill_null(pc.equal(lower, upper), False), pc.fill_null(is_listed, False))
    misses = _nan_or(bounds, pc.invert(always))
    found = _for_values(bounds, hits, misses)
    if not predicate.has_null:
        return found
    return Outcomes(found.true, pa.repeat(False, files.count), pc.or_(found.null, found.false))


def _any_within(lower: pa.Array, upper: pa.Array, values: Sequence[Scalar]) -> pa.BooleanArray:
    if len(values) <= _FEW_VALUES:
        tests = (
            pc.and_(_may_pass(pc.less_equal, lower, value), _may_pass(pc.greater_equal, upper, value))
            for value in values
        )
        return reduce(pc.or_, tests)
    pairs = zip(lower.to_pylist(), upper.to_pylist(), strict=True)
    return pa.array(
        [
            (0 if low is None else bisect_left(values, low))
            < (len(values) if high is None else bisect_right(values, high))
            for low, high in pairs
        ],
        pa.bool_(),
    )


def _starts_with(predicate: StartsWith, column: Column, bounds: ColumnBounds, files: Files) -> Outcomes | None:
    """Strings with a prefix are those from the prefix up to, not including, its successor."""
    if not isinstance(column.type, PrimitiveType) or column.type.name != "string":
        # Spark would turn the column into text first.
        return None
    interval = _interval(column, predicate.prefix, files)
    if interval is None:
        return None
    prefix = str(interval.low)
    successor = prefix_successor(prefix)
    may_match = _may_pass(pc.greater_equal, bounds.upper, prefix)
    must_match = pc.fill_null(pc.greater_equal(bounds.lower, prefix), prefix == "")
    if successor is not None:
        may_match = pc.and_(may_match, _may_pass(pc.less, bounds.lower, successor))
        must_match = pc.and_(must_match, pc.fill_null(pc.less(bounds.upper, successor), False))
    return _for_values(bounds, may_match, pc.invert(must_match))


def _for_values(bounds: ColumnBounds, yes: pa.BooleanArray, no: pa.BooleanArray) -> Outcomes:
    """Only non-null rows are compared; a null gives null."""
    return Outcomes(pc.and_(yes, bounds.may_be_value), pc.and_(no, bounds.may_be_value), bounds.may_be_null)


def _may_pass(test: Callable[[pa.Array, pa.Scalar], pa.Array], bound: pa.Array, value: Scalar) -> pa.BooleanArray:
    """A test against a bound; an unknown bound excludes nothing."""
    return pc.fill_null(test(bound, pa.scalar(value, bound.type)), True)


def _all_equal(lower: pa.Array, upper: pa.Array, interval: Interval) -> pa.BooleanArray:
    """Where every value is the literal."""
    if not interval.is_exact:
        return pa.repeat(False, len(lower))
    value = pa.scalar(interval.low, lower.type)
    return pc.fill_null(pc.and_(pc.equal(lower, value), pc.equal(upper, value)), False)


def _nan_or(bounds: ColumnBounds, mask: pa.BooleanArray) -> pa.BooleanArray:
    """Spark's NaN is greater than every number and different from it."""
    return pa.repeat(True, len(mask)) if bounds.may_be_nan else mask


def _on_scale(bounds: ColumnBounds, interval: Interval) -> tuple[pa.Array, pa.Array]:
    """Bounds on the interval's scale: an integer column against a double is compared as doubles, as Spark does."""
    if not isinstance(interval.low, float) or not pa.types.is_int64(bounds.lower.type):
        return bounds.lower, bounds.upper
    return _as_doubles(bounds.lower, pc.subtract), _as_doubles(bounds.upper, pc.add)


def _as_doubles(bound: pa.Array, outwards: Callable[[pa.Array, pa.Array], pa.Array]) -> pa.Array:
    """Integers beyond 2^53 are rounded, so their bounds move outwards."""
    doubles = bound.cast(pa.float64(), safe=False)
    size = pc.abs(doubles)
    step = pc.if_else(pc.less(size, _EXACT_INTEGERS), 0.0, pc.multiply(size, DOUBLE_STEP))
    return outwards(doubles, step)


def _is_float(column: Column) -> bool:
    return _type_name(column) in {"float", "double"}


def _type_name(column: Column) -> str:
    return column.type.name if isinstance(column.type, PrimitiveType) else ""
