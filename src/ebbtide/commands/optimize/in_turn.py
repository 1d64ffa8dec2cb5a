"""How are files read one after the other, so that no row has to be sorted?

Each file is a scan of its own; they are put together by UNION ALL and read by one task. Spark reads them in this order,
but it does not promise to. So the order is checked while the rows pass: a row's number in the new file is compared with
its number among all rows of the old files, marked ones included. The difference is how many marked rows come before
it. The sum of its squares is smallest when the rows come in ascending order, and in no other order (the rearrangement
inequality), and the driver knows that sum from the marks alone. If the sum is another one, what was written is not
used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.optimize.positions import squared_shifts
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.protocol.statistics import num_records
from ebbtide.scan import RowIdColumns, ScanFile, scan_with_positions

__all__ = ["RowsInTurn", "rows_in_turn"]

# A scan takes about as long to prepare as a megabyte to sort.
_WORTH_A_SCAN: Final = 1024 * 1024
_MOST_FILES: Final = 64
# Squares of smaller numbers, and their sums in two halves, fit 64 bits.
_MOST_ROWS: Final = 1 << 31
_HALF: Final = 32


@dataclass(frozen=True, slots=True)
class RowsInTurn:
    """Rows that should come in order. Whether they did is known once they are written."""

    frame: DataFrame
    observation: Any
    expected: int

    def came_in_order(self) -> bool:
        sums = border.wait_for_metrics(self.observation)
        return (sums["low"] or 0) + ((sums["high"] or 0) << _HALF) == self.expected


def rows_in_turn(
    spark: SparkSession, snapshot: Snapshot, files: Sequence[ScanFile], *, row_ids: RowIdColumns | None = None
) -> RowsInTurn | None:
    """The live rows of the files, as they lie, for one task. None where sorting is quicker, or rows are not counted."""
    counts = [num_records(file.add.stats) for file in files]
    known = [count for count in counts if count is not None]
    is_worth_it = len(files) <= _MOST_FILES and sum(file.add.size for file in files) >= len(files) * _WORTH_A_SCAN
    if not is_worth_it or len(known) < len(files) or sum(known) >= _MOST_ROWS:
        return None
    scans = [scan_with_positions(spark, snapshot, [file], row_ids=row_ids) for file in files]
    names = border.HelperNames(scans[0].columns)
    number, shift = names.pick("number"), names.pick("shift")
    parts, start = [], 0
    for scan, count in zip(scans, known, strict=True):
        numbered = scan.frame.withColumn(number, F.expr(f"{start}L + {scan.row_column}"))
        parts.append(numbered.drop(scan.file_column, scan.row_column))
        start += count
    rows = _unite(parts).coalesce(1).withColumn(shift, F.expr(f"monotonically_increasing_id() - {number}"))
    square = f"({shift} * {shift})"
    sums: dict[str, Any] = {
        "low": f"sum({square} & {(1 << _HALF) - 1}L)",
        "high": f"sum(shiftright({square}, {_HALF}))",
    }
    watched, observation = border.observe_metrics(rows, sums)
    marks = [file.marks or RowIndexSet() for file in files]
    expected = squared_shifts(list(zip(known, marks, strict=True)))
    return RowsInTurn(watched.drop(number, shift), observation, expected)


def _unite(frames: Sequence[DataFrame]) -> DataFrame:
    """In pairs, and pairs of those: one after the other, every plan would be looked at again by all later ones."""
    while len(frames) > 1:
        pairs = [frames[at : at + 2] for at in range(0, len(frames), 2)]
        frames = [pair[0].unionAll(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
    return frames[0]
