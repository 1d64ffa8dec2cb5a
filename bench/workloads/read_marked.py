"""What does dropping marked rows cost, beside a plain Parquet scan of the same files?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import ebbtide
from bench.measure import Comparison, Contender, compare
from bench.setup import Setup
from bench.tables import COLUMNS, SCHEMA, mark_rows, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Reading a table with 1 % of its rows marked"
ABOUT = (
    "20 million rows of six columns (bigint, int, double, string, timestamp, decimal), the same rows in 8 and in 200 "
    "files; 1 % of the rows of every file, chosen at random, are marked by deletion vectors. The baseline is Spark's "
    "own scan of the same Parquet files, which shows the marked rows. Two columns are `id` and `price`. Every "
    "measurement starts with the call that makes the DataFrame, so loading the log and the vectors is part of the "
    "time. Rows go to Spark's `noop` sink or into an aggregate."
)
ROWS = 20_000_000
MARKED = 0.01
TWO_COLUMNS = ("id", "price")
BARS = {"two columns": 2.0, "all columns": 1.3}
AGGREGATES = {
    "id": "sum(id)", "number": "sum(number)", "price": "sum(price)", "name": "max(length(name))", "seen": "max(seen)",
    "amount": "sum(amount)",
}  # fmt: skip

Sink = Callable[["DataFrame", tuple[str, ...]], None]


def run(setup: Setup) -> list[Comparison]:
    results = []
    for files in (8, 200):
        directory = setup.directory / f"rows-in-{files}-files"
        paths = write_rows(setup.spark, directory, rows=ROWS // setup.scale, files=files)
        mark_rows(directory, paths, share=MARKED)
        _check(setup, directory)
        for name, columns in {"two columns": TWO_COLUMNS, "all columns": COLUMNS}.items():
            for sink_name, sink in SINKS.items():
                label = f"{files} files, {name}, {sink_name}"
                results.append(_compared(setup, label, directory, paths, columns, sink, BARS[name]))
    return results


def _compared(
    setup: Setup, label: str, directory: Path, paths: list[Path], columns: tuple[str, ...], sink: Sink, bar: float
) -> Comparison:
    spark = setup.spark
    files = [str(path) for path in paths]
    plain = Contender(
        "plain Parquet", partial(_drain, lambda: spark.read.schema(SCHEMA).parquet(*files), columns, sink)
    )
    ours = Contender("Ebbtide", partial(_drain, lambda: ebbtide.read(spark, str(directory)), columns, sink))
    return compare(label, [plain, ours], repetitions=setup.repetitions, warmups=3, bar=bar)


def _drain(make: Callable[[], DataFrame], columns: tuple[str, ...], sink: Sink) -> None:
    sink(make().select(*columns), columns)


def _to_noop(frame: DataFrame, columns: tuple[str, ...]) -> None:
    del columns
    frame.write.format("noop").mode("overwrite").save()


def _to_aggregate(frame: DataFrame, columns: tuple[str, ...]) -> None:
    frame.selectExpr(*[AGGREGATES[column] for column in columns]).collect()


SINKS: dict[str, Sink] = {"noop": _to_noop, "aggregate": _to_aggregate}


def _check(setup: Setup, directory: Path) -> None:
    """A quick answer that is wrong is not measured."""
    rows = ROWS // setup.scale
    counted = ebbtide.read(setup.spark, str(directory)).count()
    from_log = ebbtide.DeltaTable.forPath(setup.spark, str(directory)).count()
    assert counted == from_log, f"{counted} rows were read, the log says {from_log}"
    assert abs(rows * (1 - MARKED) - counted) < rows / 10_000, f"{counted} of {rows} rows are live"
