"""Which rows were inserted, updated and deleted between two versions of a table?"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from ebbtide.arguments import checked, engine_config, integer, moment, optional, session, table_path, text_map
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.log.change_bounds import ChangeBounds
from ebbtide.log.change_feed import read_change_feed
from ebbtide.scan.change_feed import scan_changes
from ebbtide.session_settings import changes_may_be_out_of_range, enforces_file_retention
from ebbtide.spark_border import spark_errors, timestamp_ms, with_session_storage
from ebbtide.storage import open_store

__all__ = ["read_changes"]


@checked(
    spark=session,
    path=table_path,
    start_version=optional(integer),
    start_timestamp=optional(moment),
    end_version=optional(integer),
    end_timestamp=optional(moment),
    storage_options=optional(text_map),
    config=engine_config,
)
def read_changes(  # noqa: PLR0917 (start and end, as version or time: the order one thinks in)
    spark: SparkSession,
    path: str | os.PathLike[str],
    start_version: int | None = None,
    start_timestamp: str | dt.datetime | None = None,
    end_version: int | None = None,
    end_timestamp: str | dt.datetime | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    config: EngineConfig = DEFAULT_CONFIG,
) -> DataFrame:
    """The changes of the Delta table at `path` from a version or time to another, both included, or to the newest.

    Besides the table's columns each row has `_change_type` (insert, delete, update_preimage, update_postimage),
    `_commit_version` and `_commit_timestamp`. Change data must be recorded (delta.enableChangeDataFeed) in the whole
    range. Times are ISO strings or datetimes; without a zone they are in the session's time zone.
    """
    bounds = ChangeBounds(
        start_version=start_version,
        start_timestamp_ms=None if start_timestamp is None else timestamp_ms(spark, start_timestamp),
        end_version=end_version,
        end_timestamp_ms=None if end_timestamp is None else timestamp_ms(spark, end_timestamp),
        allow_out_of_range=changes_may_be_out_of_range(spark),
        enforces_retention=enforces_file_retention(spark),
    )
    storage_options = with_session_storage(spark, os.fspath(path), storage_options)
    store = open_store(os.fspath(path), storage_options)
    feed = read_change_feed(store, bounds, config=config)
    with spark_errors(f"reading the changes of {store.url}"):
        frame = scan_changes(spark, feed, storage_options=storage_options)
        # Connect analyses a frame only when asked for something.
        assert frame.columns is not None
        return frame
