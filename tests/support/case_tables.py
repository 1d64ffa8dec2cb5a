"""How does a behaviour case of the shared material become tables on disk and expected rows?

A case gives a schema as Spark DDL, rows as JSON, and which row lies in which file. `build_table` writes exactly that as
version 0 with our own builder: no Spark and no code under test takes part. `rows_as_table` gives expected rows the types
of the schema, so that they can be compared exactly.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.table_builder import Row, TableBuilder

__all__ = ["build_table", "file_rows", "parse_ddl", "rows_as_table"]

Case = dict[str, Any]

_SIMPLE_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|`[^`]+`|[<>(),:]|\d+)")


# --- schema -----------------------------------------------------------------------------------------------------------


def parse_ddl(ddl: str) -> pa.Schema:
    """`id BIGINT, s STRUCT<a: INT>` as an Arrow schema; an empty text has no columns."""
    reader = _DdlReader(ddl)
    return pa.schema(reader.fields(end=None) if ddl.strip() else [])


class _DdlReader:
    def __init__(self, ddl: str) -> None:
        self.tokens = _TOKEN.findall(ddl)
        assert "".join(self.tokens) == re.sub(r"\s", "", ddl), f"cannot read the schema {ddl!r}"

    def fields(self, *, end: str | None) -> list[pa.Field]:
        found = [self.field()]
        while self.next_is(","):
            self.tokens.pop(0)
            found.append(self.field())
        if end is not None:
            self.expect(end)
        assert end is not None or not self.tokens, f"left over in the schema: {self.tokens}"
        return found

    def field(self) -> pa.Field:
        name = self.tokens.pop(0).strip("`")
        if self.next_is(":"):
            self.tokens.pop(0)
        data_type = self.data_type()
        nullable = not self.next_is("NOT")
        if not nullable:
            self.expect("NOT")
            self.expect("NULL")
        return pa.field(name, data_type, nullable=nullable)

    def data_type(self) -> pa.DataType:
        match self.tokens.pop(0).upper():
            case "STRUCT":
                self.expect("<")
                return pa.struct(self.fields(end=">"))
            case "ARRAY":
                self.expect("<")
                element = self.data_type()
                self.expect(">")
                return pa.list_(element)
            case "MAP":
                self.expect("<")
                key = self.data_type()
                self.expect(",")
                item = self.data_type()
                self.expect(">")
                return pa.map_(key, item)
            case "DECIMAL":
                self.expect("(")
                precision = int(self.tokens.pop(0))
                self.expect(",")
                scale = int(self.tokens.pop(0))
                self.expect(")")
                return pa.decimal128(precision, scale)
            case simple:
                return _SIMPLE_TYPES[simple]

    def next_is(self, text: str) -> bool:
        return bool(self.tokens) and self.tokens[0].upper() == text

    def expect(self, text: str) -> None:
        found = self.tokens.pop(0)
        assert found.upper() == text, f"expected {text} in the schema, found {found}"


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_as_table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Rows of a case (a list of values each) with the types of a schema."""
    return pa.Table.from_pylist([_row(row, schema) for row in rows], schema=schema)


def _row(values: Sequence[Any], schema: pa.Schema) -> Row:
    return {field.name: _value(value, field.type) for field, value in zip(schema, values, strict=True)}


def _value(value: Any, data_type: pa.DataType) -> Any:
    """A JSON value as Arrow takes it for a type."""
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: _value(value.get(field.name), field.type) for field in data_type}
    if pa.types.is_map(data_type):
        return [(_value(key, data_type.key_type), _value(item, data_type.item_type)) for key, item in value.items()]
    if pa.types.is_list(data_type):
        return [_value(item, data_type.value_type) for item in value]
    if pa.types.is_date(data_type):
        return dt.date.fromisoformat(value)
    if pa.types.is_timestamp(data_type):
        return dt.datetime.fromisoformat(value).replace(tzinfo=dt.timezone.utc if data_type.tz else None)
    if pa.types.is_decimal(data_type):
        return Decimal(str(value))
    if pa.types.is_binary(data_type):
        return base64.b64decode(value)
    return value


# --- tables -----------------------------------------------------------------------------------------------------------


def file_rows(spec: Case) -> list[list[Any]]:
    """Which row lies in which file, before partitions divide the files further."""
    files = spec.get("files", 1)
    if isinstance(files, list):
        return [list(rows) for rows in files if rows]
    rows = spec["rows"]
    size = -(-len(rows) // files) or 1
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def build_table(
    path: Path, spec: Case, *, partition_by: Sequence[str], vectors: bool, row_group_size: int | None = None
) -> TableBuilder:
    """The table as version 0, with deletion vectors on or off."""
    schema = parse_ddl(spec["schema"])
    builder = TableBuilder(path, schema)
    if partition_by:
        builder.partitioned_by(*partition_by)
    for name, value in (spec["properties"] | {"delta.enableDeletionVectors": str(vectors).lower()}).items():
        _set_property(builder, name, value)
    for rows in file_rows(spec):
        for of_partition in _by_partition([_row(row, schema) for row in rows], partition_by):
            builder.file(of_partition, row_group_size=row_group_size)
    return builder.commit()


def _set_property(builder: TableBuilder, name: str, value: str) -> None:
    match name, value:
        case "delta.enableDeletionVectors", "true":
            builder.deletion_vectors()
        case "delta.enableChangeDataFeed", "true":
            builder.change_data_feed()
        case _:
            builder.table_property(name, value)


def _by_partition(rows: list[Row], partition_by: Sequence[str]) -> Iterator[list[Row]]:
    parts: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(row[column] for column in partition_by), []).append(row)
    yield from parts.values()
