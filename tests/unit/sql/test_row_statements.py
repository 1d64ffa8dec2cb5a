"""Are UPDATE, MERGE and INSERT taken apart at the right places, and the parts handed on letter by letter?"""

from __future__ import annotations

import pytest

from ebbtide.errors import RequestError
from ebbtide.sql.parse import parse_statement
from ebbtide.sql.statements import Assignment, Insert, Merge, MergeClause, Update, ViewName


def sets(*pairs):
    return tuple(Assignment(target, value) for target, value in pairs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPDATE delta.`/t` SET a = 1", Update("/t", sets(("a", "1")))),
        (
            "update delta.`/t` AS t set t.a = t.a + 1, `b c`.d = 'x, WHERE' where t.id in (1, 2) ;",
            Update("/t", sets(("t.a", "t.a + 1"), ("`b c`.d", "'x, WHERE'")), "t.id in (1, 2)", "t"),
        ),
        (
            "UPDATE people SET a = CASE WHEN x THEN (SELECT max(y) FROM z WHERE y > 1) ELSE 2 END, b = f(1, 2)",
            Update(
                ViewName("people"),
                sets(("a", "CASE WHEN x THEN (SELECT max(y) FROM z WHERE y > 1) ELSE 2 END"), ("b", "f(1, 2)")),
            ),
        ),
        ("UPDATE v x SET a=b.where, c == d[0] WHERE true", Update(ViewName("v"), sets(("a", "b.where"), ("c", "d[0]")), "true", "x")),
        ("UPDATE delta.`/t` SET a /* why */ = /* so */ 1 -- done", Update("/t", sets(("a", "1")))),
    ],
)  # fmt: skip
def test_update_is_understood(text, expected):
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("UPDATE delta.`/t`", "Expected SET"),
        ("UPDATE delta.`/t` SET", "the name of a column"),
        ("UPDATE delta.`/t` SET a", "'=' after a"),
        ("UPDATE delta.`/t` SET a = ", "a value for a"),
        ("UPDATE delta.`/t` SET a = 1,", "the name of a column"),
        ("UPDATE delta.`/t` SET a = , b = 2", "a value for a"),
        ("UPDATE delta.`/t` SET a = 1 WHERE", "a condition after WHERE"),
        ("UPDATE delta.`/t` SET a = 1) WHERE b", "Expected WHERE"),
        ("UPDATE db.t SET a = 1", "delta.`/path/to/table`"),
    ],
)
def test_mistake_in_an_update_is_named_at_its_place(text, said):
    with pytest.raises(RequestError) as refused:
        parse_statement(text)
    assert said in str(refused.value)


def test_merge_with_every_kind_of_clause_is_understood():
    text = """
        MERGE INTO delta.`/t` AS t USING people p ON t.id = p.id AND (p.x OR t.y)
        WHEN MATCHED AND p.gone THEN DELETE
        WHEN MATCHED AND CASE WHEN p.a THEN true ELSE t.when END THEN UPDATE SET t.n = p.n, a.b = CASE WHEN x THEN 1 END
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED BY TARGET AND p.ok THEN INSERT (id, `n n`) VALUES (p.id, concat(p.a, ','))
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.old THEN UPDATE SET active = false
        WHEN NOT MATCHED BY SOURCE THEN DELETE
    """
    assert parse_statement(text) == Merge(
        "/t",
        "SELECT * FROM people",
        "t.id = p.id AND (p.x OR t.y)",
        (
            MergeClause("matched", "delete", "p.gone"),
            MergeClause(
                "matched",
                "update",
                "CASE WHEN p.a THEN true ELSE t.when END",
                sets(("t.n", "p.n"), ("a.b", "CASE WHEN x THEN 1 END")),
            ),
            MergeClause("matched", "update all"),
            MergeClause("not matched", "insert", "p.ok", sets(("id", "p.id"), ("`n n`", "concat(p.a, ',')"))),
            MergeClause("not matched", "insert all"),
            MergeClause("not matched by source", "update", "t.old", sets(("active", "false"))),
            MergeClause("not matched by source", "delete"),
        ),
        alias="t",
        source_alias="p",
    )


@pytest.mark.parametrize(
    ("source", "query", "alias"),
    [
        ("people", "SELECT * FROM people", "people"),
        ("db.people AS p", "SELECT * FROM db.people", "p"),
        ("delta.`/s` s", "SELECT * FROM delta.`/s`", "s"),
        ("delta.`/s`", "SELECT * FROM delta.`/s`", None),
        ("delta.`/s` VERSION AS OF 3 AS s", "SELECT * FROM delta.`/s` VERSION AS OF 3", "s"),
        ("delta.`/s` FOR TIMESTAMP AS OF (now() - x) s", "SELECT * FROM delta.`/s` FOR TIMESTAMP AS OF (now() - x)", "s"),
        ("delta.`/s` TIMESTAMP AS OF TIMESTAMP'2024-01-01' s", "SELECT * FROM delta.`/s` TIMESTAMP AS OF TIMESTAMP'2024-01-01'", "s"),
        ("(SELECT a, b FROM x WHERE y IN (1)) AS s", "SELECT * FROM (SELECT a, b FROM x WHERE y IN (1))", "s"),
        ("(VALUES (1, 2)) AS s(a, b)", "SELECT * FROM (VALUES (1, 2)) AS s(a, b)", "s"),
        ("table_changes('/s', 1) c", "SELECT * FROM table_changes('/s', 1)", "c"),
        ("range(10)", "SELECT * FROM range(10)", "range"),
    ],
)  # fmt: skip
def test_source_of_a_merge_becomes_a_query_and_a_name(source, query, alias):
    merge = parse_statement(f"MERGE WITH SCHEMA EVOLUTION INTO v USING {source} ON true WHEN MATCHED THEN DELETE")
    assert (merge.source, merge.source_alias, merge.schema_evolution) == (query, alias, True)
    assert merge.path == ViewName("v")


def test_queries_named_before_a_merge_or_an_insert_belong_to_its_source():
    ctes = "WITH a AS (SELECT 1 AS x), b (y) AS (SELECT 2)"
    merge = parse_statement(f"{ctes} MERGE INTO delta.`/t` USING a ON a.x = id WHEN MATCHED THEN DELETE")
    assert merge.source == f"{ctes} SELECT * FROM a"
    insert = parse_statement(f"{ctes} INSERT INTO delta.`/t` SELECT * FROM b")
    assert insert == Insert("/t", f"{ctes} SELECT * FROM b")


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ("", "DELTA_MERGE_MISSING_WHEN"),
        ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE", "[NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION]"),
        (
            "WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND a THEN DELETE",
            "[NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION]",
        ),
        ("WHEN MATCHED DELETE", "Expected THEN"),
        ("WHEN MATCHED THEN INSERT *", "UPDATE or DELETE"),
        ("WHEN NOT MATCHED THEN DELETE", "Expected INSERT"),
        ("WHEN NOT MATCHED BY SOURCE THEN INSERT *", "UPDATE or DELETE"),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "the name of a column"),
        ("WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "2 columns (a, b) and gives 1 values"),
        ("WHEN NOT MATCHED THEN INSERT (a) (1)", "Expected VALUES"),
        ("WHEN MATCHED AND THEN DELETE", "a condition after AND"),
        ("WHEN MATCHED THEN DELETE WHERE x", "Expected WHEN"),
    ],
)
def test_mistake_in_a_merge_is_named_at_its_place(clauses, said):
    with pytest.raises(RequestError) as refused:
        parse_statement(f"MERGE INTO delta.`/t` USING s ON true {clauses}")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO delta.`/t` VALUES (1, 'a;b'), (2, 'c')", Insert("/t", "VALUES (1, 'a;b'), (2, 'c')")),
        ("insert into table delta.`/t` (b, `a a`) select 1, 2", Insert("/t", "select 1, 2", ("b", "a a"))),
        ("INSERT INTO delta.`/t` (SELECT 1)", Insert("/t", "(SELECT 1)")),
        ("INSERT INTO delta.`/t` BY NAME SELECT 1 AS a", Insert("/t", "SELECT 1 AS a", by_name=True)),
        ("INSERT OVERWRITE v TABLE s", Insert(ViewName("v"), "TABLE s", overwrite=True)),
        (
            "INSERT INTO delta.`/t` REPLACE WHERE a = 1 AND b IN (SELECT c FROM d) SELECT * FROM s WHERE x",
            Insert("/t", "SELECT * FROM s WHERE x", replace_where="a = 1 AND b IN (SELECT c FROM d)"),
        ),
        ("INSERT INTO delta.`/t` WITH c AS (SELECT 1) SELECT * FROM c", Insert("/t", "WITH c AS (SELECT 1) SELECT * FROM c")),
    ],
)  # fmt: skip
def test_insert_is_understood(text, expected):
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("INSERT INTO delta.`/t`", "a query or VALUES"),
        ("INSERT INTO delta.`/t` PARTITION (a = 1) SELECT 1", "partitions are found by the values"),
        ("INSERT INTO delta.`/t` REPLACE WHERE SELECT 1", "a condition after WHERE"),
        ("INSERT INTO delta.`/t` REPLACE WHERE a = 1", "a query or VALUES"),
        ("INSERT delta.`/t` SELECT 1", "Expected INTO"),
    ],
)
def test_mistake_in_an_insert_is_named_at_its_place(text, said):
    with pytest.raises(RequestError) as refused:
        parse_statement(text)
    assert said in str(refused.value)


@pytest.mark.parametrize("condition", ["a = 1) OR (b = 2", "a = 1)", "(a = 1"])
def test_parenthesis_too_many_never_shortens_a_condition(condition):
    assert parse_statement(f"DELETE FROM delta.`/t` WHERE {condition}").condition == condition
    assert parse_statement(f"UPDATE delta.`/t` SET a = 1 WHERE {condition}").condition == condition
    assert parse_statement(f"INSERT INTO delta.`/t` SELECT 1 WHERE {condition}").query == f"SELECT 1 WHERE {condition}"


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE delta.`/t` SET a = (1 WHERE b",
        "UPDATE delta.`/t` SET a = CASE WHEN x THEN 1 WHERE b",
        "MERGE INTO delta.`/t` USING s ON (a WHEN MATCHED THEN DELETE",
        "MERGE INTO delta.`/t` USING s ON a) WHEN MATCHED THEN DELETE",
        "MERGE INTO delta.`/t` USING s ON a WHEN MATCHED THEN UPDATE SET b = 1) WHEN MATCHED THEN DELETE",
    ],
)
def test_clause_is_never_lost_in_parentheses_that_do_not_close(text):
    """The part behind stays a part of the value, which Spark refuses, or the statement is refused here."""
    try:
        statement = parse_statement(text)
    except RequestError:
        return
    assert statement.assignments[-1].value in text
    assert statement.condition is None
    assert statement.assignments[-1].value.endswith("WHERE b")
