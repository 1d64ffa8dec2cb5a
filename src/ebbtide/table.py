"""What can a user do with a Delta table from Python?

The names delta-spark users know, on plain PySpark: `DeltaTable.forPath(spark, path)`, `.toDF()`, `.history()`, and
`ebbtide.read` for one-liners. Thin on purpose: a call becomes a request, and `log`, `scan` or `commands` serve it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import DeltaError, RequestError, TableNotFoundError
from ebbtide.log import Snapshot, load_snapshot, read_history, table_detail
from ebbtide.scan import scan_rows
from ebbtide.scan.conditions import prune_files
from ebbtide.scan.counting import exact_count
from ebbtide.spark_border import spark_errors
from ebbtide.storage import ObjectStore, open_store
from ebbtide.table_views import detail_frame, history_frame

__all__ = ["DeltaTable", "read"]

StorageOptions = Mapping[str, str]


def read(
    spark: SparkSession,
    path: str,
    version: int | None = None,
    timestamp: str | dt.datetime | None = None,
    storage_options: StorageOptions | None = None,
    *,
    where: str | Column | None = None,
    config: EngineConfig = DEFAULT_CONFIG,
) -> DataFrame:
    """The rows of the Delta table at `path`, now or at a version or time, as a DataFrame.

    `where` filters the rows, and data files that it rules out are not even opened. (A `.where(...)` on the result is
    pushed into Parquet by Spark as usual, but by then all files of the table are part of the plan.) A timestamp is an
    ISO string or a datetime; without a zone it is in the session's time zone.
    """
    snapshot = _load(open_store(path, storage_options), spark, version, timestamp, config)
    if where is None:
        return scan_rows(spark, snapshot, storage_options=storage_options)
    files = prune_files(spark, snapshot, where)
    with spark_errors(f"filtering the rows of {snapshot.store.url}"):
        frame = scan_rows(spark, snapshot, files, storage_options=storage_options).where(where)
        # Connect looks at the condition only when asked for something.
        assert frame.columns is not None
        return frame


class DeltaTable:
    """A Delta table at a path. Every call looks at the newest version, unless it is asked for another."""

    def __init__(
        self,
        spark: SparkSession,
        store: ObjectStore,
        *,
        storage_options: StorageOptions | None = None,
        config: EngineConfig = DEFAULT_CONFIG,
    ) -> None:
        self._spark = spark
        self._store = store
        self._storage_options = storage_options
        self._config = config
        self._latest: Snapshot | None = None

    @classmethod
    def forPath(
        cls,
        spark: SparkSession,
        path: str,
        storage_options: StorageOptions | None = None,
        *,
        config: EngineConfig = DEFAULT_CONFIG,
    ) -> DeltaTable:
        """The table at `path`; TableNotFoundError when there is none."""
        table = cls(spark, open_store(path, storage_options), storage_options=storage_options, config=config)
        table._snapshot()
        return table

    @classmethod
    def isDeltaTable(cls, spark: SparkSession, path: str, storage_options: StorageOptions | None = None) -> bool:
        """Whether a Delta table is at `path`. A table that cannot be read (a broken log) still is one."""
        del spark  # part of the signature that delta-spark users know
        try:
            load_snapshot(open_store(path, storage_options))
        except TableNotFoundError:
            return False
        except DeltaError as error:
            return not isinstance(error, RequestError)
        return True

    def toDF(self) -> DataFrame:
        """The rows of the newest version."""
        return scan_rows(self._spark, self._snapshot(), storage_options=self._storage_options)

    def version(self) -> int:
        return self._snapshot().version

    def count(self) -> int:
        """The number of rows: from the log alone where that is exact, else by counting the rows of the other files."""
        return exact_count(self._spark, self._snapshot(), storage_options=self._storage_options)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first, with the columns of DESCRIBE HISTORY."""
        if limit is not None and limit < 1:
            raise RequestError(f"history(limit={limit}): the limit must be at least 1, or None for all commits.")
        return history_frame(self._spark, read_history(self._store, limit=limit))

    def detail(self) -> DataFrame:
        """One row with the columns of DESCRIBE DETAIL."""
        return detail_frame(self._spark, table_detail(self._snapshot()))

    def files(self) -> pa.Table:
        """The live data files as an Arrow table, deletion vectors included."""
        return self._snapshot().files

    def _snapshot(self) -> Snapshot:
        self._latest = load_snapshot(self._store, config=self._config, hint=self._latest)
        return self._latest

    def __repr__(self) -> str:
        at = f" at version {self._latest.version}" if self._latest is not None else ""
        return f"<DeltaTable {self._store.url}{at}>"


def _load(
    store: ObjectStore,
    spark: SparkSession,
    version: int | None,
    timestamp: str | dt.datetime | None,
    config: EngineConfig,
) -> Snapshot:
    timestamp_ms = None if timestamp is None else _timestamp_ms(timestamp, spark)
    return load_snapshot(store, version=version, timestamp_ms=timestamp_ms, config=config)


def _timestamp_ms(timestamp: str | dt.datetime, spark: SparkSession) -> int:
    if isinstance(timestamp, dt.datetime) and timestamp.tzinfo is not None:
        return int(timestamp.timestamp() * 1000)
    text = timestamp.isoformat(sep=" ") if isinstance(timestamp, dt.datetime) else timestamp
    # Spark parses the text, so that every spelling that works in Spark SQL works here, in the session's time zone.
    row = spark.sql("SELECT unix_millis(try_cast(:text AS TIMESTAMP)) AS ms", args={"text": text}).first()
    if row is None or row["ms"] is None:
        raise RequestError(f"'{text}' is not a timestamp. Write it like '2026-01-31 12:00:00' or pass a datetime.")
    return int(row["ms"])
