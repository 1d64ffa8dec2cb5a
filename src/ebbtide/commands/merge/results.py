"""What does a MERGE tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ebbtide.commands.results import CommandResult, format_count, history_metrics, named_metrics

__all__ = ["MergeMetrics", "MergeResult"]

# What DESCRIBE HISTORY shows of a MERGE.
_HISTORY_METRICS = (
    "numSourceRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsMatchedUpdated",
    "numTargetRowsNotMatchedBySourceUpdated",
    "numTargetRowsDeleted",
    "numTargetRowsMatchedDeleted",
    "numTargetRowsNotMatchedBySourceDeleted",
    "numTargetRowsCopied",
    "numTargetBytesAdded",
    "numTargetBytesRemoved",
    "numOutputRows",
    "numTargetFilesAdded",
    "numTargetFilesRemoved",
    "numTargetChangeFilesAdded",
    "executionTimeMs",
    "materializeSourceTimeMs",
    "scanTimeMs",
    "rewriteTimeMs",
    "numTargetDeletionVectorsAdded",
    "numTargetDeletionVectorsRemoved",
    "numTargetDeletionVectorsUpdated",
)


@dataclass(frozen=True, slots=True)
class MergeMetrics:
    """The counters of one MERGE, under the names Delta users know.

    With deletion vectors, files that stay are not counted as removed and no row is copied.
    """

    num_source_rows: int = 0
    num_source_rows_in_second_scan: int = 0
    operation_num_source_rows: int = 0
    num_target_rows_copied: int = 0
    num_target_rows_inserted: int = 0
    num_target_rows_matched_updated: int = 0
    num_target_rows_not_matched_by_source_updated: int = 0
    num_target_rows_matched_deleted: int = 0
    num_target_rows_not_matched_by_source_deleted: int = 0
    num_target_files_before_skipping: int = 0
    num_target_files_after_skipping: int = 0
    num_target_files_removed: int = 0
    num_target_files_added: int = 0
    num_target_change_files_added: int = 0
    num_target_change_file_bytes: int = 0
    num_target_bytes_before_skipping: int = 0
    num_target_bytes_after_skipping: int = 0
    num_target_bytes_removed: int = 0
    num_target_bytes_added: int = 0
    num_target_partitions_after_skipping: int = 0
    num_target_partitions_removed_from: int = 0
    num_target_partitions_added_to: int = 0
    execution_time_ms: int = 0
    materialize_source_time_ms: int = 0
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0
    num_target_deletion_vectors_added: int = 0
    num_target_deletion_vectors_removed: int = 0
    num_target_deletion_vectors_updated: int = 0

    @property
    def num_target_rows_updated(self) -> int:
        return self.num_target_rows_matched_updated + self.num_target_rows_not_matched_by_source_updated

    @property
    def num_target_rows_deleted(self) -> int:
        return self.num_target_rows_matched_deleted + self.num_target_rows_not_matched_by_source_deleted

    @property
    def num_affected_rows(self) -> int:
        return self.num_target_rows_updated + self.num_target_rows_deleted + self.num_target_rows_inserted

    @property
    def operation_metrics(self) -> dict[str, int]:
        """What the commit records."""
        named = named_metrics(self)
        named["numTargetRowsUpdated"] = self.num_target_rows_updated
        named["numTargetRowsDeleted"] = self.num_target_rows_deleted
        named["numSourceRows"] = self.operation_num_source_rows
        named["numOutputRows"] = (
            self.num_target_rows_inserted + self.num_target_rows_updated + self.num_target_rows_copied
        )
        return history_metrics(named, _HISTORY_METRICS, vectors="numTargetDeletionVectors")


@dataclass(frozen=True, slots=True, repr=False)
class MergeResult(CommandResult[MergeMetrics]):
    """What a MERGE did. `version` is the version it made; None: no row was to be changed, nothing was committed."""

    VERB: ClassVar[str] = "MERGE"
    NOTHING: ClassVar[tuple[str, str]] = ("nothing to change", "in")

    @property
    def num_updated_rows(self) -> int:
        return self.metrics.num_target_rows_updated

    @property
    def num_deleted_rows(self) -> int:
        return self.metrics.num_target_rows_deleted

    @property
    def num_inserted_rows(self) -> int:
        return self.metrics.num_target_rows_inserted

    def sentences(self) -> list[str]:
        metrics = self.metrics
        sentences = [
            f"{format_count(number, 'row')} {done}"
            for number, done in (
                (self.num_updated_rows, "updated"),
                (self.num_deleted_rows, "deleted"),
                (self.num_inserted_rows, "inserted"),
            )
            if number
        ]
        vectors = metrics.num_target_deletion_vectors_added + metrics.num_target_deletion_vectors_updated
        if vectors:
            sentences.append(f"{format_count(vectors, 'file')} marked, not rewritten")
        if metrics.num_target_files_removed:
            sentences.append(f"{format_count(metrics.num_target_files_removed, 'file')} removed")
        if metrics.num_target_files_added:
            sentences.append(f"{format_count(metrics.num_target_files_added, 'file')} written")
        return sentences or ["no row changed"]
