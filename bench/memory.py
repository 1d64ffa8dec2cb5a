"""How much memory did a piece of work hold at most?

The resident memory of this process, and of the JVM that Spark started beside it where that did the work, looked at many
times a second. What the processes held before counts too: a JVM keeps the heap it once had.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Peak", "descendants", "peak_bytes", "watched"]

_EVERY_SECONDS = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Peak:
    bytes: int = 0


@contextmanager
def watched(*, with_children: bool) -> Iterator[Peak]:
    """Watches while the block runs; the answer is complete afterwards."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(_EVERY_SECONDS):
            peak.bytes = max(peak.bytes, _resident(with_children=with_children))

    peak.bytes = _resident(with_children=with_children)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def peak_bytes(process: int) -> int:
    """The kernel's own mark since the process began; `ru_maxrss` would begin at the size of the one that started it."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0  # it has ended
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def _resident(*, with_children: bool) -> int:
    processes = {os.getpid(), *(descendants(os.getpid()) if with_children else ())}
    return sum(_resident_of(process) for process in processes)


def _resident_of(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0  # it has ended


def descendants(process: int) -> set[int]:
    """What the process started, and what that started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}
