"""What can a table be in need of?

Each kind of finding is a frozen value with its numbers, a sentence for people, and the step that mends it. A finding
says nothing about how it was found (`maintain.looking`) or how it is mended (`maintain.steps`).
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from ebbtide.commands.results import format_bytes, format_count, format_share, named_metrics

__all__ = [
    "SKIPPABLE",
    "STEPS",
    "ExpiredLogFiles",
    "Finding",
    "HeldRows",
    "MissingCheckpoint",
    "OldCheckpoint",
    "PartitionGain",
    "SmallFiles",
    "Step",
    "UnneededFiles",
    "UnsortedFiles",
    "WornFiles",
]

Step = Literal["optimize", "purge", "checkpoint", "vacuum", "cleanup"]

# In the order in which they are done; decision 023 says why.
STEPS: Final[tuple[Step, ...]] = ("optimize", "purge", "checkpoint", "vacuum", "cleanup")
# A purge is not done unless it is asked for.
SKIPPABLE: Final = tuple(step for step in STEPS if step != "purge")


class Finding(ABC):
    """Something that a table is in need of."""

    __slots__ = ()

    KIND: ClassVar[str]
    STEP: ClassVar[Step]

    @property
    @abstractmethod
    def reason(self) -> str:
        """One sentence with the numbers, for people."""

    def to_json(self) -> dict[str, Any]:
        """The same for programs, under names in the spelling of the history's metrics."""
        return {"kind": self.KIND, "step": self.STEP, "reason": self.reason, **named_metrics(self)}


@dataclass(frozen=True, slots=True)
class PartitionGain:
    """What compaction would make of the small files of one partition; "" when the table has no partitions."""

    partition: str
    num_files: int
    num_bytes: int
    num_new_files: int

    def to_json(self) -> dict[str, Any]:
        return named_metrics(self)


@dataclass(frozen=True, slots=True)
class SmallFiles(Finding):
    """Files below a size that fit together. `partitions` are those with the most to gain, ten at most."""

    num_files: int
    num_bytes: int
    num_new_files: int
    num_partitions: int
    below_bytes: int
    partitions: tuple[PartitionGain, ...] = ()

    KIND: ClassVar[str] = "smallFiles"
    STEP: ClassVar[Step] = "optimize"

    @property
    def reason(self) -> str:
        files = f"{format_count(self.num_files, 'file')} ({format_bytes(self.num_bytes)})"
        worst = self.partitions[0] if self.partitions else None
        most = f", most of them in {worst.partition}" if worst and worst.partition and self.num_partitions > 1 else ""
        become = format_count(self.num_new_files, "file")
        return f"{files} are smaller than {format_bytes(self.below_bytes)}{most}; they would become {become}."

    def to_json(self) -> dict[str, Any]:
        # Spelled out: a class with slots is made anew by its decorator, and `super()` would look for the first one.
        return {**Finding.to_json(self), "partitions": [gain.to_json() for gain in self.partitions]}


@dataclass(frozen=True, slots=True)
class WornFiles(Finding):
    """Files with a larger share of deleted rows than allowed. `worst_share` is None when no file states its rows."""

    num_files: int
    num_bytes: int
    num_marked_rows: int
    max_deleted_share: float
    worst_share: float | None

    KIND: ClassVar[str] = "deletedShare"
    STEP: ClassVar[Step] = "optimize"

    @property
    def reason(self) -> str:
        files = f"{format_count(self.num_files, 'file')} ({format_bytes(self.num_bytes)})"
        rows = format_count(self.num_marked_rows, "deleted row")
        worst = "an unknown share" if self.worst_share is None else f"up to {format_share(self.worst_share)}"
        limit = format_share(self.max_deleted_share)
        return f"{rows} in {files}, {worst} of a file where {limit} are allowed; every reader reads and drops them."


@dataclass(frozen=True, slots=True)
class UnsortedFiles(Finding):
    """Files of a clustered table that nobody has sorted."""

    num_files: int
    num_bytes: int
    columns: tuple[str, ...]

    KIND: ClassVar[str] = "unsortedFiles"
    STEP: ClassVar[Step] = "optimize"

    @property
    def reason(self) -> str:
        files = f"{format_count(self.num_files, 'file')} ({format_bytes(self.num_bytes)})"
        return f"{files} not yet sorted by the clustering columns {', '.join(self.columns)}."


@dataclass(frozen=True, slots=True)
class HeldRows(Finding):
    """Live files that still hold deleted rows or dropped columns; looked for only when a purge is asked for."""

    num_files: int
    num_bytes: int
    num_marked_rows: int
    num_files_with_dropped_columns: int

    KIND: ClassVar[str] = "heldRows"
    STEP: ClassVar[Step] = "purge"

    @property
    def reason(self) -> str:
        held = [format_count(self.num_marked_rows, "deleted row")] if self.num_marked_rows else []
        if self.num_files_with_dropped_columns:
            held.append(f"dropped columns (in {format_count(self.num_files_with_dropped_columns, 'file')})")
        files = f"{format_count(self.num_files, 'live file')} ({format_bytes(self.num_bytes)})"
        return f"{files} still holding {' and '.join(held)}."


@dataclass(frozen=True, slots=True)
class MissingCheckpoint(Finding):
    """A log of many commits without a checkpoint."""

    num_commits: int
    max_commits: int

    KIND: ClassVar[str] = "missingCheckpoint"
    STEP: ClassVar[Step] = "checkpoint"

    @property
    def reason(self) -> str:
        commits, limit = format_count(self.num_commits, "commit"), format_count(self.max_commits, "commit")
        return f"No checkpoint: every reader replays {commits}. There should be one every {limit}."


@dataclass(frozen=True, slots=True)
class OldCheckpoint(Finding):
    """Many commits since the newest checkpoint."""

    num_commits: int
    checkpoint_version: int
    max_commits: int

    KIND: ClassVar[str] = "oldCheckpoint"
    STEP: ClassVar[Step] = "checkpoint"

    @property
    def reason(self) -> str:
        commits, limit = format_count(self.num_commits, "commit"), format_count(self.max_commits, "commit")
        since = f"{commits} since the checkpoint of version {self.checkpoint_version:,}"
        return f"Every reader replays {since}. There should be one every {limit}."


@dataclass(frozen=True, slots=True)
class UnneededFiles(Finding):
    """What lies in storage and no version in retention needs: removed files, and what failed writers left."""

    num_paths: int
    num_bytes: int
    cutoff_ms: int

    KIND: ClassVar[str] = "unneededFiles"
    STEP: ClassVar[Step] = "vacuum"

    @property
    def reason(self) -> str:
        paths = f"{format_count(self.num_paths, 'path')} ({format_bytes(self.num_bytes)})"
        since = dt.datetime.fromtimestamp(self.cutoff_ms / 1000, dt.timezone.utc)
        return f"{paths} in storage that no version since {since:%Y-%m-%d %H:%M} UTC needs."


@dataclass(frozen=True, slots=True)
class ExpiredLogFiles(Finding):
    """Log files older than the retention that no later version needs."""

    num_files: int
    retention_ms: int

    KIND: ClassVar[str] = "expiredLog"
    STEP: ClassVar[Step] = "cleanup"

    @property
    def reason(self) -> str:
        hours = self.retention_ms / 3_600_000
        files = format_count(self.num_files, "log file")
        return f"{files} below a checkpoint, older than the {hours:,g} hours of delta.logRetentionDuration."
