"""Which files may a VACUUM of a torture delete, so that nobody who is still at work needs them?

The rule for a retention is that it is longer than any command takes. A torture knows how long its commands take: each worker
writes down since when it is busy, and since when it needs whatever was removed. So a VACUUM beside it can use the shortest
retention that keeps the rule, however slow the machine is, and really deletes files within seconds.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Horizon"]


@dataclass
class Horizon:
    """What the workers wrote down, in files that every process can read. `margin_ms`: how coarse the times of files are."""

    directory: Path
    margin_ms: int

    def begin(self, worker: int, remembered: list[int]) -> int:
        """Note that a worker begins an operation, and remembers versions of certain times.

        Returns since when it needs what is removed: a command that is running now may have marked files as removed
        before this moment, and commit that later.
        """
        now = time.time_ns() // 1_000_000
        _, needed = self._noted().get(worker, (now, now))
        self._note(worker, now, min(needed, now))
        busy_since = min(busy for busy, _ in self._noted().values())
        self._note(worker, now, min([busy_since, *remembered]))
        return busy_since

    def end(self, worker: int) -> None:
        """Note that a worker will not come back."""
        (self.directory / f"worker-{worker}").unlink()

    @property
    def cutoff_ms(self) -> int:
        """Nobody needs what was removed before this time."""
        return min(needed for _, needed in self._noted().values()) - self.margin_ms

    def _noted(self) -> dict[int, tuple[int, int]]:
        notes = {}
        for file in self.directory.glob("worker-*"):
            try:
                busy, needed = file.read_text().split()
            except FileNotFoundError:
                continue
            notes[int(file.name.removeprefix("worker-"))] = (int(busy), int(needed))
        return notes

    def _note(self, worker: int, busy: int, needed: int) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        draft = self.directory / f"draft-{worker}"
        draft.write_text(f"{busy} {needed}")
        os.replace(draft, self.directory / f"worker-{worker}")
