"""What does delta-spark itself do? Runs a list of tasks in a Spark session with its JARs, in a process of its own.

    python -m tests.interop.reference.engine PLAN.json ANSWERS.json

A plan is a list of tasks. A task is one of

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
from tests.support.spark_session import open_session


def main(plan_file: str, answers_file: str) -> None:
    tasks = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    answers = []
    with open_session("reference", Path(answers_file).parent) as spark:
        try:
            for number, task in enumerate(tasks):
                answers.append(_answer(spark, task))
                print(f"reference {number + 1}/{len(tasks)}", flush=True)
        finally:
            Path(answers_file).write_text(json.dumps(answers, default=str), encoding="utf-8")


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
