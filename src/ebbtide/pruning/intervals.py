"""Between which two values on a column's scale does a literal certainly lie?

Files are compared on three scales: 64-bit integers (whole numbers, booleans, days, microseconds), doubles (floats and
decimals) and strings. A literal becomes a closed `Interval` on the scale of the column. Usually its ends are equal;
where Spark's answer depends on a setting, on rounding or on a time zone database, the interval covers every possible
value, and comparing intervals stays correct.

`literal_interval` gives None where Spark would convert the column rather than the literal, where the two types do not
obviously match, or where it would raise: such a comparison prunes nothing.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ebbtide.protocol.schema import PrimitiveType
from ebbtide.pruning.scope import Column
from ebbtide.sql_text import Literal

__all__ = [
    "DOUBLE_STEP",
    "EXACT_DECIMAL_DIGITS",
    "FLOAT_STEP",
    "INTEGER_BITS",
    "Interval",
    "Scalar",
    "days_since_epoch",
    "decimal_interval",
    "has_zone",
    "list_intervals",
    "literal_interval",
    "microseconds_since_epoch",
    "prefix_successor",
    "single_interval",
    "widen",
]

Scalar: TypeAlias = int | float | str

INTEGER_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_INTEGER_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_NUMBER_KINDS: Final = frozenset({"integer", "decimal", "double", "float", "exponent"})
MAX_PRECISION: Final = 38
# Decimals of up to fifteen digits and their nearest doubles have the same order, so doubles compare them exactly.
EXACT_DECIMAL_DIGITS: Final = 15
# Relative distances that are certainly at least one unit in the last place of a float, and two of a double.
FLOAT_STEP: Final = 2.0**-23
DOUBLE_STEP: Final = 2.0**-51
# The JVM and Python have their own time zone databases; a recently changed rule moves a local time by an hour.
_ZONE_DOUBT_US: Final = 2 * 3_600_000_000
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?)?(Z|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Interval:
    """`low <= v <= high`; both ends are on the same scale."""

    low: Scalar
    high: Scalar

    @property
    def is_exact(self) -> bool:
        return self.low == self.high


def literal_interval(column: Column, literal: Literal, session_timezone: str | None) -> Interval | None:
    """Where a literal lies on the column's scale when `column <op> literal` is evaluated by Spark."""
    if not isinstance(column.type, PrimitiveType) or not column.is_comparable:
        return None
    return _interval(column.type, literal, session_timezone)


def list_intervals(
    column: Column, literals: Sequence[Literal], session_timezone: str | None
) -> tuple[Interval, ...] | None:
    """The same for the members of an IN list, which Spark first casts to a common type."""
    kinds = {literal.kind for literal in literals}
    if len(kinds) > 1 and not kinds <= {"integer", "decimal"}:
        return None
    if not isinstance(column.type, PrimitiveType) or not _fits_decimal(column.type, literals):
        return None
    if kinds == {"string"} and column.type.name in {"timestamp", "timestamp_ntz"}:
        # Without ANSI mode, Spark compares the texts, and an instant has more than one text.
        return None
    found = [literal_interval(column, literal, session_timezone) for literal in literals]
    exact = tuple(interval for interval in found if interval is not None and interval.is_exact)
    return exact if len(exact) == len(found) else None


def widen(value: float, step: float) -> Interval:
    return Interval(value - abs(value) * step, value + abs(value) * step)


def decimal_interval(value: Decimal) -> Interval:
    # Not Decimal.normalize: it rounds to the context's precision.
    digits = "".join(map(str, value.as_tuple().digits)).strip("0")
    number = float(value)
    return _point(number) if len(digits) <= EXACT_DECIMAL_DIGITS else widen(number, DOUBLE_STEP)


def single_interval(number: float) -> Interval:
    """A float printed with as few digits as floats allow: the double nearest to that text is another number."""
    return _point(number) if is_single(number) else widen(number, FLOAT_STEP)


def prefix_successor(prefix: str) -> str | None:
    """The least string above every string that starts with `prefix`, by code point; None if there is none."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    last = ord(stem[-1]) + 1
    # U+D800 to U+DFFF are not characters.
    return stem[:-1] + chr(0xE000 if last == 0xD800 else last)


def days_since_epoch(text: str) -> int | None:
    """`2024-02-29` as days; None for anything else, including dates that do not exist."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
    except ValueError:
        return None


def microseconds_since_epoch(text: str, zone: tzinfo | None) -> int | None:
    """A timestamp's text as microseconds: of UTC when the text or `zone` gives a zone, else of the wall clock.

    None when the text is not a plain ISO timestamp or date.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[4] and not match[2]):
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00:00'}.{(match[3] or '').ljust(6, '0')}")
        offset = _fixed_offset(match[4]) if match[4] else zone
        shift = timedelta(0) if offset is None else moment.replace(tzinfo=offset).utcoffset() or timedelta(0)
        return (moment - _EPOCH - shift) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def has_zone(text: str) -> bool:
    match = _TIMESTAMP.fullmatch(text)
    return match is not None and match[4] is not None


def _interval(data_type: PrimitiveType, literal: Literal, session_timezone: str | None) -> Interval | None:
    name = data_type.name
    if name == "string":
        return _point(literal.value) if literal.kind == "string" and isinstance(literal.value, str) else None
    if name == "boolean":
        return _point(int(literal.value)) if isinstance(literal.value, bool) else None
    if name == "date":
        return _date_interval(literal)
    if name == "timestamp":
        return _timestamp_interval(literal, session_timezone)
    if name == "timestamp_ntz":
        return _wall_clock_interval(literal)
    if name in INTEGER_BITS and literal.kind == "string":
        return _integer_from_text(name, str(literal.value))
    if literal.kind not in _NUMBER_KINDS or isinstance(literal.value, bool):
        return None
    # As a decimal it could change the type in which a whole number or a decimal is compared.
    if literal.kind == "exponent" and name not in {"float", "double"}:
        return None
    if not _fits_decimal(data_type, [literal]):
        return None
    return _number_interval(data_type, literal)


def _point(value: Scalar) -> Interval:
    return Interval(value, value)


def _date_interval(literal: Literal) -> Interval | None:
    days = days_since_epoch(str(literal.value)) if literal.kind in {"date", "string"} else None
    return None if days is None else _point(days)


def _wall_clock_interval(literal: Literal) -> Interval | None:
    # A zoned TIMESTAMP literal would turn the column, not the literal, into an instant.
    if literal.kind not in {"timestamp_ntz", "string", "date"} or has_zone(str(literal.value)):
        return None
    if literal.kind == "date" and days_since_epoch(str(literal.value)) is None:
        return None
    value = microseconds_since_epoch(str(literal.value), None)
    return None if value is None else _point(value)


def _timestamp_interval(literal: Literal, session_timezone: str | None) -> Interval | None:
    text = str(literal.value)
    if literal.kind not in {"timestamp", "string", "date"}:
        return None
    if literal.kind == "date" and days_since_epoch(text) is None:
        return None
    if has_zone(text):
        value = microseconds_since_epoch(text, None)
        return None if value is None else _point(value)
    zone = _session_zone(session_timezone)
    value = None if zone is None else microseconds_since_epoch(text, zone)
    if value is None:
        return None
    doubt = 0 if isinstance(zone, timezone) else _ZONE_DOUBT_US
    return Interval(value - doubt, value + doubt)


def _session_zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    if name.upper() in {"UTC", "GMT", "Z", "ETC/UTC", "UCT", "ZULU"}:
        return timezone.utc
    try:
        return _fixed_offset(name) if _OFFSET.fullmatch(name) else ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None


def _fixed_offset(text: str) -> timezone:
    match = _OFFSET.fullmatch("+00:00" if text == "Z" else text)
    if match is None or int(match[3]) > 59:
        raise ValueError(text)
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    # The largest offset in Java.
    if offset > timedelta(hours=18):
        raise ValueError(text)
    return timezone(-offset if match[1] == "-" else offset)


def _integer_from_text(type_name: str, text: str) -> Interval | None:
    """`year = '2024'`: Spark converts the string. Only texts that mean the same in every mode are accepted."""
    limit = 1 << (INTEGER_BITS[type_name] - 1)
    if not _CANONICAL_INTEGER.fullmatch(text) or not -limit <= int(text) < limit:
        return None
    return _point(int(text))


def _number_interval(data_type: PrimitiveType, literal: Literal) -> Interval | None:
    assert isinstance(literal.value, int | float | Decimal)
    value, name = literal.value, data_type.name
    if name in INTEGER_BITS:
        return _on_integers(value, literal)
    if name in {"float", "double"}:
        return _on_floats(value, is_single_precision=name == "float" or literal.kind == "float")
    if data_type.decimal_bounds is not None:
        return _on_decimals(value, literal)
    return None


def _on_integers(value: float | Decimal, literal: Literal) -> Interval | None:
    if isinstance(value, float):
        # Spark may compare an integer and a FLOAT literal as floats, which rounds the column.
        return widen(value, FLOAT_STEP) if literal.kind == "float" else _point(value)
    exact = Decimal(value)
    low, high = (int(exact.to_integral_value(rounding)) for rounding in (ROUND_FLOOR, ROUND_CEILING))
    limit = 1 << 63
    # A fraction lies between its neighbours. Numbers that no column can hold are left to Spark.
    return Interval(low, high) if -limit <= low and high < limit else None


def _on_floats(value: float | Decimal, *, is_single_precision: bool) -> Interval | None:
    number = float(value)
    if Decimal(number) != Decimal(value):
        return widen(number, FLOAT_STEP if is_single_precision else DOUBLE_STEP)
    return single_interval(number) if is_single_precision else _point(number)


def is_single(number: float) -> bool:
    """Whether a 32-bit float can hold the number."""
    try:
        return bool(struct.unpack("<f", struct.pack("<f", number))[0] == number)
    except OverflowError:
        return False


def _on_decimals(value: float | Decimal, literal: Literal) -> Interval:
    if isinstance(value, float):
        return widen(value, FLOAT_STEP) if literal.kind == "float" else _point(value)
    return decimal_interval(Decimal(value))


def _fits_decimal(data_type: PrimitiveType, literals: Sequence[Literal]) -> bool:
    """Whether column and literals have a common decimal type that loses no digits."""
    exact = [Decimal(item.value) for item in literals if item.kind in {"integer", "decimal"} and item.value is not None]
    shapes = [(max(value.adjusted() + 1, 0), max(-int(value.as_tuple().exponent), 0)) for value in exact]
    bounds = data_type.decimal_bounds
    if bounds is not None:
        shapes.append((bounds[0] - bounds[1], bounds[1]))
        shapes.extend((_INTEGER_DIGITS["long"], 0) for item in literals if item.kind == "integer")
    elif data_type.name in INTEGER_BITS:
        shapes.append((_INTEGER_DIGITS[data_type.name], 0))
    return not shapes or max(whole for whole, _ in shapes) + max(scale for _, scale in shapes) <= MAX_PRECISION
