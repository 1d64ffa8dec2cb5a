"""Does a commit get slower the more commits there are?

1,000 small commits in a row, checkpoints included. The median of the last hundred is held against that of the first.
"""

from __future__ import annotations

import statistics
import time

from bench.harness import Context, Workload
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile, Metadata, Protocol
from ebbtide.storage import open_store
from ebbtide.transaction import Operation, Transaction

__all__ = ["run"]

_SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def run(context: Context) -> Workload:
    commits = context.rows(1000) if not context.quick else 200
    path = context.fresh("commits")
    path.mkdir()
    store = open_store(str(path))
    metadata = Metadata(id="bench", schema_string=_SCHEMA, partition_columns=(), configuration={})
    created = Transaction.create(store, metadata, Protocol(1, 2)).commit([], Operation("CREATE TABLE"))
    snapshot: Snapshot = created.snapshot
    seconds = []
    for number in range(commits):
        started = time.perf_counter()
        transaction = Transaction.begin(store, hint=snapshot)
        stats = f'{{"numRecords":1,"minValues":{{"id":{number}}},"maxValues":{{"id":{number}}},"nullCount":{{"id":0}}}}'
        add = AddFile(f"part-{number}.parquet", {}, 100, 0, data_change=True, stats=stats)
        snapshot = transaction.commit([add], Operation("WRITE")).snapshot
        seconds.append(time.perf_counter() - started)
    # The first few pay for imports; a commit with a checkpoint is compared with others of its kind by taking medians.
    early, late = statistics.median(seconds[10:110]), statistics.median(seconds[-100:])
    total = sum(seconds)
    result = Workload(
        title="1,000 small commits in a row",
        about="One file a commit, a checkpoint every ten, local disk with fsync.",
        columns=["commits", "first hundred", "last hundred", "ratio", "commits a second"],
        rows=[
            [
                str(commits),
                f"{early * 1000:.1f} ms",
                f"{late * 1000:.1f} ms",
                f"{late / early:.2f}",
                f"{commits / total:.0f}",
            ]
        ],
    )
    result.bar("last hundred to first hundred", late / early, 1.3)
    return result
