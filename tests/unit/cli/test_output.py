"""Are numbers, times, bars and names shown as they should be, at the edges too?"""

from __future__ import annotations

import orjson
import pytest
from rich.console import Console

from ebbtide.cli.options import parse_storage_options, parse_timestamp_ms
from ebbtide.cli.output import iso_time, print_json, printable, share_bar, share_text, shorten, size_text, time_text
from ebbtide.errors import CorruptTableError


@pytest.mark.parametrize(
    ("share", "bar", "text"),
    [
        (0.0, "..........", "0.0 %"),
        (0.00001, "#.........", "<0.1 %"),
        (0.5, "#####.....", "50.0 %"),
        (0.99999, "#########.", ">99.9 %"),
        (1.0, "##########", "100.0 %"),
        (None, "??????????", "?"),
    ],
)
def test_bar_is_full_for_all_and_empty_for_none_only(share, bar, text):
    class Latin(Console):
        encoding = "latin-1"

    assert share_bar(share, Latin()).plain == bar
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 * 2**20, "3.0 MiB"), (2**63 - 1, "8,192.0 PiB")],
)
def test_size_has_the_unit_that_fits(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize("milliseconds", [0, 1, 1_704_067_200_123, -1])
def test_time_as_shown_means_the_same_millisecond_when_given_back(milliseconds):
    assert parse_timestamp_ms(time_text(milliseconds)) == milliseconds
    assert parse_timestamp_ms(iso_time(milliseconds) or "") == milliseconds


def test_time_beyond_the_calendar_is_left_out():
    assert (time_text(2**63 - 1), iso_time(-(2**63)), time_text(None)) == ("", None, "")


def test_timestamp_with_a_zone_is_taken_at_its_word():
    assert parse_timestamp_ms("1970-01-01T01:00:00.250+01:00") == 250
    assert parse_timestamp_ms("1970-01-02") == 24 * 60 * 60 * 1000


def test_long_name_keeps_both_ends():
    assert shorten("part-00000-abcdef.parquet", 11) == "part-…rquet"
    assert len(shorten("x" * 100, 12)) == 12
    assert shorten("short", 5) == "short"


def test_character_that_steers_terminals_is_shown_as_its_code():
    assert printable("a\x1b[2J\n\x9b\u202eé") == "a\\x1b[2J\\n\\x9b\\u202eé"


def test_value_of_a_storage_option_may_hold_equals_signs():
    assert parse_storage_options(["key=a=b==", "other="]) == {"key": "a=b==", "other": ""}
    assert parse_storage_options(None) is None


STEERING = "\x9b31m \u202e \x7f \u2028 \U000e0001 \u2066"


@pytest.mark.parametrize("item", [{"name": STEERING}, orjson.dumps({"name": STEERING})], ids=["object", "bytes"])
def test_json_holds_no_character_that_steers_a_terminal_and_means_the_same(capfdbinary, item):
    print_json([item])
    line = capfdbinary.readouterr().out.decode()
    assert line.rstrip("\n").isprintable()
    assert orjson.loads(line) == {"name": STEERING}


def test_message_of_an_error_holds_no_character_that_steers_a_terminal():
    message = str(CorruptTableError(f"the file '{STEERING} \x1b[2J' is gone\nand more"))
    assert all(char.isprintable() or char == "\n" for char in message)
    assert "\\x1b[2J" in message
    assert "\nand more" in message
