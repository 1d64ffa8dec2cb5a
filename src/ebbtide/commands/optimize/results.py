"""What does an OPTIMIZE tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from ebbtide.commands.optimize.packing import Partition
from ebbtide.commands.results import CommandResult, format_count

__all__ = ["OptimizeMetrics", "OptimizeResult"]


# What is added up when an OPTIMIZE makes several commits.
_COUNTED: Final = (
    "added_sizes",
    "removed_sizes",
    "num_deletion_vectors_removed",
    "num_deletion_vector_rows_removed",
    "num_carried_rows",
    "num_groups",
    "num_dropped_groups",
    "execution_time_ms",
)


@dataclass(frozen=True, slots=True)
class OptimizeMetrics:
    """What one OPTIMIZE did, or several one after the other: metrics can be added up."""

    # Of files that were written, and of files that they replace.
    added_sizes: tuple[int, ...] = ()
    removed_sizes: tuple[int, ...] = ()
    num_deletion_vectors_removed: int = 0
    num_deletion_vector_rows_removed: int = 0
    # Rows that others deleted while their files were copied; they stay marked in the new files.
    num_carried_rows: int = 0
    num_groups: int = 0
    # Groups that were given up because winners changed their files again and again.
    num_dropped_groups: int = 0
    partitions: frozenset[Partition] = frozenset()
    num_considered_files: int = 0
    num_considered_bytes: int = 0
    num_table_columns: int = 0
    num_table_columns_with_stats: int = 0
    # Columns that rows were sorted by, at the caller's wish or because the table is clustered.
    zorder_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    # Files that were sorted before, and their bytes.
    num_clustered_files: int = 0
    num_clustered_bytes: int = 0
    execution_time_ms: int = 0

    def __add__(self, other: OptimizeMetrics) -> OptimizeMetrics:
        """Both together; what they say about the table and the request is the same."""
        return replace(
            self,
            partitions=self.partitions | other.partitions,
            **{name: getattr(self, name) + getattr(other, name) for name in _COUNTED},
        )

    @property
    def keeps_order(self) -> bool:
        """Whether rows lie in the new files as they lay in the old ones."""
        return not self.zorder_by and not self.cluster_by

    @property
    def num_added_files(self) -> int:
        return len(self.added_sizes)

    @property
    def num_removed_files(self) -> int:
        return len(self.removed_sizes)

    @property
    def operation_metrics(self) -> dict[str, int]:
        """What the commit records."""
        sizes = sorted(self.added_sizes)
        count = len(sizes)
        places = {"min": 0, "p25": count // 4, "p50": count // 2, "p75": count * 3 // 4, "max": count - 1}
        return {
            "numRemovedFiles": self.num_removed_files,
            "numRemovedBytes": sum(self.removed_sizes),
            "numAddedFiles": self.num_added_files,
            "numAddedBytes": sum(sizes),
            **{f"{name}FileSize": sizes[place] if sizes else 0 for name, place in places.items()},
            "numDeletionVectorsRemoved": self.num_deletion_vectors_removed,
        }

    @property
    def num_affected_rows(self) -> int:
        """No row changes."""
        return 0


@dataclass(frozen=True, slots=True, repr=False)
class OptimizeResult(CommandResult[OptimizeMetrics]):
    """What an OPTIMIZE did. `version` is the last version it made; None: there was nothing to do."""

    # More than one when each group was committed by itself.
    versions: tuple[int, ...] = ()

    VERB: ClassVar[str] = "OPTIMIZE"
    NOTHING: ClassVar[tuple[str, str]] = ("nothing to do", "in")

    def sentences(self) -> list[str]:
        metrics = self.metrics
        removed = format_count(metrics.num_removed_files, "file")
        sentences = [f"{removed} became {metrics.num_added_files:,}"]
        if metrics.num_deletion_vector_rows_removed:
            gone = format_count(metrics.num_deletion_vector_rows_removed, "deleted row")
            sentences.append(f"{gone} left out")
        if metrics.num_carried_rows:
            carried = format_count(metrics.num_carried_rows, "row")
            sentences.append(f"{carried} deleted meanwhile, marked in the new files")
        if metrics.num_dropped_groups:
            sentences.append(f"{format_count(metrics.num_dropped_groups, 'group')} given up, try again")
        return sentences
