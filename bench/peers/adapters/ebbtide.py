"""How does Ebbtide do it? By its Python calls, on a Spark without any JAR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ebbtide
from bench.peers.adapters.adapter import Adapter, versions_of
from bench.peers.adapters.spark import count_jobs, session
from bench.peers.engines import Engine
from ebbtide.commands.restore.command import RestoreRequest, restore_table
from ebbtide.errors import DeltaConcurrentModificationException
from ebbtide.storage import open_store

__all__ = ["opened"]


class EbbtideAdapter:
    def __init__(self, scratch: Path) -> None:
        self.spark = session(scratch)

    def versions(self) -> dict[str, str]:
        return versions_of("ebbtide", "pyspark", "pyarrow", "obstore", "pyroaring")

    def delete(self, path: str, where: str) -> None:
        ebbtide.DeltaTable.forPath(self.spark, path).delete(where)

    def update(self, path: str, assignments: dict[str, str], where: str) -> None:
        ebbtide.DeltaTable.forPath(self.spark, path).update(where, assignments)

    def merge(self, path: str, source: str) -> None:
        rows = self.spark.read.parquet(source).alias("s")
        merge = ebbtide.DeltaTable.forPath(self.spark, path).alias("t").merge(rows, "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def query(self, path: str, select: list[str], where: str | None) -> list[Any]:
        if (select, where) == (["count(*)"], None):
            # What Ebbtide has for this. delta-spark finds the same answer in the log when a query asks for it.
            return [ebbtide.DeltaTable.forPath(self.spark, path).count()]
        return list(ebbtide.read(self.spark, path, where=where).selectExpr(*select).collect()[0])

    def open(self, path: str) -> int | None:
        return ebbtide.DeltaTable.forPath(self.spark, path).files().num_rows

    def optimize(self, path: str, zorder: list[str]) -> None:
        optimize = ebbtide.DeltaTable.forPath(self.spark, path).optimize()
        if zorder:
            optimize.executeZOrderBy(*zorder)
        else:
            optimize.executeCompaction()

    def purge(self, path: str) -> None:
        ebbtide.DeltaTable.forPath(self.spark, path).purge()

    def vacuum(self, path: str, options: dict[str, str] | None) -> None:
        ebbtide.DeltaTable.forPath(self.spark, path, storage_options=options).vacuum()

    def restore(self, path: str, version: int, options: dict[str, str] | None) -> None:
        if options:
            # The method tells Spark that the path has changed, and this Spark has no JARs for S3.
            restore_table(RestoreRequest(open_store(path, options), version=version))
        else:
            ebbtide.DeltaTable.forPath(self.spark, path).restoreToVersion(version)

    def jobs(self) -> int | None:
        return count_jobs(self.spark)

    def is_conflict(self, error: Exception) -> bool:
        return isinstance(error, DeltaConcurrentModificationException)

    def close(self) -> None:
        self.spark.stop()


def opened(engine: Engine, scratch: Path) -> Adapter:
    del engine
    return EbbtideAdapter(scratch)
