"""Which names are written in a text?"""

from __future__ import annotations

import pytest

from ebbtide.sql_text import delta_path_at, names_in, only_name, tokenize


def names(source: str, *, called: bool | None = None) -> list[str]:
    tokens = tokenize(source)
    assert tokens is not None
    return [".".join(name.parts) for name in names_in(tokens) if called is None or name.is_called == called]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("t.a.`b.c` = 1", ["t.a.b.c"]),
        ("a . b = c", ["a.b", "c"]),
        ("f(a)[0].x = 'b'", ["f", "a"]),
        ("-- a\n b /* c */", ["b"]),
    ],
)
def test_names_with_dots_are_one_name(source, expected):
    assert names(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("reflect ('a') = 1", ["reflect"]),
        ("`reflect`('a')", ["reflect"]),
        ("system.builtin.rand() > 0", ["system.builtin.rand"]),
        ("/* x */ a IN (1) AND (b) OR NOT (c)", []),
        ("CASE WHEN (a) THEN (b) ELSE (c) END", []),
        ("user() = 'x' AND array(1)[0] = 1", ["user", "array"]),
        ("identifier('reflect')('x')", ["identifier"]),
        ("a IN (SELECT (b) FROM (c))", []),
    ],
)
def test_a_name_with_a_parenthesis_behind_it_is_a_function(source, expected):
    assert names(source, called=True) == expected


def test_a_text_that_is_more_than_a_name_is_no_name():
    found = only_name(tokenize("t.a") or ())
    assert found is not None and found.parts == ("t", "a")
    assert only_name(tokenize("t.a + 1") or ()) is None
    assert only_name(tokenize("t.") or ()) is None
    assert only_name(()) is None


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("delta.`/a`", "/a"),
        ("`DELTA`.`/a`", "/a"),
        ("delta.a", None),
        ("delta.``", None),
        ("delta.`/a`.b", None),
        ("'delta'.`/a`", None),
        ("parquet.`/a`", None),
    ],
)
def test_a_delta_path_has_its_path_in_backquotes(source, path):
    assert delta_path_at(tokenize(source) or (), 0) == path
