"""Which rows of a snapshot does a reader get?

The steps of every read, whatever opened the snapshot: files that the condition rules out are dropped, the live rows of
the others are scanned, and Spark decides on each row.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession

from ebbtide.log import Snapshot
from ebbtide.scan.conditions import asked_of_any_row, prune_snapshot, said
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
    text = said(spark, snapshot, where)
    files = prune_snapshot(spark, snapshot, text)
    first = asked_of_any_row(spark, snapshot, text)
    with spark_errors(f"filtering the rows of {snapshot.store.url}"):
        rows = scan_rows(spark, snapshot, files, storage_options=storage_options, first=first).where(where)
        analyse(rows)
        return rows
