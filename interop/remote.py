"""How does an engine that needs a process of its own get one?

`Remote` has the face of an `Engine` and asks the real one, which `interop.worker` holds in a process that was started
below the directory of the tables. One line of JSON goes there for a call and one comes back; rows come back as an
Arrow file. A worker that dies takes one answer with it: the next call starts another.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from interop.engines import Place, load
from interop.features import Definition
from interop.steps import Step

__all__ = ["EngineError", "Remote"]

ROOT = Path(__file__).parent.parent
ANSWER_SECONDS = 180


class EngineError(Exception):
    """What an engine raised in its own process: its type and its words."""


class Remote:
    def __init__(self, place: Place, directory: Path, log: Path) -> None:
        self.offers: frozenset[str] = load(place).offers
        self._place, self._directory, self._log = place, directory, log
        self._process: subprocess.Popen[bytes] | None = None
        self.version()

    def version(self) -> str:
        return str(self._ask("version"))

    def create(self, path: str, definition: Definition) -> None:
        self._ask("create", path=path, definition=definition.to_json())

    def run(self, path: str, step: Step) -> None:
        self._ask("run", path=path, step=step.to_json())

    def read(self, path: str) -> pa.Table:
        file = self._ask("read", path=path)
        with pa.memory_map(file) as source:
            return pa.ipc.open_file(source).read_all()

    def changes(self, path: str) -> pa.Table:
        raise NotImplementedError(path)

    def close(self) -> None:
        """An end of its input is how a worker learns that nobody will ask any more."""
        if self._process is not None:
            self._process.communicate(timeout=60)
            self._process = None

    def _ask(self, call: str, **arguments: Any) -> Any:
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(json.dumps({"call": call, "arguments": arguments}).encode() + b"\n")
        process.stdin.flush()
        answer = self._answer(process)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer["value"]

    def _answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], ANSWER_SECONDS)
        line = process.stdout.readline() if ready else b""
        if line:
            return dict(json.loads(line))
        self._process = None
        process.kill()
        how = f"ended with {process.wait()}" if ready else f"gave no answer for {ANSWER_SECONDS} s"
        words = self._log.read_text(encoding="utf-8", errors="replace")[-500:]
        raise EngineError(f"its process {how}: {words}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, str(ROOT / "interop" / "worker.py"), self._place.engine]
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    command, cwd=self._directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
                )
        return self._process
