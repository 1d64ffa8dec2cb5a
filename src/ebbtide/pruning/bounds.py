"""Between which values does a column lie in each file, as far as the log says?

`statistics_bounds` reads `stats` (untrusted JSON, perhaps from another engine or for an older column type) and
`partition_bounds` reads `partitionValues`. Both give outer bounds: every value of the file lies within them. A bound
that is missing, odd or of the wrong type is null, which means unknown. Neither ever raises on a table's content.

Statistics are decoded one file at a time with orjson. That is quicker than pyarrow.json here, one malformed file costs
only itself, and pyarrow.json can crash the process on input that is not an object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.errors import CorruptTableError
from ebbtide.protocol.partition_values import HIVE_DEFAULT_PARTITION, parse_partition_value
from ebbtide.protocol.schema import PrimitiveType
from ebbtide.pruning.intervals import (
    DOUBLE_STEP,
    EXACT_DECIMAL_DIGITS,
    INTEGER_BITS,
    Interval,
    Scalar,
    days_since_epoch,
    decimal_interval,
    has_zone,
    microseconds_since_epoch,
    prefix_successor,
    single_interval,
    widen,
)
from ebbtide.pruning.scope import Column

__all__ = ["ColumnBounds", "partition_bounds", "statistics_bounds"]

INT64_LIMIT: Final = 1 << 63
# Decoded statistics are large Python objects: it is fastest to keep only as many as the processor's cache holds.
DECODED_AT_ONCE: Final = 64
# Writers cut long strings, and not all raise a cut maximum: one of this many bytes may be only a prefix.
CUT_STRING_BYTES: Final = 32
# What writers append to a cut maximum. Older writers used one that is smaller than some characters.
_TIE_BREAKERS: Final = "\x7f\ufffd\U0010ffff"
# JSON timestamps are cut to milliseconds.
_MILLISECOND_US: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_NUMBER_TEXT = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_SPECIAL_NUMBERS: Final = {"Infinity": math.inf, "-Infinity": -math.inf}

_TEMPORAL_TYPES: Final = {
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_TEMPORAL_STORAGE: Final = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}

Ends: TypeAlias = tuple[Scalar, Scalar] | tuple[None, None]
NumberReader: TypeAlias = Callable[[Any], Ends]
_UNKNOWN: Final = (None, None)


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Aligned with the files: `lower <= value <= upper` for every value that is neither null nor NaN.

    `may_be_nan` applies to the whole column: writers differ on whether a maximum covers NaN, so it never does.
    """

    lower: pa.Array
    upper: pa.Array
    may_be_null: pa.BooleanArray
    may_be_value: pa.BooleanArray
    may_be_nan: bool

    def take(self, indices: pa.Array) -> ColumnBounds:
        """The bounds of some of the files."""
        return ColumnBounds(
            self.lower.take(indices),
            self.upper.take(indices),
            self.may_be_null.take(indices),
            self.may_be_value.take(indices),
            self.may_be_nan,
        )


def statistics_bounds(stats: pa.Array, columns: Sequence[Column]) -> dict[Column, ColumnBounds]:
    """Bounds of the given data columns from the files' `stats` strings."""
    raw = [_RawColumn(column.physical_path) for column in columns]
    row_counts: list[int | None] = []
    for start in range(0, len(stats), DECODED_AT_ONCE):
        records = [_load_object(text) for text in stats.slice(start, DECODED_AT_ONCE).to_pylist()]
        row_counts.extend(_count(record.get("numRecords")) for record in records)
        lower, upper, nulls = (_values_at(records, (key,)) for key in ("minValues", "maxValues", "nullCount"))
        for column in raw:
            column.lower.extend(_values_at(lower, column.path))
            column.upper.extend(_values_at(upper, column.path))
            column.null_counts.extend(map(_count, _values_at(nulls, column.path)))
    return {column: _from_statistics(column, item, row_counts) for column, item in zip(columns, raw, strict=True)}


def partition_bounds(partition_values: pa.MapArray, column: Column) -> ColumnBounds:
    """Exact values of a partition column. A text that is not of the column's type is unknown, not null.

    So is a file that does not name the column, or names it twice.
    """
    entries = pc.map_lookup(partition_values, pa.scalar(column.physical_path[0]), "all")
    is_odd = pc.fill_null(pc.not_equal(pc.list_value_length(entries), 1), True)
    texts = pc.list_element(pc.if_else(is_odd, pa.scalar(None, entries.type), entries), 0).dictionary_encode()
    distinct = texts.dictionary.to_pylist()
    ends = [_partition_ends(column, text) for text in distinct]
    scale = _arrow_scale(column)
    may_be_null = pa.array([text in {"", HIVE_DEFAULT_PARTITION} for text in distinct], pa.bool_()).take(texts.indices)
    may_be_value = pa.array([text != "" for text in distinct], pa.bool_()).take(texts.indices)
    return ColumnBounds(
        lower=pa.array([low for low, _ in ends], scale).take(texts.indices),
        upper=pa.array([high for _, high in ends], scale).take(texts.indices),
        may_be_null=pc.fill_null(may_be_null, True),
        may_be_value=pc.or_(pc.fill_null(may_be_value, False), is_odd),
        may_be_nan=False,
    )


class _RawColumn:
    """What the JSON says about one column, file by file, not yet checked."""

    __slots__ = ("lower", "null_counts", "path", "upper")

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        self.lower: list[Any] = []
        self.upper: list[Any] = []
        self.null_counts: list[int | None] = []


def _load_object(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return record if isinstance(record, dict) else {}


def _values_at(objects: list[Any], path: tuple[str, ...]) -> list[Any]:
    """What each object holds at a path, None where there is nothing."""
    for name in path:
        objects = [item.get(name) if type(item) is dict else None for item in objects]
    return objects


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < INT64_LIMIT else None


def _from_statistics(column: Column, raw: _RawColumn, row_counts: list[int | None]) -> ColumnBounds:
    nulls = pa.array(raw.null_counts, pa.int64())
    rows = pa.array(row_counts, pa.int64())
    # With a deletion vector only 0 and "all rows" still mean something, so no other count is ever used.
    no_nulls = pc.fill_null(pc.equal(nulls, 0), False)
    only_nulls = pc.fill_null(pc.equal(nulls, rows), False)
    is_empty = pc.fill_null(pc.equal(rows, 0), False)
    # Writers differ on whether a null struct counts as a null of its fields.
    may_be_null = pa.repeat(True, len(rows)) if column.is_nested else pc.invert(no_nulls)
    return ColumnBounds(
        lower=_lower_bounds(column, raw.lower),
        upper=_upper_bounds(column, raw.upper),
        may_be_null=pc.and_not(may_be_null, is_empty),
        may_be_value=pc.and_not(pc.invert(only_nulls), is_empty),
        may_be_nan=_type_name(column) in {"float", "double"},
    )


def _lower_bounds(column: Column, values: list[Any]) -> pa.Array:
    name = _type_name(column)
    if name in _TEMPORAL_TYPES:
        bounds = _temporal_bounds(name, values)
        # Cutting towards zero raises a minimum before 1970.
        return (
            bounds if name == "date" else pc.if_else(pc.less(bounds, 0), pc.subtract(bounds, _MILLISECOND_US), bounds)
        )
    if name == "string":
        return pa.array([value if type(value) is str else None for value in values], pa.string())
    return _number_bounds(column, values, end=0)


def _upper_bounds(column: Column, values: list[Any]) -> pa.Array:
    name = _type_name(column)
    if name in _TEMPORAL_TYPES:
        bounds = _temporal_bounds(name, values)
        return bounds if name == "date" else pc.add(bounds, _MILLISECOND_US)
    if name == "string":
        return pa.array([_upper_string(value) for value in values], pa.string())
    return _number_bounds(column, values, end=1)


def _number_bounds(column: Column, values: list[Any], *, end: int) -> pa.Array:
    """One end of every interval. Values that need no check go to Arrow all at once."""
    name, scale = _type_name(column), _arrow_scale(column)
    plain = int if name in INTEGER_BITS else float if name == "double" and not column.was_narrower else None
    if plain is not None and set(map(type, values)) <= {plain, type(None)}:
        try:
            return pa.array(values, scale)
        except (OverflowError, pa.ArrowInvalid):
            pass  # an integer beyond 64 bits: it becomes unknown below
    read = _number_reader(column)
    return pa.array([None if value is None else read(value)[end] for value in values], scale)


def _temporal_bounds(type_name: str, values: list[Any]) -> pa.Array:
    """Days or microseconds. Arrow parses a well-formed column at once; one odd text makes all of it slow."""
    texts = [value if type(value) is str else None for value in values]
    try:
        return (
            pa.array(texts, pa.string())
            .cast(_TEMPORAL_TYPES[type_name])
            .cast(_TEMPORAL_STORAGE[type_name])
            .cast(pa.int64())
        )
    except pa.ArrowInvalid:
        return pa.array([None if text is None else _read_temporal(type_name, text) for text in texts], pa.int64())


def _read_temporal(type_name: str, text: str) -> int | None:
    if type_name == "date":
        return days_since_epoch(text)
    return microseconds_since_epoch(text, None) if has_zone(text) == (type_name == "timestamp") else None


def _number_reader(column: Column) -> NumberReader:
    """From a JSON value to (lower, upper) on the column's scale."""
    name = _type_name(column)
    if name in INTEGER_BITS:
        return _read_integer
    if name == "boolean":
        return lambda value: (int(value), int(value)) if type(value) is bool else _UNKNOWN
    if name in {"float", "double"}:
        return _read_single if name == "float" or column.was_narrower else _read_double
    return _decimal_reader(column) if name.startswith("decimal") else lambda _: _UNKNOWN


def _read_integer(value: Any) -> Ends:
    if type(value) is int and -INT64_LIMIT <= value < INT64_LIMIT:
        return value, value
    # Another engine may have treated an integral column as a wider type: 5.0 is 5.
    return (math.floor(value), math.ceil(value)) if type(value) is float and abs(value) < 2.0**62 else _UNKNOWN


def _read_double(value: Any) -> Ends:
    if type(value) is str:
        value = _SPECIAL_NUMBERS.get(value)
    return (float(value), float(value)) if type(value) in {int, float} else _UNKNOWN


def _read_single(value: Any) -> Ends:
    number, _ = _read_double(value)
    if number is None:
        return _UNKNOWN
    interval = single_interval(float(number))
    return interval.low, interval.high


def _decimal_reader(column: Column) -> NumberReader:
    assert isinstance(column.type, PrimitiveType)
    _, scale = column.type.decimal_bounds or (0, 0)
    exact_below = 10.0 ** (EXACT_DECIMAL_DIGITS - scale)

    def read(value: Any) -> Ends:
        if type(value) is str and _NUMBER_TEXT.fullmatch(value):
            interval = decimal_interval(Decimal(value))
        elif type(value) in {int, float}:
            # orjson gives the nearest double; beyond fifteen digits several decimals share it.
            number = float(value)
            interval = Interval(number, number) if abs(number) < exact_below else widen(number, DOUBLE_STEP)
        else:
            return _UNKNOWN
        return interval.low, interval.high

    return read


def _upper_string(value: Any) -> str | None:
    if type(value) is not str:
        return None
    # In UTF-8, fewer characters than a quarter of the limit cannot reach it.
    if len(value) * 4 < CUT_STRING_BYTES or len(value.encode()) < CUT_STRING_BYTES:
        return value
    return prefix_successor(value.rstrip(_TIE_BREAKERS))


def _partition_ends(column: Column, text: str | None) -> Ends:
    name = _type_name(column)
    if text in {None, "", HIVE_DEFAULT_PARTITION}:
        return _UNKNOWN
    # Without a zone an instant would depend on the session; with one, a wall clock time makes no sense.
    if name in {"timestamp", "timestamp_ntz"} and has_zone(text or "") != (name == "timestamp"):
        return _UNKNOWN
    try:
        value = parse_partition_value(text, column.type, column=column.logical_path[0])
    except CorruptTableError:
        return _UNKNOWN
    if isinstance(value, datetime):
        value = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    elif isinstance(value, date):
        value = value.toordinal() - _EPOCH.toordinal()
    if isinstance(value, Decimal):
        interval = decimal_interval(value)
        return interval.low, interval.high
    if isinstance(value, float):
        return _UNKNOWN if math.isnan(value) else _number_reader(column)(value)
    return (value, value) if isinstance(value, str) else _read_integer(int(value) if isinstance(value, bool) else value)


def _type_name(column: Column) -> str:
    return column.type.name if isinstance(column.type, PrimitiveType) else ""


def _arrow_scale(column: Column) -> pa.DataType:
    name = _type_name(column)
    if name in INTEGER_BITS or name in {"boolean", "date", "timestamp", "timestamp_ntz"}:
        return pa.int64()
    return pa.float64() if name in {"float", "double"} or name.startswith("decimal") else pa.string()
