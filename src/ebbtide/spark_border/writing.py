"""Which options does Spark's Parquet writer need, and what do the footers of its files say?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame, DataFrameWriter

__all__ = ["footer_shows_nan", "parquet_writer"]

# Settings that the writer takes as options. With version 1 of the committer's algorithm a task's files appear only at
# the end of the job, so leftovers of a failed attempt are never among them. Without a length to cut at, Spark's writer
# drops the statistics of a column, its null count too, as soon as one string is longer than some kilobytes.
_WRITE_OPTIONS = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.statistics.truncate.length": "1024",
}
# Spark's Parquet library gives NaN as the maximum of a column that holds one. A writer that left NaN out of the bounds
# would make readers skip rows; only versions that `tests/spark/write` has seen are trusted with bounds of floats.
_FOOTER_SHOWS_NAN = re.compile(r"parquet-mr version 1\.1[5-7]\.")


def parquet_writer(
    frame: DataFrame,
    *,
    partition_column: str | None = None,
    one_file_per_task: bool = False,
    store_options: Mapping[str, str] | None = None,
) -> DataFrameWriter:
    """A writer into a directory that does not exist yet; the path given to it is not globbed. Write settings apart.

    `one_file_per_task`: whatever the session says about the number of rows in a file. `store_options` are for the
    store's connector; they are part of the plan, which `parquet_write_settings` keeps from showing them.
    """
    writer = frame.write.mode("error").options(**_WRITE_OPTIONS, **(store_options or {}))
    if one_file_per_task:
        writer = writer.option("maxRecordsPerFile", "0")
    return writer if partition_column is None else writer.partitionBy(partition_column)


def footer_shows_nan(created_by: str | None) -> bool:
    """Whether the writer of a Parquet file puts NaN into a column's bounds when the column holds one."""
    return _FOOTER_SHOWS_NAN.match(created_by or "") is not None
