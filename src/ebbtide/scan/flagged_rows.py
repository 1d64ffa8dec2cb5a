"""Which rows of these files are the chosen ones?

A command that rewrites files needs all their rows, and must know which of them it changes. It has already found those
and knows their positions. So the files are scanned once, and each row gets a flag that says whether it was chosen: by a
lookup, or by a broadcast join when there are too many (as for marked rows, see `scan.dataframe`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.scan.dataframe import PositionedScan, scan_with_positions
from ebbtide.scan.files import ScanFile
from ebbtide.scan.mark_join import block_table
from ebbtide.scan.mark_lookup import mark_lookup
from ebbtide.scan.row_ids import RowIdColumns

__all__ = ["FlaggedScan", "scan_flagged"]


@dataclass(frozen=True, slots=True)
class FlaggedScan:
    """All live rows; `flag` names a column, never null, that is true for the chosen ones."""

    frame: DataFrame
    flag: str


def scan_flagged(
    spark: SparkSession,
    snapshot: Snapshot,
    chosen: Sequence[tuple[ScanFile, RowIndexSet]],
    *,
    row_ids: RowIdColumns | None = None,
) -> FlaggedScan:
    """The rows of files, marked ones dropped, with a flag on those at the given positions."""
    scan = scan_with_positions(spark, snapshot, [file for file, _ in chosen], row_ids=row_ids)
    rows_of = {file.spark_path: rows for file, rows in chosen}
    numbers = list(scan.files)
    sets = [rows_of[scan.files[number].spark_path] for number in numbers]
    flag = border.HelperNames(scan.frame.columns).pick("chosen")
    if lookup := mark_lookup(sets, numbers):
        flagged = scan.frame.withColumn(flag, lookup.is_marked(spark, scan.file_column, scan.row_column))
    else:
        flagged = _join_flag(spark, scan, sets, numbers, flag)
    return FlaggedScan(flagged.drop(scan.file_column, scan.row_column), flag)


def _join_flag(
    spark: SparkSession, scan: PositionedScan, sets: Sequence[RowIndexSet], numbers: Sequence[int], flag: str
) -> DataFrame:
    names = border.HelperNames(scan.frame.columns, (flag,))
    key, key_of_set, word = (names.pick(subject) for subject in ("block", "block_of_chosen", "word"))
    blocks = block_table(sets, numbers, key=key_of_set, word=word)
    side = F.broadcast(border.frame_from_arrow(spark, blocks.table, blocks.spark_schema))
    keyed = scan.frame.withColumn(key, blocks.key(scan.file_column, scan.row_column))
    joined = keyed.join(side, F.col(key) == F.col(key_of_set), "left")
    return joined.withColumn(flag, blocks.is_marked(word, scan.row_column)).drop(key, key_of_set, word)
