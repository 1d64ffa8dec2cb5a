"""Is every expression found that reads a column, and no other, without anything being evaluated?"""

from __future__ import annotations

import pytest

from ebbtide.commands.define.dependents import uses_column


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("ID > 0", ("id",)),
        ("s.a > 0", ("s",)),
        ("s.a > 0", ("s", "a")),
        ("s IS NULL", ("s", "a")),
        ("arr[0].x = 1", ("arr", "element", "x")),
        ("reflect('java.lang.System', v)", ("v",)),
        ("v IN (SELECT 1)", ("v",)),
        ('"v" = 1', ("v",)),
        ("`a``b` = 1", ("a`b",)),
        ("'not closed v", ("v",)),
        ("exists(arr, x -> x > id)", ("id",)),
    ],
)
def test_expression_that_reads_the_column_is_found(text, path):
    assert uses_column(text, path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("s.a > 0", ("s", "b")),
        ("CAST(at AS DATE)", ("date",)),
        ("v(id) = 'v is quoted'", ("v",)),
        ("exists(arr, x -> x > 1)", ("x",)),
        ("'not closed", ("id",)),
        ("t.id = 1", ("id",)),
    ],
)
def test_expression_that_only_looks_like_it_is_not(text, path):
    assert not uses_column(text, path)
