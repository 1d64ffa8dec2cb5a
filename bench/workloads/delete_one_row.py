"""How quick is a DELETE of one row in a small table, and how many Spark jobs does it start?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import deltalake
import pyarrow as pa

import ebbtide
from bench.measure import Comparison, Contender, compare
from bench.setup import Setup

TITLE = "DELETE of one row in a table of 1,000 rows"
ABOUT = (
    "A warm session. The label says how many Spark jobs a DELETE started, on a table without and on one with a "
    "deletion vector (at most 2 are allowed). deltalake starts no Spark and rewrites the only file."
)
ROWS = pa.table({"id": list(range(1000)), "name": [f"name-{number}" for number in range(1000)]})


def run(setup: Setup) -> list[Comparison]:
    spark = setup.spark
    ours, theirs = setup.directory / "ours", setup.directory / "theirs"
    _make(setup.directory / "counted", vectors=True)
    frame = ebbtide.read(spark, str(setup.directory / "counted")).where("id = 500")
    contenders = [
        Contender("count()", lambda: _none(frame.count())),
        Contender("Ebbtide", lambda: _none(_delete(setup, ours, 500)), partial(_make, ours, vectors=True)),
        Contender(
            "deltalake",
            lambda: _none(deltalake.DeltaTable(str(theirs)).delete("id = 500")),
            partial(_make, theirs, vectors=False),
        ),
    ]
    result = compare("one row", contenders, repetitions=2 * setup.repetitions, warmups=3)
    _make(ours, vectors=True)
    jobs = [_jobs(setup, lambda row=row: _delete(setup, ours, row)) for row in (500, 501)]
    result.label = f"one row; Spark jobs: {jobs[0]}, then {jobs[1]}"
    return [result]


def _make(path: Path, *, vectors: bool) -> None:
    shutil.rmtree(path, ignore_errors=True)
    configuration = {"delta.enableDeletionVectors": "true"} if vectors else None
    deltalake.write_deltalake(str(path), ROWS, configuration=configuration)


def _delete(setup: Setup, path: Path, row: int) -> object:
    return ebbtide.DeltaTable.forPath(setup.spark, str(path)).delete(f"id = {row}")


def _none(result: object) -> None:
    del result


def _jobs(setup: Setup, work: Callable[[], object]) -> int:
    context, group = setup.spark.sparkContext, "ebbtide-bench"
    before = len(context.statusTracker().getJobIdsForGroup(group))
    context.setJobGroup(group, "counting jobs")
    work()
    return len(context.statusTracker().getJobIdsForGroup(group)) - before
