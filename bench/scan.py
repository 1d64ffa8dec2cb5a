"""What does it cost to drop marked rows while reading?"""

from __future__ import annotations

import random
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import ebbtide
from bench.harness import Context, Workload, in_turns
from bench.tables import ALL_COLUMNS, delta_table, parquet_files

__all__ = ["run"]

TWO_COLUMNS = ("id", "k")


def run(context: Context) -> Workload:
    result = Workload(
        title="Reading with 1 % of the rows marked",
        about=(
            "Ratio to the plain Parquet scan of the same files in the same run. *noop* writes every row to Spark's "
            "noop sink; *aggregate* sums the columns. 20 million rows, six columns."
        ),
        columns=["files", "columns", "how", "plain", "with vectors", "ratio", "spread"],
    )
    spark = context.spark
    for files in (8, 200):
        paths = parquet_files(spark, context.directory / f"rows-{files}", context.rows(20_000_000), files)
        table = delta_table(paths, context.fresh(f"marked-{files}"))
        picked = random.Random(7).randrange(100)
        ebbtide.DeltaTable.forPath(spark, table).delete(f"pmod(xxhash64(id), 100) = {picked}")
        plain, marked = spark.read.parquet(*paths), ebbtide.read(spark, table)
        for label, columns in (("two", TWO_COLUMNS), ("all", ALL_COLUMNS)):
            for how, consume in (("noop", _write_nowhere), ("aggregate", _aggregate)):
                times = in_turns(
                    {
                        "plain": partial(consume, plain.select(*columns)),
                        "marked": partial(consume, marked.select(*columns)),
                    },
                    context.repetitions,
                )
                ratio = times["marked"].median / times["plain"].median
                result.rows.append(
                    [
                        str(files),
                        label,
                        how,
                        f"{times['plain'].median:.2f} s",
                        f"{times['marked'].median:.2f} s",
                        f"{ratio:.2f}",
                        times["marked"].spread,
                    ]
                )
                if files == 8 and how == "noop":
                    result.bar(f"{label} columns, 8 files", ratio, 2.0 if label == "two" else 1.3)
    return result


def _write_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _aggregate(frame: DataFrame) -> None:
    numbers = {"id", "k", "v", "amount"}
    frame.agg(*(F.sum(name) if name in numbers else F.max(name) for name in frame.columns)).collect()
