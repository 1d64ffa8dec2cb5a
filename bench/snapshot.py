"""How long does it take to know a table of 100,000 files?

A checkpoint with 100,000 files and 100 commits on top of it. Each engine opens the table and lists its files in a
process of its own, so that peak memory can be told apart.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import uuid
from pathlib import Path

import deltalake

from bench.harness import Context, Workload

__all__ = ["run"]

_OURS = """
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store
def load(path):
    return load_snapshot(open_store(path)).files.num_rows
"""
_THEIRS = """
from deltalake import DeltaTable
def load(path):
    return DeltaTable(path).get_add_actions(flatten=False).num_rows
"""
_MEASURE = """
import json, resource, sys, time
load(sys.argv[2])  # a table of one file: what is imported on first use is not the table's doing
times = []
for _ in range(4):
    started = time.perf_counter()
    rows = load(sys.argv[1])
    times.append(time.perf_counter() - started)
print(json.dumps([rows, times[0], sorted(times[1:])[1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024]))
"""


def run(context: Context) -> Workload:
    files, commits = context.rows(100_000), 100
    path = _table(context, "many-files", files, commits)
    warm_up = _table(context, "few-files", 1, 1)
    result = Workload(
        title="Opening a table of 100,000 files",
        about=f"A checkpoint with {files:,} files plus {commits} commits; opened and its files listed.",
        columns=["engine", "first time", "again", "peak memory"],
    )
    medians: dict[str, float] = {}
    for name, code in (("Ebbtide", _OURS), ("deltalake", _THEIRS)):
        samples = [_measured(code, path, warm_up) for _ in range(context.repetitions)]
        first = statistics.median(sample[1] for sample in samples)
        again = statistics.median(sample[2] for sample in samples)
        medians[name] = first
        memory = max(sample[3] for sample in samples)
        result.rows.append([name, f"{first * 1000:.0f} ms", f"{again * 1000:.0f} ms", f"{memory:.0f} MiB"])
    result.bar("first load, ratio to deltalake", medians["Ebbtide"] / medians["deltalake"], 2.0)
    return result


def _measured(code: str, path: str, warm_up: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", code + _MEASURE, path, warm_up], check=True, capture_output=True, text=True
    )
    return [float(value) for value in json.loads(done.stdout)]


def _table(context: Context, name: str, files: int, commits: int) -> str:
    path = context.fresh(name)
    log = path / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    head = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": str(uuid.UUID(int=1)),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
                "createdTime": 0,
            }
        },
    ]
    _write(log, 0, [*head, *(_add(number) for number in range(files))])
    deltalake.DeltaTable(str(path)).create_checkpoint()
    for version in range(1, commits + 1):
        remove = {"path": _name(version), "deletionTimestamp": 1, "dataChange": True}
        _write(log, version, [_add(files + version), {"remove": remove}])
    return str(path)


def _write(log: Path, version: int, actions: list[dict[str, object]]) -> None:
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def _name(number: int) -> str:
    return f"part-{number:08d}-{uuid.UUID(int=number)}.snappy.parquet"


def _add(number: int) -> dict[str, object]:
    stats = {
        "numRecords": 1000,
        "minValues": {"id": number * 1000},
        "maxValues": {"id": number * 1000 + 999},
        "nullCount": {"id": 0},
    }
    add = {
        "path": _name(number),
        "partitionValues": {},
        "size": 100_000,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps(stats),
    }
    return {"add": add}
