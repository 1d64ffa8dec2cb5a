"""Which kind of Spark session is this, and how does it compare names?"""

from __future__ import annotations

from typing import TypeGuard

from pyspark.sql import SparkSession

from ebbtide.sql_text import CASE_SENSITIVE

__all__ = ["is_case_sensitive", "is_connect", "is_session", "is_switched_on"]


def is_session(value: object) -> TypeGuard[SparkSession]:
    """Whether this is a session of any kind. Connect has a class of its own that does not inherit from the other."""
    return any(kind.__name__ == "SparkSession" and "pyspark" in kind.__module__ for kind in type(value).__mro__)


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether `s` and `S` are two columns in this session."""
    return is_switched_on(spark, CASE_SENSITIVE)


def is_switched_on(spark: SparkSession, name: str) -> bool:
    """Whether a switch of Spark's that is off by default is on. Spark reads `True` and ` TRUE ` as `true`."""
    return (spark.conf.get(name, "false") or "").strip().lower() == "true"
