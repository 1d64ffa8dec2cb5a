"""Which kind of Spark session is this?"""

from __future__ import annotations

from pyspark.sql import SparkSession

__all__ = ["is_connect"]


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
