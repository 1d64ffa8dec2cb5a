"""How is an engine asked that needs a process of its own? One line of JSON goes in, and one comes out.

`LineWorker` starts the process and asks; `answers` is the other end, in the process itself. Whatever a library prints there
goes to the standard error, which is kept in a file: its end is what a worker that died has to say.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["EngineError", "LineWorker", "answers"]

LAST_WORDS = 2000


class EngineError(Exception):
    """What an engine raised in its own process, in its own words; or how its process ended."""


class LineWorker:
    """A started process. With `answer_seconds` one that says nothing for so long is ended."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        answer_seconds: float | None = None,
    ) -> None:
        self._log, self._answer_seconds = log, answer_seconds
        with log.open("ab") as words:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                env=None if environment is None else os.environ | dict(environment),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, task: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        # One that has ended reads nothing any more; `heard` says how it ended.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        return self.heard()

    def heard(self) -> dict[str, Any]:
        """The next line; EngineError when it tells an error, and when there is none."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], self._answer_seconds)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            raise EngineError(self._end(said_nothing=not ready))
        answer = dict(json.loads(line))
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer

    def close(self, *, wait_seconds: float = 60) -> None:
        """The end of its input is how a worker learns that nobody will ask any more."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(wait_seconds)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _end(self, *, said_nothing: bool) -> str:
        if said_nothing:
            self._process.kill()
        code = self._process.wait()
        how = f"gave no answer for {self._answer_seconds} s" if said_nothing else f"ended with {code}"
        return f"its process {how}: {self._log.read_text(encoding='utf-8', errors='replace')[-LAST_WORDS:]}"


def answers() -> Callable[[Mapping[str, Any]], None]:
    """In the worker: what writes an answer. Called first, because from then on all other output is standard error."""
    channel = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: Mapping[str, Any]) -> None:
        channel.write(json.dumps(answer, default=str) + "\n")

    return say
