"""How does the JSON text of statistics become typed columns of a checkpoint?

The inverse of `parsed_statistics`. Arrow's JSON reader takes ordinary text, thousands of files at once. It refuses a
batch that holds anything unusual (a bound of another type, a number out of range, broken JSON). Such a batch is read
text by text, and a value that does not fit its column becomes null. An absent bound is unknown and never prunes a file
wrongly; that is also why NaN and the infinities, which Delta writes as strings, become null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ebbtide.errors import CorruptTableError
from ebbtide.protocol.partition_values import parse_partition_value
from ebbtide.protocol.schema import PrimitiveType

__all__ = ["typed_statistics"]

# One unusual file slows down this many, and no more.
_ROWS_AT_A_TIME: Final = 8192
# A single text longer than this takes the slow path.
_BLOCK_BYTES: Final = 8 * 1024 * 1024
# One object per line: Arrow's reader would read two objects as two rows, and a blank line as none.
_ONE_LINE: Final = r"^\{[^\n\r\x00]*\}$"
# Inside a JSON string no unescaped quote follows a colon, so this finds whole values only.
_NOT_A_NUMBER: Final = r':\s*"(NaN|[+-]?Infinity)"'
_ZONE = re.compile(r"(Z|UTC|[+-][0-9]{2}:?[0-9]{2})$", re.ASCII)
_EXACT: Final = Context(prec=120)


def typed_statistics(stats: pa.StringArray, type: pa.StructType) -> pa.StructArray:
    """One struct of `type` per text; null where there is no text or it is not a JSON object."""
    parts = [
        _convert_part(stats.slice(start, _ROWS_AT_A_TIME), type) for start in range(0, len(stats), _ROWS_AT_A_TIME)
    ]
    return pa.concat_arrays(parts) if parts else pa.array([], type)


def _convert_part(stats: pa.StringArray, type: pa.StructType) -> pa.StructArray:
    # Some writers use an empty text for "none".
    stats = pc.if_else(pc.equal(stats, ""), pa.scalar(None, pa.string()), stats)
    if stats.null_count == len(stats):
        return pa.nulls(len(stats), type)
    raw = _read_by_arrow(stats, _raw_type(type))
    if raw is None:
        raw = _fit_column([_load_object(text) for text in stats.to_pylist()], _raw_type(type))
    return _convert(raw, type)


def _raw_type(type: pa.DataType) -> pa.DataType:
    """The type of `type`'s values in JSON: exact numbers, wide floats, dates and timestamps as text."""
    if pa.types.is_struct(type):
        return pa.struct([(field.name, _raw_type(field.type)) for field in type])
    if pa.types.is_temporal(type):
        return pa.string()
    return pa.float64() if pa.types.is_floating(type) else type


def _read_by_arrow(stats: pa.StringArray, raw_type: pa.StructType) -> pa.StructArray | None:
    """The texts read at once; None when one of them is not quite what its type says."""
    if not pc.all(pc.match_substring_regex(stats, _ONE_LINE)).as_py():
        return None
    try:
        text = pc.replace_substring_regex(pc.fill_null(stats, "{}"), _NOT_A_NUMBER, ":null")
        lines = pc.binary_join_element_wise(text, "\n", "")
        # A string array keeps its characters in one buffer, so the lines already are the file to read.
        data = lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py())
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pj.ParseOptions(explicit_schema=pa.schema(raw_type), unexpected_field_behavior="ignore"),
        )
        # The reader does not count the digits of a decimal, and Parquet would cut off the excess.
        table.validate(full=True)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(stats):
        return None
    children = [table.column(field.name).combine_chunks() for field in raw_type]
    return pa.StructArray.from_arrays(children, fields=list(raw_type), mask=stats.is_null())


def _load_object(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def _fit_column(values: Sequence[Any], raw_type: pa.DataType) -> pa.Array:
    """Values parsed by Python as a column; null for every value that does not fit the type."""
    if not pa.types.is_struct(raw_type):
        return pa.array([_fit_value(value, raw_type) for value in values], raw_type)
    objects = [value if isinstance(value, dict) else None for value in values]
    children = [
        _fit_column([None if obj is None else obj.get(field.name) for obj in objects], field.type) for field in raw_type
    ]
    mask = pa.array([obj is None for obj in objects], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(raw_type), mask=mask)


def _fit_value(value: Any, type: pa.DataType) -> Any:
    if pa.types.is_boolean(type):
        return value if isinstance(value, bool) else None
    if pa.types.is_string(type):
        return value if isinstance(value, str) and _is_encodable(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    if pa.types.is_integer(type):
        limit = 2 ** (type.bit_width - 1)
        return int(value) if -limit <= value < limit and value == int(value) else None
    if pa.types.is_decimal(type):
        return _exact_decimal(Decimal(value), type.precision, type.scale)
    try:
        return float(value)
    except OverflowError:
        return None


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _exact_decimal(value: Decimal, precision: int, scale: int) -> Decimal | None:
    try:
        exact = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except InvalidOperation:
        return None
    return exact if exact == value and len(exact.as_tuple().digits) <= precision else None


def _convert(values: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_struct(type):
        children = [_convert(child, field.type) for child, field in zip(values.flatten(), type, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=values.is_null())
    if pa.types.is_floating(type):
        narrowed = values.cast(type, safe=False)
        return pc.if_else(pc.is_finite(narrowed), narrowed, pa.scalar(None, type))
    return _parse_moments(values, type) if pa.types.is_temporal(type) else values


def _parse_moments(texts: pa.StringArray, type: pa.DataType) -> pa.Array:
    try:
        return texts.cast(type)
    except pa.ArrowInvalid:
        # Some text is not a date or has more digits than Arrow takes: read them one by one.
        return pa.array([_parse_moment(text, type) for text in texts.to_pylist()], type)


def _parse_moment(text: str | None, type: pa.DataType) -> Any:
    if text is None:
        return None
    name = "date" if pa.types.is_date(type) else "timestamp_ntz" if type.tz is None else "timestamp"
    if name == "timestamp" and not _ZONE.search(text):
        # The zone would be a guess, and a guess is not a bound.
        return None
    try:
        return parse_partition_value(text, PrimitiveType(name), column="statistics")
    except CorruptTableError:
        return None
