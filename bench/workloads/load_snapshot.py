"""How long does it take to know the state of a large table, and how much memory?"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

from bench.measure import Comparison, Contender, Sample, compare
from bench.setup import Setup
from bench.tables import SEED, commit_file, first_actions
from ebbtide.protocol.actions import serialize_actions

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
TIME_MS = 1_700_000_000_000


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
    lines = [serialize_actions(first_actions(vectors=False)).decode()]
    lines += [_add(path, number) for number, path in enumerate(paths)]
    commit_file(directory, 0).write_text("".join(lines), encoding="utf-8")
    DeltaTable(directory).create_checkpoint()
    for version in range(1, COMMITS + 1):
        added = [f"part-{version}-{number}.snappy.parquet" for number in range(ADDED)]
        removed = [paths.pop(chosen.randrange(len(paths))) for _ in range(REMOVED)]
        actions = [json.dumps({"commitInfo": {"timestamp": TIME_MS + version, "operation": "WRITE"}}) + "\n"]
        actions += [_add(path, number) for number, path in enumerate(added)]
        actions += [
            json.dumps({"remove": {"path": path, "deletionTimestamp": TIME_MS, "dataChange": True}}) + "\n"
            for path in removed
        ]
        commit_file(directory, version).write_text("".join(actions), encoding="utf-8")
        paths += added
    return len(paths)


def _add(path: str, number: int) -> str:
    low, high = number * 1_000, number * 1_000 + 999
    stats = {
        "numRecords": 1_000,
        "minValues": {"id": low, "number": 0, "price": low / 7, "name": f"name-{low}", "amount": low / 100},
        "maxValues": {"id": high, "number": 99_999, "price": high / 7, "name": f"name-{high}", "amount": high / 100},
        "nullCount": {"id": 0, "number": 0, "price": 0, "name": 0, "seen": 0, "amount": 0},
    }
    add = {
        "path": path, "partitionValues": {}, "size": 30_000 + number % 997, "modificationTime": TIME_MS,
        "dataChange": True, "stats": json.dumps(stats),
    }  # fmt: skip
    return json.dumps({"add": add}) + "\n"
