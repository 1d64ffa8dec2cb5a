"""Which expressions read other tables?"""

from __future__ import annotations

import pytest

from ebbtide.sql_text import text_has_subquery


@pytest.mark.parametrize(
    "source",
    [
        "a IN (SELECT b FROM c)",
        "EXISTS (\n-- x\nselect 1)",
        "a > ((SELECT max(b) FROM c))",
        "a IN (WITH c AS (SELECT 1) SELECT * FROM c)",
        "a IN (VALUES (1), (2))",
        "a IN (VALUES 1)",
        "a IN (FROM c SELECT b)",
        "a IN (TABLE c)",
        "(SELECT -1) = a",
        "(select in (1))",
        "(values is null)",
        "trim(both 'x' from (select 'x'))",
    ],
)
def test_a_query_in_parentheses_is_a_subquery(source):
    assert text_has_subquery(source)


@pytest.mark.parametrize(
    "source",
    [
        "note = 'please select one'",
        "note = '(select 1)'",
        'note = "(select 1)"',
        "note = 'it''s (select 1)'",
        "a = 1 -- (select 1)",
        "a /* (select 1) */ = 1",
        "select = 1",
        "(select = 1)",
        "(select)",
        "coalesce(select, values)",
        "(t.select) = 1",
        "(select.a) = 1",
        "`select` IN (1)",
        "(`select` + 1)",
        "(from = 3) AND (table <> 4) AND (with > 5)",
        "trim(FROM a) = 'x'",
        "extract(year FROM a) = 2024",
        "a IS DISTINCT FROM b",
        "=(s, please select one)",
        "=(s, it's one to select)",
        "a = '${x}'",
    ],
)
def test_words_that_look_like_a_subquery_are_none(source):
    assert not text_has_subquery(source)


def test_a_text_that_is_no_sql_has_a_subquery_if_it_looks_like_one():
    assert text_has_subquery("=(s, it's (select 1))")
