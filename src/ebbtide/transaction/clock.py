"""What time is it, and how long does the loser of a race wait?

Everything in this room that depends on time or chance goes through a `Clock`, so that tests choose both.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["SYSTEM_CLOCK", "Clock"]

_FIRST_WAIT_SECONDS: Final = 0.01
_LONGEST_WAIT_SECONDS: Final = 1.0
# Beyond this many doublings the longest wait is reached anyway.
_MAX_DOUBLINGS: Final = 16


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    now_ms: Callable[[], int] = _now_ms
    sleep: Callable[[float], None] = time.sleep
    # A number from 0 to 1.
    random: Callable[[], float] = random.random

    def wait(self, failures: int) -> None:
        """Pause after this many failures in a row: longer each time, and random, so that rivals do not stay in step."""
        longest = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2 ** min(failures - 1, _MAX_DOUBLINGS))
        self.sleep(self.random() * longest)


SYSTEM_CLOCK: Final = Clock()
