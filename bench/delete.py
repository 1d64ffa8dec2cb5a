"""What does a DELETE cost beside Spark's own count() of the same rows, and beside deltalake?"""

from __future__ import annotations

from pathlib import Path

import deltalake

import ebbtide
from bench.harness import Context, Times, Workload, in_turns
from bench.tables import delta_table, parquet_files

__all__ = ["run"]

FRACTIONS = (
    ("0.1 %", "id % 1000 = 7", 1.6),
    ("1 %", "id % 100 = 7", 1.6),
    ("50 %", "v < 500", 3.0),
)


def run(context: Context) -> Workload:
    result = Workload(
        title="DELETE beside count() and deltalake",
        about=(
            "20 million rows. Ratio of a DELETE that marks rows to `count()` with the same condition and files; "
            "deltalake rewrites the files that hold a match."
        ),
        columns=[
            "rows",
            "files",
            "count()",
            "Ebbtide",
            "ratio",
            "spread",
            "deltalake",
            "bytes written",
            "by deltalake",
        ],
    )
    paths = parquet_files(context.spark, context.directory / "rows-8", context.rows(20_000_000), 8)
    for label, condition, allowed in FRACTIONS:
        _compare(context, result, paths, label, condition, allowed)
    rows = context.rows(20_000_000)
    paths = parquet_files(context.spark, context.directory / "rows-100", rows, 100)
    _compare(context, result, paths, "one a file", f"id % {rows // 100} = 5", 1.6)
    return result


def _compare(context: Context, result: Workload, paths: list[str], label: str, condition: str, allowed: float) -> None:
    spark = context.spark
    plain = spark.read.parquet(*paths)
    ours, theirs = context.directory / "delete-ours", context.directory / "delete-theirs"
    times = in_turns(
        {
            "count": lambda: plain.where(condition).count(),
            "ours": lambda: ebbtide.DeltaTable.forPath(spark, str(ours)).delete(condition),
        },
        context.repetitions,
        before_each={"ours": lambda: delta_table(paths, context.fresh("delete-ours"), statistics=False)},
    )
    peer = _deltalake(context, paths, theirs, condition)
    ratio = times["ours"].median / times["count"].median
    result.rows.append(
        [
            label,
            str(len(paths)),
            f"{times['count'].median:.2f} s",
            f"{times['ours'].median:.2f} s",
            f"{ratio:.2f}",
            times["ours"].spread,
            f"{peer.median:.2f} s",
            _written(ours, paths),
            _written(theirs, paths),
        ]
    )
    result.bar(f"{label}, {len(paths)} files", ratio, allowed)


def _deltalake(context: Context, paths: list[str], table: Path, condition: str) -> Times:
    return in_turns(
        {"theirs": lambda: deltalake.DeltaTable(str(table)).delete(condition)},
        1,
        before_each={"theirs": lambda: delta_table(paths, context.fresh(table.name), vectors=False, statistics=False)},
    )["theirs"]


def _written(table: Path, paths: list[str]) -> str:
    known = {Path(path).name for path in paths}
    size = sum(file.stat().st_size for file in table.rglob("*") if file.is_file() and file.name not in known)
    return f"{size / 2**20:.2f} MiB"
