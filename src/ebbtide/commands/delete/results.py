"""What does a DELETE tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ebbtide.commands.results import CommandResult, format_count, history_metrics, named_metrics
from ebbtide.commands.row_level.counters import table_partition_count, total_bytes
from ebbtide.log import Snapshot

__all__ = ["DeleteMetrics", "DeleteResult", "skipping_metrics"]

# What DESCRIBE HISTORY shows of a DELETE.
_HISTORY_METRICS = (
    "numRemovedFiles",
    "numRemovedBytes",
    "numCopiedRows",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numAddedChangeFiles",
    "executionTimeMs",
    "numDeletionVectorsUpdated",
    "numDeletedRows",
    "scanTimeMs",
    "numAddedFiles",
    "numAddedBytes",
    "rewriteTimeMs",
)


@dataclass(frozen=True, slots=True)
class DeleteMetrics:
    """The counters of one DELETE, under the names Delta users know."""

    num_removed_files: int = 0
    num_added_files: int = 0
    num_deleted_rows: int = 0
    num_files_before_skipping: int = 0
    num_bytes_before_skipping: int = 0
    num_files_after_skipping: int = 0
    num_bytes_after_skipping: int = 0
    num_partitions_after_skipping: int = 0
    num_partitions_added_to: int = 0
    num_partitions_removed_from: int = 0
    num_copied_rows: int = 0
    num_added_bytes: int = 0
    num_removed_bytes: int = 0
    execution_time_ms: int = 0
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0
    num_added_change_files: int = 0
    change_file_bytes: int = 0
    num_touched_rows: int = 0
    num_deletion_vectors_added: int = 0
    num_deletion_vectors_removed: int = 0
    num_deletion_vectors_updated: int = 0

    @property
    def operation_metrics(self) -> dict[str, int]:
        """What the commit records."""
        metrics = history_metrics(named_metrics(self), _HISTORY_METRICS, vectors="numDeletionVectors")
        if self.num_deleted_rows == 0 and self.num_removed_files != 0:
            # Files went whose row counts are unknown: record nothing rather than zero.
            for name in ("numDeletedRows", "numCopiedRows", "numAddedFiles"):
                del metrics[name]
        return metrics

    @property
    def num_affected_rows(self) -> int:
        """Deleted rows, or -1 when whole files went whose row counts are unknown."""
        return -1 if self.num_removed_files > 0 and self.num_deleted_rows == 0 else self.num_deleted_rows


@dataclass(frozen=True, slots=True, repr=False)
class DeleteResult(CommandResult[DeleteMetrics]):
    """What a DELETE did. `version` is the version it made; None: nothing matched, nothing was committed."""

    VERB: ClassVar[str] = "DELETE"

    def sentences(self) -> list[str]:
        metrics = self.metrics
        rows = (
            "an unknown number of rows" if self.num_affected_rows < 0 else format_count(self.num_affected_rows, "row")
        )
        vectors = metrics.num_deletion_vectors_added + metrics.num_deletion_vectors_updated
        sentences = [f"{rows} deleted"]
        if vectors:
            sentences.append(f"{format_count(vectors, 'file')} marked, not rewritten")
        if metrics.num_removed_files:
            sentences.append(f"{format_count(metrics.num_removed_files, 'file')} removed")
        if metrics.num_added_files:
            copied = format_count(metrics.num_copied_rows, "row")
            sentences.append(f"{format_count(metrics.num_added_files, 'file')} written with {copied}")
        return sentences


def skipping_metrics(snapshot: Snapshot, candidates: pa.Table) -> DeleteMetrics:
    """The counters of choosing files: those of the table, and those to be searched."""
    return DeleteMetrics(
        num_files_before_skipping=snapshot.num_files,
        num_bytes_before_skipping=snapshot.size_in_bytes,
        num_files_after_skipping=candidates.num_rows,
        num_bytes_after_skipping=total_bytes(candidates),
        num_partitions_after_skipping=table_partition_count(snapshot, candidates),
    )
