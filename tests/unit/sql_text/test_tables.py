"""Where does a table stand, and at which version?"""

from __future__ import annotations

import pytest

from ebbtide.errors import RequestError
from ebbtide.sql_text import match_brackets, table_places, time_travel_at, tokenize


def tables(source: str, *, is_query: bool) -> list[str]:
    tokens = tokenize(source)
    assert tokens is not None
    return [tokens[at].text for at in table_places(tokens, is_query=is_query)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("SELECT * FROM a, b JOIN c ON a.x = c.x WHERE d IN (SELECT e FROM f)", ["a", "b", "c", "f"]),
        ("SELECT extract(year FROM a), trim(BOTH FROM b) FROM c", ["c"]),
        ("SELECT a, b FROM c GROUP BY d, e", ["c"]),
        ("TABLE a", ["a"]),
    ],
)
def test_tables_of_a_query_stand_behind_from_and_join(source, expected):
    assert tables(source, is_query=True) == expected


def test_tables_of_a_condition_stand_in_its_subqueries():
    assert tables("a IS DISTINCT FROM b AND c IN (SELECT d FROM e)", is_query=False) == ["e"]


def travel(source: str) -> tuple[int | None, str | None, int] | None:
    tokens = tokenize(source)
    assert tokens is not None
    found = time_travel_at(source, tokens, match_brackets(tokens), 0)
    return None if found is None else (found.version, found.timestamp, found.end)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("VERSION AS OF 3 p", (3, None, 4)),
        ("FOR SYSTEM_VERSION AS OF '3'", (3, None, 5)),
        ("TIMESTAMP AS OF '2024-01-01' p", (None, "'2024-01-01'", 4)),
        ("FOR SYSTEM_TIME AS OF TIMESTAMP'2024-01-01'", (None, "TIMESTAMP'2024-01-01'", 6)),
        ("TIMESTAMP AS OF current_timestamp() p", (None, "current_timestamp()", 6)),
        ("TIMESTAMP AS OF (now() - INTERVAL 1 DAY)", (None, "(now() - INTERVAL 1 DAY)", 12)),
        ("version", None),
        ("AS version", None),
        ("for", None),
        ("", None),
    ],
)
def test_time_travel_is_read_where_it_is_written(source, expected):
    assert travel(source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("VERSION AS OF", "Expected a version after VERSION AS OF: a number, but the statement ends."),
        ("VERSION AS OF x", "Expected a version after VERSION AS OF: a number, but found 'x'."),
        ("TIMESTAMP AS OF 5", "Expected a timestamp after TIMESTAMP AS OF, but found '5'."),
        ("TIMESTAMP AS OF (x", "Expected a timestamp after TIMESTAMP AS OF, but found '(x'."),
        ("TIMESTAMP AS OF now() - x", "Put the timestamp into parentheses: TIMESTAMP AS OF (now() ...)."),
    ],
)
def test_time_travel_without_a_value_is_refused(source, message):
    with pytest.raises(RequestError) as refused:
        travel(source)
    assert message in str(refused.value)
