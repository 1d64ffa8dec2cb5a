"""What did Spark plan for this query?

Read from the public `explain`, so that it works on classic Spark and on Connect alike.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

__all__ = ["ParquetScan", "operators", "parquet_scans", "plan_text", "task_count"]

_NODE = re.compile(r"^\((\d+)\) (.+?)(?: \[codegen id : \d+\])?\s*$")
_DETAIL = re.compile(r"^(\w+)\s*(?:\[\d+\])?\s*: ?(.*)$")
_COLUMN_NUMBER = re.compile(r"#\d+L?")


@dataclass(frozen=True)
class ParquetScan:
    """One scan of the plan. `read_schema` is what is asked of Parquet, partition columns excluded."""

    output: str
    location: str
    pushed_filters: str
    partition_filters: str
    read_schema: str


def plan_text(frame: DataFrame) -> str:
    """The physical plan before it runs, columns without their numbers."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain("formatted")
    return _COLUMN_NUMBER.sub("", printed.getvalue())


def operators(frame: DataFrame) -> list[str]:
    """The names of the plan's operators, in the order Spark numbers them: inputs first."""
    return [name for name, _ in _nodes(plan_text(frame))]


def parquet_scans(frame: DataFrame) -> list[ParquetScan]:
    return [
        ParquetScan(
            output=details.get("Output", ""),
            location=details.get("Location", ""),
            pushed_filters=details.get("PushedFilters", "[]"),
            partition_filters=details.get("PartitionFilters", "[]"),
            read_schema=details.get("ReadSchema", ""),
        )
        for name, details in _nodes(plan_text(frame))
        if name.startswith("Scan parquet")
    ]


def task_count(frame: DataFrame) -> int:
    """How many tasks gave rows; for queries without a shuffle these are the splits of the files."""
    from pyspark.sql import functions as F

    return frame.select(F.spark_partition_id().alias("task")).distinct().count()


def _nodes(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    name, details = "", {}
    for line in text.splitlines():
        if node := _NODE.match(line):
            if name:
                yield name, details
            name, details = node[2].strip(), {}
        elif name and (detail := _DETAIL.match(line)):
            details.setdefault(detail[1], detail[2].strip())
    if name:
        yield name, details
