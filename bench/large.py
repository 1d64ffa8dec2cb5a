"""Does the driver stay small when a lot is deleted? 200 million rows in 200 files, 2 % at random. Run by name only."""

from __future__ import annotations

import resource
import time

import ebbtide
from bench.harness import Context, Workload
from bench.tables import delta_table, parquet_files

__all__ = ["run"]


def run(context: Context) -> Workload:
    spark = context.spark
    rows = context.rows(200_000_000)
    paths = parquet_files(spark, context.directory / "rows-large", rows, 200)
    table = delta_table(paths, context.fresh("large"), statistics=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    deleted = ebbtide.DeltaTable.forPath(spark, table).delete("pmod(xxhash64(id), 50) = 7")
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    counted = spark.read.parquet(*paths).where("pmod(xxhash64(id), 50) = 7").count()
    counting = time.perf_counter() - started
    left = ebbtide.read(spark, table).count()
    if counted != deleted.num_affected_rows or left + counted != rows:
        raise SystemExit(f"wrong rows: {deleted.num_affected_rows} deleted, {counted} counted, {left} left of {rows}")
    return Workload(
        title=f"DELETE of 2 % of {rows:,} rows in 200 files",
        about="`python -m bench large`; one run. Memory is that of the driver's Python process.",
        columns=["rows deleted", "DELETE", "count()", "peak memory before", "peak memory after"],
        rows=[
            [
                f"{deleted.num_affected_rows:,}",
                f"{seconds:.1f} s",
                f"{counting:.1f} s",
                f"{before // 1024} MiB",
                f"{peak // 1024} MiB",
            ]
        ],
    )
