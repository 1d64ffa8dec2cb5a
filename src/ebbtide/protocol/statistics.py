"""What does the `stats` text of a file promise, and what remains true once rows are marked as deleted?

Statistics are hints by other writers: absent, empty or malformed text reads as "no statistics" and is never an error.
The numbers inside are kept as the characters they were written with, so that bounds with more digits than a float has
survive a rewrite unchanged. `numRecords` counts physical rows, marked ones included.
See "Per-file Statistics" in PROTOCOL.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from ebbtide.protocol.json_fields import INT64_MAX

__all__ = ["FileStatistics", "num_records", "only_num_records", "widen"]

_NUM_RECORDS: Final = "numRecords"
_MIN_VALUES: Final = "minValues"
_MAX_VALUES: Final = "maxValues"
_NULL_COUNT: Final = "nullCount"
_TIGHT_BOUNDS: Final = "tightBounds"
# The order in which the reference writes them; whatever else a writer added follows.
_ORDER: Final = (_NUM_RECORDS, _MIN_VALUES, _MAX_VALUES, _NULL_COUNT, _TIGHT_BOUNDS)
_MAX_DEPTH: Final = 200
_WHITESPACE: Final = " \t\n\r"


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """The members of a statistics object, each with the JSON text it was written with.

    `tight_bounds` None means absent, which the protocol reads as tight. `null_count` mirrors the schema by physical
    names: one count per leaf, one object per struct.
    """

    num_records: int | None
    tight_bounds: bool | None
    null_count: Mapping[str, Any] | None
    members: Mapping[str, str]

    @classmethod
    def parse(cls, text: str | None) -> FileStatistics | None:
        """The statistics in `text`; None when there are none that can be trusted."""
        if not text:
            return None
        try:
            values, members = _split_members(text)
        except (ValueError, RecursionError):
            return None
        null_count = values.get(_NULL_COUNT)
        tight_bounds = values.get(_TIGHT_BOUNDS)
        return cls(
            num_records=_count(values.get(_NUM_RECORDS)),
            tight_bounds=tight_bounds if isinstance(tight_bounds, bool) else None,
            null_count=null_count if isinstance(null_count, dict) and _is_shallow(null_count) else None,
            members=members,
        )

    @classmethod
    def build(
        cls,
        *,
        num_records: int,
        min_values: Mapping[str, Any] | None = None,
        max_values: Mapping[str, Any] | None = None,
        null_count: Mapping[str, Any] | None = None,
        tight_bounds: bool | None = None,
    ) -> FileStatistics:
        """Statistics of a file we wrote. Values are JSON's or Decimals; None inside the objects is left out."""
        given = zip(_ORDER, (num_records, min_values, max_values, null_count, tight_bounds), strict=True)
        members = {name: _dump(value) for name, value in given if value is not None}
        return cls(num_records, tight_bounds, null_count, members)

    def widen(self, old_cardinality: int) -> FileStatistics:
        """These statistics once more rows are marked; `old_cardinality` is that of the vector *before* that.

        Bounds and `numRecords` stay. A tight null count that meant "every visible row is null" becomes the count of
        physical rows, which means the same under wide bounds; zero still means none; other counts lose their meaning.
        """
        members = dict(self.members)
        null_count = self.null_count
        if self.tight_bounds and null_count is not None and self.num_records is not None:
            null_count = _widen_null_count(null_count, self.num_records - old_cardinality, self.num_records)
            if null_count != self.null_count:
                members[_NULL_COUNT] = _dump(null_count)
        members[_TIGHT_BOUNDS] = "false"
        return replace(self, tight_bounds=False, null_count=null_count, members=members)

    def values(self, name: str) -> Mapping[str, Any]:
        """The member `minValues`, `maxValues` or `nullCount`, {} without one. Numbers with a point are Decimals."""
        try:
            found = json.loads(self.members.get(name, "{}"), parse_float=Decimal)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) and _is_shallow(found) else {}

    def with_values(
        self,
        *,
        num_records: int,
        min_values: Mapping[str, Any],
        max_values: Mapping[str, Any],
        null_count: Mapping[str, Any],
    ) -> FileStatistics:
        """These statistics with other values; a member that was not there and would be empty stays away."""
        members = {**self.members, _NUM_RECORDS: str(num_records)}
        for name, value in ((_MIN_VALUES, min_values), (_MAX_VALUES, max_values), (_NULL_COUNT, null_count)):
            if value or name in members:
                members[name] = _dump(value)
        return replace(self, num_records=num_records, null_count=null_count or None, members=members)

    def to_json(self) -> str:
        """Compact JSON: known members in the reference's order, then the others in their own."""
        known = [name for name in _ORDER if name in self.members]
        others = [name for name in self.members if name not in _ORDER]
        return "{" + ",".join(f"{_dump(name)}:{self.members[name]}" for name in known + others) + "}"


def widen(stats: str | None, old_cardinality: int) -> str | None:
    """`FileStatistics.widen` on the text of an add action; None when it has no usable statistics."""
    statistics = FileStatistics.parse(stats)
    return None if statistics is None else statistics.widen(old_cardinality).to_json()


def num_records(stats: str | None) -> int | None:
    """Physical rows of the file, or None when the statistics do not say."""
    statistics = FileStatistics.parse(stats)
    return None if statistics is None else statistics.num_records


def only_num_records(stats: str | None) -> str | None:
    """The cut-down statistics that the reference writes into the remove actions of DML."""
    count = num_records(stats)
    return None if count is None else f'{{"numRecords":{count}}}'


def _split_members(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The top-level members of a JSON object, parsed and as text; ValueError when it is not one."""
    values: dict[str, Any] = {}
    members: dict[str, str] = {}
    position = _skip(text, _expect(text, _skip(text, 0), "{"))
    while text[position : position + 1] != "}":
        _expect(text, position, '"')
        name, end = _DECODER.raw_decode(text, position)
        start = _skip(text, _expect(text, _skip(text, end), ":"))
        value, end = _DECODER.raw_decode(text, start)
        if value is None:
            values.pop(name, None)
            members.pop(name, None)
        else:
            values[name], members[name] = value, text[start:end]
        position = _skip(text, end)
        if text[position : position + 1] != "}":
            position = _skip(text, _expect(text, position, ","))
            _expect(text, position, '"')
    if _skip(text, position + 1) != len(text):
        raise ValueError("text after the object")
    return values, members


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _WHITESPACE:
        position += 1
    return position


def _expect(text: str, position: int, character: str) -> int:
    if text[position : position + 1] != character:
        raise ValueError(f"expected {character}")
    return position + 1


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT64_MAX
    return value if is_count else None


def _is_shallow(null_count: Mapping[str, Any]) -> bool:
    """Whether the object nests no deeper than a schema can, so that walking it needs no guard."""
    level: list[Any] = [null_count]
    for _ in range(_MAX_DEPTH):
        level = [child for item in level for child in item.values() if isinstance(child, dict)]
        if not level:
            return True
    return False


def _widen_null_count(null_count: Mapping[str, Any], logical: int, physical: int) -> dict[str, Any]:
    widened: dict[str, Any] = {}
    for name, value in null_count.items():
        if isinstance(value, dict):
            widened[name] = _widen_null_count(value, logical, physical)
        else:
            count = _count(value)
            # With no visible row left, both readings are true; "no nulls" is already written.
            widened[name] = physical if count is not None and count == logical and count != 0 else value
    return widened


def _dump(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = (f"{_dump(str(name))}:{_dump(item)}" for name, item in value.items() if item is not None)
        return "{" + ",".join(entries) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_dump(item) for item in value) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no word for these; Jackson writes them as strings, and readers of Delta expect that.
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return _ENCODER.encode(value)
