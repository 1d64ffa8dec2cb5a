"""What does a RESTORE tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.commands.restore.difference import SnapshotDifference
from ebbtide.commands.results import format_count, named_metrics
from ebbtide.commands.row_level.counters import total_bytes
from ebbtide.log import Snapshot

__all__ = ["RestoreMetrics", "RestoreResult", "restore_metrics"]


@dataclass(frozen=True, slots=True)
class RestoreMetrics:
    """The counters of one RESTORE, under the names Delta users know."""

    table_size_after_restore: int = 0
    num_of_files_after_restore: int = 0
    num_removed_files: int = 0
    num_restored_files: int = 0
    removed_files_size: int = 0
    restored_files_size: int = 0

    @property
    def operation_metrics(self) -> dict[str, int]:
        """What the commit records."""
        return named_metrics(self)


def restore_metrics(current: Snapshot, difference: SnapshotDifference) -> RestoreMetrics:
    """The counters of this difference, applied to `current`."""
    restored, removed = total_bytes(difference.restored), total_bytes(difference.removed)
    return RestoreMetrics(
        table_size_after_restore=current.size_in_bytes - removed + restored,
        num_of_files_after_restore=current.num_files - difference.removed.num_rows + difference.restored.num_rows,
        num_removed_files=difference.removed.num_rows,
        num_restored_files=difference.restored.num_rows,
        removed_files_size=removed,
        restored_files_size=restored,
    )


@dataclass(frozen=True, slots=True, repr=False)
class RestoreResult:
    """What a RESTORE did. `version` is the version it made; None: the table was at that version already.

    After a dry run it is None as well, and the metrics say what would be done. `missing` are data files that were left
    out because they are gone and the session ignores missing files.
    """

    version: int | None
    # The version that the table shows again.
    restored_version: int
    metrics: RestoreMetrics
    table_url: str
    missing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        if self.version is None:
            return f"<RestoreResult: nothing was committed to {self.table_url}>"
        restored = format_count(self.metrics.num_restored_files, "file")
        removed = format_count(self.metrics.num_removed_files, "file")
        return (
            f"<RestoreResult version {self.version}: shows version {self.restored_version} again; {restored} restored, "
            f"{removed} removed>"
        )
