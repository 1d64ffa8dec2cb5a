"""Which tables are measured? Made once a run by a seeded Spark job, then given a Delta log over hard links."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

__all__ = ["ALL_COLUMNS", "delta_table", "parquet_files"]

ALL_COLUMNS = ("id", "k", "v", "name", "ts", "amount")
_TYPES = ("long", "integer", "double", "string", "timestamp", "decimal(10,2)")


def parquet_files(spark: SparkSession, directory: Path, rows: int, files: int) -> list[str]:
    """Six columns, `id` ascending; the same rows however many files there are."""
    if not directory.exists():
        frame = spark.range(0, rows, 1, files).select(
            "id",
            (F.col("id") % 1000).cast("int").alias("k"),
            (F.rand(seed=1) * 1000).alias("v"),
            F.concat(F.lit("name-"), (F.col("id") % 100_000).cast("string")).alias("name"),
            F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id")).alias("ts"),
            (F.rand(seed=2) * 100).cast("decimal(10,2)").alias("amount"),
        )
        frame.write.parquet(str(directory))
    return sorted(str(path) for path in directory.glob("*.parquet"))


def delta_table(files: list[str], table: Path, *, vectors: bool = True, statistics: bool = True) -> str:
    """A Delta table at version 0 over the files, hard-linked, so that nothing is copied."""
    (table / "_delta_log").mkdir(parents=True)
    adds = [_add(Path(file), table, statistics=statistics) for file in files]
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in zip(ALL_COLUMNS, _TYPES, strict=True)
    ]
    protocol: dict[str, object] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if vectors:
        features = ["deletionVectors"]
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": [*features, "appendOnly", "invariants"],
        }
    metadata = {
        "id": "bench",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"} if vectors else {},
        "createdTime": 0,
    }
    lines = [{"protocol": protocol}, {"metaData": metadata}, *adds]
    commit = table / "_delta_log" / f"{0:020d}.json"
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(table)


def _add(file: Path, table: Path, *, statistics: bool) -> dict[str, object]:
    os.link(file, table / file.name)
    footer = pq.read_metadata(file)
    stats: dict[str, object] = {"numRecords": footer.num_rows, "tightBounds": True}
    if statistics:
        column = [footer.row_group(group).column(0).statistics for group in range(footer.num_row_groups)]
        stats |= {
            "minValues": {"id": min(item.min for item in column)},
            "maxValues": {"id": max(item.max for item in column)},
            "nullCount": {"id": 0},
        }
    return {
        "add": {
            "path": file.name,
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
    }
