"""Which session settings does a piece of work need, and how are they restored?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from pyspark.sql import SparkSession

__all__ = ["listing_settings", "parquet_write_settings", "read_by_field_id", "search_settings", "settings_below"]

# What every data file needs, whatever the session is set to: timestamps in a form that has statistics, the calendar
# that engines share, no layouts of old versions, ids of columns, and variants as tables without shredding read them.
_WRITE_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
}
_LIST_LENGTH = "spark.sql.parquet.pushdown.inFilterThreshold"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# Settings that we have changed for now: how many blocks hold them, and their values before.
_held_lock = Lock()
_held_settings: dict[tuple[int, str], tuple[int, str | None]] = {}


def settings_below(spark: SparkSession, prefix: str) -> dict[str, str]:
    """The session's settings whose names begin with `prefix`.

    On classic Spark the settings are a map in the JVM, and reading each key and value is a call. Its printed form is
    one call; then only what looks like a matching name in it is read.
    """
    settings = spark.conf.getAll
    printed = getattr(settings, "toString", None)
    if printed is None:
        return {name: value for name, value in settings.items() if name.startswith(prefix)}
    names = re.findall(rf"(?:^\{{|, )({re.escape(prefix)}[^=,\s]+)=", printed())
    found = {name: spark.conf.get(name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


@contextmanager
def listing_settings(spark: SparkSession, *, local: bool) -> Iterator[None]:
    """Settings under which Spark checks a long list of explicit files quickly.

    By default Spark starts a job with one task per path as soon as there are more than 32. Files on the local disk are
    checked in the driver, others by a job of few tasks. The frame must be analysed inside the block. Connect resolves
    a frame again whenever it is used, but the server remembers the last 16 plans that were analysed: a frame that was
    forgotten there is resolved once more, under the user's own setting.
    """
    wanted = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "64"}
    if local:
        wanted = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000"}
    with _hold_settings(spark, wanted):
        yield


# A plan shows the options of a write, and Spark does not take the name of Azure's account key for a secret.
_HIDDEN_OPTIONS = "spark.sql.redaction.options.regex"
_STORE_OPTIONS = r"(?i:^fs\.)"


@contextmanager
def parquet_write_settings(spark: SparkSession, *, hides_options: bool = False) -> Iterator[None]:
    """Session settings for an eager write, restored afterwards. `hides_options`: those of stores hold secrets."""
    wanted = dict(_WRITE_SETTINGS)
    if hides_options:
        wanted[_HIDDEN_OPTIONS] = f"{spark.conf.get(_HIDDEN_OPTIONS, None) or '(?i)url'}|{_STORE_OPTIONS}"
    with _hold_settings(spark, wanted):
        yield


@contextmanager
def search_settings(spark: SparkSession, *, few_shuffles: bool) -> Iterator[None]:
    """Session settings for an eager query that looks for rows.

    Spark skips Parquet pages and row groups by every value of an IN list up to this length; of a longer list it uses
    only the smallest and the largest, and by default ten values are too long. `few_shuffles`: little is shuffled, and
    with Spark's default each task would open two hundred shuffle files for it.
    """
    wanted = {_LIST_LENGTH: str(max(int(spark.conf.get(_LIST_LENGTH) or 0), 256))}
    if few_shuffles:
        wanted[_SHUFFLE_PARTITIONS] = str(min(int(spark.conf.get(_SHUFFLE_PARTITIONS) or 200), 8))
    with _hold_settings(spark, wanted):
        yield


def read_by_field_id(spark: SparkSession) -> None:
    """Let the Parquet reader match columns by field id where the requested schema carries ids.

    Spark reads this setting when the query runs, so it cannot be restored. It changes nothing for schemas without ids.
    """
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    spark.conf.set("spark.sql.parquet.fieldId.read.ignoreMissing", "true")


@contextmanager
def _hold_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Session settings while a block runs. Several threads may use one session: the first sets, the last restores."""
    with _held_lock:
        for name, value in wanted.items():
            count, before = _held_settings.get((id(spark), name), (0, None))
            if count == 0:
                before = spark.conf.get(name, None)
                spark.conf.set(name, value)
            _held_settings[id(spark), name] = (count + 1, before)
    try:
        yield
    finally:
        with _held_lock:
            for name in wanted:
                count, before = _held_settings.pop((id(spark), name))
                if count > 1:
                    _held_settings[id(spark), name] = (count - 1, before)
                elif before is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, before)
