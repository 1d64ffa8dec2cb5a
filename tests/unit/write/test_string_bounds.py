"""Do cut bounds still enclose the strings they were cut from, and are they cut as the reference cuts them?"""

from __future__ import annotations

import random

import pytest

from ebbtide.write.string_bounds import lower_string, upper_string

LAST = "\U0010ffff"
ALPHABET = ["a", "~", "\x7f", "é", "\ud7ff", "\uffff", "\U00010000", LAST]


def test_string_within_the_prefix_is_its_own_bound():
    text = "a" * 32
    assert lower_string(text.encode(), 32) == text
    assert upper_string(text.encode(), 32) == text


def test_long_minimum_is_cut_to_the_prefix():
    assert lower_string(b"a" * 33, 32) == "a" * 32


@pytest.mark.parametrize(
    ("cut_off", "tie_breaker"), [("a", "\x7f"), ("~", "\x7f"), ("\x7f", LAST), ("é", LAST), ("\U00010000", LAST)]
)
def test_long_maximum_gets_the_shortest_character_that_sorts_after_what_was_cut_off(cut_off, tie_breaker):
    assert upper_string(("x" * 32 + cut_off).encode(), 32) == "x" * 32 + tie_breaker


def test_maximum_keeps_characters_that_nothing_sorts_after():
    assert upper_string(("x" * 32 + LAST + "b" + "c").encode(), 32) == "x" * 32 + LAST + "\x7f"


def test_maximum_that_ends_in_such_characters_is_kept_whole():
    text = "x" * 32 + LAST
    assert upper_string(text.encode(), 32) == text


def test_maximum_beyond_twice_the_prefix_is_unknown():
    assert upper_string(("xx" + LAST * 3).encode(), 2) is None


def test_a_minimum_counts_characters_and_a_maximum_utf16_units_as_the_reference_does():
    text = "x" * 31 + "\U0001f600" + "y"
    assert lower_string(text.encode(), 32) == "x" * 31 + "\U0001f600"
    assert upper_string(text.encode(), 32) == "x" * 31 + LAST


def test_text_that_is_not_utf8_has_no_bounds():
    assert lower_string(b"\xff\xfe", 32) is None
    assert upper_string(b"\xff\xfe", 32) is None


def test_prefix_of_zero_characters_still_encloses_every_string():
    assert lower_string(b"abc", 0) == ""
    assert upper_string(b"abc", 0) == "\x7f"


def test_bounds_enclose_the_string_in_utf8_order_whatever_its_characters():
    chance = random.Random(7)
    for _ in range(3000):
        raw = "".join(chance.choices(ALPHABET, k=chance.randint(0, 12))).encode()
        prefix = chance.randint(0, 5)
        lower, upper = lower_string(raw, prefix), upper_string(raw, prefix)
        assert lower.encode() <= raw
        assert upper is None or raw <= upper.encode()
