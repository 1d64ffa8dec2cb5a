"""Which kind of Spark session is this, and how does it compare names?"""

from __future__ import annotations

from pyspark.sql import SparkSession

from ebbtide.sql_text import CASE_SENSITIVE

__all__ = ["is_case_sensitive", "is_connect"]


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether `s` and `S` are two columns in this session."""
    return spark.conf.get(CASE_SENSITIVE) == "true"
