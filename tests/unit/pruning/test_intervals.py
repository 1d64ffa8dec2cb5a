"""Is a literal's interval as wide as the doubt about it?"""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from ebbtide.protocol.schema import PrimitiveType
from ebbtide.pruning.intervals import Interval, literal_interval, microseconds_since_epoch, prefix_successor
from ebbtide.pruning.predicate import Literal
from ebbtide.pruning.scope import Column

HOUR_US = 3_600_000_000


def column(type_name: str) -> Column:
    return Column(("c",), ("c",), PrimitiveType(type_name), is_partition=False, is_comparable=True, was_narrower=False)


def test_a_decimal_that_is_no_double_covers_the_neighbours_that_spark_may_round_to():
    value = Decimal("0.12345678901234567")
    interval = literal_interval(column("double"), Literal("decimal", value), None)
    assert interval is not None
    assert interval.low <= math.nextafter(float(value), 0) < math.nextafter(float(value), 1) <= interval.high


@pytest.mark.parametrize(
    ("type_name", "literal", "expected"),
    [
        ("double", Literal("decimal", Decimal("1.5")), Interval(1.5, 1.5)),
        ("double", Literal("integer", 3), Interval(3.0, 3.0)),
        ("integer", Literal("decimal", Decimal("-2.5")), Interval(-3, -2)),
        ("integer", Literal("double", 2.5), Interval(2.5, 2.5)),
        ("integer", Literal("string", "12"), Interval(12, 12)),
        ("byte", Literal("string", "128"), None),
        ("integer", Literal("string", "012"), None),
        ("integer", Literal("string", "-0"), None),
        ("integer", Literal("boolean", True), None),
        ("boolean", Literal("integer", 1), None),
        ("boolean", Literal("boolean", True), Interval(1, 1)),
        ("double", Literal("string", "1.5"), None),
        ("string", Literal("integer", 1), None),
        ("decimal(38,30)", Literal("integer", 1), None),
        ("decimal(38,18)", Literal("integer", 1), Interval(1.0, 1.0)),
        ("decimal(38,0)", Literal("decimal", Decimal("0.1")), None),
        ("long", Literal("decimal", Decimal("1e40")), None),
        ("date", Literal("string", "2024-02-30"), None),
        ("date", Literal("string", "1970-01-02"), Interval(1, 1)),
        ("timestamp", Literal("timestamp", "1970-01-01 00:00:00+18:01"), None),
        ("timestamp", Literal("timestamp", "1970-01-01 00:00:00+19:00"), None),
        ("timestamp", Literal("timestamp", "1970-01-01 01:00:00+01:00"), Interval(0, 0)),
        ("timestamp_ntz", Literal("date", "1970-01-01"), Interval(0, 0)),
        ("binary", Literal("string", "x"), None),
    ],
)
def test_a_literal_is_placed_on_the_columns_scale_or_not_at_all(type_name, literal, expected):
    assert literal_interval(column(type_name), literal, "UTC") == expected


def test_a_regional_zone_leaves_room_for_another_time_zone_database():
    interval = literal_interval(column("timestamp"), Literal("string", "2024-07-01 12:00:00"), "Europe/Berlin")
    utc = microseconds_since_epoch("2024-07-01 10:00:00", None)
    assert interval is not None
    assert utc is not None
    assert interval.low <= utc - HOUR_US < utc + HOUR_US <= interval.high


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("a", "b"), ("az\U0010ffff", "a{"), ("\ud7ff", "\ue000"), ("\U0010ffff", None), ("", None), ("\x7f", "\x80")],
)
def test_the_successor_of_a_prefix_is_the_next_string_of_its_length(prefix, expected):
    assert prefix_successor(prefix) == expected
