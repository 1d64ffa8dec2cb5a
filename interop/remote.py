"""How does an engine that needs a process of its own get one?

`Remote` has the face of an `Engine` and asks the real one, which `interop.worker` holds in a process that was started
below the directory of the tables. One line of JSON goes there for a call and one comes back; rows come back as an
Arrow file. A worker that dies takes one answer with it: the next call starts another.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.line_worker import LineWorker

from interop.engines import Place, load
from interop.features import Definition
from interop.steps import Step

__all__ = ["Remote"]

ROOT = Path(__file__).parent.parent
ANSWER_SECONDS = 180


class Remote:
    def __init__(self, place: Place, directory: Path, log: Path) -> None:
        self.offers: frozenset[str] = load(place).offers
        self._place, self._directory, self._log = place, directory, log
        self._worker: LineWorker | None = None
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
        if self._worker is not None:
            self._worker.close()

    def _ask(self, call: str, **arguments: Any) -> Any:
        if self._worker is None or self._worker.has_ended:
            command = [sys.executable, str(ROOT / "interop" / "worker.py"), self._place.engine]
            self._worker = LineWorker(command, self._log, directory=self._directory, answer_seconds=ANSWER_SECONDS)
        return self._worker.ask({"call": call, "arguments": arguments})["value"]
