"""Which statistics does a file of another writer get? Only those that the footer is certain of."""

from __future__ import annotations

import datetime as dt
import decimal
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import parse_schema
from ebbtide.storage import open_store
from ebbtide.transaction.table_changes import _OLDEST_PROTOCOL
from ebbtide.write import WriteTarget
from ebbtide.write.foreign_footers import foreign_statistics

MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)


def schema(**types):
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}))


def statistics(tmp_path, table, configuration=None, **types):
    pq.write_table(table, tmp_path / "f.parquet")
    target = WriteTarget(
        open_store(str(tmp_path)),
        schema(**types),
        (),
        "none",
        TableProperties.parse(configuration or {}),
        _OLDEST_PROTOCOL,
    )
    return json.loads(foreign_statistics(pq.read_metadata(tmp_path / "f.parquet"), target).to_json())


def test_columns_are_found_by_name_in_any_order(tmp_path):
    table = pa.table({"s": ["b", None, "a"], "extra": [1, 2, 3], "n": pa.array([3, 1, 2], pa.int32())})
    assert statistics(tmp_path, table, n="integer", missing="long", s="string") == {
        "numRecords": 3,
        "minValues": {"n": 1, "s": "a"},
        "maxValues": {"n": 3, "s": "b"},
        "nullCount": {"n": 0, "s": 1},
    }


@pytest.mark.parametrize(
    ("values", "kind", "lower"),
    [
        (pa.array([1], pa.int8()), "byte", 1),
        (pa.array([1], pa.int16()), "short", 1),
        (pa.array([1], pa.int64()), "long", 1),
        (pa.array([dt.date(2024, 1, 2)]), "date", "2024-01-02"),
        (pa.array([decimal.Decimal("1.20")], pa.decimal128(5, 2)), "decimal(5,2)", 1.2),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), "timestamp", "2024-05-06T07:08:09.123Z"),
        (pa.array([MOMENT], pa.timestamp("us")), "timestamp_ntz", "2024-05-06T07:08:09.123"),
    ],
)
def test_values_stored_as_spark_stores_them_have_bounds(tmp_path, values, kind, lower):
    assert statistics(tmp_path, pa.table({"c": values}), c=kind)["minValues"] == {"c": lower}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        # Spark reads an unsigned column as the next larger type; the footer's order is another one.
        (pa.array([1, 4_000_000_000], pa.uint32()), "long"),
        (pa.array([1], pa.uint64()), "decimal(20,0)"),
        (pa.array([MOMENT], pa.timestamp("ms", "UTC")), "timestamp"),
        (pa.array([MOMENT], pa.timestamp("us")), "timestamp"),
        (pa.array([decimal.Decimal("1.20")], pa.decimal128(5, 2)), "decimal(7,4)"),
        (pa.array([1], pa.int32()), "long"),
        (pa.array([b"x"], pa.binary()), "string"),
        (pa.array([1.0, float("nan")]), "double"),
    ],
)
def test_values_stored_otherwise_have_no_bounds(tmp_path, values, kind):
    found = statistics(tmp_path, pa.table({"c": values}), c=kind)
    assert found["numRecords"] == len(values)
    assert "c" not in found.get("minValues", {})


def test_name_that_comes_twice_has_no_statistics(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([5])], names=["a", "A"])
    found = statistics(tmp_path, table, a="long")
    assert (found["numRecords"], found["minValues"], found["nullCount"]) == (1, {}, {})


def test_name_with_a_dot_is_not_taken_for_a_field(tmp_path):
    table = pa.table({"s": [{"x": 1}]})
    assert statistics(tmp_path, table, **{"s.x": "long"})["minValues"] == {}


def test_fields_of_structs_have_statistics(tmp_path):
    inner = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
    table = pa.table({"s": [{"y": "a", "x": 7}]})
    assert statistics(tmp_path, table, s=inner)["maxValues"] == {"s": {"x": 7}}


def test_properties_limit_the_columns(tmp_path):
    table = pa.table({"a": [1], "b": [2]})
    found = statistics(tmp_path, table, {"delta.dataSkippingNumIndexedCols": "1"}, a="long", b="long")
    assert found["minValues"] == {"a": 1}
