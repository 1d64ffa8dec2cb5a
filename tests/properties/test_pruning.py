"""Does pruning ever lose a row that a naive reading of the condition finds?

Small random files, honest statistics in the dialects of several writers, random conditions. Each condition is drawn
together with its meaning: the SQL text goes to `prune`, the Python function judges the rows one by one.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.live_files import columns, kept, live_files, stats

from ebbtide.pruning import prune

TYPES = {
    "i": "integer",
    "l": "long",
    "f": "float",
    "d": "double",
    "n": "decimal(10,2)",
    "m": "decimal(38,18)",
    "s": "string",
    "t": "date",
    "u": "timestamp",
    "w": "timestamp_ntz",
    "b": "boolean",
}
SCHEMA = columns(**TYPES, **{f"p{name}": kind for name, kind in TYPES.items()})
PARTITIONS = [f"p{name}" for name in TYPES]
EPOCH = dt.datetime(1970, 1, 1)
ALPHABET = "abz\x7fé\ufffd\U0001f600\U0010ffff"


def single(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def whole(low: int, high: int) -> st.SearchStrategy[int]:
    return st.one_of(
        st.integers(-3, 3), st.sampled_from([low, high, (1 << 53) + 1, 1 << 53]).filter(lambda n: low <= n <= high)
    )


SMALL_FLOATS = st.sampled_from([0.0, -0.0, 0.1, 0.2, 1.5, -1.5, 2.0, 16777217.0, 1e30])
TEXTS = st.one_of(
    st.text(ALPHABET, min_size=1, max_size=4),
    st.builds(lambda stem, tail: stem * 32 + tail, st.sampled_from(ALPHABET), st.text(ALPHABET, max_size=2)),
)
DAYS = st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 3))
MOMENTS = st.builds(lambda us: EPOCH + dt.timedelta(microseconds=us), st.integers(-2500, 2500))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": whole(-(1 << 31), (1 << 31) - 1),
    "l": whole(-(1 << 63), (1 << 63) - 1),
    "f": st.one_of(SMALL_FLOATS.map(single), st.just(math.nan), st.sampled_from([math.inf, -math.inf])),
    "d": st.one_of(SMALL_FLOATS, st.just(math.nan), st.sampled_from([math.inf, -math.inf])),
    "n": st.integers(-300, 300).map(lambda cents: Decimal(cents).scaleb(-2)),
    "m": st.sampled_from(["0.1", "0.100000000000000001", "12345678901234567890.123456789012345678", "12345678901234567890.123456789012345679", "-7"]).map(Decimal),
    "s": TEXTS,
    "t": DAYS,
    "u": MOMENTS,
    "w": MOMENTS,
    "b": st.booleans(),
}  # fmt: skip


# --- conditions with their meaning ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    sql: str
    judge: Callable[[dict[str, Any]], bool | None]

    def __repr__(self) -> str:
        return self.sql


def key(value: Any) -> Any:
    """Spark's order: NaN is the greatest number and equal to itself."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return (0, value)
    return value


def literal_sql(name: str, value: Any) -> str:
    if name == "b":
        return str(value).lower()
    if name == "s":
        return f"'{value}'"
    if name == "t":
        return f"date'{value.isoformat()}'"
    if name == "u":
        return f"timestamp'{value.isoformat(sep=' ')}'"
    if name == "w":
        return f"timestamp_ntz'{value.isoformat(sep=' ')}'"
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


@st.composite
def literals(draw, name: str) -> tuple[str, Any]:
    """(SQL, the value Spark compares the column with)."""
    if name in {"i", "l"}:
        value = draw(st.one_of(VALUES["l"], st.sampled_from([Decimal("0.5"), Decimal("-2.5"), Decimal("1.0")])))
        return literal_sql(name, value), value
    if name in {"f", "d"}:
        value = draw(st.sampled_from([Decimal("0.1"), Decimal("0.2"), Decimal("1.5"), Decimal(-2), Decimal("0.0"), 2]))
        return literal_sql(name, value), float(value)
    if name == "n":
        value = draw(st.one_of(VALUES["n"], st.integers(-3, 3), st.just(Decimal("0.105"))))
        return literal_sql(name, value), value
    value = draw(VALUES[name])
    return literal_sql(name, value), value


def strict(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool | None]:
    return lambda left, right: None if left is None or right is None else test(key(left), key(right))


OPERATORS: dict[str, Callable[[Any, Any], bool | None]] = {
    "=": strict(operator.eq),
    "<>": strict(operator.ne),
    "<": strict(operator.lt),
    "<=": strict(operator.le),
    ">": strict(operator.gt),
    ">=": strict(operator.ge),
    "<=>": lambda left, right: key(left) == key(right),
}


def conjunction(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def negation(value: bool | None) -> bool | None:
    return None if value is None else not value


@st.composite
def leaves(draw) -> Condition:
    name = draw(st.sampled_from(sorted(TYPES)))
    column = draw(st.sampled_from([name, f"p{name}"]))
    sql, value = draw(literals(name))
    other_sql, other = draw(literals(name))
    kind = draw(
        st.sampled_from(["compare", "mirror", "null", "between", "in", "in_null", "like", "constant", "opaque"])
    )
    sign = draw(st.sampled_from(sorted(OPERATORS)))
    if kind == "compare":
        return Condition(f"{column} {sign} {sql}", lambda row: OPERATORS[sign](row[column], value))
    if kind == "mirror":
        return Condition(f"{sql} {sign} {column}", lambda row: OPERATORS[sign](value, row[column]))
    if kind == "null":
        return Condition(f"{column} IS NULL", lambda row: row[column] is None)
    if kind == "between":
        return Condition(
            f"{column} BETWEEN {sql} AND {other_sql}",
            lambda row: conjunction(OPERATORS[">="](row[column], value), OPERATORS["<="](row[column], other)),
        )
    if kind in {"in", "in_null"}:
        members = f"{sql}, {other_sql}" + (", NULL" if kind == "in_null" else "")
        return Condition(
            f"{column} IN ({members})", lambda row: contained(row[column], (value, other), kind == "in_null")
        )
    if kind == "like":
        prefix = draw(st.text("abzé\U0001f600", max_size=2))
        text = draw(st.sampled_from(["s", "ps"]))
        return Condition(
            f"{text} LIKE '{prefix}%'", lambda row: None if row[text] is None else row[text].startswith(prefix)
        )
    constant = draw(st.sampled_from([True, False, None]))
    if kind == "constant":
        return Condition("NULL" if constant is None else str(constant), lambda row: constant)
    return Condition(f"unknown_function({column}, {sql})", lambda row: constant)


def contained(value: Any, members: tuple[Any, ...], has_null: bool) -> bool | None:
    if value is None:
        return None
    if any(key(value) == key(member) for member in members):
        return True
    return None if has_null else False


def combined(children: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    def both(left: Condition, right: Condition) -> Condition:
        return Condition(f"({left.sql} AND {right.sql})", lambda row: conjunction(left.judge(row), right.judge(row)))

    def either(left: Condition, right: Condition) -> Condition:
        return Condition(
            f"({left.sql} OR {right.sql})",
            lambda row: negation(conjunction(negation(left.judge(row)), negation(right.judge(row)))),
        )

    def opposite(part: Condition) -> Condition:
        return Condition(f"NOT ({part.sql})", lambda row: negation(part.judge(row)))

    return st.one_of(
        st.builds(both, children, children), st.builds(either, children, children), st.builds(opposite, children)
    )


CONDITIONS = st.recursive(leaves(), combined, max_leaves=5)


# --- files with their statistics --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DataFile:
    rows: list[dict[str, Any]]
    stats: str | None
    partition: dict[str, str | None]


def json_bound(name: str, value: Any, *, is_upper: bool, cut: str) -> str | None:
    """One bound as some writer prints it."""
    if name == "s":
        return cut_string(value, is_upper=is_upper, cut=cut)
    if name == "t":
        return json.dumps(value.isoformat())
    if name in {"u", "w"}:
        return json.dumps(value.isoformat(timespec="milliseconds") + ("Z" if name == "u" else ""))
    if name == "f" and math.isfinite(value):
        return next(text for text in (f"{value:.{digits}g}" for digits in range(1, 18)) if single(float(text)) == value)
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: '"Infinity"', -math.inf: '"-Infinity"'}.get(value, '"NaN"')
    if isinstance(value, Decimal):
        return format(value, "f")
    return None if name == "b" else repr(value)


def cut_string(value: str, *, is_upper: bool, cut: str) -> str:
    if cut == "whole" or len(value) <= 32:
        return json.dumps(value)
    tie_breaker = "\U0010ffff" if is_upper and cut == "delta" else ""
    return json.dumps(value[:32] + tie_breaker, ensure_ascii=False)


def column_statistics(name: str, rows: list[dict[str, Any]], draw: Any) -> tuple[str | None, str | None, int]:
    present = [row[name] for row in rows if row[name] is not None]
    numbers = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
    # Spark's maximum is NaN when there is one; Parquet footers leave NaN out.
    sees_nan = draw(st.booleans())
    upper = math.nan if sees_nan and len(numbers) < len(present) else max(numbers, default=None)
    lower = min(numbers, default=None)
    cut = draw(st.sampled_from(["whole", "delta", "plain"]))
    return (
        None if lower is None else json_bound(name, lower, is_upper=False, cut=cut),
        None if upper is None else json_bound(name, upper, is_upper=True, cut=cut),
        len(rows) - len(present),
    )


@st.composite
def statistics(draw, rows: list[dict[str, Any]]) -> str | None:
    """Honest statistics: tight, or wide as after a deletion vector, with anything missing."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([None, "", "{", "null", "{}"]))
    is_wide = draw(st.booleans())
    # The rows that a deletion vector hides still count in wide statistics.
    counted = rows + (draw(st.lists(table_rows(), max_size=2)) if is_wide else [])
    parts: dict[str, list[str]] = {"minValues": [], "maxValues": [], "nullCount": []}
    for name in TYPES:
        lower, upper, nulls = column_statistics(name, counted, draw)
        for part, text in (("minValues", lower), ("maxValues", upper), ("nullCount", str(nulls))):
            if text is not None and draw(st.integers(0, 7)):
                parts[part].append(f'"{name}":{text}')
    body = "".join(f',"{part}":{{{",".join(entries)}}}' for part, entries in parts.items())
    return f'{{"numRecords":{len(counted)}{body},"tightBounds":{str(not is_wide).lower()}}}'


def partition_text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if name == "b":
        return str(value).lower()
    if name == "u":
        return value.isoformat(timespec="microseconds") + "Z"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def table_rows() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, values in VALUES.items()})


@st.composite
def data_files(draw) -> DataFile:
    partition = draw(table_rows())
    shared = {f"p{name}": value for name, value in partition.items()}
    rows = draw(st.lists(table_rows(), min_size=1, max_size=4))
    return DataFile(
        [row | shared for row in rows],
        draw(statistics(rows)),
        {f"p{name}": partition_text(name, value) for name, value in partition.items()},
    )


@settings(max_examples=400, deadline=None)
@given(st.lists(data_files(), min_size=1, max_size=3), CONDITIONS)
def test_no_file_with_a_matching_row_is_ever_excluded(files, condition):
    table: pa.Table = live_files([item.stats for item in files], [item.partition for item in files])
    result = prune(table, condition.sql, schema=SCHEMA, partition_columns=PARTITIONS, session_timezone="UTC")
    left = [int(path) for path in result["path"].to_pylist()]
    for number, item in enumerate(files):
        if any(condition.judge(row) is True for row in item.rows):
            assert number in left, (condition, item)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 10)), min_size=1, max_size=20), st.integers(-60, 60))
def test_a_point_excludes_exactly_the_ranges_that_do_not_hold_it(ranges, point):
    files = live_files([stats({"i": low}, {"i": low + width}, {"i": 0}) for low, width in ranges])
    expected = [number for number, (low, width) in enumerate(ranges) if low <= point <= low + width]
    assert kept(files, f"i = {point}", columns(i="long")) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.text("abc'\"`\\()[]=<>!-/*%.,0 1eELANDORNOTINISnul \n", max_size=60))
def test_no_text_makes_pruning_raise_or_exclude_a_file_it_does_not_know(anything, nearly_sql):
    for condition in (anything, nearly_sql):
        result = prune(live_files([None]), condition, schema=columns(a="long", b="string"))
        assert result.num_rows in {0, 1}
        if (
            "false" not in condition.lower()
            and "null" not in condition.lower()
            and not any(c.isdigit() for c in condition)
        ):
            assert result.num_rows == 1
