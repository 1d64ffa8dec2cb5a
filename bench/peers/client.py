"""How is an engine's process started, asked and looked at?"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.line_worker import EngineError, LineWorker

from bench.memory import descendants, peak_bytes
from bench.peers.engines import ROOT, Engine

__all__ = ["EngineError", "Memory", "Process"]


@dataclass(frozen=True)
class Memory:
    """The most that was resident, in bytes: the Python process, and what it started (a JVM, a server)."""

    driver: int
    workers: int


class Process:
    """One engine in one process. Its start is timed: interpreter, imports, session."""

    def __init__(self, engine: Engine, scratch: Path) -> None:
        self.engine = engine
        self.scratch = scratch / f"process-{engine.slug}"
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        started = time.perf_counter()
        self._worker = LineWorker(
            [sys.executable, "-W", "ignore", "-m", "bench.peers.worker", engine.name, str(self.scratch)],
            self.scratch / "stderr.log",
            directory=ROOT,
            environment={"PYTHONPATH": str(ROOT)},
        )
        self.versions: dict[str, str] = self._worker.heard()["versions"]
        self.start_seconds = time.perf_counter() - started

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        return self._worker.ask(task)

    def memory(self) -> Memory:
        """The kernel's own marks, since each process began; nothing is sampled, so nothing is disturbed or missed."""
        mine = self._worker.pid
        return Memory(peak_bytes(mine), sum(peak_bytes(child) for child in descendants(mine)))

    def close(self) -> None:
        self._worker.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
