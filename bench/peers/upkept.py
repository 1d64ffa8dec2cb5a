"""Which tables need maintenance? Made from the rows of `bench.peers.data`: worn, littered, or overwritten by mistake.

Files are linked wherever that is possible, so that a table of a hundred thousand files takes seconds to make.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from bench.peers.data import NOW_MS, Rows, add_of, fresh_table, made
from bench.tables import commit_file, first_actions, mark_rows
from ebbtide.protocol.actions import AddFile, CommitInfo, serialize_actions

__all__ = ["littered", "overwritten", "worn"]

WEEKS_AGO = time.time() - 30 * 24 * 3600
ORPHANS_IN_A_DIRECTORY = 2_000
# Some file systems allow no more names for one file.
LINKS_OF_A_FILE = 30_000


def worn(directory: Path, rows: Rows, data: Path, *, share: float) -> None:
    """A table in which this share of every file's rows is marked."""
    directory.mkdir(parents=True)
    files = []
    for file in made(rows, data):
        os.link(file, directory / file.name)
        files.append(directory / file.name)
    mark_rows(directory, files, share=share)


def littered(directory: Path, rows: Rows, data: Path, *, orphans: int, vectors: bool) -> None:
    """A table, and beside its files as many empty ones, weeks old, that no commit ever named."""
    fresh_table(directory, rows, data, vectors=vectors)
    source = directory
    for number in range(orphans):
        if number % LINKS_OF_A_FILE == 0:
            source = directory / f"orphan-{number}.parquet"
            source.touch()
            os.utime(source, (WEEKS_AGO, WEEKS_AGO))
            continue
        folder = directory / f"day={number // ORPHANS_IN_A_DIRECTORY}"
        if not folder.exists():
            folder.mkdir()
        os.link(source, folder / f"orphan-{number}.parquet")


def overwritten(directory: Path, rows: Rows, data: Path, *, files: int, vectors: bool) -> None:
    """Version 0 has as many files, version 1 has one instead of them all."""
    [file] = made(rows, data)
    names = [f"part-{number:05d}.parquet" for number in range(files)]
    directory.mkdir(parents=True)
    source = file
    for number, name in enumerate((*names, "new.parquet")):
        if number % LINKS_OF_A_FILE == 0:
            shutil.copyfile(file, directory / name)
            source = directory / name
        else:
            os.link(source, directory / name)
    adds = [add_of(file, name) for name in names]
    first = [*first_actions(rows.columns, vectors=vectors, time_ms=NOW_MS), *adds]
    commit_file(directory, 0).write_bytes(serialize_actions(first))
    mistake: list[CommitInfo | AddFile | Any] = [
        CommitInfo({"timestamp": NOW_MS, "operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}),
        add_of(file, "new.parquet"),
        *(add.remove(NOW_MS) for add in adds),
    ]
    commit_file(directory, 1).write_bytes(serialize_actions(mistake))
