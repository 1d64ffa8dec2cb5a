"""Are the statistics of a file true, as far as its footer can tell?

`numRecords` must be the number of rows in the file. Bounds and counts of nulls are compared only for files without
deleted rows: statistics may be about the rows that are left, and a footer is about all of them. A footer without
statistics says nothing, and so does this module. `check_statistics` returns which columns are wrong and the text that
would be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ebbtide.commands.fsck.bounds import FooterValue, footer_value, is_above, is_below, recordable
from ebbtide.commands.fsck.footer import Footer
from ebbtide.log import Snapshot
from ebbtide.protocol.features import column_mapping_mode
from ebbtide.protocol.schema import PrimitiveType, StructField, field_id, leaf_columns, physical_name
from ebbtide.protocol.statistics import FileStatistics

__all__ = ["StatisticsColumn", "StatisticsVerdict", "check_statistics", "statistics_columns"]

_COLLATIONS: Final = "__COLLATIONS"
_NOT_COMPARED: Final = frozenset({"binary", "variant", "void"})


@dataclass(frozen=True, slots=True)
class StatisticsColumn:
    """A column that statistics may be about. `field_id` is set where files are read by ids."""

    logical_name: str
    physical_path: tuple[str, ...]
    type: PrimitiveType
    field_id: int | None


@dataclass(frozen=True, slots=True)
class StatisticsVerdict:
    """`wrong_columns` by logical name. `corrected` is the text that the file should have."""

    recorded_rows: int | None
    wrong_rows: bool
    wrong_columns: tuple[str, ...]
    corrected: str


def statistics_columns(snapshot: Snapshot) -> tuple[StatisticsColumn, ...]:
    mode = column_mapping_mode(snapshot.protocol, snapshot.metadata)
    partitions = {name.lower() for name in snapshot.metadata.partition_columns}
    return tuple(
        _column(chain, mode)
        for chain in leaf_columns(snapshot.schema)
        if chain[0].name.lower() not in partitions and _is_compared(chain)
    )


def _is_compared(chain: Sequence[StructField]) -> bool:
    last = chain[-1].type
    is_plain = isinstance(last, PrimitiveType) and last.name not in _NOT_COMPARED
    return is_plain and not any(_COLLATIONS in field.metadata for field in chain)


def _column(chain: Sequence[StructField], mode: str) -> StatisticsColumn:
    last = chain[-1]
    assert isinstance(last.type, PrimitiveType), "only those are compared"
    names = tuple(field.name if mode == "none" else physical_name(field) for field in chain)
    identifier = field_id(last) if mode == "id" else None
    return StatisticsColumn(".".join(field.name for field in chain), names, last.type, identifier)


def check_statistics(
    stats: str | None, footer: Footer, columns: Sequence[StatisticsColumn], *, has_deleted_rows: bool
) -> StatisticsVerdict | None:
    """What is wrong with the text of an add action; None when nothing is, or when it says nothing."""
    statistics = FileStatistics.parse(stats)
    if statistics is None:
        return None
    wrong_rows = statistics.num_records not in {None, footer.num_rows}
    review = _Review(statistics, footer)
    wrong = [] if has_deleted_rows else [column.logical_name for column in columns if review.is_wrong(column)]
    if not wrong_rows and not wrong:
        return None
    if not has_deleted_rows:
        review.restate_null_counts(columns)
    corrected = statistics.with_values(
        num_records=footer.num_rows, min_values=review.minima, max_values=review.maxima, null_count=review.nulls
    )
    return StatisticsVerdict(statistics.num_records, wrong_rows, tuple(wrong), corrected.to_json())


class _Review:
    """The statistics of one file beside its footer; wrong values are corrected on the way."""

    def __init__(self, statistics: FileStatistics, footer: Footer) -> None:
        self.footer = footer
        self.num_records = footer.num_rows if statistics.num_records is None else statistics.num_records
        self.minima = dict(statistics.values("minValues"))
        self.maxima = dict(statistics.values("maxValues"))
        self.nulls = dict(statistics.values("nullCount"))

    def is_wrong(self, column: StatisticsColumn) -> bool:
        index = self._find(column)
        if index is None:
            return False
        wrong_bounds = self._has_wrong_bounds(column, index)
        return self._has_wrong_null_count(column, index) or wrong_bounds

    def restate_null_counts(self, columns: Sequence[StatisticsColumn]) -> None:
        for column in columns:
            index = self._find(column)
            count = None if index is None or len(column.physical_path) > 1 else self._null_count(index)
            if count is not None and _is_count(self.nulls.get(column.physical_path[0])):
                self.nulls[column.physical_path[0]] = count

    def _find(self, column: StatisticsColumn) -> int | None:
        index = self.footer.find(column.physical_path)
        if index is None or self.footer.leaves[index].is_repeated:
            return None
        # Read by id, a column of the same name could be another one.
        is_same = column.field_id is None or self.footer.leaves[index].field_id == column.field_id
        return index if is_same else None

    def _has_wrong_null_count(self, column: StatisticsColumn, index: int) -> bool:
        """Whether "no nulls" or "only nulls" is claimed and not true; readers use no other count."""
        # Writers differ on whether a null struct counts as a null of its fields.
        if len(column.physical_path) > 1:
            return False
        recorded, found = self.nulls.get(column.physical_path[0]), self._null_count(index)
        if found is None or not _is_count(recorded):
            return False
        return (recorded == 0 and found > 0) or (recorded == self.num_records != 0 and found < self.footer.num_rows)

    def _null_count(self, index: int) -> int | None:
        total = 0
        for group in self.footer.groups:
            count = group[index].null_count
            if count is None or not 0 <= count <= group[index].num_values:
                return None
            total += count
        return total

    def _has_wrong_bounds(self, column: StatisticsColumn, index: int) -> bool:
        leaf = self.footer.leaves[index]
        lower, upper = _at(self.minima, column.physical_path), _at(self.maxima, column.physical_path)
        found = [value for value in self._values(column, index) if value is not None]
        low = lower is not None and any(is_above(lower, column.type, leaf, value) for value in found)
        high = upper is not None and any(is_below(upper, column.type, leaf, value) for value in found)
        if low or high:
            self._restate_bounds(column, index)
        return low or high

    def _values(self, column: StatisticsColumn, index: int) -> Iterator[FooterValue | None]:
        """The least and the greatest value of each row group, None where it is not certain."""
        leaf = self.footer.leaves[index]
        for group in self.footer.groups:
            for raw in (group[index].least, group[index].greatest):
                yield None if raw is None else footer_value(leaf, column.type, raw)

    def _restate_bounds(self, column: StatisticsColumn, index: int) -> None:
        with_values = [group for group in self.footer.groups if group[index].null_count != group[index].num_values]
        known: list[Any] = [value for value in self._values(column, index) if value is not None]
        low = high = None
        if len(known) == 2 * len(with_values):
            low = recordable(column.type, min(known), as_maximum=False)
            high = recordable(column.type, max(known), as_maximum=True)
        if low is None or high is None:
            # No bound at all is a true statement; half an interval would help little.
            low = high = None
        _put(self.minima, column.physical_path, low)
        _put(self.maxima, column.physical_path, high)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _at(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = values
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set or (None) take away the value at a path. Objects on the way are copied."""
    for name in path[:-1]:
        inner = values.get(name)
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    if value is None:
        values.pop(path[-1], None)
    else:
        values[path[-1]] = value
