"""What does a workload get to work with: a directory, a Spark session, and how large to be?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Setup", "opened"]

SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Ebbtide looks at long lists of local files in the driver; the baseline must not pay for a job that does.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass
class Setup:
    """`scale` divides the size of the data: 1 for a real run, 20 for `--quick`."""

    directory: Path
    quick: bool
    _session: SparkSession | None = field(default=None, repr=False)

    @property
    def scale(self) -> int:
        return 20 if self.quick else 1

    @property
    def repetitions(self) -> int:
        return 3 if self.quick else 5

    @property
    def spark(self) -> SparkSession:
        """One session for all workloads, started by the first that needs it."""
        if self._session is None:
            from pyspark.sql import SparkSession

            os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
            builder = SparkSession.builder.master("local[*]").appName("ebbtide-bench")
            for name, value in SETTINGS.items():
                builder = builder.config(name, value)
            builder = builder.config("spark.local.dir", str(self.directory / "spark"))
            self._session = builder.config("spark.sql.warehouse.dir", str(self.directory / "warehouse")).getOrCreate()
        return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()


@contextmanager
def opened(directory: Path, *, quick: bool) -> Iterator[Setup]:
    setup = Setup(directory, quick)
    try:
        yield setup
    finally:
        setup.stop()
