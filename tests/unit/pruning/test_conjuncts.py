"""Are the parts of a condition told apart as DELETE needs them?"""

from __future__ import annotations

import pytest
from tests.support.live_files import columns

from ebbtide.protocol.schema import ArrayType, PrimitiveType, StructField, StructType
from ebbtide.pruning import (
    Scope,
    is_partition_only,
    nondeterministic_functions,
    partition_only_conjuncts,
    split_conjuncts,
)
from ebbtide.sql_text import tokenize

SCHEMA = columns(id="long", p="date", Q="string", s=columns(a="long"))
PARTITIONS = ("p", "Q")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 1", ["a = 1"]),
        ("a = 1 AND b = 2", ["a = 1", "b = 2"]),
        ("(a = 1 AND (b  =  2)) AND c", ["a = 1", "b  =  2", "c"]),
        ("a BETWEEN 1 AND 2 AND b", ["a BETWEEN 1 AND 2", "b"]),
        ("a = 1 OR b = 2", ["a = 1 OR b = 2"]),
        ("a = 1 -- why\n AND b = 2 -- because", ["a = 1", "b = 2"]),
        ("s RLIKE '\\\\d+' AND a = 1", ["s RLIKE '\\\\d+'", "a = 1"]),
        ("f(a, x -> x AND y) AND b", ["f(a, x -> x AND y)", "b"]),
        ("a = 'open AND b = 2", ["a = 'open AND b = 2"]),
    ],
)
def test_conjuncts_are_given_back_in_the_users_own_words(condition, expected):
    assert split_conjuncts(condition) == expected


def referenced(condition: str, schema: StructType) -> set[str] | None:
    """The top-level columns that a condition touches; None when some could not be placed."""
    references = Scope(schema, alias="t").references(tokenize(condition) or ())
    return set(references.columns) if references.is_complete and tokenize(condition) else None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 1", {"id"}),
        ("ID = 1 AND q = 'x'", {"id", "Q"}),
        ("t.id = 1", {"id"}),
        ("s.a = 1", {"s"}),
        ("`id` = 1", {"id"}),
        ("upper(Q) = 'X' AND year(p) = 2024", {"Q", "p"}),
        ("cast(id AS date) = p", {"id", "p"}),
        ("CASE WHEN id = 1 THEN p END IS NULL", {"id", "p"}),
        ("p > current_date - INTERVAL 1 DAY", {"p"}),
        ("1 = 1", set()),
        ("id * 2 = 4", {"id"}),
        ('Q = "id"', {"Q", "id"}),
        ("nosuch = 1", None),
        ("u.id = 1", None),
        ("_metadata.file_path = 'x'", None),
        ("struct(*) IS NULL", None),
        ("count(t.*) = 1", None),
        ("identifier('id') = 1", None),
        ("id = :value", None),
        ("id = 'open", None),
    ],
)
def test_referenced_columns_are_all_that_could_be_touched(condition, expected):
    assert referenced(condition, SCHEMA) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("p = '2024-01-01'", True),
        ("P = '2024-01-01' AND t.q LIKE 'x%'", True),
        ("year(p) = 2024", True),
        ("true", True),
        ("1 = 1", True),
        ("p = '2024-01-01' OR id = 1", False),
        ("id = 1", False),
        ("p IN (SELECT x FROM y)", False),
        ("rand() < 0.5", False),
        ("p = '2024-01-01' AND uuid() = 'x'", False),
        ("nosuch = 1", None),
        ("_metadata.file_name = 'x'", None),
        ("p = 'open", None),
        ("struct(*) IS NULL", None),
    ],
)
def test_a_condition_is_partition_only_if_partition_values_decide_it(condition, expected):
    assert is_partition_only(condition, SCHEMA, PARTITIONS, alias="t") is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("p = 'a' AND id = 1", ["p = 'a'"]),
        ("(Q = 'x' OR (Q = 'y' AND id = 2)) AND p = 'a'", ["(Q = 'x') OR (Q = 'y')", "p = 'a'"]),
        ("(p = 'a' AND id = 1) OR (p = 'b' AND id = 2)", ["(p = 'a') OR (p = 'b')"]),
        ("(p = 'a' AND Q = 'x' AND id = 1) OR p = 'b'", ["((p = 'a') AND (Q = 'x')) OR (p = 'b')"]),
        ("(p = 'a' AND id = 1) OR id = 2", []),
        ("NOT (p = 'a' AND id = 1)", []),
        ("id = 1", []),
    ],
)
def test_implied_partition_predicates_come_through_or_only_from_both_sides(condition, expected):
    assert partition_only_conjuncts(condition, SCHEMA, PARTITIONS) == expected


def test_a_lambda_variable_that_is_no_column_makes_the_references_unknown():
    schema = StructType((StructField("xs", ArrayType(PrimitiveType("long"))),))
    assert referenced("exists(xs, item -> item > 1)", schema) is None


def test_nondeterministic_functions_are_named():
    assert nondeterministic_functions("id = 1 AND RAND() < 0.5 OR uuid() = 'x'") == {"rand", "uuid"}
    assert nondeterministic_functions("rand = 1 AND abs(id) = 1") == frozenset()
