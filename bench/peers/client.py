"""How is an engine's process started, asked and looked at?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.memory import descendants
from bench.peers.engines import ROOT, Engine

__all__ = ["EngineError", "Memory", "Process"]


class EngineError(Exception):
    """The engine could not do it; the words are its own."""


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
        self.log = self.scratch / "stderr.log"
        started = time.perf_counter()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "bench.peers.worker", engine.name, str(self.scratch)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # An engine may leave things in the working directory; they belong to the scratch place.
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )
        self.versions: dict[str, str] = self._heard()["versions"]
        self.start_seconds = time.perf_counter() - started

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._heard()
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer

    def memory(self) -> Memory:
        """The kernel's own marks, since each process began; nothing is sampled, so nothing is disturbed or missed."""
        mine = self._process.pid
        return Memory(_peak_bytes(mine), sum(_peak_bytes(child) for child in descendants(mine)))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise EngineError(f"its process ended: {self.log.read_text(errors='replace')[-2000:]}")
        return json.loads(line)


def _peak_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0  # it has ended
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
