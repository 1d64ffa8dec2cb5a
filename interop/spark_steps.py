"""How does an engine whose door is `spark.sql` take a step and show its rows? delta-spark and Sail do it alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from interop.statements import at_path, changed
from interop.steps import Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkSteps"]


class SparkSteps:
    spark: SparkSession

    def run(self, path: str, step: Step) -> None:
        if step.kind == "append":
            self.spark.read.parquet(step.source).write.format("delta").mode("append").save(path)
        else:
            self.spark.sql(changed(at_path(path), step)).collect()

    def read(self, path: str) -> pa.Table:
        return self.spark.read.format("delta").load(path).toArrow()
