"""Which tokens belong together?"""

from __future__ import annotations

import pytest

from ebbtide.sql_text import match_brackets, tokenize


def pairs(source: str) -> tuple[list[str], bool]:
    """What every pair encloses, in the order of the text, and whether that is certain."""
    tokens = tokenize(source)
    assert tokens is not None
    found = match_brackets(tokens)
    texts = [source[tokens[first].start : tokens[last].end] for first, last in sorted(found.pairs.items())]
    return texts, found.is_certain


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("a IN (1, f[2])", ["(1, f[2])", "[2]"], id="parentheses_and_brackets"),
        pytest.param("CASE WHEN a THEN (b) END = 1", ["CASE WHEN a THEN (b) END", "(b)"], id="case"),
        pytest.param(
            "CASE CASE a WHEN 1 THEN 2 END WHEN 2 THEN 3 END",
            ["CASE CASE a WHEN 1 THEN 2 END WHEN 2 THEN 3 END", "CASE a WHEN 1 THEN 2 END"],
            id="nested",
        ),
        pytest.param("end = 1 AND t.case = 2", [], id="columns_called_end_and_case"),
        pytest.param("`case` = `end`", [], id="quoted_names_open_nothing"),
        pytest.param("a = 'case' OR b = '('", [], id="strings_open_nothing"),
    ],
)
def test_pairs_that_leave_no_doubt(source, expected):
    assert pairs(source) == (expected, True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("(a", [], id="never_closed"),
        pytest.param("a)", [], id="never_opened"),
        pytest.param("(a]", [], id="wrong_closer"),
        pytest.param("case = 6", [], id="case_is_a_column_before_a_comparison"),
        pytest.param("(case IS NULL)", ["(case IS NULL)"], id="case_is_a_column_before_is"),
        pytest.param("CASE WHEN end = 7 THEN 1 END", ["CASE WHEN end"], id="end_is_a_column_inside_a_case"),
        pytest.param("(case when) = 1", ["(case when)"], id="a_parenthesis_closes_before_the_case"),
    ],
)
def test_doubtful_pairs_are_told_so(source, expected):
    assert pairs(source) == (expected, False)
