"""Runs one DELETE again and again and kills the process with SIGKILL at every point in turn.

`python -m tests.faults.killed_deletes TEMPLATE DIRECTORY [rival]`. A point is just before and just after each storage
call, and each call to the operating system inside the ones that write (between the bytes and the name, say). The
program imports everything once and forks a child for each point, which works on its own copy of the template and really
dies. It prints one line a point: what the child was about to do. A child that got to the end ends the program.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pyarrow as pa
from tests.support.arrow_deletes import Condition, delete_without_spark
from tests.support.races import RacingStore
from tests.support.stores import HookedStore

from ebbtide.storage import durable, open_store

CONDITION = Condition("in", (1, 2, 12))
RIVAL_CONDITION = Condition("in", (2, 3))
MAX_POINTS = 1000


class Deadline:
    """Kills this process at point number `at`, after saying what comes next."""

    def __init__(self, at: int, said: Path) -> None:
        self.left = at
        self.said = said

    def reach(self, what: str) -> None:
        if self.left == 0:
            self.said.write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


class DeadlyOs:
    """The `os` module, with a point before each call that changes the disk."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in {"write", "fsync", "link"}:
            return real

        def call(*args, **options):
            self._deadline.reach(f"os.{name}")
            return real(*args, **options)

        return call


def delete_until(table: Path, at: int, *, rival: bool) -> None:
    deadline = Deadline(at, table.parent / f"{table.name}.point")
    store = open_store(str(table))
    if rival:
        # Its own commit is not under test, so it is done before the operating system becomes dangerous.
        def win():
            durable.os = os
            delete_without_spark(open_store(str(table)), RIVAL_CONDITION)
            durable.os = DeadlyOs(deadline)

        store = RacingStore(store, win, first=2)
    durable.os = DeadlyOs(deadline)
    store = HookedStore(
        store,
        before=lambda op, path: deadline.reach(f"before {op} {path}"),
        after=lambda op, path: deadline.reach(f"after {op} {path}"),
    )
    delete_without_spark(store, CONDITION)


def main(template: Path, directory: Path, *, rival: bool) -> int:
    pa.set_cpu_count(1)
    for at in range(MAX_POINTS):
        table = directory / f"{at:03d}"
        shutil.copytree(template, table)
        child = os.fork()
        if child == 0:
            delete_until(table, at, rival=rival)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        assert os.WTERMSIG(status) == signal.SIGKILL
        print((directory / f"{at:03d}.point").read_text())
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), rival="rival" in sys.argv[3:]))
