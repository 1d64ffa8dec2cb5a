"""Does a recorded bound of a column hold for the values that the footer of its file names?

Both sides become values on one scale: the footer's by the type that the file itself has, the recorded one by how JSON
spells that type. Where the spelling loses something (milliseconds, digits, cut strings, floats as doubles), the
recorded bound is taken at its widest, as in `pruning.bounds`: only a bound that would let a reader skip a value that is
there is wrong. What cannot be compared with certainty (NaN, odd spellings, another calendar) is None.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, localcontext
from typing import Any, Final, TypeAlias

from ebbtide.commands.fsck.footer import Leaf
from ebbtide.protocol.schema import PrimitiveType
from ebbtide.pruning.intervals import (
    DOUBLE_STEP,
    EXACT_DECIMAL_DIGITS,
    FLOAT_STEP,
    days_since_epoch,
    has_zone,
    microseconds_since_epoch,
    prefix_successor,
)
from ebbtide.write.string_bounds import lower_string, upper_string

__all__ = ["FooterValue", "footer_value", "is_above", "is_below", "recordable"]

# Whole numbers, days and microseconds; decimals; floats; UTF-8.
FooterValue: TypeAlias = int | Decimal | float | bytes

_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_TIMESTAMPS_US: Final[Mapping[str, Callable[[int], int]]] = {
    "timestamp_millis": lambda value: value * 1000,
    "timestamp_micros": lambda value: value,
    "timestamp_nanos": lambda value: value // 1000,
}
# Writers cut long strings, and not all raise a cut maximum; see `pruning.bounds`.
_CUT_STRING_BYTES: Final = 32
_TIE_BREAKERS: Final = "\x7f\ufffd\U0010ffff"
_MILLISECOND_US: Final = 1000
# Before these, some writers counted days by another calendar, or instants by another zone.
_FIRST_CERTAIN_DAY: Final = (date(1582, 10, 15) - date(1970, 1, 1)).days
_FIRST_CERTAIN_US: Final = (datetime(1900, 1, 2) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1)
_STRING_PREFIX: Final = 32
_SPECIAL_NUMBERS: Final = {"Infinity": math.inf, "-Infinity": -math.inf}
# Room for the digits of every decimal, so that widening a bound never narrows it.
_WIDE: Final = Context(prec=1200)
# Near zero, the next number is not one in the last place away.
_LEAST_FLOAT: Final = 2.0**-149
_LEAST_DOUBLE: Final = 2.0**-1074


def footer_value(leaf: Leaf, column: PrimitiveType, raw: bytes) -> FooterValue | None:
    """A value of the footer on the scale of the column; None when it is not certain what it means."""
    value = _decode(leaf, raw)
    name = column.name
    if value is None:
        return None
    if name == "date":
        return value if leaf.meaning == "date" and int(value) >= _FIRST_CERTAIN_DAY else None
    if name in {"timestamp", "timestamp_ntz"}:
        is_time = leaf.meaning in _TIMESTAMPS_US
        return value if is_time and int(value) >= _FIRST_CERTAIN_US else None
    if leaf.meaning == "date" or leaf.meaning in _TIMESTAMPS_US:
        return None
    if name == "string":
        return value if isinstance(value, bytes) else None
    if name == "boolean":
        return value if leaf.physical_type == "BOOLEAN" else None
    is_number = name in _INTEGERS or name in {"float", "double"} or column.decimal_bounds is not None
    return value if is_number and not isinstance(value, bytes) and leaf.physical_type != "BOOLEAN" else None


def is_above(recorded: Any, column: PrimitiveType, leaf: Leaf, value: FooterValue) -> bool:
    """Whether a recorded minimum, at its lowest, is above a value of the file."""
    low = _lowest(recorded, column, leaf)
    return low is not None and _is_less(value, low)


def is_below(recorded: Any, column: PrimitiveType, leaf: Leaf, value: FooterValue) -> bool:
    """Whether a recorded maximum, at its highest, is below a value of the file."""
    high = _highest(recorded, column, leaf)
    return high is not None and _is_less(high, value)


def recordable(column: PrimitiveType, value: FooterValue, *, as_maximum: bool) -> Any:
    """The value as JSON has it in statistics; None when there is no certain way to write it."""
    if isinstance(value, bytes):
        cut = upper_string if as_maximum else lower_string
        return cut(value, _STRING_PREFIX)
    if column.name == "boolean":
        return bool(value)
    try:
        if column.name == "date":
            return (_EPOCH + timedelta(days=int(value))).date().isoformat()
        if column.name in {"timestamp", "timestamp_ntz"}:
            moment = _EPOCH + timedelta(milliseconds=int(value) // _MILLISECOND_US)
            return moment.isoformat(timespec="milliseconds") + ("Z" if column.name == "timestamp" else "")
    except OverflowError:
        return None
    return value


# --- the footer's side ------------------------------------------------------------------------------------------------


def _decode(leaf: Leaf, raw: bytes) -> FooterValue | None:
    kind, meaning = leaf.physical_type, leaf.meaning
    if kind == "BOOLEAN":
        return int(raw[0]) if len(raw) == 1 and raw[0] in {0, 1} else None
    if kind in {"INT32", "INT64"}:
        return _decode_integer(raw, leaf) if len(raw) == (4 if kind == "INT32" else 8) else None
    if kind in {"FLOAT", "DOUBLE"}:
        return _decode_float(raw, single=kind == "FLOAT") if not meaning else None
    if meaning == "decimal" and kind in {"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}:
        return _to_decimal(int.from_bytes(raw, "big", signed=True), leaf.scale) if 0 < len(raw) <= 64 else None
    if kind == "BYTE_ARRAY" and meaning == "string":
        return raw if _text(raw) is not None else None
    return None


def _decode_integer(raw: bytes, leaf: Leaf) -> FooterValue | None:
    value = int.from_bytes(raw, "little", signed=True)
    if leaf.meaning in {"", "integer", "date"}:
        return value
    if leaf.meaning == "decimal":
        return _to_decimal(value, leaf.scale)
    to_us = _TIMESTAMPS_US.get(leaf.meaning)
    return None if to_us is None else to_us(value)


def _decode_float(raw: bytes, *, single: bool) -> float | None:
    if len(raw) != (4 if single else 8):
        return None
    (value,) = struct.unpack("<f" if single else "<d", raw)
    return None if math.isnan(value) else float(value)


def _to_decimal(unscaled: int, scale: int) -> Decimal | None:
    # Built from its digits: arithmetic would round to the context's precision.
    if not 0 <= scale <= 100:
        return None
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


# --- the recorded side ------------------------------------------------------------------------------------------------


def _lowest(recorded: Any, column: PrimitiveType, leaf: Leaf) -> FooterValue | None:
    if column.name == "string":
        return recorded.encode() if _is_text(recorded) else None
    number = _number(recorded, column)
    if number is None:
        return None
    if column.name in {"timestamp", "timestamp_ntz"}:
        # Cutting towards zero raises a minimum before 1970.
        return int(number) - _MILLISECOND_US
    return _widen(number, column, leaf, -1)


def _highest(recorded: Any, column: PrimitiveType, leaf: Leaf) -> FooterValue | None:
    if column.name == "string":
        return _highest_text(recorded) if _is_text(recorded) else None
    number = _number(recorded, column)
    if number is None:
        return None
    if column.name in {"timestamp", "timestamp_ntz"}:
        return int(number) + _MILLISECOND_US
    return _widen(number, column, leaf, 1)


def _is_text(recorded: Any) -> bool:
    # A lone surrogate is legal in JSON and in no text.
    return isinstance(recorded, str) and not any("\ud800" <= letter <= "\udfff" for letter in recorded)


def _highest_text(recorded: str) -> bytes | None:
    stem = recorded.rstrip(_TIE_BREAKERS)
    if len(recorded.encode()) < _CUT_STRING_BYTES and stem == recorded:
        return recorded.encode()
    successor = prefix_successor(stem)
    return None if successor is None else successor.encode()


def _number(recorded: Any, column: PrimitiveType) -> Any:
    """A whole number, a Decimal or an infinite float; None when it is not certain what is meant."""
    name = column.name
    if name == "boolean":
        return int(recorded) if isinstance(recorded, bool) else None
    if name == "date":
        return days_since_epoch(recorded) if isinstance(recorded, str) else None
    if name in {"timestamp", "timestamp_ntz"}:
        is_right = isinstance(recorded, str) and has_zone(recorded) == (name == "timestamp")
        return microseconds_since_epoch(recorded, None) if is_right else None
    if isinstance(recorded, str):
        return _SPECIAL_NUMBERS.get(recorded) if name in {"float", "double"} else None
    is_number = isinstance(recorded, int | Decimal) and not isinstance(recorded, bool)
    return recorded if is_number and abs(recorded) < Decimal("1e400") else None


def _widen(number: Decimal | float, column: PrimitiveType, leaf: Leaf, direction: int) -> FooterValue:
    """The number moved away by what its spelling may have lost."""
    if column.name in {"float", "double"} or leaf.physical_type in {"FLOAT", "DOUBLE"}:
        is_single = column.name == "float" or leaf.physical_type == "FLOAT"
        near = float(number)
        least, step = (_LEAST_FLOAT, FLOAT_STEP) if is_single else (_LEAST_DOUBLE, DOUBLE_STEP)
        return near if math.isinf(near) else near + direction * (abs(near) * step + least)
    precision, _ = column.decimal_bounds or (0, 0)
    if precision <= EXACT_DECIMAL_DIGITS:
        return number
    # Some writers pass decimals through a double, which has fewer digits.
    with localcontext(_WIDE):
        exact = Decimal(number)
        return exact + direction * abs(exact) * Decimal(DOUBLE_STEP)


def _is_less(left: FooterValue, right: FooterValue) -> bool:
    """Python compares whole numbers, decimals and floats exactly."""
    if isinstance(left, bytes) or isinstance(right, bytes):
        return isinstance(left, bytes) and isinstance(right, bytes) and left < right
    return left < right
