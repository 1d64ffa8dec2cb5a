"""What does Ebbtide do? A table, rows deleted from it, and what Spark reads afterwards, in about twenty seconds.

`make demo` runs it; `make demo ARGS=--keep` leaves the table on disk to look around in. Nothing is downloaded and
nothing outside a temporary directory is touched.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

import ebbtide
from ebbtide.cli.files import files_table
from ebbtide.cli.live_files import deleted_shares, file_totals
from ebbtide.cli.output import size_text
from ebbtide.cli.session import quiet_session, steady_console
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import AddFile, CommitInfo, Metadata, Protocol, serialize_actions
from ebbtide.protocol.log_names import commit_name, log_path
from ebbtide.protocol.schema import PrimitiveType, StructField, StructType
from ebbtide.protocol.statistics import FileStatistics
from ebbtide.storage import open_store

ROWS_PER_FILE = 250_000
CITIES = ("Aarhus", "Bergen", "Cork", "Delft", "Evora")
# The share of returned parcels in each file: nearly none, some, most, none.
RETURNED_SHARES = (0.02, 0.15, 0.60, 0.0)
CONDITION = "status = 'returned'"
FEATURES = frozenset({"deletionVectors"})


@dataclass(frozen=True, slots=True)
class Deleted:
    """What the deletion left behind."""

    rows: int
    bytes_written: int


# --- the four steps ---------------------------------------------------------------------------------------------------


def create_table(path: Path) -> None:
    """A table of parcels: one Parquet file for each depot, and version 0 of the log."""
    store = open_store(str(path))
    types = {"id": "long", "city": "string", "status": "string", "grams": "integer"}
    schema = StructType(tuple(StructField(name, PrimitiveType(kind), True, {}) for name, kind in types.items()))
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=json.dumps(schema.to_json()),
        partition_columns=(),
        configuration={"delta.enableDeletionVectors": "true"},
        created_time=_now_ms(),
    )
    adds = [_write_file(path, number, share) for number, share in enumerate(RETURNED_SHARES)]
    protocol = Protocol(3, 7, reader_features=FEATURES, writer_features=FEATURES)
    info = CommitInfo({"timestamp": _now_ms(), "operation": "WRITE", "operationParameters": {"mode": "Append"}})
    store.put_if_absent(log_path(commit_name(0)), serialize_actions([info, protocol, metadata, *adds]))


def delete_returned(console: Console, spark: SparkSession, path: Path) -> Deleted:
    """A real DELETE on Spark: every returned parcel is marked, no data file is rewritten."""
    result = ebbtide.DeltaTable.forPath(spark, str(path)).delete(CONDITION)
    console.print(f"  {result}", style="bold", highlight=False)
    vector_files = list(path.glob("deletion_vector_*.bin"))
    return Deleted(result.num_affected_rows, sum(file.stat().st_size for file in vector_files))


def show_files(console: Console, path: Path) -> None:
    """What `ebbtide files` shows: the log alone says how much of each file is gone."""
    snapshot = load_snapshot(open_store(str(path)))
    files = deleted_shares(snapshot)
    console.print(files_table(console, files.sort_by("path")))
    totals = file_totals(files)
    console.print(f"\n  {totals.num_live:,} of {totals.num_records:,} rows are left.", style="dim")


def show_rows(console: Console, spark: SparkSession, path: Path, deleted: Deleted) -> None:
    """Read the table on Spark, now and before the deletion, and hold the numbers against each other."""
    with _timed(console, "Spark counted the rows by status, before and after"):
        before = _count_by_status(ebbtide.read(spark, str(path), version=0))
        now = _count_by_status(ebbtide.read(spark, str(path)))
    for status in sorted(before):
        old, new = before[status], now.get(status, 0)
        style = "bold red" if new < old else "dim"
        console.print(Text(f"    {status:<10} {old:>10,}  ->  {new:>10,}", style=style))
    gone = sum(before.values()) - sum(now.values())
    if gone != deleted.rows or "returned" in now:
        raise SystemExit(f"The demo is broken: {deleted.rows} rows were deleted, and {gone} are missing.")
    console.print(f"\n  {gone:,} rows are gone, no other row is, and version 0 still has them all.", style="green")


def run(console: Console, path: Path) -> None:
    _title(console, "1", "A Delta table on this disk")
    with _timed(console, f"wrote {len(RETURNED_SHARES) * ROWS_PER_FILE:,} parcels into {len(RETURNED_SHARES)} files"):
        create_table(path)
    with ExitStack() as stack:
        with console.status("Starting Spark"):
            spark = stack.enter_context(quiet_session())
        _title(console, "2", f"Rows leave it: {CONDITION}")
        with _timed(console, "marked the rows in deletion vectors, rewrote no data file"):
            deleted = delete_returned(console, spark, path)
        table_bytes = load_snapshot(open_store(str(path))).size_in_bytes
        sizes = f"{size_text(deleted.bytes_written)} written beside {size_text(table_bytes)} of data"
        console.print(f"  {deleted.rows:,} rows, {sizes}.", style="dim")
        _title(console, "3", "What the log says about the files")
        show_files(console, path)
        _title(console, "4", "What Spark reads")
        show_rows(console, spark, path, deleted)


# --- what the steps are made of ---------------------------------------------------------------------------------------


def _write_file(path: Path, number: int, returned_share: float) -> AddFile:
    rng = random.Random(number)
    first = number * ROWS_PER_FILE
    status = ["returned" if rng.random() < returned_share else "delivered" for _ in range(ROWS_PER_FILE)]
    columns = {
        "id": pa.array(range(first, first + ROWS_PER_FILE), pa.int64()),
        "city": pa.array(rng.choices(CITIES, k=ROWS_PER_FILE)),
        "status": pa.array(status),
        "grams": pa.array(rng.choices(range(50, 20_000), k=ROWS_PER_FILE), pa.int32()),
    }
    name = f"depot-{number + 1}.parquet"
    pq.write_table(pa.table(columns), path / name)
    statistics = FileStatistics.build(
        num_records=ROWS_PER_FILE,
        min_values={"id": first, "status": min(status)},
        max_values={"id": first + ROWS_PER_FILE - 1, "status": max(status)},
        null_count=dict.fromkeys(columns, 0),
        tight_bounds=True,
    )
    size = (path / name).stat().st_size
    return AddFile(name, {}, size, _now_ms(), data_change=True, stats=statistics.to_json())


def _count_by_status(frame: Any) -> dict[str, int]:
    return {row["status"]: row["count"] for row in frame.groupBy("status").count().collect()}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _title(console: Console, number: str, words: str) -> None:
    console.print()
    console.rule(Text.assemble((f"{number}  ", "bold cyan"), (words, "bold")), align="left", style="cyan")


@contextmanager
def _timed(console: Console, done: str) -> Iterator[None]:
    started = time.monotonic()
    with console.status("..."):
        yield
    console.print(f"  [green]✓[/green] {done} [dim]({time.monotonic() - started:.1f} s)[/dim]")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the table on disk")
    keep = parser.parse_args().keep
    path = Path(tempfile.mkdtemp(prefix="ebbtide-demo-")) / "parcels"
    path.mkdir()
    started = time.monotonic()
    with steady_console(sys.stdout.fileno()) as console:
        console.print(
            Panel("[bold]Ebbtide[/bold]  Delta Lake on plain PySpark, deletion vectors included", style="cyan")
        )
        try:
            run(console, path)
        finally:
            if not keep:
                shutil.rmtree(path.parent, ignore_errors=True)
        console.print(f"\nDone in {time.monotonic() - started:.0f} s.", style="bold")
        tool = Path(sys.executable).with_name("ebbtide")
        look = f"{tool} files {path}" if keep else "make demo ARGS=--keep"
        console.print(Text(f"To look around in the table yourself:  {look}"), soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
