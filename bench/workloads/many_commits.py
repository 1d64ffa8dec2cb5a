"""Does a commit get slower the more commits there are?"""

from __future__ import annotations

import shutil
import statistics
import time

from bench.measure import Comparison
from bench.setup import Setup
from ebbtide.protocol.actions import AddFile, Metadata, Protocol
from ebbtide.storage import open_store
from ebbtide.transaction import Operation, Transaction

TITLE = "1,000 small commits in a row"
ABOUT = (
    "One file per commit, a checkpoint every ten, local disk with fsync; the median commit of the last hundred against "
    "the median of the first hundred, three times."
)
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def run(setup: Setup) -> list[Comparison]:
    commits = 300 if setup.quick else 1000
    result = Comparison(f"{commits:,} commits", 1.3, ["first hundred", "last hundred"])
    for _ in range(3):
        seconds = _commit_times(setup, commits)
        # The first few pay for imports.
        result.seconds.setdefault("first hundred", []).append(statistics.median(seconds[10:110]))
        result.seconds.setdefault("last hundred", []).append(statistics.median(seconds[-100:]))
    return [result]


def _commit_times(setup: Setup, commits: int) -> list[float]:
    path = setup.directory / "commits"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    store = open_store(str(path))
    metadata = Metadata(id="bench", schema_string=SCHEMA, partition_columns=(), configuration={})
    snapshot = Transaction.create(store, metadata, Protocol(1, 2)).commit([], Operation("CREATE TABLE")).snapshot
    seconds = []
    for number in range(commits):
        stats = f'{{"numRecords":1,"minValues":{{"id":{number}}},"maxValues":{{"id":{number}}},"nullCount":{{"id":0}}}}'
        add = AddFile(f"part-{number}.parquet", {}, 100, 0, data_change=True, stats=stats)
        started = time.perf_counter()
        transaction = Transaction.begin(store, hint=snapshot)
        snapshot = transaction.commit([add], Operation("WRITE")).snapshot
        seconds.append(time.perf_counter() - started)
    return seconds
