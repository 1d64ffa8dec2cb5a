"""Tables for VACUUM: with the times of their files chosen, so that a clock of our own decides what is old.

`TableBuilder` commits a minute apart, from `FIRST_COMMIT_MS` on. `settle` gives every data and vector file that has no
time yet the time of the newest commit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from tests.support.log_reading import vector_file
from tests.support.table_builder import COMMIT_INTERVAL_MS, FIRST_COMMIT_MS, TableBuilder

from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.commands.vacuum.request import VacuumRequest
from ebbtide.commands.vacuum.results import VacuumResult
from ebbtide.storage import ObjectStore, open_store
from ebbtide.transaction import Clock

__all__ = [
    "HOUR_MS",
    "SCHEMA",
    "at",
    "builder",
    "files_of",
    "names_below",
    "needed_by",
    "put",
    "set_time",
    "settle",
    "vacuum",
]

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})
HOUR_MS = 3_600_000


def at(version: int, *, hours: float = 0) -> int:
    """The time of a version's commit, and so many hours later."""
    return FIRST_COMMIT_MS + version * COMMIT_INTERVAL_MS + int(hours * HOUR_MS)


def builder(path: Path, **options: Any) -> TableBuilder:
    return TableBuilder(path, SCHEMA, **options).deletion_vectors()


def set_time(path: Path, time_ms: int) -> None:
    os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000), follow_symlinks=False)


def put(table: Path, name: str, time_ms: int, content: bytes = b"orphan") -> Path:
    """A file, in directories that are as old as itself."""
    target = table / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    set_time(target, time_ms)
    for directory in target.parents:
        if directory == table:
            break
        set_time(directory, time_ms)
    return target


def settle(table: TableBuilder, time_ms: int | None = None) -> None:
    """Give what was written since the last call, directories included, a time: that of the newest commit."""
    wanted = at(table.version) if time_ms is None else time_ms
    for path in table.path.rglob("*"):
        is_log = "_delta_log" in path.parts
        if not is_log and not path.is_symlink() and path.stat().st_mtime > wanted / 1000 + 1:
            set_time(path, wanted)


def vacuum(table: Path | ObjectStore, now_ms: int, **request: Any) -> VacuumResult:
    """A VACUUM at a time, without the check unless asked for."""
    store = open_store(str(table)) if isinstance(table, Path) else table
    request = {"retention_check": False} | request
    clock = Clock(now_ms=lambda: now_ms, sleep=lambda _: None)
    return VacuumCommand(VacuumRequest(store, **request), clock=clock).run()


def names_below(table: Path) -> set[str]:
    """Every file and link below the root, the log left out."""
    found = (path for path in table.rglob("*") if path.is_symlink() or not path.is_dir())
    return {
        name for name in (path.relative_to(table).as_posix() for path in found) if not name.startswith("_delta_log/")
    }


def needed_by(table: TableBuilder) -> set[str]:
    """The files that the newest version needs, its vectors included, by the builder's own book-keeping."""
    return {name for file in table.files for name in files_of(table.path, file.add)}


def files_of(table: Path, action: dict[str, Any]) -> set[str]:
    """The data file of an action and that of its vector, below the root."""
    vector = action.get("deletionVector")
    file = None if vector is None else vector_file(table, vector)
    return {unquote(action["path"])} | ({file.relative_to(table).as_posix()} if file else set())
