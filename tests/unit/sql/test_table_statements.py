"""Are CREATE TABLE and queries taken apart at the right places?"""

from __future__ import annotations

import pytest

from ebbtide.errors import RequestError
from ebbtide.sql.parse import parse_statement
from ebbtide.sql.queries import ChangesReference, PathReference, query_references
from ebbtide.sql.statements import ColumnDefinition, CreateTable, Query


def test_table_with_everything_is_understood():
    text = """CREATE TABLE IF NOT EXISTS delta.`/t` (
            id BIGINT NOT NULL COMMENT 'the key',
            `a b` STRUCT<x: DECIMAL(10, 2), y: ARRAY<MAP<STRING, INT>>>,
            price DECIMAL(10, 2) DEFAULT 1.5 + f(2, 3) COMMENT "what it costs",
            day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
            at TIMESTAMP
        ) USING DELTA PARTITIONED BY (day, id) COMMENT 'all of it'
        TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', x.y = 1)"""
    assert parse_statement(text) == CreateTable(
        "/t",
        (
            ColumnDefinition("id", "BIGINT", False, "the key"),
            ColumnDefinition("a b", "STRUCT<x: DECIMAL(10, 2), y: ARRAY<MAP<STRING, INT>>>"),
            ColumnDefinition("price", "DECIMAL(10, 2)", comment="what it costs", default="1.5 + f(2, 3)"),
            ColumnDefinition("day", "DATE", generated_as="CAST(at AS DATE)"),
            ColumnDefinition("at", "TIMESTAMP"),
        ),
        partition_by=("day", "id"),
        properties={"delta.enableChangeDataFeed": "true", "x.y": "1"},
        comment="all of it",
        if_not_exists=True,
    )


def test_table_may_be_replaced_and_made_from_a_query():
    assert parse_statement("CREATE OR REPLACE TABLE delta.`/t` (a INT)") == CreateTable(
        "/t", (ColumnDefinition("a", "INT"),), or_replace=True
    )
    assert parse_statement("CREATE TABLE delta.`/t` USING delta AS SELECT 1 AS a, 2 AS b") == CreateTable(
        "/t", query="SELECT 1 AS a, 2 AS b"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE TABLE people (a INT) USING delta", "delta.`/path/to/table`"),
        ("CREATE TABLE delta.`/t` (a)", "the type of the column"),
        ("CREATE TABLE delta.`/t` (a INT", "Expected ')'"),
        ("CREATE TABLE delta.`/t` (a INT) USING parquet", "USING delta"),
        ("CREATE TABLE delta.`/t` (a INT) USING delta USING delta", "USING is given twice"),
        ("CREATE TABLE delta.`/t` (a INT) LOCATION '/t'", "PARTITIONED BY"),
        ("CREATE TABLE delta.`/t` (a INT GENERATED ALWAYS AS IDENTITY)", "Identity columns"),
        ("CREATE TABLE delta.`/t` (a INT) AS SELECT 1", "name none"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS delta.`/t` (a INT)", "not both"),
        ("CREATE TABLE delta.`/t` (a INT COMMENT x)", "a comment in quotes"),
    ],
)
def test_mistake_in_a_table_is_named_at_its_place(text, said):
    with pytest.raises(RequestError) as refused:
        parse_statement(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM delta.`/t`",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "FROM delta.`/t` SELECT a",
        "VALUES (1)",
        "TABLE delta.`/t`",
        "SELECT /*+ BROADCAST(a) */ * FROM a",
    ],
)
def test_query_is_kept_whole(text):
    assert parse_statement(f"  {text} ; -- end") == Query(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM delta.`/a` t JOIN delta.`/b` ON true", [PathReference("/a"), PathReference("/b")]),
        ("FROM delta.`/a` SELECT x", [PathReference("/a")]),
        ("TABLE delta.`/a`", [PathReference("/a")]),
        ("SELECT * FROM delta.`/a` VERSION AS OF 3 AS t", [PathReference("/a", 3)]),
        ("SELECT * FROM delta.`/a` FOR SYSTEM_VERSION AS OF '3'", [PathReference("/a", 3)]),
        ("SELECT * FROM delta.`/a` TIMESTAMP AS OF '2024-01-01' t", [PathReference("/a", timestamp="'2024-01-01'")]),
        ("SELECT * FROM delta.`/a` TIMESTAMP AS OF DATE'2024-01-01'", [PathReference("/a", timestamp="DATE'2024-01-01'")]),
        ("SELECT * FROM delta.`/a` TIMESTAMP AS OF now() WHERE x", [PathReference("/a", timestamp="now()")]),
        ("SELECT * FROM delta.`/a` TIMESTAMP AS OF (now() - x)", [PathReference("/a", timestamp="(now() - x)")]),
        ("SELECT * FROM table_changes('/a', 0)", [ChangesReference("/a", "0")]),
        ("SELECT * FROM table_changes('/a', 1, 2) c", [ChangesReference("/a", "1", "2")]),
        ("SELECT * FROM table_changes('delta.`/a b`', '2024-01-01', now())", [ChangesReference("/a b", "'2024-01-01'", "now()")]),
        ("SELECT a, delta.`x` FROM v WHERE b IN (SELECT b FROM delta.`/a`)", [PathReference("/a")]),
        ("WITH c AS (SELECT * FROM delta.`/a`) SELECT * FROM c, delta.`/b`", [PathReference("/a"), PathReference("/b")]),
        ("SELECT /*+ BROADCAST(t) */ * FROM delta.`/a` t", [PathReference("/a")]),
        ("SELECT table_changes(1), 'FROM delta.`/a`' FROM v", []),
        ("SELECT 1 WHERE a IS DISTINCT FROM delta.`x`", []),
    ],
)  # fmt: skip
def test_tables_of_a_query_are_found(text, expected):
    assert query_references(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM delta.`/a` VERSION AS OF x", "a version after VERSION AS OF"),
        ("SELECT * FROM delta.`/a` TIMESTAMP AS OF 3", "a timestamp after TIMESTAMP AS OF"),
        ("SELECT * FROM delta.`/a` TIMESTAMP AS OF now() - x", "into parentheses"),
        ("SELECT * FROM table_changes('/a')", "DELTA_NO_START_FOR_CDC_READ"),
        ("SELECT * FROM table_changes(v, 1)", "the path of a table, as a string"),
        ("SELECT * FROM table_changes('/a', 1, 2, 3)", "Expected ')'"),
    ],
)
def test_mistake_in_a_table_of_a_query_is_named(text, said):
    with pytest.raises(RequestError) as refused:
        query_references(text)
    assert said in str(refused.value)
