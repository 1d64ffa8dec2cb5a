"""Which statistics does a new file get?

They come from its Parquet footer, so no row is read twice, and only where the footer is certain:

    type                                  bounds                                  nullCount
    integers, date, decimal               as in the footer                        yes
    timestamps                            cut down to milliseconds, as the        yes
                                          protocol has it; not if INT96
    string                                cut to a prefix, the maximum raised     yes
    float, double                         not where a value is NaN                yes
    boolean, binary                       none                                    yes
    array, map                            none                                    only 0; a footer cannot tell an empty
                                                                                  array from a null one
    variant                               none                                    none

What is left out makes skipping worse, never results.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow.parquet as pq

from ebbtide import spark_border as border
from ebbtide.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructType, leaf_columns
from ebbtide.protocol.statistics import FileStatistics
from ebbtide.write.string_bounds import lower_string, upper_string
from ebbtide.write.target import WriteTarget

__all__ = ["Slot", "StatisticsColumns", "indexed_columns", "statistics_columns", "statistics_of"]

_DEFAULT_STRING_PREFIX: Final = 32
_VARIANT_LEAVES: Final = 2
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DATE: Final = date(1970, 1, 1)
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_FLOATS: Final = (PrimitiveType("float"), PrimitiveType("double"))
_MILLISECOND_US: Final = 1000

# Turns a physical value of the footer into a JSON value; None when it is not a safe bound.
Reader: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """One column of the table and the leaves of the Parquet schema that hold it."""

    path: tuple[str, ...]
    type: DataType
    leaves: range


@dataclass(frozen=True, slots=True)
class StatisticsColumns:
    """The columns that get statistics, and where in the footer they are."""

    slots: tuple[Slot, ...]
    string_prefix: int
    tight_bounds: bool | None


def statistics_columns(target: WriteTarget, table_columns: StructType) -> StatisticsColumns:
    """What to collect for files that begin with `table_columns` (physical)."""
    wanted = {path for path, _ in indexed_columns(target)}
    prefix = target.properties.data_skipping_string_prefix_length
    return StatisticsColumns(
        slots=tuple(slot for slot in _slots(table_columns) if slot.path in wanted),
        string_prefix=_DEFAULT_STRING_PREFIX if prefix is None else prefix,
        # Absent where no file can ever carry a deletion vector.
        tight_bounds=True if target.has_deletion_vectors else None,
    )


def statistics_of(footer: pq.FileMetaData, columns: StatisticsColumns) -> FileStatistics:
    minima: dict[str, Any] = {}
    maxima: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    shows_nan = border.footer_shows_nan(footer.created_by)
    paths = [footer.schema.column(index).path for index in range(footer.num_columns)]
    for slot in columns.slots:
        if not _is_there(slot, paths):
            continue
        chunks = [_statistics(footer, slot, group) for group in range(footer.num_row_groups)]
        _put(nulls, slot.path, _null_count(slot, chunks))
        if slot.type in _FLOATS and not shows_nan:
            continue
        lower, upper = _bounds(slot, chunks, columns.string_prefix)
        # Half an interval helps little, and some readers expect both or neither.
        if lower is not None and upper is not None:
            _put(minima, slot.path, lower)
            _put(maxima, slot.path, upper)
    return FileStatistics.build(
        num_records=footer.num_rows,
        min_values=minima,
        max_values=maxima,
        null_count=nulls,
        tight_bounds=columns.tight_bounds,
    )


def indexed_columns(target: WriteTarget) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Physical paths and types of the leaves that the table's properties ask statistics for."""
    partition_names = {field.name for field in target.partition_fields}
    pairs = zip(leaf_columns(target.schema), leaf_columns(target.physical_schema), strict=True)
    leaves = [(logical, physical) for logical, physical in pairs if logical[0].name not in partition_names]
    listed = target.properties.data_skipping_stats_columns
    limit = target.properties.data_skipping_num_indexed_cols
    for index, (logical, physical) in enumerate(leaves):
        path = tuple(field.name.lower() for field in logical)
        if listed is None:
            is_wanted = limit < 0 or index < limit
        else:
            is_wanted = any(path[: len(name)] == tuple(part.lower() for part in name) for name in listed)
        if is_wanted:
            yield tuple(field.name for field in physical), physical[-1].type


def _slots(table_columns: StructType) -> Iterator[Slot]:
    """Leaves are found by position, not by name: `a.b` can be a column, or the field `b` of `a`."""
    start = 0
    for chain in leaf_columns(table_columns):
        stop = start + _leaf_count(chain[-1].type)
        yield Slot(tuple(field.name for field in chain), chain[-1].type, range(start, stop))
        start = stop


def _leaf_count(data_type: DataType) -> int:
    if isinstance(data_type, StructType):
        return sum(_leaf_count(field.type) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return _leaf_count(data_type.element_type)
    if isinstance(data_type, MapType):
        return _leaf_count(data_type.key_type) + _leaf_count(data_type.value_type)
    return _VARIANT_LEAVES if data_type.name == "variant" else 1


def _is_there(slot: Slot, paths: Sequence[str]) -> bool:
    """Whether the leaves are where they should be; Spark could one day lay out a type differently."""
    dotted = ".".join(slot.path)
    is_nested = not isinstance(slot.type, PrimitiveType)
    return all(
        index < len(paths) and (paths[index].startswith(f"{dotted}.") if is_nested else paths[index] == dotted)
        for index in slot.leaves
    )


def _statistics(footer: pq.FileMetaData, slot: Slot, group: int) -> pq.Statistics | None:
    """Statistics of the slot's first leaf. For arrays and maps, it is null wherever the value is null or empty."""
    return footer.row_group(group).column(slot.leaves.start).statistics


def _null_count(slot: Slot, chunks: Sequence[pq.Statistics | None]) -> int | None:
    total = 0
    for chunk in chunks:
        if chunk is None or not chunk.has_null_count:
            return None
        total += chunk.null_count
    return total if isinstance(slot.type, PrimitiveType) or total == 0 else None


def _bounds(slot: Slot, chunks: Sequence[pq.Statistics | None], string_prefix: int) -> tuple[Any, Any]:
    readers = _readers(slot.type, string_prefix)
    if readers is None:
        return None, None
    with_values = []
    for chunk in chunks:
        if chunk is None or not chunk.has_null_count:
            return None, None
        if chunk.num_values > 0:
            with_values.append(chunk)
    # INT96 has no order, so its statistics cannot be trusted.
    if not with_values or not all(chunk.has_min_max and chunk.physical_type != "INT96" for chunk in with_values):
        return None, None
    minima = [chunk.min_raw for chunk in with_values]
    maxima = [chunk.max_raw for chunk in with_values]
    if _has_nan(minima) or _has_nan(maxima):
        return None, None
    lower, upper = readers
    ordered = _order_key(slot.type)
    return lower(min(minima, key=ordered)), upper(max(maxima, key=ordered))


def _has_nan(values: Sequence[Any]) -> bool:
    return any(isinstance(value, float) and math.isnan(value) for value in values)


def _order_key(data_type: DataType) -> Callable[[Any], Any]:
    """How the physical values compare; wide decimals are big-endian two's complement."""
    is_decimal = isinstance(data_type, PrimitiveType) and data_type.decimal_bounds is not None
    return _unscaled_integer if is_decimal else lambda value: value


def _readers(data_type: DataType, string_prefix: int) -> tuple[Reader, Reader] | None:
    """How a type's least and greatest physical value become JSON; None for types without bounds."""
    if not isinstance(data_type, PrimitiveType):
        return None
    if data_type.decimal_bounds is not None:
        scale = data_type.decimal_bounds[1]
        read: Reader = lambda value: _decimal(value, scale)  # noqa: E731 (typed, and used twice)
        return read, read
    if data_type.name == "string":
        return (lambda raw: lower_string(raw, string_prefix)), (lambda raw: upper_string(raw, string_prefix))
    return _READERS.get(data_type.name)


def _unscaled_integer(value: Any) -> int:
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else int(value)


def _decimal(value: Any, scale: int) -> Decimal:
    # Built from its digits: arithmetic would round to the 28 digits of the default context.
    unscaled = _unscaled_integer(value)
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _date(days: int) -> str | None:
    try:
        return (_EPOCH_DATE + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _local_timestamp(micros: int) -> str | None:
    """Rounded *down* to milliseconds, before 1970 too. Readers know that a maximum may be up to 1 ms too low."""
    try:
        moment = _EPOCH + timedelta(milliseconds=micros // _MILLISECOND_US)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds")


def _utc_timestamp(micros: int) -> str | None:
    text = _local_timestamp(micros)
    return None if text is None else f"{text}Z"


def _single(value: float) -> float:
    """The double with the fewest digits that means this float: 0.1, not 0.10000000149011612."""
    if not math.isfinite(value):
        return value
    packed = struct.pack("<f", value)
    return next(short for short in _shorter(value) if _pack_single(short) == packed)


def _shorter(value: float) -> Iterator[float]:
    yield from (float(f"{value:.{digits}g}") for digits in range(1, 10))
    yield value


def _pack_single(value: float) -> bytes | None:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        # A few digits of the largest float round up beyond it.
        return None


# Zero and minus zero are equal but spelled differently; the bounds include both.
def _lower_zero(value: float) -> float:
    return -0.0 if value == 0 else value


def _upper_zero(value: float) -> float:
    return 0.0 if value == 0 else value


_READERS: Final[Mapping[str, tuple[Reader, Reader]]] = {
    **dict.fromkeys(_INTEGERS, (int, int)),
    "date": (_date, _date),
    "timestamp": (_utc_timestamp, _utc_timestamp),
    "timestamp_ntz": (_local_timestamp, _local_timestamp),
    "float": (lambda value: _lower_zero(_single(value)), lambda value: _upper_zero(_single(value))),
    "double": (_lower_zero, _upper_zero),
}


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value
