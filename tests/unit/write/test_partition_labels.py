"""Does a directory label give back the partition value it was made of?"""

from __future__ import annotations

import pytest
from tests.support.write_targets import struct

from ebbtide.errors import InternalError, RequestError
from ebbtide.write.partition_labels import hashed_labels, parse_label


def part(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return f"v{raw.hex()}"


@pytest.mark.parametrize(
    ("kind", "text", "log_text"),
    [
        ("string", "a/b=c é", "a/b=c é"),
        ("integer", "-7", "-7"),
        ("boolean", "true", "true"),
        ("date", "1969-12-31", "1969-12-31"),
        ("date", "+10000-01-01", "+10000-01-01"),
        ("double", "NaN", "NaN"),
        ("double", "-0.0", "-0.0"),
        ("double", "2.0E-3", "0.002"),
        ("float", "1.0E10", "1.0E10"),
        ("decimal(9,2)", "-1.50", "-1.50"),
        ("timestamp", "-1", "1969-12-31T23:59:59.999999Z"),
        ("timestamp_ntz", "2020-01-01 00:00:00.1", "2020-01-01 00:00:00.1"),
        ("binary", b"ab", "ab"),
    ],
)
def test_label_part_becomes_the_log_s_text_of_the_value(kind, text, log_text):
    label = parse_label(f"d.{part(text)}", struct(p=kind).fields, {})
    assert label.texts == (log_text,)
    assert not label.is_change


def test_nulls_and_change_rows_are_told_apart_from_values():
    label = parse_label(f"c.n.{part('n')}", struct(a="string", b="string").fields, {})
    assert label.is_change
    assert label.texts == (None, "n")


def test_long_label_is_found_by_its_hash():
    long_label = f"c.{part('x' * 500)}"
    hashed = hashed_labels([long_label])
    (name,) = hashed
    assert len(name) < 100
    assert parse_label(name, struct(p="string").fields, hashed).texts == ("x" * 500,)


@pytest.mark.parametrize(
    "name", ["", "d", "d.v31.v32", "x.v31", "d.h" + "0" * 64, "d.31", "__HIVE_DEFAULT_PARTITION__"]
)
def test_directory_that_is_no_label_is_our_bug(name):
    with pytest.raises(InternalError, match="stands for no partition"):
        parse_label(name, struct(p="string").fields, {})


@pytest.mark.parametrize(
    ("kind", "raw"), [("string", b"\xff"), ("binary", b"\xff"), ("timestamp", str(2**62).encode())]
)
def test_value_that_the_log_cannot_hold_is_refused_with_the_column_s_name(kind, raw):
    with pytest.raises(RequestError, match="'p'"):
        parse_label(f"d.{part(raw)}", struct(p=kind).fields, {})
