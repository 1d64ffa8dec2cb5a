"""Are the lengths of char and varchar read from a column's metadata, whatever the table wrote there?"""

from __future__ import annotations

import pytest
from tests.support.write_targets import struct

from ebbtide.errors import CorruptTableError
from ebbtide.protocol.schema import CHAR_VARCHAR, ArrayType, MapType, PrimitiveType, StructField
from ebbtide.write.char_lengths import _Elements, _Entries, _Fields, read_lengths

STRING, INTEGER = PrimitiveType("string"), PrimitiveType("integer")


def lengths(text, data_type=STRING):
    return read_lengths(StructField("c", data_type, True, {CHAR_VARCHAR: text}))


@pytest.mark.parametrize(
    ("text", "data_type", "expected"),
    [
        ("varchar(5)", STRING, 5),
        ("CHAR(3)", STRING, 3),
        ("character(3)", STRING, 3),
        ("string", STRING, None),
        ("array<varchar(5)>", ArrayType(STRING), _Elements(5)),
        ("map<char(1),varchar(2)>", MapType(STRING, STRING), _Entries(1, 2)),
        ("map<int,varchar(2)>", MapType(INTEGER, STRING), _Entries(None, 2)),
        ("array<decimal(10,2)>", ArrayType(STRING), None),
        (
            "struct<a:varchar(5),b:int,`c d`:array<char(2)>>",
            struct(a="string", b="integer", **{"c d": ArrayType(STRING)}),
            _Fields({"a": 5, "c d": _Elements(2)}),
        ),
        (
            "struct<a varchar(5) NOT NULL COMMENT 'x', b: timestamp>",
            struct(a="string", b="timestamp"),
            _Fields({"a": 5}),
        ),
        ("struct<>", struct(), None),
        ("array<interval day to second>", ArrayType(STRING), None),
    ],
)
def test_lengths_are_read(text, data_type, expected):
    assert lengths(text, data_type) == expected


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("varchar(5)", INTEGER),
        ("array<varchar(5)>", STRING),
        ("struct<a:varchar(5)>", struct(b="string")),
        ("map<string,char(1)>", MapType(STRING, INTEGER)),
    ],
)
def test_a_note_on_another_type_than_the_columns_is_a_corrupt_table(text, data_type):
    with pytest.raises(CorruptTableError, match="column 'c'"):
        lengths(text, data_type)


@pytest.mark.parametrize(
    "text",
    [
        "",
        5,
        "varchar",
        "varchar()",
        "varchar(0)",
        "varchar(-1)",
        "varchar(99999999999)",
        "varchar(5",
        "varchar(5) x",
        "array<varchar(5)",
        "struct<a:>",
        "struct<${env:HOME}:varchar(5)>",
        "map<int>",
        "array<" * 500 + "varchar(5)" + ">" * 500,
        "struct<a:" * 500 + "varchar(5)" + ">" * 500,
        "'varchar(5)'",
    ],
    ids=lambda text: str(text)[:20],
)
def test_a_note_that_is_no_type_is_a_corrupt_table(text):
    with pytest.raises(CorruptTableError, match="column 'c'"):
        lengths(text)
