"""How much memory may the files of one checkpoint take when they are decoded?

A checkpoint of a few kilobytes can be crafted to fill any memory. So there is a limit in proportion to the stored
bytes, and an absolute one; both are in `EngineConfig`. All files of a checkpoint share one budget: many small bombs
are one large bomb.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError

__all__ = ["MemoryBudget"]

# Up to here any file may expand: a checkpoint of similar files takes almost no space when stored.
_ALWAYS_ALLOWED_BYTES: Final = 256 * 1024 * 1024


@dataclass(slots=True)
class MemoryBudget:
    config: EngineConfig
    _stored_bytes: int = 0
    # What the columns of each action of each file took.
    _spent: dict[tuple[str, str], int] = field(default_factory=dict)
    # Files are opened by several threads.
    _lock: Lock = field(default_factory=Lock)

    def add_file(self, stored_bytes: int) -> None:
        with self._lock:
            self._stored_bytes += stored_bytes

    def left(self) -> int:
        return max(0, self._limit() - sum(self._spent.values()))

    def spend(self, source: str, action: str, num_bytes: int) -> None:
        """Add to what the columns of an action take."""
        self._spent[source, action] = self._spent.get((source, action), 0) + num_bytes

    def free(self, source: str, action: str) -> None:
        """The columns of an action are about to be read again, and the old ones are gone."""
        self._spent.pop((source, action), None)

    def refusal(self, source: str) -> CorruptTableError:
        config = self.config
        knob, value = "max_checkpoint_expansion", config.max_checkpoint_expansion
        if self._limit() == config.max_checkpoint_bytes:
            knob, value = "max_checkpoint_bytes", config.max_checkpoint_bytes
        return CorruptTableError(
            f"{source} would take more than {self._limit()} bytes of memory, and the files of its checkpoint have "
            f"{self._stored_bytes} bytes; the limit follows from EngineConfig.{knob}={value}. "
            "Raise it if the table can be trusted."
        )

    def _limit(self) -> int:
        by_size = max(_ALWAYS_ALLOWED_BYTES, self.config.max_checkpoint_expansion * self._stored_bytes)
        return min(by_size, self.config.max_checkpoint_bytes)
