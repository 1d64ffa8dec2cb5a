"""Does the lexer see what Spark's lexer sees?"""

from __future__ import annotations

import pytest

from ebbtide.sql_text import tokenize


def texts(source: str) -> list[str]:
    tokens = tokenize(source)
    assert tokens is not None
    return [token.text for token in tokens]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("a<=>1", ["a", "<=>", "1"], id="null_safe_equal"),
        pytest.param("a!=1", ["a", "!=", "1"], id="not_equal"),
        pytest.param("!a", ["!", "a"], id="bang"),
        pytest.param("a.5", ["a", ".", "5"], id="dot_after_a_name_selects_a_field"),
        pytest.param("a=.5", ["a", "=", ".5"], id="dot_before_digits_is_a_number"),
        pytest.param("1.5e-3BD", ["1.5e-3BD"], id="decimal_with_exponent"),
        pytest.param("1L", ["1L"], id="long"),
        pytest.param("1a", ["1a"], id="a_word_may_begin_with_a_digit"),
        pytest.param("a -- x\n=1", ["a", "=", "1"], id="line_comment"),
        pytest.param("a=1 -- x\\\n and b=2", ["a", "=", "1"], id="line_comment_goes_on_after_a_backslash"),
        pytest.param("a /* b /* c */ d */ = 1", ["a", "=", "1"], id="block_comments_nest"),
        pytest.param("r'\\' = a", ["r'\\'", "=", "a"], id="raw_string_ends_after_a_backslash"),
        pytest.param("bar'x'", ["bar", "'x'"], id="r_at_the_end_of_a_word_is_no_raw_string"),
        pytest.param(r"'a\'b' = a", [r"'a\'b'", "=", "a"], id="escaped_quote_does_not_end_a_string"),
        pytest.param("'a''b'", ["'a''b'"], id="doubled_quote_does_not_end_a_string"),
        pytest.param("`a``.b`", ["`a``.b`"], id="backquoted_name"),
    ],
)
def test_tokens_are_cut_where_spark_cuts_them(source, expected):
    assert texts(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "'abc",
        "a = 1;",
        "a /* b",
        "/*+ hint */ a",
        "a # b",
        "{a}",
        "$a",
        "`a",
        "\x00",
        "s3://a = 1",
        "a = '${x}'",
        "a = 1 -- ${x}",
    ],
)
def test_text_that_spark_may_read_otherwise_is_not_read_at_all(source):
    assert tokenize(source) is None


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'abc'", "abc"),
        ('"abc"', "abc"),
        ("r'a'", None),
        ('R"a"', None),
        ("'a\"b'", 'a"b'),
        ("'é😀'", "é😀"),
        (r"'a\nb'", None),
        ("'it''s'", None),
        ('"a""b"', None),
    ],
)
def test_a_string_whose_value_depends_on_a_setting_has_no_value(source, value):
    tokens = tokenize(source)
    assert tokens is not None
    assert [token.value for token in tokens] == [value]


def test_a_backquoted_name_is_decoded():
    tokens = tokenize("`a``b.c`")
    assert tokens is not None
    assert tokens[0].value == "a`b.c"


def test_a_condition_of_absurd_length_is_not_read():
    assert tokenize("a" * (4 * 1024 * 1024 + 1)) is None


def test_text_that_spark_does_not_substitute_is_read_as_it_is_written():
    tokens = tokenize("a = '${x}'", is_substituted=False)
    assert tokens is not None
    assert tokens[2].value == "${x}"


def test_a_statement_may_hold_hints_and_a_semicolon():
    tokens = tokenize("SELECT /*+ BROADCAST(a) */ 1;", is_statement=True)
    assert tokens is not None
    assert [token.text for token in tokens] == ["select", "1", ";"]
