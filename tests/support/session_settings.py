"""How does a test change a setting of the one Spark session without the next test noticing?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session_settings"]


@contextmanager
def session_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Apply the settings, and put back what was there; queries must run inside the block."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        _apply(spark, settings)
        yield
    finally:
        _apply(spark, before)


def _apply(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    with warnings.catch_warnings():
        # Connect warns about old settings, which are the ones that users still have.
        warnings.simplefilter("ignore", UserWarning)
        for name, value in settings.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
