"""Is -0.0 found by who looks for 0.0?

Spark calls them equal. Parquet's dictionary filter compares bits, and so plain Spark loses such rows when the file is
dictionary-encoded; a DELETE that loses them leaves them behind.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.comparison import assert_same_rows
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

ROWS = [{"id": 0, "x": -0.0}, {"id": 1, "x": 1.0}, {"id": 2, "x": 0.0}, {"id": 3, "x": None}]


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
