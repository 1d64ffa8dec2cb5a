"""Which words of a condition are Delta tables, and which only look like one?"""

from __future__ import annotations

import pytest

from ebbtide.commands.row_level.subqueries import table_references
from ebbtide.errors import RequestError


def tables(condition):
    return [reference.path for reference in table_references(condition)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id IN (SELECT id FROM delta.`/a`)", ["/a"]),
        ("id in (select x.id from `delta` . `/a b` as x where x.p = 'delta.`/no`')", ["/a b"]),
        ("EXISTS (SELECT 1 FROM v, delta.`/a` JOIN delta.`/b` ON true, delta.`/c`)", ["/a", "/b", "/c"]),
        ("id = (SELECT max(id) FROM (SELECT * FROM delta.`/a` UNION ALL TABLE delta.`/b`))", ["/a", "/b"]),
        ("id IN (SELECT id FROM (delta.`/a` JOIN delta.`/b` USING (id)))", ["/a", "/b"]),
        ("id IN (SELECT id FROM delta.`/a`) OR id IN (SELECT id FROM delta.`/a`)", ["/a", "/a"]),
        ("id IN (WITH c AS (SELECT * FROM delta.`/a`) SELECT id FROM c)", ["/a"]),
        ("EXISTS (FROM delta.`/a`)", ["/a"]),
        ("id IN (SELECT id FROM v WHERE x IN (SELECT x FROM delta.`/a`) GROUP BY a, delta.`no`)", ["/a"]),
    ],
)
def test_tables_behind_from_and_join_are_found(condition, expected):
    assert tables(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "delta.`x` > 3",
        "id IN (SELECT delta.`x` FROM v)",
        "id IN (SELECT a, delta.`x` FROM v WHERE delta.`y` = 1)",
        "name = 'FROM delta.`/a`'",
        "id = 1 -- FROM delta.`/a`",
        "id IN (SELECT id FROM v) /* JOIN delta.`/a` */",
        "a IS DISTINCT FROM delta.`x`",
        "trim(BOTH FROM delta.`x`) = 'a'",
        "trim(FROM delta.`x`) = 'a'",
        "extract(year FROM delta.`x`) = 2024",
        "id IN (SELECT a FROM v WHERE a IS NOT DISTINCT FROM delta.`x`)",
        "id IN (SELECT id FROM delta.people)",
        "'unclosed FROM delta.`/a`",
    ],
)
def test_column_or_text_that_looks_like_a_table_is_left_alone(condition):
    assert tables(condition) == []


@pytest.mark.parametrize("clause", ["VERSION AS OF 3", "FOR TIMESTAMP AS OF '2024-01-01'", "timestamp as of now()"])
def test_time_travel_in_a_condition_is_refused_with_the_way_round(clause):
    with pytest.raises(RequestError, match=r"ebbtide\.read"):
        table_references(f"id IN (SELECT id FROM delta.`/a` {clause})")
