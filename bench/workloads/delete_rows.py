"""What does a DELETE cost, beside Spark's own count() of the same rows, and beside deltalake?"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import deltalake
import pyarrow.parquet as pq

import ebbtide
from bench.measure import Comparison, Contender, compare
from bench.setup import Setup
from bench.tables import SCHEMA, commit_file, first_actions, write_rows
from ebbtide.protocol.actions import AddFile, serialize_actions
from ebbtide.protocol.statistics import FileStatistics

TITLE = "DELETE beside count() and deltalake"
ABOUT = (
    "20 million rows of six columns. A DELETE that marks its rows, `count()` with the same condition on the same "
    "files, and deltalake, which rewrites the files that hold a match. Statistics rule out no file. The label says how "
    "many bytes each of the two wrote."
)
ROWS = 20_000_000


def run(setup: Setup) -> list[Comparison]:
    rows = ROWS // setup.scale
    eight = write_rows(setup.spark, setup.directory / "8-files", rows=rows, files=8)
    hundred = write_rows(setup.spark, setup.directory / "100-files", rows=rows, files=100)
    cases = [
        ("0.1 % of the rows, 8 files", eight, "id % 1000 = 7", 1.6),
        ("1 % of the rows, 8 files", eight, "id % 100 = 7", 1.6),
        ("50 % of the rows, 8 files", eight, "number < 50000", 3.0),
        ("one row in each of 100 files", hundred, f"id % {rows // 100} = 5", 1.6),
    ]
    return [_compared(setup, *case) for case in cases]


def table_over(directory: Path, files: list[Path], *, vectors: bool = True) -> Path:
    """A fresh Delta table over the files, hard-linked, so that nothing is copied."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    adds = []
    for file in files:
        os.link(file, directory / file.name)
        stats = FileStatistics.build(num_records=pq.read_metadata(file).num_rows).to_json()
        adds.append(AddFile(file.name, {}, file.stat().st_size, 0, data_change=True, stats=stats))
    commit_file(directory, 0).write_bytes(serialize_actions([*first_actions(vectors=vectors), *adds]))
    return directory


def _compared(setup: Setup, label: str, files: list[Path], condition: str, bar: float) -> Comparison:
    spark = setup.spark
    ours, theirs = setup.directory / "ours", setup.directory / "theirs"
    names = [str(file) for file in files]
    contenders = [
        Contender("count()", lambda: _counted(spark.read.schema(SCHEMA).parquet(*names).where(condition))),
        Contender(
            "Ebbtide",
            lambda: _done(ebbtide.DeltaTable.forPath(spark, str(ours)).delete(condition)),
            partial(table_over, ours, files),
        ),
    ]
    result = compare(label, contenders, repetitions=setup.repetitions, warmups=3, bar=bar)
    # Rewriting takes so long that it is measured a few times, after the others.
    peer = Contender(
        "deltalake",
        lambda: _done(deltalake.DeltaTable(str(theirs)).delete(condition)),
        partial(table_over, theirs, files, vectors=False),
    )
    alone = compare(label, [peer], repetitions=3, warmups=0)
    seconds = sorted(alone.seconds["deltalake"])[1]
    result.contenders.append("deltalake")
    result.seconds["deltalake"] = [seconds] * len(result.seconds["Ebbtide"])
    result.label = f"{label} ({_written(ours, files)} written; deltalake {_written(theirs, files)})"
    return result


def _counted(frame) -> None:
    frame.count()


def _done(result: object) -> None:
    del result


def _written(table: Path, files: list[Path]) -> str:
    known = {file.name for file in files}
    size = sum(file.stat().st_size for file in table.rglob("*") if file.is_file() and file.name not in known)
    return f"{size / 2**20:.2f} MiB"
