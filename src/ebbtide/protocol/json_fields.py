"""How is one JSON object of a table read without trusting it?

`JsonFields` wraps an object that some other writer made and returns its fields with the types the protocol requires. It
reads leniently where that is safe (null is absent, unknown fields are ignored, an integer may arrive as an integral
float or as a string of digits) and refuses everything else with a `CorruptTableError` that names the action,
the field and the source. Rows of a Parquet checkpoint (`pyarrow.Table.to_pylist`) have the same shape, except that a
map is a list of pairs; those are accepted too, so that one parser serves both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from ebbtide.errors import CorruptTableError

__all__ = [
    "INT32_MAX",
    "INT64_MAX",
    "JsonFields",
    "MAX_DEPTH",
    "as_dict",
    "ensure_shallow",
    "load_json_object",
    "without_none",
]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
MAX_DEPTH = 100
# Beyond this, a float no longer identifies one integer.
_LARGEST_EXACT_FLOAT = 2**53
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_SHOWN_CHARACTERS = 80


def load_json_object(data: bytes | str, *, source: str) -> dict[str, Any]:
    """The JSON object in `data`. Bad UTF-8, bad JSON, nesting that is too deep, or not an object: CorruptTableError."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        # Without the text itself: a link or an absolute path can make any file of the machine look like a log file.
        raise CorruptTableError(f"{source} is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise CorruptTableError(f"{source} must hold a JSON object, but it holds {_json_kind(value)}")
    return value


def ensure_shallow(value: Any, *, what: str) -> None:
    """CorruptTableError when JSON nests deeper than `MAX_DEPTH`: the code that walks it recurses per level."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for parent in level
            if isinstance(parent, (Mapping, list))
            for item in (parent.values() if isinstance(parent, Mapping) else parent)
        ]
        if not level:
            return
    raise CorruptTableError(f"{what} nests more than {MAX_DEPTH} levels deep")


class JsonFields:
    """The fields of one object named `subject` ("add", "metaData", ...) that was found in `source`."""

    __slots__ = ("_fields", "_source", "_subject")

    def __init__(self, fields: Any, *, subject: str, source: str = "") -> None:
        self._subject = subject
        self._source = source
        if not isinstance(fields, Mapping):
            where = f" in {source}" if source else ""
            raise CorruptTableError(f"'{subject}'{where} must be a JSON object, but it is {_describe(fields)}")
        self._fields = fields

    def describe(self, field: str) -> str:
        """A field in error messages: its name, the action and the source."""
        where = f" in {self._source}" if self._source else ""
        return f"field '{field}' of '{self._subject}'{where}"

    def error(self, field: str, problem: str) -> CorruptTableError:
        """The error that every method here raises; callers use it for their own rules."""
        return CorruptTableError(f"{self.describe(field)} {problem}")

    def optional_string(self, field: str) -> str | None:
        value = self._fields.get(field)
        if value is None or type(value) is str:
            return value
        raise self._wrong_type(field, "a string", value)

    def string(self, field: str) -> str:
        value = self.optional_string(field)
        if value is None:
            raise self._missing(field)
        return value

    def optional_integer(self, field: str, *, minimum: int = -INT64_MAX - 1, maximum: int = INT64_MAX) -> int | None:
        value = self._fields.get(field)
        if value is None:
            return None
        number = value if type(value) is int else _lenient_integer(value)
        if number is None:
            raise self._wrong_type(field, "an integer", value)
        if not minimum <= number <= maximum:
            raise self.error(field, f"must lie between {minimum} and {maximum}, but it is {number}")
        return number

    def integer(self, field: str, *, minimum: int = -INT64_MAX - 1, maximum: int = INT64_MAX) -> int:
        value = self.optional_integer(field, minimum=minimum, maximum=maximum)
        if value is None:
            raise self._missing(field)
        return value

    def optional_boolean(self, field: str) -> bool | None:
        value = self._fields.get(field)
        if value is None or type(value) is bool:
            return value
        raise self._wrong_type(field, "true or false", value)

    def boolean(self, field: str, *, default: bool) -> bool:
        value = self.optional_boolean(field)
        return default if value is None else value

    def optional_object(self, field: str) -> Mapping[str, Any] | None:
        value = self._fields.get(field)
        if value is None or isinstance(value, Mapping):
            return value
        raise self._wrong_type(field, "an object", value)

    def optional_strings(self, field: str) -> tuple[str, ...] | None:
        value = self._fields.get(field)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(item) is str for item in value):
            raise self._wrong_type(field, "an array of strings", value)
        return tuple(value)

    def optional_string_map(self, field: str) -> dict[str, str] | None:
        """A map of strings; entries whose value is null count as absent."""
        entries = self.optional_nullable_string_map(field)
        if entries is None:
            return None
        return {key: value for key, value in entries.items() if value is not None}

    def nullable_string_map(self, field: str) -> dict[str, str | None]:
        value = self.optional_nullable_string_map(field)
        if value is None:
            raise self._missing(field)
        return value

    def optional_nullable_string_map(self, field: str) -> dict[str, str | None] | None:
        """A map of strings whose values may be null (`partitionValues`)."""
        value = self._fields.get(field)
        if value is None:
            return None
        entries = _map_entries(value)
        if entries is None:
            raise self._wrong_type(field, "an object", value)
        return {key: self._map_value(field, key, item) for key, item in entries.items()}

    def _map_value(self, field: str, key: Any, value: Any) -> str | None:
        if type(key) is not str:
            raise self._wrong_type(field, "a map with string keys", key)
        if value is None or type(value) is str:
            return value
        # Jackson turns scalars into strings, so the reference reads such maps. A float has lost its spelling.
        if type(value) is bool:
            return "true" if value else "false"
        if type(value) is int:
            return str(value)
        raise self._wrong_type(f"{field}.{key}", "a string", value)

    def _missing(self, field: str) -> CorruptTableError:
        return self.error(field, "is missing")

    def _wrong_type(self, field: str, expected: str, value: Any) -> CorruptTableError:
        return self.error(field, f"must be {expected}, but it is {_describe(value)}")


def _json_kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "true, false or null"
    return "a text" if isinstance(value, str) else "an array" if isinstance(value, list) else "a number"


def _lenient_integer(value: Any) -> int | None:
    if type(value) is float and value.is_integer() and abs(value) <= _LARGEST_EXACT_FLOAT:
        return int(value)
    if type(value) is str and _DIGITS.fullmatch(value):
        return int(value)
    return None


def _map_entries(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    # pyarrow gives a map column as a list of (key, value) tuples; JSON never holds tuples, so this stays unambiguous.
    if isinstance(value, list) and all(isinstance(item, tuple) and len(item) == 2 for item in value):
        return dict(value)
    return None


def _describe(value: Any) -> str:
    """A short, printable form of an untrusted value for an error message."""
    if isinstance(value, (str, bytes)):
        text = repr(value[:_SHOWN_CHARACTERS])
        return text if len(value) <= _SHOWN_CHARACTERS else f"{text}... ({len(value)} long)"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)[:_SHOWN_CHARACTERS]
    return f"of type {type(value).__name__}"


# --- writing ----------------------------------------------------------------------------------------------------------


def as_dict(entries: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if entries is None else dict(entries)


def without_none(**fields: Any) -> dict[str, Any]:
    """An object as it is written: absent fields are left out, never null."""
    return {name: value for name, value in fields.items() if value is not None}
