"""What does a PURGE tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ebbtide.commands.optimize.results import OptimizeResult

__all__ = ["PurgeResult"]


@dataclass(frozen=True, slots=True, repr=False)
class PurgeResult(OptimizeResult):
    """What a PURGE did. `version` is the last version it made; None: no live file held a deleted row.

    `is_complete` is False when others deleted rows faster than they could be taken out.
    """

    is_complete: bool = True

    VERB: ClassVar[str] = "REORG"

    def sentences(self) -> list[str]:
        unfinished = [] if self.is_complete else ["not complete, others keep deleting rows"]
        return [*OptimizeResult.sentences(self), *unfinished]
