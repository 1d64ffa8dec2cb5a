"""Partition values: log text to typed value and back, and Hive's directory names."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from ebbtide.errors import CorruptTableError, RequestError
from ebbtide.protocol.partition_values import (
    arrow_type,
    escape_path_name,
    parse_partition_value,
    partition_directory,
    serialize_partition_value,
    to_arrow,
)
from ebbtide.protocol.schema import ArrayType, PrimitiveType

UTC = dt.timezone.utc
ALL_TYPES = [
    "string", "byte", "short", "integer", "long", "float", "double", "boolean", "binary", "date", "timestamp",
    "timestamp_ntz", "decimal(10,2)", "void",
]  # fmt: skip

VALID = [
    ("string", "a b", "a b"),
    ("string", " x ", " x "),
    ("string", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
    ("byte", "-128", -128),
    ("short", "32767", 32767),
    ("integer", "+7", 7),
    ("integer", " 7 ", 7),
    ("long", "-9223372036854775808", -(2**63)),
    ("float", "3.1415927", 3.1415927410125732),
    ("double", "1.0E10", 1e10),
    ("double", "-Infinity", -math.inf),
    ("double", "Infinity", math.inf),
    ("double", ".5", 0.5),
    ("double", "1e400", math.inf),
    ("boolean", "true", True),
    ("boolean", "FALSE", False),
    ("binary", "\u0001\u0002é", b"\x01\x02\xc3\xa9"),
    ("decimal(10,2)", "1.50", Decimal("1.50")),
    ("decimal(10,2)", "-1.5", Decimal("-1.50")),
    ("decimal(10,2)", "1.500", Decimal("1.50")),
    ("decimal(10,2)", "1E+3", Decimal("1000.00")),
    ("decimal(38,18)", "12345678901234567890.123456789012345678", Decimal("12345678901234567890.123456789012345678")),
    ("decimal(2,2)", "0.99", Decimal("0.99")),
    ("decimal(1,1)", "0", Decimal("0.0")),
    ("date", "1970-01-01", dt.date(1970, 1, 1)),
    ("date", "0001-01-01", dt.date(1, 1, 1)),
    ("date", "2024-2-9", dt.date(2024, 2, 9)),
    ("timestamp", "1970-01-01 00:00:00", dt.datetime(1970, 1, 1, tzinfo=UTC)),
    ("timestamp", "2020-01-01 08:09:10.001", dt.datetime(2020, 1, 1, 8, 9, 10, 1000, tzinfo=UTC)),
    ("timestamp", "1971-07-22T03:06:40.000000Z", dt.datetime(1971, 7, 22, 3, 6, 40, tzinfo=UTC)),
    ("timestamp", "2020-01-01T00:00:00.123456789Z", dt.datetime(2020, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)),
    ("timestamp", "2020-01-01T02:00:00+02:00", dt.datetime(2020, 1, 1, tzinfo=UTC)),
    ("timestamp", "2019-12-31 19:30:00-0430", dt.datetime(2020, 1, 1, tzinfo=UTC)),
    ("timestamp", "2020-01-01", dt.datetime(2020, 1, 1, tzinfo=UTC)),
    ("timestamp_ntz", "2020-01-01 01:02:03.000004", dt.datetime(2020, 1, 1, 1, 2, 3, 4)),
    ("timestamp_ntz", "2020-01-01T01:02:03Z", dt.datetime(2020, 1, 1, 1, 2, 3)),
    ("void", "anything", None),
]


@pytest.mark.parametrize(("type_name", "text", "value"), VALID)
def test_a_partition_text_becomes_its_typed_value_alone_and_in_a_column(type_name, text, value):
    data_type = PrimitiveType(type_name)
    parsed = parse_partition_value(text, data_type, column="p")
    column = to_arrow(pa.array([text, None, "", text]), data_type, column="p")
    assert column.type == arrow_type(data_type, column="p")
    assert column.to_pylist() == [value, None, None, value]
    if type_name != "float":
        assert parsed == value
        assert type(parsed) is type(value)
    else:
        assert parsed == pytest.approx(value)


def test_not_a_number_is_read_as_such():
    assert math.isnan(parse_partition_value("NaN", PrimitiveType("double"), column="p"))
    assert math.isnan(to_arrow(pa.array(["NaN"]), PrimitiveType("float"), column="p")[0].as_py())


@pytest.mark.parametrize("type_name", ALL_TYPES)
def test_null_and_the_empty_text_are_null_for_every_type(type_name):
    data_type = PrimitiveType(type_name)
    assert parse_partition_value(None, data_type, column="p") is None
    assert parse_partition_value("", data_type, column="p") is None
    assert to_arrow(pa.array([None, ""], pa.string()), data_type, column="p").null_count == 2
    assert len(to_arrow(pa.array([], pa.string()), data_type, column="p")) == 0


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("byte", "128"),
        ("short", "-32769"),
        ("integer", "2147483648"),
        ("long", "9223372036854775808"),
        ("integer", "1.0"),
        ("integer", "1_000"),
        ("integer", "١"),
        ("integer", "abc"),
        ("integer", " "),
        ("double", "1,5"),
        ("double", "1_0.0"),
        ("double", "0x1p3"),
        ("double", "nanny"),
        ("boolean", "1"),
        ("boolean", "yes"),
        ("decimal(10,2)", "1.005"),
        ("decimal(10,2)", "123456789.00"),
        ("decimal(10,2)", "NaN"),
        ("decimal(10,2)", "1e999"),
        ("decimal(10,2)", "1e999999999"),
        ("decimal(10,2)", "9" * 1000),
        ("date", "2023-02-29"),
        ("date", "2023-13-01"),
        ("date", "2023-00-01"),
        ("date", "01/02/2023"),
        ("date", "9999999-01-01"),
        ("date", "2023-01-01 00:00:00"),
        ("timestamp", "2023-01-01 24:00:00"),
        ("timestamp", "2023-01-01 00:60:00"),
        ("timestamp", "2023-01-01 00:00:60"),
        ("timestamp", "2023-01-01 00:00:00 Europe/Berlin"),
        ("timestamp", "1577836800"),
        ("timestamp", "294248-01-01 00:00:00"),
        ("timestamp_ntz", "2020-01-01 00:00:00+01:00"),
    ],
)
def test_a_text_that_is_no_value_of_its_type_is_refused_with_column_and_text(type_name, text):
    with pytest.raises(CorruptTableError) as caught:
        to_arrow(pa.array(["", text]), PrimitiveType(type_name), column="part")
    assert "'part'" in str(caught.value)
    assert text[:10] in str(caught.value)
    with pytest.raises(CorruptTableError):
        parse_partition_value(text, PrimitiveType(type_name), column="part")


def test_dates_beyond_pythons_calendar_are_exact_in_a_column_and_refused_alone():
    column = to_arrow(pa.array(["+10000-01-01", "-0001-12-31", "0000-01-01"]), PrimitiveType("date"), column="p")
    assert column.cast(pa.int32()).to_pylist() == [2932897, -719529, -719528]
    with pytest.raises(CorruptTableError, match="calendar"):
        parse_partition_value("+10000-01-01", PrimitiveType("date"), column="p")


def test_the_largest_timestamp_is_exact():
    column = to_arrow(pa.array(["294247-01-10 04:00:54.775807"]), PrimitiveType("timestamp_ntz"), column="p")
    assert column.cast(pa.int64()).to_pylist() == [2**63 - 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-07-01 00:00:00", "2020-06-30T22:00:00+00:00"),
        ("2020-01-01 00:00:00", "2019-12-31T23:00:00+00:00"),
        # In the gap of a spring night the clock jumps forward, as in Java.
        ("2020-03-29 02:30:00", "2020-03-29T01:30:00+00:00"),
        # In the doubled hour of an autumn night the first one counts.
        ("2020-10-25 02:30:00", "2020-10-25T00:30:00+00:00"),
        ("2020-07-01T00:00:00Z", "2020-07-01T00:00:00+00:00"),
    ],
)
def test_a_timestamp_without_a_zone_is_read_in_the_zone_given(text, expected):
    value = parse_partition_value(text, PrimitiveType("timestamp"), column="p", time_zone="Europe/Berlin")
    assert value.isoformat() == expected


def test_an_unknown_time_zone_is_a_request_error():
    for name in ("Nowhere/Town", "../etc/passwd", ""):
        with pytest.raises(RequestError, match="time zone"):
            parse_partition_value("2020-01-01", PrimitiveType("timestamp"), column="p", time_zone=name)


def test_chunked_and_dictionary_columns_are_accepted():
    chunked = pa.chunked_array([["1", "2"], ["1"]])
    assert to_arrow(chunked, PrimitiveType("long"), column="p").to_pylist() == [1, 2, 1]
    assert to_arrow(pa.array(["1", "2"]).dictionary_encode(), PrimitiveType("long"), column="p").to_pylist() == [1, 2]


@pytest.mark.parametrize("data_type", [PrimitiveType("variant"), ArrayType(PrimitiveType("string"))])
def test_a_type_that_cannot_partition_is_a_corrupt_table(data_type):
    with pytest.raises(CorruptTableError, match="'p'"):
        to_arrow(pa.array(["x"]), data_type, column="p")


@pytest.mark.parametrize(
    ("type_name", "value", "text"),
    [
        ("string", "a/b", "a/b"),
        ("string", "", None),
        ("integer", None, None),
        ("integer", 0, "0"),
        ("long", -5, "-5"),
        ("boolean", False, "false"),
        ("double", 1.0, "1.0"),
        ("double", 0.0, "0.0"),
        ("double", -0.0, "-0.0"),
        ("double", 1e7, "1.0E7"),
        ("double", 9999999.0, "9999999.0"),
        ("double", 0.001, "0.001"),
        ("double", 0.0001, "1.0E-4"),
        ("double", 123456.789, "123456.789"),
        ("double", math.nan, "NaN"),
        ("double", -math.inf, "-Infinity"),
        ("float", 3.1415927410125732, "3.1415927"),
        ("float", 3.4028234663852886e38, "3.4028235E38"),
        ("decimal(10,2)", Decimal("1.5"), "1.50"),
        ("decimal(10,0)", Decimal("1E+3"), "1000"),
        ("decimal(10,2)", 3, "3.00"),
        ("binary", b"\x01\x02", "\u0001\u0002"),
        ("date", dt.date(12, 1, 2), "0012-01-02"),
        (
            "timestamp",
            dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "2020-01-01T00:00:00.000000Z",
        ),
        ("timestamp_ntz", dt.datetime(2020, 1, 1, 1, 2, 3), "2020-01-01 01:02:03"),
        ("timestamp_ntz", dt.datetime(2020, 1, 1, 1, 2, 3, 120000), "2020-01-01 01:02:03.12"),
    ],
)
def test_a_typed_value_is_written_as_other_engines_write_it(type_name, value, text):
    assert serialize_partition_value(value, PrimitiveType(type_name), column="p") == text


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("integer", 2**31),
        ("integer", 1.0),
        ("integer", True),
        ("integer", "1"),
        ("boolean", 1),
        ("decimal(4,2)", Decimal("100.00")),
        ("decimal(4,2)", Decimal("0.001")),
        ("decimal(4,2)", Decimal("NaN")),
        ("decimal(4,2)", 1.5),
        ("float", 1e300),
        ("binary", b"\xff"),
        ("date", dt.datetime(2020, 1, 1)),
        ("timestamp", dt.datetime(2020, 1, 1)),
        ("timestamp_ntz", dt.datetime(2020, 1, 1, tzinfo=UTC)),
        ("variant", "x"),
    ],
)
def test_a_value_of_another_type_cannot_be_written(type_name, value):
    with pytest.raises(RequestError, match="'p'"):
        serialize_partition_value(value, PrimitiveType(type_name), column="p")


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain-1.2_3", "plain-1.2_3"),
        ("a b", "a b"),
        ("a/b=c", "a%2Fb%3Dc"),
        ("12:30:00", "12%3A30%3A00"),
        ("100%", "100%25"),
        ("\"#'*?\\{[]^", "%22%23%27%2A%3F%5C%7B%5B%5D%5E"),
        ("}<>|&ü", "}<>|&ü"),
        ("\x01\n\x7f", "%01%0A%7F"),
    ],
)
def test_directory_names_are_escaped_as_hive_does(name, escaped):
    assert escape_path_name(name) == escaped


def test_a_partition_directory_joins_names_and_values_and_marks_nulls():
    assert partition_directory([("a", "x/y"), ("b=c", None), ("d", "")]) == (
        "a=x%2Fy/b%3Dc=__HIVE_DEFAULT_PARTITION__/d=__HIVE_DEFAULT_PARTITION__"
    )
    assert partition_directory([]) == ""
