"""Which function names mean Spark's built-in functions in this session?

A session may register functions of its own under the names of built-in ones. Up to Spark 4.1 they win. Spark 4.2
looks up the built-in ones first, unless a setting puts the session's first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ebbtide.spark_border.analysis import asking_the_analyser

__all__ = ["functions_of_the_session", "is_built_in"]

_BUILT_IN_FIRST = re.compile(r"4\.2\.")
_SESSION_ORDER = "spark.sql.functionResolution.sessionOrder"
_OWN_CLASSES = "org.apache.spark.sql.catalyst.expressions."
# Keywords that look like calls: nobody can register them.
_GRAMMAR = frozenset({"timestampadd", "timestampdiff"})


def functions_of_the_session(spark: SparkSession, names: Iterable[str]) -> list[str]:
    """The names of built-in functions that mean something else in this session."""
    wanted = sorted(set(names) - _GRAMMAR)
    if not wanted:
        return []
    if _BUILT_IN_FIRST.match(spark.version) and (spark.conf.get(_SESSION_ORDER, None) or "").lower() != "first":
        return []
    return [name for name in wanted if not is_built_in(spark, name)]


def is_built_in(spark: SparkSession, name: str) -> bool:
    """Whether a call of this name reaches one of Spark's own classes."""
    try:
        with asking_the_analyser():
            found = spark.catalog.getFunction(name)
    except PySparkException:
        return False
    return (found.className or "").startswith(_OWN_CLASSES)
