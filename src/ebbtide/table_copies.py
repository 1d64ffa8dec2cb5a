"""How does a table go back to an older version, or become another one?

The methods of `DeltaTable` that restore and copy tables by their logs, under the names that delta-spark users know.
As thin as that class: a call becomes a request, and a room of `commands` serves it.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from ebbtide.arguments import (
    checked,
    engine_config,
    flag,
    integer,
    moment,
    optional,
    partition_columns,
    session,
    table_path,
    text,
    text_map,
)
from ebbtide.commands.clone.command import CloneRequest, clone_table, refuse_deep_clone
from ebbtide.commands.convert.command import ConvertRequest, convert_folder
from ebbtide.commands.convert.identifier import parquet_path
from ebbtide.commands.convert.schema import partition_fields_of
from ebbtide.commands.generate.command import generate_manifests
from ebbtide.commands.restore.command import Moment, RestoreRequest, restore_table
from ebbtide.commands.row_level.committing import refresh_readers
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.session_settings import (
    enforces_file_retention,
    ignores_missing_files,
    restore_may_downgrade,
    table_defaults,
    write_options,
)
from ebbtide.spark_border import timestamp_ms, timestamp_text, with_session_storage
from ebbtide.storage import ObjectStore, open_store
from ebbtide.table_handle import TableHandle
from ebbtide.table_views import restore_frame
from ebbtide.temp_views import refresh_changed

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TableCopies"]

# The checks of what all three clones take.
_CLONE = {"target": table_path, "isShallow": flag, "replace": flag, "properties": optional(text_map)}


class TableCopies(TableHandle):
    """Older versions and copies of a table at a path."""

    # --- RESTORE ------------------------------------------------------------------------------------------------------

    @checked(version=integer)
    def restoreToVersion(self, version: int) -> DataFrame:
        """Show an older version again, in a new one: files come back with the deletion vectors they had.

        Returns one row with delta-spark's counters; none when the table is at that version already.
        MissingDataFileError when a file that it needs was vacuumed; VersionNotFoundError when the version is older
        than `delta.deletedFileRetentionDuration`.
        """
        return self._restore(version=version)

    @checked(timestamp=moment)
    def restoreToTimestamp(self, timestamp: str | dt.datetime) -> DataFrame:
        """Show again what was the newest version at a time, which is read as in `ebbtide.read`."""
        at_ms = timestamp_ms(self._spark, timestamp)
        return self._restore(at=Moment(at_ms, timestamp_text(self._spark, at_ms)))

    def _restore(self, version: int | None = None, at: Moment | None = None) -> DataFrame:
        request = RestoreRequest(
            self._store,
            version,
            at,
            self._options(in_transaction=False),
            self._latest,
            ignores_missing_files=ignores_missing_files(self._spark),
            may_downgrade=restore_may_downgrade(self._spark),
            enforces_retention=enforces_file_retention(self._spark),
        )
        result = restore_table(request)
        _refresh(self._spark, self._store)
        return restore_frame(self._spark, result)

    # --- CONVERT ------------------------------------------------------------------------------------------------------

    @classmethod
    @checked(
        sparkSession=session,
        identifier=text,
        partitionSchema=optional(partition_columns),
        storage_options=optional(text_map),
        config=engine_config,
    )
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | T.StructType | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        config: EngineConfig = DEFAULT_CONFIG,
    ) -> Self:
        """Make a table of a folder of Parquet files, where it is: "parquet.`/path`". The table is returned.

        `partitionSchema` names the columns of directories such as `day=2026-01-31`, with their types: "day DATE". A
        folder that is a Delta table already is left as it is.
        """
        path = parquet_path(identifier)
        storage_options = with_session_storage(sparkSession, path, storage_options)
        store = open_store(path, storage_options)
        request = ConvertRequest(
            store,
            partition_fields_of(partitionSchema),
            options=write_options(sparkSession, storage_options=storage_options, config=config, in_transaction=False),
            default_properties=lambda: table_defaults(sparkSession),
        )
        convert_folder(sparkSession, request)
        refresh_readers(sparkSession, store)
        return cls(sparkSession, store, storage_options=storage_options, config=config)

    # --- CLONE --------------------------------------------------------------------------------------------------------

    @checked(**_CLONE)
    def clone(
        self,
        target: str | os.PathLike[str],
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> Self:
        """A new table at `target` that names this table's files, without a copy of them; the new table is returned.

        Only shallow clones can be made: pass `isShallow=True`. `replace` puts the clone in the place of an empty table;
        any other table there is an error. `properties` take precedence over those of this table.
        """
        return self._clone(target, isShallow, replace, properties)

    @checked(version=integer, **_CLONE)
    def cloneAtVersion(
        self,
        version: int,
        target: str | os.PathLike[str],
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> Self:
        """The same of an older version."""
        return self._clone(target, isShallow, replace, properties, version=version)

    @checked(timestamp=moment, **_CLONE)
    def cloneAtTimestamp(
        self,
        timestamp: str | dt.datetime,
        target: str | os.PathLike[str],
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> Self:
        """The same of what was the newest version at a time, which is read as in `ebbtide.read`."""
        at_ms = timestamp_ms(self._spark, timestamp)
        return self._clone(target, isShallow, replace, properties, at_ms=at_ms)

    def _clone(
        self,
        target: str | os.PathLike[str],
        is_shallow: bool,
        replace: bool,
        properties: Mapping[str, str] | None,
        *,
        version: int | None = None,
        at_ms: int | None = None,
    ) -> Self:
        refuse_deep_clone(is_shallow)
        storage_options = with_session_storage(self._spark, os.fspath(target), self._storage_options)
        store = open_store(os.fspath(target), storage_options)
        request = CloneRequest(
            self._store,
            store,
            version,
            at_ms,
            how="create_or_replace" if replace else "create",
            properties=properties or {},
            options=self._options(in_transaction=False),
            hint=self._latest,
            may_downgrade=restore_may_downgrade(self._spark),
            enforces_retention=enforces_file_retention(self._spark),
        )
        clone_table(request)
        _refresh(self._spark, store)
        return type(self)(self._spark, store, storage_options=self._storage_options, config=self._config)

    # --- GENERATE -----------------------------------------------------------------------------------------------------

    @checked(mode=text)
    def generate(self, mode: str) -> None:
        """Write manifests for readers that do not know the log; the mode is "symlink_format_manifest"."""
        generate_manifests(self._store, mode, config=self._config, hint=self._latest)


def _refresh(spark: SparkSession, store: ObjectStore) -> None:
    """Make readers of the table's files, and views of it, forget what they hold."""
    refresh_readers(spark, store)
    refresh_changed(spark, store.url)
