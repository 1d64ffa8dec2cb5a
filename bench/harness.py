"""What do all workloads share? Turns, medians, the Spark session, and how a result looks."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["Context", "Times", "Workload", "in_turns", "machine"]


@dataclass(frozen=True)
class Times:
    """Seconds of one contender."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> str:
        return f"{min(self.seconds):.2f} to {max(self.seconds):.2f}"


@dataclass
class Workload:
    """One table of the report. A bar is (what, reached, allowed)."""

    title: str
    about: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    bars: list[tuple[str, float, float]] = field(default_factory=list)

    def bar(self, what: str, reached: float, allowed: float) -> None:
        self.bars.append((what, round(reached, 2), allowed))


@dataclass
class Context:
    directory: Path
    quick: bool
    repetitions: int
    _spark: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            self._spark = (
                SparkSession.builder.master("local[2]")
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.sql.shuffle.partitions", "2")
                .config("spark.driver.memory", "6g")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.log.level", "ERROR")
                .getOrCreate()
            )
        return self._spark

    def rows(self, full: int) -> int:
        """The size of a data set: a twentieth of it in a quick run."""
        return full // 20 if self.quick else full

    def fresh(self, name: str) -> Path:
        path = self.directory / name
        shutil.rmtree(path, ignore_errors=True)
        return path


def in_turns(
    contenders: Mapping[str, Callable[[], Any]],
    repetitions: int,
    *,
    before_each: Mapping[str, Callable[[], Any]] | None = None,
) -> dict[str, Times]:
    """Run all contenders once to warm up, then in turns; what `before_each` prepares is not timed."""
    prepare = before_each or {}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repetitions + 1):
        for name, run in contenders.items():
            prepare.get(name, lambda: None)()
            started = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - started)
    return {name: Times(tuple(values)) for name, values in seconds.items()}


def machine() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ("pyspark", "pyarrow", "pyroaring", "deltalake")
    return {
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": ", ".join(f"{name} {version(name)}" for name in packages),
    }
