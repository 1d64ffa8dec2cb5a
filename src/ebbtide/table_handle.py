"""What does every method of `DeltaTable` need to know of its table?

The session, the store, the options of a changing call, and the snapshot that was loaded last. The groups of methods
(`table_maintenance`, `table_copies`, `table`) build on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import SparkSession

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.session_settings import write_options
from ebbtide.storage import ObjectStore

__all__ = ["StorageOptions", "TableHandle"]

StorageOptions = Mapping[str, str]


class TableHandle:
    """A Delta table at a path. Every call uses the newest version."""

    def __init__(
        self,
        spark: SparkSession,
        store: ObjectStore,
        *,
        storage_options: StorageOptions | None = None,
        config: EngineConfig = DEFAULT_CONFIG,
        alias: str | None = None,
    ) -> None:
        self._spark = spark
        self._store = store
        self._storage_options = storage_options
        self._config = config
        self._alias = alias
        self._latest: Snapshot | None = None
        # The options of a changing call, on top of the settings of the session.
        self._options = partial(write_options, spark, storage_options=storage_options, config=config)

    def _snapshot(self) -> Snapshot:
        """The newest version. The one loaded before is a hint: only newer commits are read."""
        self._latest = load_snapshot(self._store, config=self._config, hint=self._latest)
        return self._latest
