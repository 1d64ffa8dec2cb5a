"""How are Ebbtide and delta-spark asked? Both live in one classic Spark session, side by side.

`open_session` starts it with delta-spark's JARs when `scripts/reference_jars.py` has fetched them, and plain
otherwise. `spark.sql` is delta-spark then; `ebbtide.sql` is Ebbtide. Neither is reached below PySpark's public API.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import ebbtide
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import open_store
from interop.features import Definition
from interop.statements import at_path, changed, created, with_checks
from interop.steps import Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DeltaSpark", "Ebbtide", "jars", "open_session"]

JARS = Path("build/reference")
SETTINGS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Tables are tiny: the optimising compiler would not pay for itself.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
REFERENCE = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def jars() -> list[Path]:
    return sorted(JARS.absolute().glob("*.jar"))


@contextmanager
def open_session(scratch: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    own = {"spark.local.dir": str(scratch / "local"), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    reference = REFERENCE | {"spark.jars": ",".join(map(str, jars()))} if jars() else {}
    builder = SparkSession.builder.master("local[2]").appName("ebbtide-interop").config("spark.driver.memory", "2g")
    for name, value in (SETTINGS | own | reference).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


class Ebbtide:
    offers = frozenset({"create", "append", "delete", "update", "merge", "checkpoint", "changes"})

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


class DeltaSpark:
    offers = frozenset({"create", "append", "delete", "update", "merge", "optimize", "vacuum", "restore", "changes"})

    def __init__(self, spark: SparkSession) -> None:
        if not jars():
            raise RuntimeError(f"its JARs are not in {JARS}: scripts/reference_jars.py fetches them with Maven")
        self.spark = spark

    def version(self) -> str:
        (jar,) = (jar for jar in jars() if jar.name.startswith("delta-spark"))
        return jar.stem.rpartition("-")[2]

    def create(self, path: str, definition: Definition) -> None:
        self.spark.sql(created(at_path(path), definition))
        for statement in with_checks(at_path(path), definition):
            self.spark.sql(statement)

    def run(self, path: str, step: Step) -> None:
        if step.kind == "append":
            self.spark.read.parquet(step.source).write.format("delta").mode("append").save(path)
        else:
            self.spark.sql(changed(at_path(path), step)).collect()

    def read(self, path: str) -> pa.Table:
        return self.spark.read.format("delta").load(path).toArrow()

    def changes(self, path: str) -> pa.Table:
        reader = self.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        return _feed(reader.load(path).toArrow())

    def close(self) -> None:
        """The session belongs to `open_session`."""


def _feed(found: pa.Table) -> pa.Table:
    kept = [name for name in found.column_names if not name.startswith("_commit_")]
    return found.select(kept)
