"""How are files rewritten without some of their rows?

The rows to leave out are known by their positions, so the condition is not evaluated a second time: the files are
scanned with old and new marks together. Where the table keeps a change data feed, the rows left out are scanned as well
and written as change data in the same write. Where it tracks rows, those that stay keep their ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.scan import RowIdColumns, ScanFile, scan_files
from ebbtide.spark_border import HelperNames
from ebbtide.write import WriteTarget, WrittenFiles, enforce_rules, write_files

__all__ = ["rewrite_without"]


def rewrite_without(
    spark: SparkSession, snapshot: Snapshot, matched: Sequence[tuple[ScanFile, RowIndexSet]]
) -> WrittenFiles:
    """New files with the rows of `matched` files that are neither marked already nor among the matched ones."""
    ids = RowIdColumns.of(snapshot)
    files = [file.without(rows) for file, rows in matched]
    target = WriteTarget.of(snapshot)
    # Rows that stay are written again, so they are checked against the table's rules again, as in the reference.
    kept = enforce_rules(scan_files(spark, snapshot, files, row_ids=ids), target)
    extra = None if ids is None else ids.in_files
    if not snapshot.properties.enable_change_data_feed:
        return write_files(spark, kept, target, extra_columns=extra)
    change_type = HelperNames(kept.columns).pick("change_type")
    left_out = [file.only(rows) for file, rows in matched]
    gone = scan_files(spark, snapshot, left_out, row_ids=ids)
    nothing = F.lit(None).cast("string")
    both = kept.withColumn(change_type, nothing).unionAll(gone.withColumn(change_type, F.lit("delete")))
    return write_files(spark, both, target, change_type_column=change_type, extra_columns=extra)
