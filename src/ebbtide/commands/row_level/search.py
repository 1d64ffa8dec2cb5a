"""Where are the rows that a command is about?

Row-level commands find rows only through `SparkSearch`. It remembers its scan: searching a large table in parts, and
searching what a winner added, use the same scan over other files.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.row_level.conditions import Matcher
from ebbtide.commands.row_level.touched_files import (
    ONE_TASK_ROWS,
    chunks_of,
    create_target_df_for_scanning_for_matches,
    fold_matches,
    replace_file_index,
    row_sets,
    total_rows,
)
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import StructType
from ebbtide.scan import PositionedScan, ScanFile

__all__ = ["SparkSearch"]


@dataclass(slots=True)
class SparkSearch:
    """Looks for matching rows with Spark; what comes to the driver is one 64-bit word per 64 rows that hold a match."""

    spark: SparkSession
    _scan: PositionedScan | None = field(default=None, repr=False)
    _schema: StructType | None = field(default=None, repr=False)

    def matches(
        self, snapshot: Snapshot, files: Sequence[ScanFile], matcher: Matcher
    ) -> Generator[tuple[ScanFile, RowIndexSet], None, None]:
        """The rows of each file that match, one file at a time; a file without a match is left out."""
        with border.search_settings(self.spark, few_shuffles=matcher.is_row_local):
            for chunk in chunks_of(files):
                scan = self._scan_of(snapshot, chunk)
                with border.spark_errors(f"looking for matching rows in {snapshot.store.url}"):
                    few_rows = total_rows(chunk) <= ONE_TASK_ROWS
                    words = fold_matches(scan, matcher.matching(scan.frame), few_rows=few_rows).toArrow()
                yield from row_sets(scan, words)

    def _scan_of(self, snapshot: Snapshot, files: Sequence[ScanFile]) -> PositionedScan:
        if self._scan is None or self._schema != snapshot.schema:
            self._scan = create_target_df_for_scanning_for_matches(self.spark, snapshot, files)
            self._schema = snapshot.schema
        else:
            self._scan = replace_file_index(self.spark, snapshot, self._scan, files)
        return self._scan
