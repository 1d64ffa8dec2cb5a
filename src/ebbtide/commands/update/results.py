"""What does an UPDATE tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ebbtide.commands.results import CommandResult, format_count, history_metrics, named_metrics

__all__ = ["UpdateMetrics", "UpdateResult"]

# What DESCRIBE HISTORY shows of an UPDATE.
_HISTORY_METRICS = (
    "numAddedFiles",
    "numAddedBytes",
    "numRemovedFiles",
    "numRemovedBytes",
    "numUpdatedRows",
    "numCopiedRows",
    "numAddedChangeFiles",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
    "executionTimeMs",
    "scanTimeMs",
    "rewriteTimeMs",
)


@dataclass(frozen=True, slots=True)
class UpdateMetrics:
    """The counters of one UPDATE, under the names Delta users know.

    As in the reference, `num_removed_files` counts every touched file, also one that stays with a deletion vector, and
    `num_removed_bytes` counts the bytes of change data in.
    """

    num_added_files: int = 0
    num_added_bytes: int = 0
    num_removed_files: int = 0
    num_removed_bytes: int = 0
    num_updated_rows: int = 0
    num_copied_rows: int = 0
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
        return history_metrics(named_metrics(self), _HISTORY_METRICS, vectors="numDeletionVectors")

    @property
    def num_affected_rows(self) -> int:
        return self.num_updated_rows


@dataclass(frozen=True, slots=True, repr=False)
class UpdateResult(CommandResult[UpdateMetrics]):
    """What an UPDATE did. `version` is the version it made; None: nothing matched, nothing was committed."""

    VERB: ClassVar[str] = "UPDATE"

    def sentences(self) -> list[str]:
        metrics = self.metrics
        vectors = metrics.num_deletion_vectors_added + metrics.num_deletion_vectors_updated
        sentences = [f"{format_count(metrics.num_updated_rows, 'row')} updated"]
        if vectors:
            sentences.append(f"{format_count(vectors, 'file')} marked, not rewritten")
        if metrics.num_added_files:
            touched = format_count(metrics.num_touched_rows, "row")
            sentences.append(f"{format_count(metrics.num_added_files, 'file')} written with {touched}")
        return sentences
