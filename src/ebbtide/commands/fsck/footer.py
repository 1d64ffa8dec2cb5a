"""What does the footer of a data file say, read without trusting it?

One ranged read fetches the end of the file and shows at the same time whether the file is there and as long as the log
says. pyarrow does not read the columns: some broken footers make it end the process (`log.thrift_compact`). Only what a
check needs is kept: the number of rows, and per leaf column its type, how many nulls it has, and its least and greatest
value where the footer is certain of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.log.parquet_pages import footer_length
from ebbtide.log.thrift_compact import BYTES, FLAG, Fields, MalformedThriftError, read_struct

__all__ = [
    "MAX_FOOTER_BYTES",
    "TAIL_BYTES",
    "Footer",
    "Leaf",
    "LeafStatistics",
    "footer_bytes",
    "is_encrypted",
    "is_read_by_arrow",
    "parse_footer",
]

# Holds the footer of a file with a few hundred column chunks.
TAIL_BYTES: Final = 64 * 1024
# A hundred thousand column chunks; beyond that, reading the footer here would take minutes.
MAX_FOOTER_BYTES: Final = 64 * 1024 * 1024
_THRIFT_CONTAINER_ITEMS: Final = 4 * 1024 * 1024
_FOOTER_END_BYTES: Final = 8
_ENCRYPTED_MAGIC: Final = b"PARE"

_TIMESTAMP: Final[Fields] = {1: FLAG, 2: {1: {}, 2: {}, 3: {}}}
_LOGICAL: Final[Fields] = {1: {}, 4: {}, 5: {1: None}, 6: {}, 8: _TIMESTAMP, 10: {2: FLAG}, 12: {}, 13: {}, 15: {}}
_SCHEMA: Final[Fields] = {1: None, 3: None, 4: BYTES, 5: None, 6: None, 7: None, 9: None, 10: _LOGICAL}
_STATISTICS: Final[Fields] = {3: None, 5: BYTES, 6: BYTES, 7: FLAG, 8: FLAG}
_CHUNK: Final[Fields] = {3: {3: BYTES, 5: None, 12: _STATISTICS}, 8: {}, 9: BYTES}
_FILE: Final[Fields] = {2: _SCHEMA, 3: None, 4: {1: _CHUNK, 3: None}, 6: BYTES, 7: {1: {}}, 8: {}}

_REPEATED: Final = 2
_PHYSICAL: Final = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CONVERTED: Final = {
    0: "string", 4: "enum", 5: "decimal", 6: "date", 9: "timestamp_millis", 10: "timestamp_micros", 11: "unsigned",
    12: "unsigned", 13: "unsigned", 14: "unsigned", 15: "integer", 16: "integer", 17: "integer", 18: "integer",
    19: "json", 20: "bson",
}  # fmt: skip
_TIME_UNITS: Final = {1: "timestamp_millis", 2: "timestamp_micros", 3: "timestamp_nanos"}
_OF_ANY_LENGTH: Final = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})
# Writers that never cut the values in a footer, so that both are values of the file, even if they do not say so.
_WHOLE_VALUE_WRITERS: Final = (b"parquet-mr", b"parquet-cpp-arrow")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of the file that holds values. `meaning` is "" for plain numbers and bytes."""

    path: tuple[str, ...]
    physical_type: str
    meaning: str
    scale: int
    field_id: int | None
    # Below an array or a map, where one row has any number of values.
    is_repeated: bool


@dataclass(frozen=True, slots=True)
class LeafStatistics:
    """Of one row group; None where the footer does not say, or is not certain."""

    num_values: int
    null_count: int | None
    least: bytes | None
    greatest: bytes | None


@dataclass(frozen=True, slots=True)
class Footer:
    num_rows: int
    leaves: tuple[Leaf, ...]
    # Per row group, aligned with the leaves.
    groups: tuple[tuple[LeafStatistics, ...], ...]

    def find(self, path: tuple[str, ...]) -> int | None:
        """The position of the leaf at a path; None when there is not exactly one."""
        found = [index for index, leaf in enumerate(self.leaves) if leaf.path == path]
        return found[0] if len(found) == 1 else None


def is_encrypted(tail: bytes) -> bool:
    """Whether the file has an encrypted footer, which nobody can check without its key."""
    return tail[-4:] == _ENCRYPTED_MAGIC


def footer_bytes(tail: bytes, file_size: int) -> int:
    """How many of the last bytes of the file the footer takes; MalformedThriftError when it has none."""
    length = footer_length(tail) + _FOOTER_END_BYTES
    if length > file_size:
        raise MalformedThriftError("its footer claims to be longer than the file")
    return length


def is_read_by_arrow(data: bytes) -> bool:
    """A second opinion on a footer that `parse_footer` refuses: nobody's rows are given up for a rule of ours."""
    try:
        file = pq.ParquetFile(
            pa.BufferReader(data),
            thrift_string_size_limit=MAX_FOOTER_BYTES,
            thrift_container_size_limit=_THRIFT_CONTAINER_ITEMS,
        )
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError):
        # pyarrow uses many builtin errors for broken bytes.
        return False
    return bool(file.metadata.num_rows >= 0)


def parse_footer(data: bytes) -> Footer:
    """The footer in these bytes, the last ones of the file; MalformedThriftError when it cannot be one."""
    try:
        fields, _ = read_struct(memoryview(data), 0, _FILE)
        num_rows = fields[3]
        leaves = tuple(_leaves(fields[2]))
        exact = fields.get(6, b"").startswith(_WHOLE_VALUE_WRITERS)
        # Without an order for the values, the least and the greatest mean nothing.
        is_ordered = [1 in order for order in fields.get(7, ())] or [False] * len(leaves)
        groups = tuple(_group(group, leaves, is_ordered, is_exact=exact) for group in fields.get(4, ()))
        counted = sum(group[3] for group in fields.get(4, ()))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        # Thrift lets a field be of any kind, so each of these only says that it is of another one.
        raise MalformedThriftError("its footer lacks what every footer has") from error
    if num_rows < 0 or counted != num_rows:
        raise MalformedThriftError(f"its footer claims {num_rows} rows, but {counted} in its row groups")
    return Footer(num_rows, leaves, groups)


def _leaves(elements: Sequence[Mapping[int, Any]]) -> Iterator[Leaf]:
    """The tree of the schema is stored as a list, parents first. A stack, because a schema may nest deep."""
    if not elements:
        raise MalformedThriftError("its footer has no schema")
    # How many children are still to come, the names down to here, and whether one of them repeats.
    open_parents: list[tuple[int, tuple[str, ...], bool]] = [(elements[0].get(5, 0), (), False)]
    for element in elements[1:]:
        while open_parents and open_parents[-1][0] == 0:
            open_parents.pop()
        if not open_parents:
            raise MalformedThriftError("its schema has more columns than it says")
        left, above, repeats = open_parents[-1]
        open_parents[-1] = (left - 1, above, repeats)
        path = (*above, element[4].decode())
        repeats = repeats or element.get(3) == _REPEATED
        if element.get(5):
            open_parents.append((element[5], path, repeats))
        elif 1 in element:
            yield _leaf(element, path, is_repeated=repeats)
    if any(left for left, _, _ in open_parents):
        raise MalformedThriftError("its schema has fewer columns than it says")


def _leaf(element: Mapping[int, Any], path: tuple[str, ...], *, is_repeated: bool) -> Leaf:
    logical = element.get(10) or {}
    scale = logical[5].get(1, 0) if 5 in logical else element.get(7, 0)
    physical = _PHYSICAL[element[1]] if 0 <= element[1] < len(_PHYSICAL) else ""
    return Leaf(path, physical, _meaning(element, logical), scale, element.get(9), is_repeated)


def _meaning(element: Mapping[int, Any], logical: Mapping[int, Any]) -> str:
    if 8 in logical:
        unit = next(iter(logical[8].get(2, {})), 0)
        return _TIME_UNITS.get(unit, "other")
    if 10 in logical:
        return "integer" if logical[10].get(2) else "unsigned"
    simple = {1: "string", 4: "enum", 5: "decimal", 6: "date", 12: "json", 13: "bson", 15: "float16"}
    found = next((name for number, name in simple.items() if number in logical), None)
    if found is not None:
        return found
    converted = element.get(6)
    return "" if converted is None else _CONVERTED.get(converted, "other")


def _group(
    group: Mapping[int, Any], leaves: Sequence[Leaf], is_ordered: Sequence[bool], *, is_exact: bool
) -> tuple[LeafStatistics, ...]:
    chunks = group[1]
    if len(chunks) != len(leaves) or len(is_ordered) != len(leaves):
        raise MalformedThriftError("a row group of its footer lacks columns")
    return tuple(
        _statistics(chunk, ordered, is_exact=is_exact or leaf.physical_type not in _OF_ANY_LENGTH)
        for chunk, leaf, ordered in zip(chunks, leaves, is_ordered, strict=True)
    )


def _statistics(chunk: Mapping[int, Any], is_ordered: bool, *, is_exact: bool) -> LeafStatistics:
    """`is_exact`: whether a bound is a value of the file when the footer does not say."""
    details = chunk.get(3)
    if details is None:
        # An encrypted column keeps its statistics elsewhere.
        return LeafStatistics(0, None, None, None)
    found = details.get(12, {})
    least = found.get(6) if is_ordered and found.get(8, is_exact) else None
    greatest = found.get(5) if is_ordered and found.get(7, is_exact) else None
    return LeafStatistics(details[5], found.get(3), _bytes(least), _bytes(greatest))


def _bytes(value: Any) -> bytes | None:
    return value if isinstance(value, bytes) else None
