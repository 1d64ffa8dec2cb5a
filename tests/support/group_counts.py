"""How many rows has each group of a very large table? `python -m tests.support.group_counts TABLE OUTPUT COLUMN ...`

A process of its own, with Java's optimising compiler: the tests' own sessions do without it, and then a table of billions
of rows takes ten minutes instead of one. The counts become an Arrow file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from tests.support.spark_session import open_session

import ebbtide

__all__ = ["group_counts"]

COMPILED = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}


def group_counts(table: Path, columns: Sequence[str], output: Path) -> pa.Table:
    """The columns, and `count`: one row per group, counted by a child process."""
    command = [sys.executable, "-m", "tests.support.group_counts", str(table), str(output), *columns]
    subprocess.run(command, check=True)
    with pa.ipc.open_file(output) as file:
        return file.read_all()


def main(table: str, output: str, *columns: str) -> None:
    with tempfile.TemporaryDirectory() as scratch, open_session("classic", Path(scratch), COMPILED) as spark:
        counted = ebbtide.read(spark, table).groupBy(*columns).count().toArrow()
    with pa.OSFile(output, "wb") as sink, pa.ipc.new_file(sink, counted.schema) as file:
        file.write_table(counted)


if __name__ == "__main__":
    main(*sys.argv[1:])
