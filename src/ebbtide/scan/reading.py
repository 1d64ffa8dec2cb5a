"""Which rows of a snapshot does a reader get?

Every read takes the same steps: drop the files that the condition rules out, scan the live rows of the others, and let
Spark filter them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession

from ebbtide.log import Snapshot
from ebbtide.scan.conditions import find_condition_text, prune_snapshot, safe_on_deleted_rows
from ebbtide.scan.dataframe import scan_rows
from ebbtide.spark_border import analyse, spark_errors

__all__ = ["read_rows"]


def read_rows(
    spark: SparkSession,
    snapshot: Snapshot,
    where: str | Column | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The live rows for which `where` is true; all of them without one."""
    if where is None:
        return scan_rows(spark, snapshot, storage_options=storage_options)
    text = find_condition_text(spark, snapshot, where)
    files = prune_snapshot(spark, snapshot, text)
    prefilter = safe_on_deleted_rows(spark, snapshot, text)
    with spark_errors(f"filtering the rows of {snapshot.store.url}"):
        rows = scan_rows(spark, snapshot, files, storage_options=storage_options, prefilter=prefilter).where(where)
        analyse(rows)
        return rows
