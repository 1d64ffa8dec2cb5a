"""Is a condition read as Spark reads it, and is the rest opaque?"""

from __future__ import annotations

from decimal import Decimal

import pytest

from ebbtide.pruning.parser import parse_condition
from ebbtide.pruning.predicate import (
    And,
    Between,
    Comparison,
    Constant,
    InList,
    IsNull,
    Literal,
    Name,
    Not,
    NullSafeEqual,
    Opaque,
    Or,
    StartsWith,
)


def shape(node):
    """The tree without spans, as nested tuples."""
    if isinstance(node, And | Or):
        return (type(node).__name__, *map(shape, node.parts))
    if isinstance(node, Not):
        return ("Not", shape(node.part))
    if isinstance(node, Opaque):
        return "?"
    if isinstance(node, Constant):
        return node.value
    name = ".".join(node.name.parts)
    if isinstance(node, Comparison):
        return (name, node.operator, node.literal.value)
    if isinstance(node, NullSafeEqual):
        return (name, "<=>", node.literal.value)
    if isinstance(node, IsNull):
        return (name, "null")
    if isinstance(node, Between):
        return (name, "between", node.low.value, node.high.value)
    if isinstance(node, InList):
        return (name, "in", *(item.value for item in node.literals), *(["NULL"] if node.has_null else []))
    assert isinstance(node, StartsWith)
    return (name, "like", node.prefix.value)


def read(condition):
    return shape(parse_condition(condition).root)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 1", ("a", "=", 1)),
        ("a == 1", ("a", "=", 1)),
        ("a <> 1", ("a", "<>", 1)),
        ("a != 1", ("a", "<>", 1)),
        ("a !< 1", ("a", ">=", 1)),
        ("a !> 1", ("a", "<=", 1)),
        ("1 < a", ("a", ">", 1)),
        ("1 >= a", ("a", "<=", 1)),
        ("a <=> 1", ("a", "<=>", 1)),
        ("a <=> NULL", ("a", "null")),
        ("null <=> a", ("a", "null")),
        ("a = NULL", None),
        ("(a) = ((1))", ("a", "=", 1)),
        ("a = -1", ("a", "=", -1)),
        ("a = + 1", ("a", "=", 1)),
        ("a = -128Y", ("a", "=", -128)),
        ("a = 1L", ("a", "=", 1)),
        ("a = 1.50", ("a", "=", Decimal("1.50"))),
        ("a = 1BD", ("a", "=", Decimal(1))),
        ("a = 1e3", ("a", "=", 1000.0)),
        ("a = 1.5D", ("a", "=", 1.5)),
        ("a = date '2024-01-01'", ("a", "=", "2024-01-01")),
        ("a = TIMESTAMP_NTZ'2024-01-01'", ("a", "=", "2024-01-01")),
        ("a", ("a", "=", True)),
        ("NOT a", ("Not", ("a", "=", True))),
        ("a IS TRUE", ("a", "<=>", True)),
        ("a IS NOT FALSE", ("Not", ("a", "<=>", False))),
        ("a IS UNKNOWN", ("a", "null")),
        ("a IS NOT NULL", ("Not", ("a", "null"))),
        ("a IS DISTINCT FROM 1", ("Not", ("a", "<=>", 1))),
        ("a IS NOT DISTINCT FROM 1", ("a", "<=>", 1)),
        ("a IS NOT DISTINCT FROM NULL", ("a", "null")),
        ("a IN (1, 2)", ("a", "in", 1, 2)),
        ("a IN (1, NULL)", ("a", "in", 1, "NULL")),
        ("a NOT IN (1)", ("Not", ("a", "in", 1))),
        ("a LIKE 'x%'", ("a", "like", "x")),
        ("a NOT LIKE 'x%'", ("Not", ("a", "like", "x"))),
        ("a LIKE 'x'", ("a", "in", "x")),
        ("a BETWEEN 1 AND 2", ("a", "between", 1, 2)),
        ("a NOT BETWEEN 1 AND 2", ("Not", ("a", "between", 1, 2))),
        ("a BETWEEN 1 AND NULL", ("And", ("a", ">=", 1), None)),
        ("t.`a.b`.c = 1", ("t.a.b.c", "=", 1)),
        ("end > 5", ("end", ">", 5)),
        ("date = '2024-01-01'", ("date", "=", "2024-01-01")),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("1 = 1", True),
        ("1 > 2", False),
        ("1 <=> 1", True),
    ],
)
def test_a_leaf_is_understood(condition, expected):
    assert read(condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 1 OR b = 2 AND c = 3", ("Or", ("a", "=", 1), ("And", ("b", "=", 2), ("c", "=", 3)))),
        ("(a = 1 OR b = 2) AND c = 3", ("And", ("Or", ("a", "=", 1), ("b", "=", 2)), ("c", "=", 3))),
        ("(a = 1 AND b = 2) AND c = 3", ("And", ("a", "=", 1), ("b", "=", 2), ("c", "=", 3))),
        ("NOT a = 1 AND b = 2", ("And", ("Not", ("a", "=", 1)), ("b", "=", 2))),
        ("!a = 1", ("Not", ("a", "=", 1))),
        ("! a IS NULL", ("Not", ("a", "null"))),
        ("NOT NOT a = 1", ("Not", ("Not", ("a", "=", 1)))),
        ("a BETWEEN 1 AND 2 AND b = 3", ("And", ("a", "between", 1, 2), ("b", "=", 3))),
        ("NOT a BETWEEN 1 AND 2 OR b = 3", ("Or", ("Not", ("a", "between", 1, 2)), ("b", "=", 3))),
        ("CASE WHEN a = 1 AND b = 2 THEN true END AND c = 3", ("And", "?", ("c", "=", 3))),
        ("exists(x, y -> y = 1 AND y = 2) AND c = 3", ("And", "?", ("c", "=", 3))),
        ("t.and = 1", ("t.and", "=", 1)),
    ],
)
def test_precedence_is_that_of_spark(condition, expected):
    assert read(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "a + 1 = 2",
        "abs(a) = 1",
        "a = b",
        "a = 1 = true",
        "a = 1 IS NULL",
        "(a = 1) IS NULL",
        "a IS NULL = true",
        "cast(a AS int) = 1",
        "a::int = 1",
        "a = '1'::int",
        "a = cast('1' AS int)",
        "a IN (SELECT 1)",
        "a IN ()",
        "a IN (1, b)",
        "EXISTS (SELECT 1)",
        "a[0] = 1",
        "m['x'] = 1",
        "s = 'a' 'b'",
        "s = 'it''s'",
        r"s = 'a\nb'",
        "s = 'a' || 'b'",
        "s = 'a' COLLATE utf8_lcase",
        "s LIKE 'a_c%'",
        "s LIKE 'a%c'",
        "s LIKE '%a'",
        r"s LIKE r'a\%'",
        "s LIKE 'a%' ESCAPE '!'",
        "s LIKE ANY ('a%', 'b%')",
        "s ILIKE 'a%'",
        "s RLIKE 'a'",
        "b = X'1F'",
        "a = INTERVAL '1' DAY",
        "a = current_date",
        "current_date = '2024-01-01'",
        "a = :p",
        "a = ?",
        "a = - -1",
        "a = 128Y",
        "a = 9223372036854775808L",
        "a = 1.5L",
        "a = 1e400",
        "(a, b) = (1, 2)",
        "'abc'",
        "",
        "   ",
        "-- only a comment",
        "a = 'open",
        "a = (1",
        "CASE WHEN start < end AND a = 1 AND b = 2 THEN true END",
    ],
)
def test_what_is_not_exactly_a_known_leaf_is_opaque(condition):
    assert read(condition) == "?"


def test_of_a_broken_condition_the_healthy_part_may_be_understood():
    assert read("a = 1 AND") == ("And", ("a", "=", 1), "?")
    assert read("NOT") == ("Not", "?")


def test_parentheses_nested_beyond_reason_are_opaque():
    assert read("(" * 50 + "a = 1" + ")" * 50) == ("a", "=", 1)
    assert read("(" * 5000 + "a = 1" + ")" * 5000) == "?"


def test_double_quoted_text_is_remembered_as_a_possible_name():
    root = parse_condition('a = "x"').root
    assert isinstance(root, Comparison)
    assert root.name == Name(("a",))
    assert root.literal == Literal("string", "x", may_be_name=True)


def test_a_long_chain_of_conditions_is_read_without_recursion():
    root = parse_condition(" OR ".join(f"a = {number}" for number in range(5000))).root
    assert isinstance(root, Or)
    assert len(root.parts) == 5000
