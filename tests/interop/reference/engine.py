"""What does delta-spark itself do? Runs a list of tasks in a Spark session with its JARs, in a process of its own.

    python engine.py PLAN.json ANSWERS.json

A plan has `jars` and `tasks`. A task is one of

- {"sql": text, "settings": {name: value}}: run a statement under session settings; the answer has its `rows`;
- {"read": path, "version": number or null, "to": file, "columns": [...] or null}: rows of a table into an Arrow file;
- {"changes": path, "from": version, "to": file}: the change data feed from a version on, into an Arrow file;
- {"checkpoint": path}: compare the newest version with its checksum file, then write a checkpoint of it.

The answers are a list in the same order: {"rows": ...} or {"error": class, "message": text}. This is a program and not
part of the test process: PySpark holds one JVM a process, and that one has no Delta in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

LOOPBACK = "127.0.0.1"
SETTINGS = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.log.level": "ERROR",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Tiny tables: fifty tasks to replay four commits would be most of the time.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # A second DELETE must look at the log again and not at what the first one left in memory.
    "spark.databricks.delta.stalenessLimit": "0",
}


def main(plan_file: str, answers_file: str) -> None:
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    spark = _session(plan["jars"], Path(answers_file).parent)
    answers = []
    try:
        for number, task in enumerate(plan["tasks"]):
            answers.append(_answer(spark, task))
            print(f"reference {number + 1}/{len(plan['tasks'])}", flush=True)
    finally:
        Path(answers_file).write_text(json.dumps(answers, default=str), encoding="utf-8")
        spark.stop()


def _session(jars: list[str], scratch: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("reference").config("spark.driver.memory", "2g")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.jars", ",".join(jars))
    builder = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    return builder.config("spark.local.dir", str(scratch / "local")).getOrCreate()


def _answer(spark: SparkSession, task: dict[str, Any]) -> dict[str, Any]:
    try:
        with _settings(spark, task.get("settings", {})):
            return {"rows": _perform(spark, task)}
    except PySparkException as error:
        return {"error": error.getCondition(), "message": str(error)}
    except Py4JError as error:
        # What the engine throws where PySpark does not translate it: calls behind the curtain, such as a checkpoint.
        return {"error": None, "message": str(error)}


def _perform(spark: SparkSession, task: dict[str, Any]) -> Any:
    match task:
        case {"sql": text}:
            return [row.asDict(recursive=True) for row in spark.sql(text).collect()]
        case {"read": path, "version": version, "to": file}:
            reader = spark.read.format("delta")
            frame = (reader if version is None else reader.option("versionAsOf", version)).load(path)
            return _save(frame if not task.get("columns") else frame.selectExpr(*task["columns"]), file)
        case {"changes": path, "from": version, "to": file}:
            options = {"readChangeFeed": "true", "startingVersion": str(version)}
            return _save(spark.read.format("delta").options(**options).load(path), file)
        case {"checkpoint": path}:
            java = spark._jvm
            log = java.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
            nothing = java.scala.Option.empty()
            snapshot = log.update(False, nothing, nothing)
            checksum = getattr(snapshot, "validateChecksum$default$1")()
            is_valid = snapshot.validateChecksum(checksum)
            log.checkpoint(snapshot, nothing)
            return {"has checksum": snapshot.checksumOpt().isDefined(), "checksum is valid": is_valid}
    raise ValueError(f"unknown task: {task}")


def _save(frame: DataFrame, file: str) -> int:
    table = frame.toArrow()
    with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return table.num_rows


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
