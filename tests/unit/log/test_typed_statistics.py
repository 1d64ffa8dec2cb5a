"""Do statistics come out of their JSON with the right types, and as null whenever they are not quite right?"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.support.log_builder import metadata, protocol

from ebbtide.log.statistics_columns import statistics_type
from ebbtide.log.typed_statistics import typed_statistics
from ebbtide.protocol.actions import Metadata, Protocol

UTC = dt.timezone.utc


def type_of(columns, *, partitions=(), configuration=None, **extra):
    action = metadata(columns, partitions=partitions, configuration=configuration, **extra)["metaData"]
    return statistics_type(Metadata.from_json(action), Protocol.from_json(protocol()["protocol"]))


def bounds_of(type_name, *texts):
    """The `minValues` of a column for texts of its bound; text by text, and all of them in one batch."""
    stats = [f'{{"numRecords":1,"minValues":{{"c":{text}}}}}' for text in texts]
    kind = type_of({"c": type_name})
    together = [row["minValues"]["c"] for row in typed_statistics(pa.array(stats), kind).to_pylist()]
    alone = [typed_statistics(pa.array([text]), kind).to_pylist()[0]["minValues"]["c"] for text in stats]
    assert together == alone
    return together


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("byte", "-128", -128),
        ("short", "32767", 32767),
        ("integer", "-2147483648", -(2**31)),
        ("long", "9223372036854775807", 2**63 - 1),
        ("float", "0.5", 0.5),
        ("double", "0.1", 0.1),
        ("double", "3", 3.0),
        ("decimal(10,2)", "12.50", Decimal("12.50")),
        ("decimal(10,2)", "12", Decimal("12.00")),
        ("decimal(38,0)", "12345678901234567890123456789012345678", Decimal(12345678901234567890123456789012345678)),
        (
            "decimal(38,18)",
            "-12345678901234567890.123456789012345678",
            Decimal("-12345678901234567890.123456789012345678"),
        ),
        ("string", '"a\\"\\u00e9\\ud83d\\ude00"', 'a"é😀'),
        ("string", '""', ""),
        ("string", '"NaN-like"', "NaN-like"),
        ("date", '"2024-02-29"', dt.date(2024, 2, 29)),
        ("date", '"0001-01-01"', dt.date(1, 1, 1)),
        ("timestamp", '"2024-02-29T12:00:00.123Z"', dt.datetime(2024, 2, 29, 12, 0, 0, 123000, tzinfo=UTC)),
        ("timestamp", '"2024-02-29T12:00:00.123-08:00"', dt.datetime(2024, 2, 29, 20, 0, 0, 123000, tzinfo=UTC)),
        ("timestamp_ntz", '"2024-02-29T12:00:00.123456"', dt.datetime(2024, 2, 29, 12, 0, 0, 123456)),
        # Some writers end every timestamp with a Z.
        ("timestamp_ntz", '"2024-02-29T12:00:00Z"', dt.datetime(2024, 2, 29, 12)),
        # A column that was a date before its type was widened.
        ("timestamp_ntz", '"2024-02-29"', dt.datetime(2024, 2, 29)),
    ],
)
def test_bound_becomes_a_value_of_its_column(type_name, text, value):
    assert bounds_of(type_name, text) == [value]


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("byte", "128"),
        ("integer", "2147483648"),
        ("long", "9223372036854775808"),
        ("long", "1.5"),
        ("long", '"1"'),
        ("long", "true"),
        ("long", "[1]"),
        ("long", '{"x":1}'),
        ("long", "1e999999999"),
        ("float", "1e39"),
        ("double", "1e400"),
        ("double", '"NaN"'),
        ("double", '"Infinity"'),
        ("double", '"-Infinity"'),
        ("double", "NaN"),
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", "123.4"),
        ("decimal(4,2)", "12345678.9"),
        ("decimal(38,0)", "1234567890123456789012345678901234567890"),
        ("decimal(4,2)", "1e99999"),
        ("string", "5"),
        ("string", '"\\ud83d"'),
        ("date", '"yesterday"'),
        ("date", '"2024-02-30"'),
        ("date", "5"),
        ("timestamp", '"2024-02-29T12:00:00"'),
        ("timestamp", '"2024-13-29T12:00:00Z"'),
        ("timestamp_ntz", '"2024-02-29T12:00:00-08:00"'),
        ("timestamp", '"99999-01-01T00:00:00Z"'),
        ("long", "null"),
    ],
)
def test_bound_that_is_no_value_of_its_column_is_unknown(type_name, text):
    kind = type_of({"c": type_name, "other": "long"})
    bad = f'{{"numRecords":1,"minValues":{{"c":{text},"other":7}}}}'
    good = '{"numRecords":2,"minValues":{"other":8}}'
    rows = typed_statistics(pa.array([bad, good]), kind).to_pylist()
    assert rows[1]["minValues"] == {"c": None, "other": 8}
    # Python refuses lone surrogates in JSON text only when they are encoded; such a text is no statistics at all.
    assert rows[0] is None or rows[0]["minValues"] == {"c": None, "other": 7}


def test_one_strange_text_leaves_its_neighbours_as_they_are():
    kind = type_of({"c": "timestamp"})
    texts = ["2024-01-01T00:00:00Z", "soon", "2024-01-01T00:00:00.1234567Z"]
    stats = [json.dumps({"minValues": {"c": text}}) for text in texts]
    values = [row["minValues"]["c"] for row in typed_statistics(pa.array(stats), kind).to_pylist()]
    assert values[:2] == [dt.datetime(2024, 1, 1, tzinfo=UTC), None]
    assert values[2] in {None, dt.datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)}


@pytest.mark.parametrize(
    "text", [None, "", "not json", "[1]", "7", '"x"', '{"numRecords":1', '{"numRecords":1} trailing', "\n", "null"]
)
def test_text_that_is_no_object_gives_no_statistics(text):
    rows = typed_statistics(pa.array([text, '{"numRecords":2}'], pa.string()), type_of({"c": "long"})).to_pylist()
    assert rows[0] is None
    assert rows[1]["numRecords"] == 2


def test_two_objects_in_one_text_do_not_move_the_rows_after_them():
    rows = typed_statistics(
        pa.array(['{"numRecords":1}{"numRecords":2}', "", '{"numRecords":3}']), type_of({"c": "long"})
    ).to_pylist()
    assert [row and row["numRecords"] for row in rows] == [None, None, 3]


def test_text_over_several_lines_is_read():
    text = json.dumps({"numRecords": 1, "minValues": {"c": 4}}, indent=2)
    assert typed_statistics(pa.array([text]), type_of({"c": "long"})).to_pylist()[0]["minValues"] == {"c": 4}


def test_hostile_nesting_is_survived():
    deep = '{"numRecords":1,"x":' + "[" * 200_000 + "]" * 200_000 + "}"
    rows = typed_statistics(pa.array([deep, '{"numRecords":2}']), type_of({"c": "long"})).to_pylist()
    assert rows[0] is None or rows[0]["numRecords"] == 1
    assert rows[1]["numRecords"] == 2


def test_absent_members_and_null_members_are_null():
    rows = typed_statistics(pa.array(['{"numRecords":1}', '{"minValues":null,"nullCount":{}}']), type_of({"c": "long"}))
    empty = {"numRecords": None, "minValues": None, "maxValues": None, "nullCount": None, "tightBounds": None}
    assert rows.to_pylist() == [{**empty, "numRecords": 1}, {**empty, "nullCount": {"c": None}}]


def test_every_batch_of_a_large_table_is_read():
    stats = [f'{{"numRecords":{number}}}' for number in range(20_000)]
    stats[9_000] = "broken"
    counts = [
        row and row["numRecords"] for row in typed_statistics(pa.array(stats), type_of({"c": "long"})).to_pylist()
    ]
    assert counts == [*range(9_000), None, *range(9_001, 20_000)]


def test_slice_of_a_column_is_read_from_where_it_begins():
    stats = pa.array(["x", '{"numRecords":1}', '{"numRecords":2}', "y"]).slice(1, 2)
    assert [row["numRecords"] for row in typed_statistics(stats, type_of({"c": "long"})).to_pylist()] == [1, 2]


# --- which columns ----------------------------------------------------------------------------------------------------


def names(type, member):
    index = type.get_field_index(member)
    return [] if index < 0 else [field.name for field in type.field(index).type]


def test_types_without_an_order_are_counted_but_not_bounded():
    columns = {
        "a": "boolean",
        "b": "binary",
        "c": "long",
        "d": {"type": "array", "elementType": "long", "containsNull": True},
    }
    kind = type_of(columns)
    assert (names(kind, "minValues"), names(kind, "nullCount")) == (["c"], ["a", "b", "c", "d"])


def test_table_without_bounded_columns_has_no_empty_struct():
    kind = type_of({"a": "boolean"})
    assert [field.name for field in kind] == ["numRecords", "nullCount", "tightBounds"]


def test_partition_columns_have_no_statistics():
    kind = type_of({"a": "long", "P": "long"}, partitions=["P"])
    assert names(kind, "minValues") == ["a"]


@pytest.mark.parametrize(("count", "expected"), [("0", []), ("1", ["a"]), ("2", ["a", "b"]), ("-1", ["a", "b", "c"])])
def test_only_the_first_columns_are_indexed(count, expected):
    kind = type_of({"a": "long", "b": "long", "c": "long"}, configuration={"delta.dataSkippingNumIndexedCols": count})
    assert names(kind, "minValues") == expected


def test_named_columns_are_indexed_with_everything_below_them():
    inner = {
        "type": "struct",
        "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in "xy"],
    }
    named = {"delta.dataSkippingStatsColumns": "S.x,c", "delta.dataSkippingNumIndexedCols": "1"}
    kind = type_of({"a": "long", "s": inner, "c": "long"}, configuration=named)
    assert kind.field("minValues").type == pa.struct({"s": pa.struct({"x": pa.int64()}), "c": pa.int64()})
    whole = type_of({"a": "long", "s": inner}, configuration={"delta.dataSkippingStatsColumns": "s"})
    assert whole.field("nullCount").type == pa.struct({"s": pa.struct({"x": pa.int64(), "y": pa.int64()})})


def test_nested_bounds_are_read_at_every_level():
    inner = {"type": "struct", "fields": [{"name": "x", "type": "date", "nullable": True, "metadata": {}}]}
    stats = ['{"minValues":{"s":{"x":"2024-01-02"}}}', '{"minValues":{"s":null}}', '{"minValues":{"s":5}}']
    rows = typed_statistics(pa.array(stats), type_of({"s": inner})).to_pylist()
    assert [row["minValues"] for row in rows] == [{"s": {"x": dt.date(2024, 1, 2)}}, {"s": None}, {"s": None}]
