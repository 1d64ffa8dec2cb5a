"""Which typed value does a partition string in the log stand for, and which directory does it go to?

The log keeps every partition value as text; null and the empty text both mean NULL, for every type. `to_arrow` parses a
whole column, `parse_partition_value` one value, `serialize_partition_value` writes one. A text that is not a value of
its column's type raises `CorruptTableError` with the column and the text: reading it as NULL would answer queries with
wrong rows. See "Partition Value Serialization" in PROTOCOL.md.

A timestamp without a zone was written in the zone of some other machine, and the reader has to guess which. Here the
zone is an argument, UTC by default. We write UTC with a `Z`, which leaves nothing to guess.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from ebbtide.errors import CorruptTableError, RequestError
from ebbtide.protocol.schema import DataType, PrimitiveType

__all__ = [
    "HIVE_DEFAULT_PARTITION",
    "arrow_type",
    "escape_path_name",
    "parse_partition_value",
    "partition_directory",
    "serialize_partition_value",
    "to_arrow",
]

HIVE_DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"

_ARROW_TYPES: Final = {
    "string": pa.string(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_INTEGER_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?", re.ASCII)
_SPECIAL_FLOATS: Final = {"nan": math.nan, "infinity": math.inf, "inf": math.inf}
_DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]{1,80}(?:\.[0-9]{0,80})?|\.[0-9]{1,80})(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_DATE: Final = r"(?P<year>[+-]?[0-9]{4,7})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_DATE_TEXT = re.compile(_DATE, re.ASCII)
_TIMESTAMP_TEXT = re.compile(
    _DATE
    + r"(?:[ T](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"\s*(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.ASCII,
)
_ESCAPED_IN_PATHS: Final = frozenset([chr(code) for code in range(0x20)] + list("\"#%'*/:=?\\\x7f{[]^"))
_EPOCH_DATE: Final = dt.date(1970, 1, 1)
_EPOCH: Final = dt.datetime(1970, 1, 1)
_DAY_US: Final = 86_400_000_000


def arrow_type(data_type: DataType, *, column: str) -> pa.DataType:
    """The Arrow type of a partition column; CorruptTableError for types that cannot partition a table."""
    if isinstance(data_type, PrimitiveType):
        bounds = data_type.decimal_bounds
        if bounds is not None:
            return pa.decimal128(*bounds)
        if data_type.name in _ARROW_TYPES:
            return _ARROW_TYPES[data_type.name]
    raise CorruptTableError(f"column '{column}' cannot be a partition column: its type is {data_type.to_json()}")


def to_arrow(
    strings: pa.Array | pa.ChunkedArray, data_type: DataType, *, column: str, time_zone: str = "UTC"
) -> pa.Array:
    """The typed values of a column of partition strings. Each distinct text is parsed once."""
    target = arrow_type(data_type, column=column)
    assert isinstance(data_type, PrimitiveType)
    if isinstance(strings, pa.ChunkedArray):
        strings = strings.combine_chunks()
    encoded = strings.cast(pa.string()).dictionary_encode()
    parse = _parser(data_type, time_zone)
    values = [_parse_or_refuse(parse, text, data_type, column) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, target).take(encoded.indices)


def parse_partition_value(text: str | None, data_type: DataType, *, column: str, time_zone: str = "UTC") -> Any:
    """One value as int, float, Decimal, bool, str, bytes, date or datetime (aware for `timestamp`); None for NULL."""
    arrow_type(data_type, column=column)
    assert isinstance(data_type, PrimitiveType)
    value = _parse_or_refuse(_parser(data_type, time_zone), text, data_type, column)
    if value is None or data_type.name not in {"date", "timestamp", "timestamp_ntz"}:
        return value
    try:
        if data_type.name == "date":
            return _EPOCH_DATE + dt.timedelta(days=value)
        moment = _EPOCH + dt.timedelta(microseconds=value)
    except OverflowError as error:
        raise CorruptTableError(f"partition value '{text}' of column '{column}' is beyond Python's calendar") from error
    return moment.replace(tzinfo=dt.timezone.utc) if data_type.name == "timestamp" else moment


def serialize_partition_value(value: Any, data_type: DataType, *, column: str) -> str | None:
    """The log text of a typed value. NULL and the empty string are both null in the log."""
    if value is None or value in ("", b""):
        return None
    name = data_type.name if isinstance(data_type, PrimitiveType) else "nested"
    try:
        text = _serialize(value, "decimal" if name.startswith("decimal") else name, data_type)
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise RequestError(f"{value!r} is not a value of partition column '{column}' ({name})") from error
    # What we write must read back: a float in an integer column or a too wide decimal is refused here.
    try:
        parse_partition_value(text, data_type, column=column)
    except CorruptTableError as error:
        raise RequestError(f"{value!r} is not a value of partition column '{column}' ({name})") from error
    return text


def partition_directory(columns: list[tuple[str, str | None]]) -> str:
    """`a=1/b=x%2Fy` for (name, log text) pairs: the directory that Hive and Spark choose. Decoded, not a URI."""
    return "/".join(
        f"{escape_path_name(name)}={escape_path_name(text) if text else HIVE_DEFAULT_PARTITION}"
        for name, text in columns
    )


def escape_path_name(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED_IN_PATHS else char for char in text)


def _parse_or_refuse(parse: Callable[[str], Any], text: str | None, data_type: PrimitiveType, column: str) -> Any:
    if text is None or text == "":
        return None
    try:
        return parse(text)
    except (ValueError, ArithmeticError) as error:
        raise CorruptTableError(
            f"partition value '{text[:80]}' of column '{column}' is not a valid {data_type.name}"
        ) from error


def _parser(data_type: PrimitiveType, time_zone: str) -> Callable[[str], Any]:
    """A function from text to what Arrow stores: days for dates, microseconds for timestamps. Raises ValueError."""
    name = data_type.name
    bounds = data_type.decimal_bounds
    if bounds is not None:
        return lambda text: _parse_decimal(text.strip(), *bounds)
    if name in _INTEGER_BITS:
        return lambda text: _parse_integer(text.strip(), _INTEGER_BITS[name])
    if name == "timestamp":
        zone = _zone(time_zone)
        return lambda text: _parse_timestamp(text.strip(), zone)
    simple: dict[str, Callable[[str], Any]] = {
        "string": str,
        "binary": lambda text: text.encode(),
        "boolean": lambda text: _parse_boolean(text.strip()),
        "float": lambda text: _parse_float(text.strip()),
        "double": lambda text: _parse_float(text.strip()),
        "date": lambda text: _parse_date(text.strip()),
        "timestamp_ntz": lambda text: _parse_timestamp(text.strip(), None),
        "void": lambda _text: None,
    }
    return simple[name]


def _parse_integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise ValueError(text)
    return int(text)


def _parse_float(text: str) -> float:
    special = _SPECIAL_FLOATS.get(text.lower().lstrip("+-"))
    if special is not None:
        return -special if text.startswith("-") else special
    if not _FLOAT.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _parse_decimal(text: str, precision: int, scale: int) -> Decimal:
    if not _DECIMAL_TEXT.fullmatch(text):
        raise ValueError(text)
    # Room for every digit of the text, so that nothing is rounded before it is compared.
    context = Context(prec=1200)
    value = Decimal(text)
    exact = value.quantize(Decimal(1).scaleb(-scale), context=context)
    if exact != value or len(exact.as_tuple().digits) > precision:
        raise ValueError(text)
    return exact


def _parse_boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _parse_date(text: str) -> int:
    match = _DATE_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return _days(match)


def _parse_timestamp(text: str, zone: dt.tzinfo | None) -> int:
    """Microseconds since the epoch; `zone` None means a timestamp without time zone."""
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    fraction_us = int((match["fraction"] or "0").ljust(6, "0")[:6])
    local_us = _days(match) * _DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction_us
    micros = local_us - _offset_us(match["zone"], local_us, zone)
    if not -(2**63) <= micros < 2**63:
        raise ValueError(text)
    return micros


def _offset_us(written: str | None, local_us: int, zone: dt.tzinfo | None) -> int:
    if written in {"Z", "UTC"}:
        return 0
    if written is not None:
        if zone is None:
            raise ValueError("a timestamp without time zone must not have an offset")
        digits = written[1:].replace(":", "")
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        return (-minutes if written[0] == "-" else minutes) * 60_000_000
    if zone is None or zone is dt.timezone.utc:
        return 0
    # For years outside Python's calendar, take the offset of the nearest year inside it.
    nearest = min(max(local_us, -62_100_000_000_000_000), 253_300_000_000_000_000)
    offset = (_EPOCH + dt.timedelta(microseconds=nearest)).replace(tzinfo=zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds()) * 1_000_000


def _zone(name: str) -> dt.tzinfo:
    if name in {"UTC", "Z", "GMT"}:
        return dt.timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise RequestError(f"'{name}' is not a time zone that Python knows") from error


def _days(match: re.Match[str]) -> int:
    """Days from 1970-01-01 in the proleptic Gregorian calendar, for years that `datetime` cannot hold too."""
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    # 400 years are 146,097 days, so any year can be moved into Python's range and back.
    cycles, year_in_range = divmod(year - 2000, 400)
    days = (dt.date(2000 + year_in_range, month, day) - _EPOCH_DATE).days + cycles * 146_097
    if not -(2**31) <= days < 2**31:
        raise ValueError(match[0])
    return days


def _serialize(value: Any, name: str, data_type: DataType) -> str:
    if name == "string" and isinstance(value, str):
        return value
    if name == "boolean" and isinstance(value, bool):
        return "true" if value else "false"
    if name in _INTEGER_BITS and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if name in {"float", "double"} and isinstance(value, (int, float)):
        return _java_float(float(value), single=name == "float")
    if name == "decimal" and isinstance(value, (int, Decimal)) and isinstance(data_type, PrimitiveType):
        precision, scale = data_type.decimal_bounds or (38, 0)
        return format(_parse_decimal(format(Decimal(value), "f"), precision, scale), "f")
    if name == "binary" and isinstance(value, (bytes, bytearray)):
        return bytes(value).decode()
    if name == "date" and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    if name == "timestamp" and isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if name == "timestamp_ntz" and isinstance(value, dt.datetime) and value.tzinfo is None:
        text = value.isoformat(sep=" ", timespec="microseconds" if value.microsecond else "seconds")
        return text.rstrip("0") if value.microsecond else text
    raise TypeError(name)


def _java_float(value: float, *, single: bool) -> str:
    """As Java prints it (`1.0`, `1.0E10`, `Infinity`), because other engines write that and compare with it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(_shortest(value, single=single)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(text) + exponent
    prefix = "-" if sign else ""
    if -3 < point <= 7:
        whole = text[: max(point, 0)].ljust(max(point, 0), "0") or "0"
        fraction = "0" * max(-point, 0) + text[max(point, 0) :]
        return f"{prefix}{whole}.{fraction or '0'}"
    return f"{prefix}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _shortest(value: float, *, single: bool) -> str:
    if not single:
        return repr(value)
    packed = struct.pack("<f", value)
    candidates = (f"{value:.{precision}g}" for precision in range(1, 10))
    return next(text for text in candidates if _pack_single(text) == packed)


def _pack_single(text: str) -> bytes | None:
    try:
        return struct.pack("<f", float(text))
    except OverflowError:
        # A few digits of the largest float round up beyond it.
        return None
