"""What does FSCK tell its caller?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from ebbtide.commands.fsck.findings import Finding
from ebbtide.commands.results import CommandResult, format_count, named_metrics

__all__ = ["FsckMetrics", "FsckResult"]

# What DESCRIBE HISTORY shows of a repair.
_HISTORY_METRICS = ("numRemovedFiles", "numRemovedBytes", "numLostRows", "numRestatedFiles", "numFindings")


@dataclass(frozen=True, slots=True)
class FsckMetrics:
    """What was looked at, and what the repair did. `num_lost_rows` is -1 when the log does not say how many."""

    num_checked_commits: int = 0
    num_checked_checkpoints: int = 0
    num_checked_files: int = 0
    num_checked_vectors: int = 0
    num_findings: int = 0
    num_removed_files: int = 0
    num_removed_bytes: int = 0
    num_lost_rows: int = 0
    num_restated_files: int = 0
    execution_time_ms: int = 0

    @property
    def operation_metrics(self) -> dict[str, int]:
        """What the commit records; an unknown number is left out."""
        named = named_metrics(self)
        return {name: named[name] for name in _HISTORY_METRICS if named[name] >= 0}

    @property
    def num_affected_rows(self) -> int:
        return self.num_lost_rows


@dataclass(frozen=True, slots=True, repr=False)
class FsckResult(CommandResult[FsckMetrics]):
    """What a check found and a repair did. `version` is the one that the repair made; None: nothing was committed."""

    findings: tuple[Finding, ...] = ()
    # Those of them that are put right now.
    repaired: tuple[Finding, ...] = ()
    # None when the newest version cannot be read.
    checked_version: int | None = None

    VERB: ClassVar[str] = "FSCK"
    NOTHING: ClassVar[tuple[str, str]] = ("nothing repaired", "in")

    @property
    def unrepaired(self) -> tuple[Finding, ...]:
        """Damage that is still there; notes are none."""
        repaired = set(map(id, self.repaired))
        return tuple(found for found in self.findings if found.severity != "note" and id(found) not in repaired)

    def rows(self) -> list[dict[str, Any]]:
        """The findings for programs, one object each."""
        repaired = set(map(id, self.repaired))
        return [
            {
                "kind": found.kind,
                "severity": found.severity,
                "path": found.path,
                "version": found.version,
                "meaning": found.meaning,
                "repair": found.repair,
                "repairable": found.is_repairable,
                "repaired": id(found) in repaired,
            }
            for found in self.findings
        ]

    @property
    def is_healthy(self) -> bool:
        return not self.unrepaired

    def sentences(self) -> list[str]:
        metrics = self.metrics
        checked = [f"{format_count(metrics.num_checked_files, 'file')} checked"]
        kinds = Counter(found.kind for found in self.findings if found.severity != "note")
        found = [f"{count:,} {kind}" for kind, count in kinds.most_common()] or ["no damage"]
        repaired = [f"{format_count(len(self.repaired), 'finding')} repaired"] if self.repaired else []
        return [*checked, *found, *repaired]

    def __repr__(self) -> str:
        at = "" if self.checked_version is None else f" of version {self.checked_version}"
        new_version = "" if self.version is None else f", now version {self.version}"
        return f"<FsckResult{at}{new_version}: {'; '.join(self.sentences())}>"
