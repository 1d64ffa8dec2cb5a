"""Which statements of maintenance does the SQL door understand, and what are their parts?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["KNOWN_MAINTENANCE", "Fsck", "MaintenanceStatement", "Vacuum"]

KNOWN_MAINTENANCE: Final = (
    "VACUUM delta.`path` [LITE | FULL] [RETAIN n HOURS] [DRY RUN]",
    "FSCK REPAIR TABLE delta.`path` [DRY RUN]",
)


@dataclass(frozen=True, slots=True)
class Vacuum:
    """`lite` is None when the statement says neither LITE nor FULL."""

    path: str
    lite: bool | None = None
    retain_hours: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Fsck:
    path: str
    dry_run: bool = False


MaintenanceStatement: TypeAlias = Vacuum | Fsck
