"""How are whole files deleted?

The log alone decides which files go: all of them, or those that partition values choose. No data is read. When
another writer wins the race, the files are chosen again from the newest version.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from ebbtide.commands.delete.results import DeleteMetrics, skipping_metrics
from ebbtide.commands.row_level.counters import (
    elapsed_ms,
    logical_rows,
    now_ms,
    table_partition_count,
    total_bytes,
    vector_count,
)
from ebbtide.commands.row_level.plan import WholeFiles, WholeTable, predicate_parameter
from ebbtide.commands.row_level.touched_files import tombstone
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import RemoveFile
from ebbtide.transaction import Lost

__all__ = ["FileRemoval"]


@dataclass(frozen=True, slots=True, eq=False)
class FileRemoval:
    """The removal of whole files from one snapshot."""

    spark: SparkSession
    snapshot: Snapshot
    plan: WholeTable | WholeFiles
    removes: tuple[RemoveFile, ...]
    scan_time_ms: int

    @classmethod
    def perform(cls, spark: SparkSession, snapshot: Snapshot, plan: WholeTable | WholeFiles) -> FileRemoval:
        started, now = time.monotonic(), now_ms()
        removes = tuple(tombstone(add, now) for add in add_files(plan.files))
        return cls(spark, snapshot, plan, removes, elapsed_ms(started))

    @property
    def keeps_row_ids(self) -> bool:
        """No row is rewritten."""
        return True

    def actions(self) -> tuple[RemoveFile, ...]:
        return self.removes

    def metrics(self) -> DeleteMetrics:
        files = self.plan.files
        return replace(
            skipping_metrics(self.snapshot, files),
            num_removed_files=files.num_rows,
            num_removed_bytes=total_bytes(files),
            num_deletion_vectors_removed=vector_count(files),
            num_deleted_rows=logical_rows(self.removes) or 0,
            num_partitions_removed_from=table_partition_count(self.snapshot, files),
            scan_time_ms=self.scan_time_ms,
        )

    def parameters(self) -> Mapping[str, str]:
        return predicate_parameter(self.plan.matcher)

    def follow(self, lost: Lost, /) -> FileRemoval:
        return FileRemoval.perform(self.spark, lost.newest, self.plan.on(self.spark, lost.newest))

    def discard(self) -> None:
        """Nothing was written."""
