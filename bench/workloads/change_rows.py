"""What do UPDATE, MERGE and append cost, beside deltalake?"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import ebbtide
from bench.measure import Comparison, Contender, Sample, compare
from bench.memory import watched
from bench.setup import Setup
from bench.tables import write_rows
from bench.workloads.delete_rows import table_over

TITLE = "UPDATE, MERGE and append beside deltalake"
ABOUT = (
    "10 million rows of six columns in 8 files. Ebbtide marks the old rows in deletion vectors and writes only the new "
    "ones; deltalake rewrites the files that hold a match. The rows to change are spread over all files, so statistics "
    "rule out none. A merge's source is a Parquet file, which each engine reads as part of the work. The label says "
    "how many bytes each wrote (deltalake first). Peak memory is that of the Python process, and with Ebbtide that of "
    "the JVM as well, whose heap is 4 GiB at most and does not shrink."
)
ROWS = 10_000_000
SHARES = {"0.1 %": 1000, "1 %": 100, "20 %": 5}


def run(setup: Setup) -> list[Comparison]:
    rows = ROWS // setup.scale
    files = write_rows(setup.spark, setup.directory / "8-files", rows=rows, files=8)
    results = []
    for share, step in SHARES.items():
        results.append(_updated(setup, files, share, step))
    for share, step in SHARES.items():
        source = _source(setup, files, f"merge-{step}", step, inserts=0)
        results.append(_merged(setup, files, f"MERGE of {share}, updates", source, inserts=False))
    source = _source(setup, files, "upsert", 100, inserts=rows)
    results.append(_merged(setup, files, "MERGE of 1 %, half updates, half inserts", source, inserts=True))
    source = _source(setup, files, "append", 10, inserts=rows)
    results.append(_appended(setup, files, source))
    return results


def _source(setup: Setup, files: list[Path], name: str, step: int, *, inserts: int) -> Path:
    """Every `step`-th row with another number; with `inserts`, every second of them gets an id that is not there."""
    directory = setup.directory / name
    rows = setup.spark.read.parquet(*map(str, files)).where(f"id % {step} = {3 % step}")
    rows = rows.withColumn("number", F.expr("number + 1"))
    if inserts:
        rows = rows.withColumn("id", F.expr(f"IF(id % {2 * step} = {3 % step}, id, id + {inserts})"))
    rows.coalesce(1).write.parquet(str(directory))
    [path] = directory.glob("part-*.parquet")
    return path


def _updated(setup: Setup, files: list[Path], share: str, step: int) -> Comparison:
    condition = f"id % {step} = 3"

    def ours(path: str) -> None:
        ebbtide.DeltaTable.forPath(setup.spark, path).update(condition, {"number": "number + 1"})

    def theirs(path: str) -> None:
        deltalake.DeltaTable(path).update({"number": "number + 1"}, predicate=condition)

    return _compared(setup, files, f"UPDATE of {share}", theirs, ours)


def _merged(setup: Setup, files: list[Path], label: str, source: Path, *, inserts: bool) -> Comparison:
    def ours(path: str) -> None:
        rows = setup.spark.read.parquet(str(source)).alias("s")
        merge = ebbtide.DeltaTable.forPath(setup.spark, path).alias("t").merge(rows, "t.id = s.id")
        merge = merge.whenMatchedUpdateAll()
        (merge.whenNotMatchedInsertAll() if inserts else merge).execute()

    def theirs(path: str) -> None:
        merge = deltalake.DeltaTable(path).merge(
            _in_memory(source), predicate="t.id = s.id", source_alias="s", target_alias="t"
        )
        merge = merge.when_matched_update_all()
        (merge.when_not_matched_insert_all() if inserts else merge).execute()

    return _compared(setup, files, label, theirs, ours)


def _appended(setup: Setup, files: list[Path], source: Path) -> Comparison:
    def ours(path: str) -> None:
        ebbtide.write(setup.spark.read.parquet(str(source)), path, mode="append")

    def theirs(path: str) -> None:
        deltalake.write_deltalake(path, _in_memory(source), mode="append")

    return _compared(setup, files, "append of 10 %", theirs, ours)


def _in_memory(source: Path) -> pa.Table:
    """The source as deltalake takes it; Spark writes timestamps in a form that says nothing of their zone."""
    table = pq.read_table(source)
    place = table.schema.get_field_index("seen")
    return table.set_column(place, "seen", table["seen"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))


def _compared(
    setup: Setup, files: list[Path], label: str, theirs: Callable[[str], None], ours: Callable[[str], None]
) -> Comparison:
    places = {name: setup.directory / name for name in ("theirs", "ours")}
    contenders = [
        Contender(
            "deltalake",
            partial(_measured, theirs, places["theirs"], with_jvm=False),
            partial(table_over, places["theirs"], files, vectors=False),
        ),
        Contender(
            "Ebbtide",
            partial(_measured, ours, places["ours"], with_jvm=True),
            partial(table_over, places["ours"], files),
        ),
    ]
    result = compare(label, contenders, repetitions=3)
    written = ", ".join(_written(place, files) for place in places.values())
    result.label = f"{label} ({written})"
    return result


def _measured(work: Callable[[str], None], path: Path, *, with_jvm: bool) -> Sample:
    with watched(with_children=with_jvm) as peak:
        started = time.perf_counter()
        work(str(path))
        seconds = time.perf_counter() - started
    return Sample(seconds, peak.bytes)


def _written(table: Path, files: list[Path]) -> str:
    known = {file.name for file in files}
    size = sum(file.stat().st_size for file in table.rglob("*") if file.is_file() and file.name not in known)
    return f"{size / 2**20:.1f} MiB"
