"""Which moment does a user mean?"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import SparkSession

from ebbtide.errors import RequestError

__all__ = ["timestamp_ms", "timestamp_text"]


def timestamp_ms(spark: SparkSession, timestamp: str | dt.datetime) -> int:
    """Milliseconds since 1970 of a time that a user wrote; RequestError if it is not a time."""
    if isinstance(timestamp, dt.datetime) and timestamp.tzinfo is not None:
        return int(timestamp.timestamp() * 1000)
    text = timestamp.isoformat(sep=" ") if isinstance(timestamp, dt.datetime) else timestamp
    # Spark parses the text, so that every spelling that works in Spark SQL works here, in the session's time zone. A
    # session can make TIMESTAMP mean the type without a zone, so the type is named in full.
    row = spark.sql("SELECT unix_millis(try_cast(:text AS TIMESTAMP_LTZ)) AS ms", args={"text": text}).first()
    if row is None or row["ms"] is None:
        raise RequestError(
            f"'{text}' is not a timestamp. Write it like '2026-01-31 12:00:00' or pass a datetime.",
            error_class="DELTA_TIMESTAMP_INVALID",
        )
    return int(row["ms"])


def timestamp_text(spark: SparkSession, timestamp_ms: int) -> str:
    """The moment in the session's time zone, as delta-spark writes it into the history."""
    row = spark.sql("SELECT CAST(timestamp_millis(:ms) AS STRING) AS text", args={"ms": timestamp_ms}).first()
    text = str(timestamp_ms) if row is None else str(row["text"])
    # Java always writes a fraction, Spark only where there is one.
    return text if "." in text else f"{text}.0"
