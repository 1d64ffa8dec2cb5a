"""How is a frame run once, counted on the way, and stopped?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any, TypeVar
from uuid import uuid4

from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ebbtide.errors import InternalError
from ebbtide.spark_border.names import quote_name
from ebbtide.spark_border.session import is_connect

__all__ = ["compute_once", "interruptible", "observe_metrics", "wait_for_metrics"]

_T = TypeVar("_T")
# Spark reports metrics through a queue that can be seconds behind, and drops events when it is full.
_REPORT_SECONDS = 120


def observe_metrics(frame: DataFrame, metrics: Mapping[str, Column | str]) -> tuple[DataFrame, Observation]:
    """The frame, and an observation of the aggregates over the rows that pass this point in its next action.

    Metrics are columns, or SQL, which is quicker (see `column`).
    """
    observation = Observation()
    return frame.observe(observation, *_name_metrics(metrics)), observation


def _name_metrics(metrics: Mapping[str, Column | str]) -> list[Column]:
    return [
        F.expr(f"{value} AS {quote_name(name)}") if isinstance(value, str) else value.alias(name)
        for name, value in metrics.items()
    ]


def wait_for_metrics(observation: Observation) -> dict[str, Any]:
    """The metrics of a finished action. Spark's own call would wait forever if they never came."""
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        try:
            answers.append(observation.get)
        except (PySparkException, AssertionError):
            return

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_REPORT_SECONDS)
    if not answers:
        raise InternalError("Spark ended the work but did not report its row counts. Nothing was committed; try again.")
    return answers[0]


def compute_once(spark: SparkSession, frame: DataFrame, metrics: Mapping[str, str]) -> tuple[DataFrame, dict[str, Any]]:
    """The frame, computed once and kept by Spark, and the aggregates over its rows, which are SQL."""
    if is_connect(spark):
        # Its checkpoint does not pass on what was observed on the way, so the rows are read a second time.
        kept = frame.localCheckpoint()
        [row] = kept.agg(*_name_metrics(metrics)).collect()
        return kept, row.asDict()
    passing, observation = observe_metrics(frame, metrics)
    return passing.localCheckpoint(), wait_for_metrics(observation)


def interruptible(spark: SparkSession, work: Callable[[], _T]) -> tuple[Callable[[], _T], Callable[[], object]]:
    """The work, to run in another thread with this thread's settings, and a function that stops its Spark jobs.

    Classic sessions up to Spark 4.3 do not pass their tags to the jobs of a write: there nothing is stopped, and the
    work runs to its end. (Ctrl-C stops all jobs there anyway.)
    """
    tag = f"ebbtide-{uuid4().hex}"

    def run_tagged() -> _T:
        spark.addTag(tag)
        try:
            return work()
        finally:
            spark.removeTag(tag)

    inherited: Callable[[], _T] = inheritable_thread_target(spark)(run_tagged)
    return inherited, lambda: spark.interruptTag(tag)
