"""Do statistics say what the file holds, in the reference's JSON, and nothing that the footer cannot know?

The files are written by pyarrow, whose footers leave NaN out; what Spark's writer does is tested in `tests/spark/write`.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.write_targets import struct, with_physical_names, write_target

from ebbtide import spark_border
from ebbtide.protocol.schema import ArrayType, MapType, PrimitiveType, StructType
from ebbtide.storage import open_store
from ebbtide.write.columns import _in_file_order
from ebbtide.write.file_statistics import statistics_columns, statistics_of
from ebbtide.write.footers import read_footer


@pytest.fixture
def trusted_floats(monkeypatch):
    monkeypatch.setattr(spark_border, "footer_shows_nan", lambda created_by: True)


def collected(tmp_path, table, target, **options):
    pq.write_table(table, tmp_path / "f.parquet", **options)
    store = open_store(str(tmp_path))
    columns = StructType(tuple(physical for _, physical in _in_file_order(target)))
    footer = read_footer(store, store.head("f.parquet"))
    return statistics_of(footer, statistics_columns(target, columns)).to_json()


def of_column(tmp_path, kind, values, arrow, **target_options):
    target = write_target(tmp_path, struct(c=kind), **target_options)
    return json.loads(collected(tmp_path, pa.table({"c": pa.array(values, arrow)}), target), parse_float=Decimal)


def bounds(statistics):
    return statistics["minValues"].get("c"), statistics["maxValues"].get("c")


def test_statistics_have_the_reference_s_members_in_its_order(tmp_path):
    target = write_target(tmp_path, struct(a="long", b="string"), features=["deletionVectors"])
    text = collected(tmp_path, pa.table({"a": [3, None, 1], "b": ["x", "y", None]}), target)
    assert text == (
        '{"numRecords":3,"minValues":{"a":1,"b":"x"},"maxValues":{"a":3,"b":"y"},"nullCount":{"a":1,"b":1},"tightBounds":true}'
    )


def test_tight_bounds_are_not_mentioned_where_no_deletion_vector_can_be(tmp_path):
    assert "tightBounds" not in of_column(tmp_path, "long", [1], pa.int64())


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "expected"),
    [
        ("byte", pa.int8(), [-128, 127], (-128, 127)),
        ("short", pa.int16(), [-1, 5], (-1, 5)),
        ("integer", pa.int32(), [-(2**31), 2**31 - 1], (-(2**31), 2**31 - 1)),
        ("long", pa.int64(), [-(2**63), 2**63 - 1], (-(2**63), 2**63 - 1)),
        ("date", pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)], ("0001-01-01", "9999-12-31")),
        ("decimal(9,2)", pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("2.25")], (Decimal("-1.50"), Decimal("2.25"))),
        (
            "decimal(38,10)",
            pa.decimal128(38, 10),
            [Decimal("-1234567890123456789012345678.0000000001"), Decimal("1234567890123456789012345678.9999999999")],
            (Decimal("-1234567890123456789012345678.0000000001"), Decimal("1234567890123456789012345678.9999999999")),
        ),
        ("string", pa.string(), ["é" * 40, "a" * 40], ("a" * 32, "é" * 32 + "\U0010ffff")),
    ],
)
def test_bounds_are_exact_for_every_type_that_has_them(tmp_path, kind, arrow, values, expected):
    assert bounds(of_column(tmp_path, kind, values, arrow)) == expected


def test_timestamps_are_cut_down_to_milliseconds_before_1970_too(tmp_path):
    values = [-1, 1_600_000_000_123_999]
    utc = of_column(tmp_path, "timestamp", values, pa.timestamp("us", tz="UTC"))
    assert bounds(utc) == ("1969-12-31T23:59:59.999Z", "2020-09-13T12:26:40.123Z")
    local = of_column(tmp_path, "timestamp_ntz", values, pa.timestamp("us"))
    assert bounds(local) == ("1969-12-31T23:59:59.999", "2020-09-13T12:26:40.123")


def test_time_outside_the_years_that_json_readers_know_leaves_the_bounds_out(tmp_path):
    statistics = of_column(tmp_path, "date", [-(10**6), 0], pa.date32())
    assert bounds(statistics) == (None, None)
    assert statistics["nullCount"] == {"c": 0}


def test_int96_timestamps_have_no_bounds(tmp_path):
    target = write_target(tmp_path, struct(c="timestamp"))
    table = pa.table({"c": pa.array([0, 1], pa.timestamp("us", tz="UTC"))})
    text = collected(tmp_path, table, target, use_deprecated_int96_timestamps=True)
    assert json.loads(text)["minValues"] == {}


def test_floats_are_written_with_the_fewest_digits_and_zero_has_both_signs(tmp_path, trusted_floats):
    single = of_column(tmp_path, "float", [0.1, 3.4028235e38], pa.float32())
    assert bounds(single) == (Decimal("0.1"), Decimal("3.4028235E+38"))
    zeros = bounds(of_column(tmp_path, "double", [0.0, 0.0], pa.float64()))
    assert [str(bound) for bound in zeros] == ["-0.0", "0.0"]


def test_infinity_is_a_bound_in_jackson_s_spelling(tmp_path, trusted_floats):
    assert bounds(of_column(tmp_path, "double", [float("-inf"), float("inf")], pa.float64())) == (
        "-Infinity",
        "Infinity",
    )


def test_floats_of_a_writer_that_may_hide_nan_have_no_bounds(tmp_path):
    statistics = of_column(tmp_path, "double", [1.0, float("nan")], pa.float64())
    assert bounds(statistics) == (None, None)
    assert statistics["nullCount"] == {"c": 0}


@pytest.mark.parametrize(
    ("kind", "arrow", "values"), [("boolean", pa.bool_(), [True, None]), ("binary", pa.binary(), [b"a", None])]
)
def test_types_without_an_order_have_a_null_count_only(tmp_path, kind, arrow, values):
    statistics = of_column(tmp_path, kind, values, arrow)
    assert bounds(statistics) == (None, None)
    assert statistics["nullCount"] == {"c": 1}


def test_column_of_nulls_has_a_count_and_no_bounds(tmp_path):
    statistics = of_column(tmp_path, "long", [None, None], pa.int64())
    assert bounds(statistics) == (None, None)
    assert statistics["nullCount"] == {"c": 2}


@pytest.mark.parametrize(
    ("values", "count"), [([[1], [2, 3]], 0), ([[1], []], None), ([[1], None], None), ([[1], [None]], None)]
)
def test_array_s_null_count_is_given_only_where_the_footer_is_certain(tmp_path, values, count):
    kind = ArrayType(PrimitiveType("long"))
    statistics = of_column(tmp_path, kind, values, pa.list_(pa.int64()))
    assert statistics["nullCount"] == ({} if count is None else {"c": count})


def test_map_s_null_count_is_given_only_where_the_footer_is_certain(tmp_path):
    kind = MapType(PrimitiveType("string"), PrimitiveType("long"))
    arrow = pa.map_(pa.string(), pa.int64())
    assert of_column(tmp_path, kind, [[("a", None)]], arrow)["nullCount"] == {"c": 0}
    assert of_column(tmp_path, kind, [[("a", 1)], None], arrow)["nullCount"] == {}


def test_row_groups_are_united_and_groups_of_nulls_do_not_hide_bounds(tmp_path):
    target = write_target(tmp_path, struct(c="decimal(20,0)"))
    values = [Decimal(-5), None, Decimal(7), Decimal(-300), None, None]
    text = collected(tmp_path, pa.table({"c": pa.array(values, pa.decimal128(20, 0))}), target, row_group_size=1)
    statistics = json.loads(text)
    assert bounds(statistics) == (-300, 7)
    assert (statistics["numRecords"], statistics["nullCount"]) == (6, {"c": 3})


def test_nested_fields_are_mirrored_by_their_physical_names(tmp_path):
    schema = with_physical_names(struct(s=struct(a="long", t=struct(b="string")), c="long"))
    target = write_target(tmp_path, schema, mapping="name")
    row = {"p1": {"p2": 1, "p3": {"p4": "x"}}, "p5": 9}
    statistics = json.loads(collected(tmp_path, pa.Table.from_pylist([row, {"p1": None, "p5": 8}]), target))
    assert statistics["minValues"] == {"p1": {"p2": 1, "p3": {"p4": "x"}}, "p5": 8}
    assert statistics["nullCount"] == {"p1": {"p2": 1, "p3": {"p4": 1}}, "p5": 0}


def test_column_with_a_dot_is_not_taken_for_a_nested_field(tmp_path):
    target = write_target(tmp_path, struct(**{"a.b": "long", "a": struct(b="long")}))
    table = pa.table({"a.b": [1, 1], "a": [{"b": 7}, {"b": None}]})
    statistics = json.loads(collected(tmp_path, table, target))
    assert statistics["minValues"] == {"a.b": 1, "a": {"b": 7}}
    assert statistics["nullCount"] == {"a.b": 0, "a": {"b": 1}}


def test_first_leaves_are_counted_across_structs_without_partition_columns(tmp_path):
    schema = struct(p="long", s=struct(a="long", b="long"), c=ArrayType(PrimitiveType("long")), d="long")
    target = write_target(tmp_path, schema, ["p"], properties={"delta.dataSkippingNumIndexedCols": "3"})
    table = pa.table({"s": [{"a": 1, "b": 2}], "c": [[1]], "d": [4]})
    assert json.loads(collected(tmp_path, table, target))["nullCount"] == {"s": {"a": 0, "b": 0}, "c": 0}


@pytest.mark.parametrize(
    ("limit", "columns"), [("0", set()), ("-1", {f"c{n}" for n in range(40)}), (None, {f"c{n}" for n in range(32)})]
)
def test_number_of_columns_with_statistics_follows_the_table_property(tmp_path, limit, columns):
    names = [f"c{n}" for n in range(40)]
    properties = {} if limit is None else {"delta.dataSkippingNumIndexedCols": limit}
    target = write_target(tmp_path, struct(**dict.fromkeys(names, "long")), properties=properties)
    statistics = json.loads(collected(tmp_path, pa.table({name: [1] for name in names}), target))
    assert set(statistics["minValues"]) == set(statistics["nullCount"]) == columns


def test_listed_columns_alone_get_statistics_a_struct_with_all_its_fields(tmp_path):
    schema = struct(a="long", s=struct(x="long", y="long"), **{"d.e": "long"})
    target = write_target(tmp_path, schema, properties={"delta.dataSkippingStatsColumns": "S, `d.e`"})
    statistics = json.loads(collected(tmp_path, pa.table({"a": [1], "s": [{"x": 2, "y": 3}], "d.e": [4]}), target))
    assert statistics["minValues"] == {"s": {"x": 2, "y": 3}, "d.e": 4}


def test_string_prefix_length_follows_the_table_property(tmp_path):
    properties = {"delta.dataSkippingStringPrefixLength": "4"}
    statistics = of_column(tmp_path, "string", ["abcdefg"], pa.string(), properties=properties)
    assert bounds(statistics) == ("abcd", "abcd\x7f")


def test_file_that_is_laid_out_in_another_way_gets_its_row_count_only(tmp_path):
    target = write_target(tmp_path, struct(a="long", b="long"))
    statistics = json.loads(collected(tmp_path, pa.table({"b": [1], "a": [2]}), target))
    assert statistics == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}}
