"""How quick is a DELETE of one row in a table of 1,000, in a warm session, and how many Spark jobs does it start?"""

from __future__ import annotations

import deltalake
import pyarrow as pa

import ebbtide
from bench.harness import Context, Workload, in_turns

__all__ = ["run"]


def run(context: Context) -> Workload:
    spark = context.spark
    ours, theirs = context.directory / "small-ours", context.directory / "small-theirs"
    rows = pa.table({"id": list(range(1000)), "name": [f"name-{number}" for number in range(1000)]})

    def make(path, vectors):
        context.fresh(path.name)
        configuration = {"delta.enableDeletionVectors": "true"} if vectors else None
        deltalake.write_deltalake(str(path), rows, configuration=configuration)

    make(ours, vectors=True)
    plain = ebbtide.read(spark, str(ours))
    times = in_turns(
        {
            "count": lambda: plain.where("id = 500").count(),
            "ours": lambda: ebbtide.DeltaTable.forPath(spark, str(ours)).delete("id = 500"),
            "theirs": lambda: deltalake.DeltaTable(str(theirs)).delete("id = 500"),
        },
        max(context.repetitions, 10),
        before_each={"ours": lambda: make(ours, vectors=True), "theirs": lambda: make(theirs, vectors=False)},
    )
    make(ours, vectors=True)
    jobs = _jobs(context, lambda: ebbtide.DeltaTable.forPath(spark, str(ours)).delete("id = 500"))
    again = _jobs(context, lambda: ebbtide.DeltaTable.forPath(spark, str(ours)).delete("id = 501"))
    result = Workload(
        title="DELETE of one row in a table of 1,000 rows",
        about="A warm session; the second DELETE meets the deletion vector of the first.",
        columns=["what", "median", "spread (s)", "Spark jobs"],
        rows=[
            ["Spark's count()", f"{times['count'].median * 1000:.0f} ms", times["count"].spread, ""],
            ["Ebbtide DELETE", f"{times['ours'].median * 1000:.0f} ms", times["ours"].spread, f"{jobs}, then {again}"],
            ["deltalake delete", f"{times['theirs'].median * 1000:.0f} ms", times["theirs"].spread, "no Spark"],
        ],
    )
    result.bar("Spark jobs of a DELETE", jobs, 2)
    result.bar("Spark jobs of a second DELETE", again, 2)
    return result


def _jobs(context: Context, work) -> int:
    group = "ebbtide-bench"
    spark_context = context.spark.sparkContext
    before = len(spark_context.statusTracker().getJobIdsForGroup(group))
    spark_context.setJobGroup(group, "counting jobs")
    work()
    return len(spark_context.statusTracker().getJobIdsForGroup(group)) - before
