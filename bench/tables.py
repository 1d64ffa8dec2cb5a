"""Which tables are measured? Made from a seed, so that every run and every machine has the same rows and marks.

Spark writes the Parquet files; the log and the vectors are written here, because what is measured is reading.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

import pyarrow.parquet as pq

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.deletion_vectors.writer import NewMarks, write_deletion_vectors
from ebbtide.protocol.actions import AddFile, CommitInfo, Metadata, Protocol, serialize_actions
from ebbtide.protocol.statistics import FileStatistics
from ebbtide.storage import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "COLUMNS",
    "HASH",
    "SCHEMA",
    "SEED",
    "SIX_COLUMNS",
    "TIME_MS",
    "Columns",
    "commit_file",
    "file_without_data",
    "first_actions",
    "mark_rows",
    "write_rows",
]

SEED = 20260131
HASH = f"xxhash64(id, {SEED}L)"
TIME_MS = 1_700_000_000_000
FEATURES = frozenset({"deletionVectors"})

# Name, Delta's type, and what a row with that id holds; all of it follows from the id and the seed.
Columns: TypeAlias = tuple[tuple[str, str, str], ...]
SIX_COLUMNS: Columns = (
    ("id", "long", "id"),
    ("number", "integer", f"CAST(pmod({HASH}, 100000) AS INT)"),
    ("price", "double", f"CAST(pmod({HASH}, 1000000007) AS DOUBLE) / 1000"),
    ("name", "string", f"concat('name-', CAST(pmod({HASH}, 250000) AS STRING))"),
    ("seen", "timestamp", f"timestamp_micros(1700000000000000 + pmod({HASH}, 100000000000000))"),
    ("amount", "decimal(12,2)", f"CAST(pmod({HASH}, 1000000000) / 100 AS DECIMAL(12,2))"),
)
COLUMNS = tuple(name for name, _, _ in SIX_COLUMNS)
SCHEMA = ", ".join(f"{name} {kind}" for name, kind, _ in SIX_COLUMNS)


def write_rows(spark: SparkSession, directory: Path, *, rows: int, files: int) -> list[Path]:
    """`rows` rows in exactly `files` Parquet files."""
    values = [f"{value} AS {name}" for name, _, value in SIX_COLUMNS]
    spark.range(0, rows, 1, files).selectExpr(*values).write.parquet(str(directory))
    written = sorted(directory.glob("part-*.parquet"))
    assert len(written) == files, f"{len(written)} files instead of {files}"
    return written


def first_actions(
    columns: Columns = SIX_COLUMNS, *, vectors: bool = True, time_ms: int = TIME_MS
) -> list[Protocol | Metadata | CommitInfo]:
    """What opens the log of a table of these columns."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind, _ in columns]
    schema_string = json.dumps({"type": "struct", "fields": fields})
    configuration = {"delta.enableDeletionVectors": "true"} if vectors else {}
    return [
        CommitInfo({"timestamp": time_ms, "operation": "WRITE", "operationParameters": {}}),
        Protocol(3, 7, FEATURES, FEATURES) if vectors else Protocol(1, 2),
        Metadata(str(SEED), schema_string, (), configuration, created_time=time_ms),
    ]


def file_without_data(path: str, number: int) -> AddFile:
    """A file of 1,000 rows that does not exist, for what only looks at the log."""
    low, high = number * 1_000, number * 1_000 + 999
    stats = {
        "numRecords": 1_000,
        "minValues": {"id": low, "number": 0, "price": low / 7, "name": f"name-{low}", "amount": low / 100},
        "maxValues": {"id": high, "number": 99_999, "price": high / 7, "name": f"name-{high}", "amount": high / 100},
        "nullCount": dict.fromkeys(COLUMNS, 0),
    }
    return AddFile(path, {}, 30_000 + number % 997, TIME_MS, data_change=True, stats=json.dumps(stats))


def mark_rows(directory: Path, files: list[Path], *, share: float) -> None:
    """Make the directory a Delta table in which `share` of every file's rows, chosen at random, is marked."""
    store = open_store(str(directory))
    chosen = random.Random(SEED)
    counts = [pq.read_metadata(file).num_rows for file in files]
    marks = (
        NewMarks(at, RowIndexSet(chosen.sample(range(count), round(count * share)))) for at, count in enumerate(counts)
    )
    vectors = [result.descriptor for result in write_deletion_vectors(store, marks)]
    adds = [
        AddFile(
            path=quote(file.name),
            partition_values={},
            size=file.stat().st_size,
            modification_time=TIME_MS,
            data_change=True,
            stats=FileStatistics.build(num_records=count).to_json(),
            deletion_vector=vector,
        )
        for file, count, vector in zip(files, counts, vectors, strict=True)
    ]
    commit_file(directory, 0).write_bytes(serialize_actions([*first_actions(), *adds]))


def commit_file(directory: Path, version: int) -> Path:
    log = directory / "_delta_log"
    log.mkdir(exist_ok=True)
    return log / f"{version:020d}.json"
