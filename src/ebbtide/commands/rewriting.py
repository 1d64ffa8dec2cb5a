"""How are files rewritten without some of their rows?

The rows to leave out are known by their positions, so the condition is not evaluated a second time: the files are
scanned with old and new marks together. Where the table keeps a change data feed, the rows left out are scanned as well
and written as change data in the same go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import UnsupportedFeatureError
from ebbtide.log import Snapshot
from ebbtide.scan import ScanFile, scan_files
from ebbtide.spark_border import name_not_in
from ebbtide.write import WriteTarget, WrittenFiles, write_files

__all__ = ["rewrite_without"]


def rewrite_without(
    spark: SparkSession, snapshot: Snapshot, matched: Sequence[tuple[ScanFile, RowIndexSet]]
) -> WrittenFiles:
    """New files with the rows of `matched` files that are neither marked already nor among the matched ones."""
    if snapshot.properties.enable_row_tracking:
        raise UnsupportedFeatureError(
            f"The table at {snapshot.store.url} tracks rows (delta.enableRowTracking=true), and rewriting files would "
            "lose the row ids. Set delta.enableDeletionVectors=true so that rows are marked instead.",
            error_class="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        )
    kept = scan_files(spark, snapshot, [replace(file, marks=_united(file, rows)) for file, rows in matched])
    target = WriteTarget.of(snapshot)
    if not snapshot.properties.enable_change_data_feed:
        return write_files(spark, kept, target)
    change_type = name_not_in(kept.columns, "_change_type")
    gone = scan_files(spark, snapshot, [replace(file, marks=rows, keeps_marked=True) for file, rows in matched])
    nothing = F.lit(None).cast("string")
    both = kept.withColumn(change_type, nothing).unionAll(gone.withColumn(change_type, F.lit("delete")))
    return write_files(spark, both, target, change_type_column=change_type)


def _united(file: ScanFile, rows: RowIndexSet) -> RowIndexSet:
    return rows if file.marks is None else file.marks | rows
