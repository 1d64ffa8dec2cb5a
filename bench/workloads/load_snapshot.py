"""How long does it take to know the state of a large table, and how much memory?"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.measure import Comparison, Contender, Sample, compare
from bench.setup import Setup
from bench.tables import SEED, TIME_MS, commit_file, file_without_data, first_actions
from ebbtide.protocol.actions import Action, CommitInfo, RemoveFile, serialize_actions

TITLE = "Loading a snapshot of 100,000 files"
ABOUT = (
    "The log of a table of 100,000 files with statistics: a checkpoint (written by `deltalake`) and 100 commits after "
    "it, each of which adds ten files and removes five. Every load is a process of its own that imports its engine "
    "first; the time is that of the load alone, the peak is that of the whole process. `open` makes the table object; "
    "`open and list` also gives all live files as an Arrow table."
)
FILES = 100_000
COMMITS = 100
ADDED, REMOVED = 10, 5
BAR = 2.0


def run(setup: Setup) -> list[Comparison]:
    directory = setup.directory / "large-log"
    directory.mkdir()
    live = _write_log(directory, files=FILES // setup.scale)
    comparisons = []
    for step in ("open", "open and list"):
        contenders = [
            Contender(engine, partial(_load, engine, step, directory, live)) for engine in ("deltalake", "Ebbtide")
        ]
        comparisons.append(compare(step, contenders, repetitions=setup.repetitions, bar=BAR))
    return comparisons


def _load(engine: str, step: str, directory: Path, live: int) -> Sample:
    command = [sys.executable, "-m", "bench.load_once", engine, step, str(directory)]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert answer["files"] in {None, live}, f"{engine} sees {answer['files']} files, not {live}"
    return Sample(answer["seconds"], answer["peak_bytes"])


def _write_log(directory: Path, *, files: int) -> int:
    """The number of live files at the end."""
    from deltalake import DeltaTable

    chosen = random.Random(SEED)
    paths = [f"part-{number:07d}-{chosen.getrandbits(64):016x}.snappy.parquet" for number in range(files)]
    adds = [file_without_data(path, number) for number, path in enumerate(paths)]
    commit_file(directory, 0).write_bytes(serialize_actions([*first_actions(vectors=False), *adds]))
    DeltaTable(directory).create_checkpoint()
    for version in range(1, COMMITS + 1):
        added = [f"part-{version}-{number}.snappy.parquet" for number in range(ADDED)]
        removed = [paths.pop(chosen.randrange(len(paths))) for _ in range(REMOVED)]
        commit_file(directory, version).write_bytes(serialize_actions(changes(version, added, removed)))
        paths += added
    return len(paths)


def changes(version: int, added: Sequence[str], removed: Sequence[str]) -> list[Action]:
    """A commit that adds and removes files which do not exist."""
    actions: list[Action] = [CommitInfo({"timestamp": TIME_MS + version, "operation": "WRITE"})]
    actions += [file_without_data(path, number) for number, path in enumerate(added)]
    return [*actions, *(RemoveFile(path, TIME_MS, data_change=True) for path in removed)]
