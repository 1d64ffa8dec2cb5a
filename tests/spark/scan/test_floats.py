"""Is -0.0 found by who looks for 0.0, and NaN by who looks for something large?

Spark calls the zeros equal and NaN larger than any number. Parquet's dictionary filter compares bits, and writers leave NaN
out of the bounds of a row group, so plain Spark loses such rows; a DELETE that loses them leaves them behind.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from tests.support.comparison import assert_same_rows
from tests.support.query_plans import parquet_scans
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

ROWS = [{"id": 0, "x": -0.0}, {"id": 1, "x": 1.0}, {"id": 2, "x": 0.0}, {"id": 3, "x": None}]


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("type_name", ["float", "double"])
@pytest.mark.parametrize("condition", ["x = {zero}", "x <=> {zero}", "x IN ({zero}, 7)", "NOT (x <> {zero})", "x <= {zero} AND x >= {zero}"])  # fmt: skip
def test_zeros_of_both_signs_are_read_and_deleted(spark, tmp_path, condition, type_name):
    x = pa.float32() if type_name == "float" else pa.float64()
    table = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "x": x})).deletion_vectors()
    # The lone row shows the case where statistics and dictionary of a row group hold nothing but -0.0.
    table.file(ROWS, stats=False).file(ROWS[:1], stats=False).commit()
    sql = condition.format(zero=f"CAST(0 AS {type_name})")
    zeros = [row for row in table.rows() if row["x"] == 0]
    assert_same_rows(ebbtide.read(spark, str(table.path), where=sql), zeros)
    assert DeltaTable.forPath(spark, str(table.path)).delete(sql).num_affected_rows == len(zeros) == 3


NANS = [{"id": 0, "x": math.nan}, {"id": 1, "x": 1.0}]


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("type_name", ["float", "double"])
@pytest.mark.parametrize(
    ("condition", "ids"),
    [("{x} > 1", [0]), ("{x} >= 2", [0]), ("{x} <> 1", [0]), ("{x} = {nan}", [0]), ("{x} IN ({nan}, 7)", [0]), ("NOT ({x} <= 1)", [0])],
)  # fmt: skip
def test_nan_that_bounds_hide_is_read_and_deleted(spark, tmp_path, condition, ids, type_name, nested):
    x = pa.float32() if type_name == "float" else pa.float64()
    kind = pa.struct([("x", x)]) if nested else x
    table = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "v": kind})).deletion_vectors()
    rows = [{"id": row["id"], "v": {"x": row["x"]} if nested else row["x"]} for row in NANS]
    table.file(rows, stats=False).file([{"id": 5, "v": None}, *rows], stats=False, deleted=[0]).commit()
    sql = condition.format(x="v.x" if nested else "v", nan=f"CAST('NaN' AS {type_name})")
    read = ebbtide.read(spark, str(table.path)).where(sql)
    assert sorted(row.id for row in read.collect()) == sorted(ids * 2)
    assert DeltaTable.forPath(spark, str(table.path)).delete(sql).num_affected_rows == 2 * len(ids)


def test_filters_on_other_columns_are_still_pushed(spark, tmp_path):
    table = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "x": pa.float64()})).file(ROWS).commit()
    [scan] = parquet_scans(ebbtide.read(spark, str(table.path)).where("id > 1 AND x > 0"))
    assert "GreaterThan(id,1)" in scan.pushed_filters
    assert "x" not in scan.pushed_filters
