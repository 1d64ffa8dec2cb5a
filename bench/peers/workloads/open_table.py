"""How long does it take to know the state of a table, the more files it has?"""

from __future__ import annotations

import json
import os
import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.data import SEED, SIX_COLUMNS, TIME_MS, first_actions
from bench.peers.engines import WRITERS, Engine
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run
from ebbtide.protocol.actions import Metadata, Protocol

TITLE = "Opening a table of 10, 1,000, 100,000 and 1,000,000 files"
ABOUT = (
    "A checkpoint with that many files and their statistics, and five commits after it, each of which adds two files "
    "and removes one. The data files do not exist. Ebbtide and deltalake list all live files, delta-spark tells their "
    "number (`DESCRIBE DETAIL`); Sail has no such statement and answers a query that no file can match. Every run has "
    "the log under a new path, because delta-spark keeps the state of paths that it has seen."
)
FILES = (10, 1_000, 100_000, 1_000_000)
CHECKPOINT, COMMITS, ADDED = 10, 5, 2
# What the commits after the checkpoint add, without what they remove.
MORE = COMMITS * (ADDED - 1)
# Without vectors a second time would be the same log.
ENGINES = tuple(engine for engine in WRITERS if engine.name != "delta-spark without vectors")


def run(run: Run) -> list[Case]:
    cases = []
    for files in dict.fromkeys(run.sized(files, at_least=10) for files in FILES):
        with run.place(f"log-of-{files}") as log:
            _write_log(log, files)
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


def _write_log(log: Path, files: int) -> None:
    chosen = random.Random(SEED)
    log.mkdir(parents=True)
    paths = [f"part-{number:07d}-{chosen.getrandbits(64):016x}.snappy.parquet" for number in range(files)]
    pq.write_table(_checkpoint(paths), log / f"{CHECKPOINT:020d}.checkpoint.parquet")
    hint = {"version": CHECKPOINT, "size": files + 2, "numOfAddFiles": files}
    (log / "_last_checkpoint").write_text(json.dumps(hint), encoding="utf-8")
    for commit in range(CHECKPOINT + 1, CHECKPOINT + COMMITS + 1):
        lines: list[dict[str, Any]] = [{"commitInfo": {"timestamp": TIME_MS + commit, "operation": "WRITE"}}]
        lines += [{"add": _add(f"part-{commit}-{number}.parquet", number)} for number in range(ADDED)]
        lines += [{"remove": {"path": paths[commit - CHECKPOINT], "deletionTimestamp": TIME_MS, "dataChange": True}}]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (log / f"{commit:020d}.json").write_text(text, encoding="utf-8")


def _add(path: str, number: int) -> dict[str, Any]:
    low, high = number * 1_000, number * 1_000 + 999
    stats = {
        "numRecords": 1_000,
        "minValues": {"id": low, "number": 0, "price": low / 7, "name": f"name-{low}"},
        "maxValues": {"id": high, "number": 99_999, "price": high / 7, "name": f"name-{high}"},
        "nullCount": {"id": 0, "number": 0, "price": 0, "name": 0},
    }
    sizes = {"size": 30_000 + number % 997, "modificationTime": TIME_MS, "dataChange": True}
    return {"path": path, "partitionValues": {}, **sizes, "stats": json.dumps(stats)}


_NAMES = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _NAMES}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _NAMES,
                "createdTime": pa.int64(),
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _NAMES,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
            }
        ),
        "remove": pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}),
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64()}),
    }
)


def _checkpoint(paths: list[str]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for action in first_actions(SIX_COLUMNS, vectors=False):
        if isinstance(action, Protocol):
            rows.append({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
        if isinstance(action, Metadata):
            table_format = {"provider": "parquet", "options": []}
            rows.append(
                {
                    "metaData": {
                        "id": action.id,
                        "format": table_format,
                        "schemaString": action.schema_string,
                        "partitionColumns": [],
                        "configuration": [],
                        "createdTime": TIME_MS,
                    }
                }
            )
    # A part at a time: a million dictionaries at once would take gigabytes.
    parts = [pa.Table.from_pylist(rows, _SCHEMA)]
    for first in range(0, len(paths), 50_000):
        adds = [_add(path, number) for number, path in enumerate(paths[first : first + 50_000], start=first)]
        adds = [{"add": add | {"partitionValues": []}} for add in adds]
        parts.append(pa.Table.from_pylist(adds, _SCHEMA))
    return pa.concat_tables(parts)
