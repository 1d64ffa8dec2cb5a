"""Which statistics does a file get that somebody else wrote?

The same as our own (`write.file_statistics`), from its footer. But its columns may come in any order, or be missing,
and its types may be stored in other ways: a timestamp in milliseconds, an unsigned integer. So columns are found by
name, and one has statistics only where the footer declares the very type that Spark's own writer would store.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pyarrow.parquet as pq

from ebbtide.protocol.schema import DataType, PrimitiveType
from ebbtide.protocol.statistics import FileStatistics
from ebbtide.write.file_statistics import Slot, StatisticsColumns, indexed_columns, statistics_columns, statistics_of
from ebbtide.write.target import WriteTarget

__all__ = ["foreign_statistics"]

# Physical type, and the logical types as pyarrow names them.
_STORED_AS: Final = {
    "byte": ("INT32", frozenset({"INT"})),
    "short": ("INT32", frozenset({"INT"})),
    "integer": ("INT32", frozenset({"INT", "NONE"})),
    "long": ("INT64", frozenset({"INT", "NONE"})),
    "float": ("FLOAT", frozenset({"NONE"})),
    "double": ("DOUBLE", frozenset({"NONE"})),
    "string": ("BYTE_ARRAY", frozenset({"STRING"})),
    "date": ("INT32", frozenset({"DATE"})),
    "timestamp": ("INT64", frozenset({"TIMESTAMP"})),
    "timestamp_ntz": ("INT64", frozenset({"TIMESTAMP"})),
    "boolean": ("BOOLEAN", frozenset({"NONE"})),
}


def foreign_statistics(footer: pq.FileMetaData, target: WriteTarget) -> FileStatistics:
    """What the footer is certain of, for the columns that the table has statistics for."""
    places = _places(footer)
    slots = []
    for path, data_type in indexed_columns(target):
        place = None if any("." in name for name in path) else places.get(".".join(path))
        if place is not None and _is_stored_alike(footer.schema.column(place), data_type):
            slots.append(Slot(path, data_type, range(place, place + 1)))
    empty = statistics_columns(target, target.physical_schema)
    return statistics_of(footer, StatisticsColumns(tuple(slots), empty.string_prefix, empty.tight_bounds))


def _places(footer: pq.FileMetaData) -> dict[str, int]:
    """Leaves by their dotted path; none for a path that comes twice, or again in other letters."""
    paths = [footer.schema.column(index).path for index in range(footer.num_columns)]
    counts = Counter(path.lower() for path in paths)
    return {path: index for index, path in enumerate(paths) if counts[path.lower()] == 1}


def _is_stored_alike(column: Any, data_type: DataType) -> bool:
    if not isinstance(data_type, PrimitiveType):
        return False
    logical = column.logical_type
    if data_type.decimal_bounds is not None:
        precision, scale = data_type.decimal_bounds
        return logical.type == "DECIMAL" and (column.precision, column.scale) == (precision, scale)
    stored = _STORED_AS.get(data_type.name)
    if stored is None or column.physical_type != stored[0] or logical.type not in stored[1]:
        return False
    return _has_our_unit(str(logical), data_type.name)


def _has_our_unit(logical: str, name: str) -> bool:
    """Signed integers, and microseconds of the right kind of timestamp."""
    if name in {"timestamp", "timestamp_ntz"}:
        adjusted = "true" if name == "timestamp" else "false"
        return "timeUnit=microseconds" in logical and f"isAdjustedToUTC={adjusted}" in logical
    return "isSigned=false" not in logical
