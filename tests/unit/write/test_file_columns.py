"""Is a file noticed whose columns are not those that were meant?"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.write_targets import struct

from ebbtide.errors import InternalError
from ebbtide.protocol.schema import ArrayType, MapType, PrimitiveType
from ebbtide.storage import open_store
from ebbtide.write.columns import FileColumns
from ebbtide.write.files import _check_columns
from ebbtide.write.staging import Staging

LONG = PrimitiveType("long")
COLUMNS = FileColumns(
    (),
    ("id", "s", "a", "m", "_change_type"),
    struct(id="long", s=struct(x="long", y="string"), a=ArrayType(struct(z="long")), m=MapType(LONG, ArrayType(LONG))),
)
WRITTEN = pa.schema(
    {
        "id": pa.int64(),
        "s": pa.struct({"x": pa.int64(), "y": pa.string()}),
        "a": pa.list_(pa.struct({"z": pa.int64()})),
        "m": pa.map_(pa.int64(), pa.list_(pa.int64())),
        "_change_type": pa.string(),
    }
)


def check(tmp_path, schema):
    pq.write_table(schema.empty_table(), tmp_path / "f.parquet")
    staging = Staging(open_store(str(tmp_path)), "d")
    _check_columns(pq.read_metadata(tmp_path / "f.parquet"), COLUMNS.leaf_paths(), staging)


def test_a_file_with_the_columns_that_were_meant_passes(tmp_path):
    check(tmp_path, WRITTEN)


@pytest.mark.parametrize("place", range(5))
def test_a_file_with_another_column_is_not_committed(tmp_path, place):
    with pytest.raises(InternalError, match="other columns"):
        check(tmp_path, WRITTEN.set(place, WRITTEN.field(place).with_name("ebbtide-tests")))
    with pytest.raises(InternalError, match="other columns"):
        check(tmp_path, WRITTEN.remove(place))


def test_a_file_with_another_nested_field_is_not_committed(tmp_path):
    with pytest.raises(InternalError, match="other columns"):
        check(tmp_path, WRITTEN.set(1, pa.field("s", pa.struct({"x": pa.int64(), "secret": pa.string()}))))
