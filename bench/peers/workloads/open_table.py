"""How long does it take to know the state of a table, the more files it has?"""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.engines import WRITERS, Engine
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run
from bench.tables import SEED, commit_file, file_without_data, first_actions
from bench.workloads.load_snapshot import changes
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.protocol.actions import serialize_actions
from ebbtide.storage import open_store

TITLE = "Opening a table of 10, 1,000, 100,000 and 1,000,000 files"
ABOUT = (
    "A checkpoint with that many files and their statistics, and five commits after it, each of which adds two files "
    "and removes one. The data files do not exist. Ebbtide and deltalake list all live files, delta-spark reports "
    "their number (`DESCRIBE DETAIL`); Sail has no such statement and answers a query that no file can match. Every "
    "run has the log under a new path, because delta-spark keeps the state of paths that it has seen."
)
FILES = (10, 1_000, 100_000, 1_000_000)
COMMITS, ADDED = 5, 2
# What the commits after the checkpoint add, without what they remove.
MORE = COMMITS * (ADDED - 1)
# Without vectors a second time would be the same log.
ENGINES = tuple(engine for engine in WRITERS if engine.name != "delta-spark without vectors")


def run(run: Run) -> list[Case]:
    cases = []
    sizes = (FILES[0], FILES[-1]) if run.is_short else FILES
    for files in dict.fromkeys(run.sized(files, at_least=10) for files in sizes):
        with run.place(f"log-of-{files}") as table:
            log = _write_log(table, files)
            work = Work(f"{files:,} files", partial(_link, log), _task, check=partial(_wrong, files + MORE))
            cases.append(measured(run, work, ENGINES))
    return cases


def _task(path: Path) -> dict[str, Any]:
    return {"do": "open", "path": str(path)}


def _wrong(expected: int, answer: dict[str, Any]) -> str | None:
    told = answer["result"]
    return None if told in (None, expected) else f"it sees {told:,} files instead of {expected:,}"


def _link(log: Path, path: Path, engine: Engine) -> None:
    del engine
    (path / "_delta_log").mkdir(parents=True)
    for file in log.iterdir():
        os.link(file, path / "_delta_log" / file.name)


def _write_log(table: Path, files: int) -> Path:
    """The log of a table without data: a checkpoint that holds all files, and the commits after it."""
    chosen = random.Random(SEED)
    table.mkdir(parents=True)
    paths = [f"part-{number:07d}-{chosen.getrandbits(64):016x}.snappy.parquet" for number in range(files)]
    first = commit_file(table, 0)
    adds = (file_without_data(path, number) for number, path in enumerate(paths))
    first.write_bytes(serialize_actions([*first_actions(vectors=False), *adds]))
    write_checkpoint(load_snapshot(open_store(str(table))))
    # As after a cleanup: what the checkpoint holds is nowhere else.
    first.unlink()
    for version in range(1, COMMITS + 1):
        added = [f"part-{version}-{number}.parquet" for number in range(ADDED)]
        commit_file(table, version).write_bytes(serialize_actions(changes(version, added, [paths[version]])))
    return first.parent
