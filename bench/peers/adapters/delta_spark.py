"""How does delta-spark do it? By SQL, in a Spark with its JARs. The table's property says if it marks or rewrites."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.support.reference_session import delta_spark, jars

from bench.peers.adapters.adapter import Adapter, SqlCommands, versions_of
from bench.peers.adapters.spark import count_jobs, session
from bench.peers.engines import Engine

__all__ = ["opened"]

SETTINGS = {
    # Fifty by default, meant for a cluster: on two cores they would be most of the time of a small command.
    "spark.databricks.delta.snapshotPartitions": "4",
    # Ten thousand by default: so many tasks list the files for a VACUUM, whether there are files or not.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


class DeltaSparkAdapter(SqlCommands):
    def __init__(self, scratch: Path) -> None:
        self.spark = session(scratch, delta_spark() | SETTINGS)

    def run(self, text: str) -> list[Any]:
        return self.spark.sql(text).collect()

    def versions(self) -> dict[str, str]:
        found = [match for jar in jars() if (match := re.fullmatch(r"delta-spark_.*-([\d.]+)\.jar", jar.name))]
        return {"delta-spark": found[0].group(1), **versions_of("pyspark")}

    def open(self, path: str) -> int | None:
        return self.run(f"DESCRIBE DETAIL delta.`{path}`")[0]["numFiles"]

    def jobs(self) -> int | None:
        return count_jobs(self.spark)

    def is_conflict(self, error: Exception) -> bool:
        return "Concurrent" in f"{type(error).__name__} {error}"

    def close(self) -> None:
        self.spark.stop()


def opened(engine: Engine, scratch: Path) -> Adapter:
    del engine
    return DeltaSparkAdapter(scratch)
