"""Is only that asked of deleted rows which cannot fail on them?"""

from __future__ import annotations

import pytest
from tests.support.live_files import columns

from ebbtide.protocol.schema import PrimitiveType, StructField, StructType
from ebbtide.pruning import Scope, harmless_part

SCHEMA = columns(
    id="long", small="byte", name="string", day="date", at="timestamp", flag="boolean", x="double", d="decimal(10,2)",
    p="string", nothing="void", s=columns(a="long"),
)  # fmt: skip


def part_of(condition, **said):
    return harmless_part(condition, Scope(SCHEMA, ("p",), **said))


@pytest.mark.parametrize(
    "condition",
    [
        "id = 5",
        "5 <= ID",
        "id <=> 5",
        "small <> 300",
        "id BETWEEN -1 AND 9223372036854775807",
        "name IN ('a', NULL)",
        "name NOT LIKE 'a%'",
        "id IS NULL",
        "s IS NOT NULL",
        "x IS NULL",
        "day >= DATE'2024-01-01'",
        "at < TIMESTAMP'2024-01-01 00:00:00'",
        "flag",
        "NOT (id = 1 OR name > 'b')",
        "id > 1 -- one\n",
    ],
)
def test_comparisons_with_literals_of_the_same_type_are_harmless(condition):
    assert part_of(condition) == f"({condition.removesuffix(' -- one' + chr(10))})"


@pytest.mark.parametrize(
    "condition",
    [
        "10 / id > 1",
        "id + 1 > 5",
        "CAST(name AS INT) = 5",
        # Spark casts the column, and a word that is no number fails.
        "name = 5",
        "name < DATE'2024-01-01'",
        "id = '5'",
        "day = '2024-01-01'",
        "id = 5.5",
        "id = 9223372036854775808",
        # Parquet and Spark disagree about NaN and zeros.
        "x > 5",
        "x > 5D",
        "d = 5",
        "upper(name) = 'A'",
        "name LIKE '%a'",
        "p = 'a'",
        "s.a = 1",
        "nothing IS NULL",
        "nobody = 1",
        "raise_error('x') IS NULL",
        "true",
        "id = 5 OR 10 / id > 1",
        "NOT (10 / id > 1)",
        "id =",
        "id = (SELECT 5)",
    ],
)
def test_anything_else_waits_until_deleted_rows_are_gone(condition):
    assert part_of(condition) is None


def test_harmless_conjuncts_are_taken_out_of_the_others():
    assert part_of("id > 1 AND 10 / id > 1 AND (name = 'a' OR flag)") == "(id > 1) AND (name = 'a' OR flag)"
    assert part_of(None) is None


def test_names_are_those_of_the_files_or_not_used():
    renamed = StructField("id", PrimitiveType("long"), True, {"delta.columnMapping.physicalName": "col-1"})
    kept = StructField("name", PrimitiveType("string"), True, {"delta.columnMapping.physicalName": "name"})
    scope = Scope(StructType((renamed, kept)), (), "name")
    assert harmless_part("id = 1 AND name = 'a'", scope) == "(name = 'a')"


def test_text_that_could_be_a_column_is_no_literal():
    assert part_of('name = "other"') == '(name = "other")'
    assert part_of('name = "p"') is None


def test_padded_and_collated_text_is_left_to_spark():
    padded = StructField("name", PrimitiveType("string"), True, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    assert harmless_part("name = 'a'", Scope(StructType((padded,)))) is None


def test_case_decides_where_the_session_says_so():
    assert part_of("ID = 5", case_sensitive=True) is None
