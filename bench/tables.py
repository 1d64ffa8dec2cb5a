"""Which tables are measured? Made from a seed, so that every run and every machine has the same rows and marks.

Spark writes the Parquet files; the log and the vectors are written here, because what is measured is reading.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow.parquet as pq

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.deletion_vectors.writer import NewMarks, write_deletion_vectors
from ebbtide.protocol.actions import AddFile, CommitInfo, Metadata, Protocol, serialize_actions
from ebbtide.protocol.statistics import FileStatistics
from ebbtide.storage import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["COLUMNS", "SCHEMA", "commit_file", "first_actions", "mark_rows", "write_rows"]

SEED = 20260131
COLUMNS = ("id", "number", "price", "name", "seen", "amount")
SCHEMA = "id BIGINT, number INT, price DOUBLE, name STRING, seen TIMESTAMP, amount DECIMAL(12,2)"
_DELTA_TYPES = {
    "id": "long",
    "number": "integer",
    "price": "double",
    "name": "string",
    "seen": "timestamp",
    "amount": "decimal(12,2)",
}
FEATURE = "deletionVectors"


def write_rows(spark: SparkSession, directory: Path, *, rows: int, files: int) -> list[Path]:
    """`rows` rows in exactly `files` Parquet files."""
    hashed = f"xxhash64(id, {SEED}L)"
    spark.range(0, rows, 1, files).selectExpr(
        "id",
        f"CAST(pmod({hashed}, 100000) AS INT) AS number",
        f"CAST(pmod({hashed}, 1000000007) AS DOUBLE) / 1000 AS price",
        f"concat('name-', CAST(pmod({hashed}, 250000) AS STRING)) AS name",
        f"timestamp_micros(1700000000000000 + pmod({hashed}, 100000000000000)) AS seen",
        f"CAST(pmod({hashed}, 1000000000) / 100 AS DECIMAL(12,2)) AS amount",
    ).write.parquet(str(directory))
    written = sorted(directory.glob("part-*.parquet"))
    assert len(written) == files, f"{len(written)} files instead of {files}"
    return written


def first_actions(*, vectors: bool = True) -> list[Protocol | Metadata | CommitInfo]:
    """What opens the log of a table of these columns."""
    fields = [
        f'{{"name":"{name}","type":"{kind}","nullable":true,"metadata":{{}}}}' for name, kind in _DELTA_TYPES.items()
    ]
    schema_string = f'{{"type":"struct","fields":[{",".join(fields)}]}}'
    features = frozenset({FEATURE})
    configuration = {"delta.enableDeletionVectors": "true"} if vectors else {}
    return [
        CommitInfo({"timestamp": 1_700_000_000_000, "operation": "WRITE"}),
        Protocol(3, 7, features, features) if vectors else Protocol(1, 2),
        Metadata(str(SEED), schema_string, (), configuration, created_time=1_700_000_000_000),
    ]


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
            modification_time=1_700_000_000_000,
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
