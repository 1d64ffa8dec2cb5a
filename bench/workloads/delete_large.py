"""Does the driver stay small when a lot is deleted?"""

from __future__ import annotations

import os
import time

import ebbtide
from bench.measure import Comparison
from bench.memory import peak_bytes
from bench.setup import Setup
from bench.tables import SCHEMA, write_rows
from bench.workloads.delete_rows import table_over

TITLE = "DELETE of 2 % of 200 million rows in 200 files"
ABOUT = (
    "One run, by name only (`make bench ARGS=delete_large`). The rows are chosen by a hash, so every file and nearly "
    "every block of 64 rows is touched. Peak memory is that of the driver's Python process. What was deleted and what "
    "is left is counted."
)
# Left out when no names are given.
BY_NAME_ONLY = True
ROWS = 200_000_000
CONDITION = "pmod(xxhash64(id), 50) = 7"


def run(setup: Setup) -> list[Comparison]:
    spark, rows = setup.spark, ROWS // setup.scale
    files = write_rows(spark, setup.directory / "rows", rows=rows, files=200)
    table = str(table_over(setup.directory / "table", files))
    before = peak_bytes(os.getpid())
    started = time.perf_counter()
    counted = spark.read.schema(SCHEMA).parquet(*map(str, files)).where(CONDITION).count()
    counting = time.perf_counter() - started
    started = time.perf_counter()
    deleted = ebbtide.DeltaTable.forPath(spark, table).delete(CONDITION).num_affected_rows
    deleting = time.perf_counter() - started
    left = ebbtide.read(spark, table).count()
    assert (deleted, left) == (counted, rows - counted), f"{deleted} deleted, {counted} counted, {left} of {rows} left"
    result = Comparison(f"{deleted:,} of {rows:,} rows", None, ["count()", "Ebbtide"])
    result.seconds = {"count()": [counting], "Ebbtide": [deleting]}
    result.peak_bytes = {"count()": [before], "Ebbtide": [peak_bytes(os.getpid())]}
    return [result]
