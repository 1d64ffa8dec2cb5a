"""Which Spark do Ebbtide and delta-spark run on? The same one: master, memory and partitions are not an advantage."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "count_jobs", "session"]

LOOPBACK = "127.0.0.1"
JOB_GROUP = "bench-peers"
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Two for each of two cores. Spark's 200 are meant for a cluster and would be slower for everybody.
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(scratch: Path, more: dict[str, str] | None = None) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.update(SPARK_LOCAL_IP=LOOPBACK, PYSPARK_PYTHON=sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("bench-peers")
    places = {"spark.local.dir": str(scratch / "spark"), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    for name, value in (SETTINGS | places | (more or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def count_jobs(spark: SparkSession) -> int:
    """Jobs that Spark remembers, in our group or in none; the difference of two calls is what a command started.

    A group belongs to a thread, and a command may start jobs from threads of its own.
    """
    context = spark.sparkContext
    context.setJobGroup(JOB_GROUP, "counted")
    tracker = context.statusTracker()
    return len({*tracker.getJobIdsForGroup(JOB_GROUP), *tracker.getJobIdsForGroup(None)})
