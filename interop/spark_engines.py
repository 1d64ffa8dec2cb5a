"""How are Ebbtide and delta-spark asked? Both live in one classic Spark session, side by side.

`open_session` starts it with delta-spark's JARs when `scripts/reference_jars.py` has fetched them, and plain
otherwise. `spark.sql` is delta-spark then; `ebbtide.sql` is Ebbtide. Neither is reached below PySpark's public API.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.support import spark_session
from tests.support.reference_session import delta_spark, jars

import ebbtide
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import open_store
from interop.features import Definition
from interop.spark_steps import SparkSteps
from interop.statements import at_path, changed, created, with_checks
from interop.steps import UPKEEP, Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DeltaSpark", "Ebbtide", "open_session"]

SETTINGS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # An engine that refuses is a result, and its words are kept.
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "1",
}


def open_session(scratch: Path) -> AbstractContextManager[SparkSession]:
    """Classic, with delta-spark in it when its JARs are here."""
    return spark_session.open_session("reference" if jars() else "classic", scratch, SETTINGS)


class Ebbtide:
    offers = frozenset({"create", "append", "delete", "update", "merge", "checkpoint", "changes", *UPKEEP})

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def version(self) -> str:
        return version("ebbtide")

    def create(self, path: str, definition: Definition) -> None:
        ebbtide.sql(self.spark, created(at_path(path), definition, checks_as_properties=True))

    def run(self, path: str, step: Step) -> None:
        if step.kind == "append":
            ebbtide.write(self.spark.read.parquet(step.source), path, mode="append")
        elif step.kind == "checkpoint":
            write_checkpoint(load_snapshot(open_store(path)))
        else:
            ebbtide.sql(self.spark, changed(at_path(path), step)).collect()

    def read(self, path: str) -> pa.Table:
        return ebbtide.read(self.spark, path).toArrow()

    def changes(self, path: str) -> pa.Table:
        return _feed(ebbtide.read_changes(self.spark, path, start_version=0).toArrow())

    def close(self) -> None:
        """The session belongs to `open_session`."""


class DeltaSpark(SparkSteps):
    offers = frozenset({"create", "append", "delete", "update", "merge", "changes", *UPKEEP})

    def __init__(self, spark: SparkSession) -> None:
        delta_spark()
        self.spark = spark

    def version(self) -> str:
        (jar,) = (jar for jar in jars() if jar.name.startswith("delta-spark"))
        return jar.stem.rpartition("-")[2]

    def create(self, path: str, definition: Definition) -> None:
        self.spark.sql(created(at_path(path), definition))
        for statement in with_checks(at_path(path), definition):
            self.spark.sql(statement)

    def changes(self, path: str) -> pa.Table:
        reader = self.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        return _feed(reader.load(path).toArrow())

    def close(self) -> None:
        """The session belongs to `open_session`."""


def _feed(found: pa.Table) -> pa.Table:
    kept = [name for name in found.column_names if not name.startswith("_commit_")]
    return found.select(kept)
