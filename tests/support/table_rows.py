"""Which rows does a table hold, by Ebbtide's log and vectors, read without a JVM?

The snapshot, the deletion vectors and the partition values are the engine's own; only Spark's Parquet reader is replaced,
by pyarrow. What that leaves out, the tests of `tests/spark/scan` compare. A table costs milliseconds, so it can be asked
after every test. Column mapping, added columns and widened types are understood; files must lie on this disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.log_reading import data_file

from ebbtide.config import EngineConfig
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.partition_values import arrow_type, to_arrow
from ebbtide.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, physical_name
from ebbtide.scan import ScanFile, resolve_files
from ebbtide.storage import open_store

__all__ = ["arrow_schema", "rows_of", "snapshot_of"]

_VARIANT = pa.struct({"metadata": pa.binary(), "value": pa.binary()})


def snapshot_of(path: Path) -> Snapshot:
    return load_snapshot(open_store(str(path)), config=EngineConfig(allow_foreign_paths=True))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Every column nullable: engines differ in what they promise there."""
    return pa.schema([pa.field(column.name, _arrow_type(column.type)) for column in schema.fields])


def rows_of(path: Path, snapshot: Snapshot) -> pa.Table:
    """The live rows of a snapshot of the table at `path`, under logical names."""
    schema = arrow_schema(snapshot.schema)
    parts = [_file_rows(path, snapshot, file) for file in resolve_files(snapshot, snapshot.files)]
    return pa.concat_tables([schema.empty_table(), *parts])


def _file_rows(path: Path, snapshot: Snapshot, file: ScanFile) -> pa.Table:
    source = data_file(path, {"path": file.add.path})
    content = pq.ParquetFile(source, coerce_int96_timestamp_unit="us").read()
    is_mapped = snapshot.properties.column_mapping_mode != "none"
    arrays = [_column(content, column, file, snapshot, is_mapped=is_mapped) for column in snapshot.schema.fields]
    table = pa.Table.from_arrays(arrays, schema=arrow_schema(snapshot.schema))
    if file.marks is None:
        return table
    return table.take(pa.array([row for row in range(content.num_rows) if row not in file.marks], pa.int64()))


def _column(content: pa.Table, column: StructField, file: ScanFile, snapshot: Snapshot, *, is_mapped: bool) -> pa.Array:
    stored = physical_name(column) if is_mapped else column.name
    if column.name in snapshot.metadata.partition_columns:
        text = pa.array([file.add.partition_values[stored]] * content.num_rows, pa.string())
        return to_arrow(text, column.type, column=column.name)
    if stored not in content.column_names:
        return pa.nulls(content.num_rows, _arrow_type(column.type))
    return _reshape(content[stored].combine_chunks(), column.type, is_mapped=is_mapped)


# --- types ------------------------------------------------------------------------------------------------------------


def _arrow_type(data_type: DataType) -> pa.DataType:
    match data_type:
        case StructType():
            return pa.struct([pa.field(column.name, _arrow_type(column.type)) for column in data_type.fields])
        case ArrayType():
            return pa.list_(_arrow_type(data_type.element_type))
        case MapType():
            return pa.map_(_arrow_type(data_type.key_type), _arrow_type(data_type.value_type))
        case PrimitiveType(name="variant"):
            return _VARIANT
    return arrow_type(data_type, column="of a test")


def _reshape(array: pa.Array, data_type: DataType, *, is_mapped: bool) -> pa.Array:
    """Values of a file under the table's type: logical names, nulls for fields the file does not have, wider numbers."""
    target = _arrow_type(data_type)
    mask = array.is_null()
    match data_type:
        case StructType():
            children = list(_children(array, data_type, is_mapped=is_mapped))
            return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
        case ArrayType():
            values = _reshape(array.values, data_type.element_type, is_mapped=is_mapped)
            return pa.ListArray.from_arrays(array.offsets, values, type=target, mask=mask)
        case MapType():
            keys = _reshape(array.keys, data_type.key_type, is_mapped=is_mapped)
            items = _reshape(array.items, data_type.value_type, is_mapped=is_mapped)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=mask)
    return array.cast(target)


def _children(array: Any, data_type: StructType, *, is_mapped: bool) -> Iterator[pa.Array]:
    for column in data_type.fields:
        stored = physical_name(column) if is_mapped else column.name
        if array.type.get_field_index(stored) < 0:
            yield pa.nulls(len(array), _arrow_type(column.type))
        else:
            yield _reshape(array.field(stored), column.type, is_mapped=is_mapped)
