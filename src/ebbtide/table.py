"""What can a user do with a Delta table from Python?

The names that delta-spark users know, on plain PySpark: `DeltaTable.forPath(spark, path)`, `.toDF()`, `.history()`, and
`ebbtide.read` for one-liners. Thin on purpose: a call becomes a request, and `log`, `scan` or `commands` serve it.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from ebbtide.arguments import (
    assignments,
    checked,
    condition,
    engine_config,
    flag,
    frame,
    integer,
    moment,
    names,
    optional,
    session,
    table_path,
    text,
    text_map,
)
from ebbtide.commands.define.alter import add_feature_support
from ebbtide.commands.define.create import CreateHow
from ebbtide.commands.define.features import upgrade_table_protocol
from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.delete.results import DeleteResult
from ebbtide.commands.drop_feature.command import DropFeatureCommand, DropFeatureRequest
from ebbtide.commands.requests import DeleteRequest, MatchingKeys, UpdateRequest, WriteOptions
from ebbtide.commands.update.command import UpdateCommand
from ebbtide.commands.update.results import UpdateResult
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import DeltaError, RequestError, StorageError, TableNotFoundError
from ebbtide.log import load_snapshot, read_history, table_detail
from ebbtide.log.file_retention import ensure_files_retained
from ebbtide.log.listing import list_log
from ebbtide.merge_builder import DeltaMergeBuilder
from ebbtide.scan.counting import exact_count
from ebbtide.scan.reading import read_rows
from ebbtide.session_settings import (
    MERGE_WITH_VECTORS,
    UPDATE_WITH_VECTORS,
    CommitOptions,
    enforces_file_retention,
    merges_schema,
    optimize_settings,
    reset_txn_version,
)
from ebbtide.spark_border import timestamp_ms, with_session_storage
from ebbtide.storage import ObjectStore, open_store
from ebbtide.table_builder import DeltaTableBuilder
from ebbtide.table_copies import TableCopies
from ebbtide.table_handle import StorageOptions
from ebbtide.table_maintenance import TableMaintenance
from ebbtide.table_views import detail_frame, history_frame
from ebbtide.temp_views import refresh_changed

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["COMMIT_OPTIONS", "DeltaTable", "suggest_parent_table", "read"]

TablePath = str | os.PathLike[str]

# The checks of `CommitOptions`.
COMMIT_OPTIONS: Final = {
    "deletion_vectors": optional(text),
    "conflicts": text,
    "txn_app_id": optional(text),
    "txn_version": optional(integer),
    "user_metadata": optional(text),
}


@checked(
    spark=session,
    path=table_path,
    version=optional(integer),
    timestamp=optional(moment),
    storage_options=optional(text_map),
    where=optional(condition),
    config=engine_config,
)
def read(
    spark: SparkSession,
    path: TablePath,
    version: int | None = None,
    timestamp: str | dt.datetime | None = None,
    storage_options: StorageOptions | None = None,
    *,
    where: str | Column | None = None,
    config: EngineConfig = DEFAULT_CONFIG,
) -> DataFrame:
    """The rows of the Delta table at `path`, now or at a version or time, as a DataFrame.

    `where` filters the rows, and data files that it rules out are not even opened; comparisons of columns with
    literals are evaluated before deleted rows are dropped, so fewer rows have to be looked up. (Spark pushes a
    `.where(...)` on the result into Parquet as usual, but then all files of the table are part of the plan.) A
    timestamp is an ISO string or a datetime; without a zone it is in the session's time zone. A version that is older
    than the table's `delta.deletedFileRetentionDuration` is refused if the session asks for that, as delta-spark does
    (docs/reading.md).
    """
    path = os.fspath(path)
    at_ms = None if timestamp is None else timestamp_ms(spark, timestamp)
    storage_options = with_session_storage(spark, path, storage_options)
    with suggest_parent_table(path, storage_options):
        snapshot = load_snapshot(open_store(path, storage_options), version=version, timestamp_ms=at_ms, config=config)
    if (version is not None or at_ms is not None) and enforces_file_retention(spark):
        ensure_files_retained(snapshot)
    return read_rows(spark, snapshot, where, storage_options=storage_options)


class DeltaTable(TableMaintenance, TableCopies):
    """A Delta table at a path. Every call uses the newest version."""

    @classmethod
    @checked(
        sparkSession=session,
        path=table_path,
        hadoopConf=optional(text_map),
        storage_options=optional(text_map),
        config=engine_config,
    )
    def forPath(
        cls,
        sparkSession: SparkSession,
        path: TablePath,
        hadoopConf: Mapping[str, str] | None = None,
        *,
        storage_options: StorageOptions | None = None,
        config: EngineConfig = DEFAULT_CONFIG,
    ) -> DeltaTable:
        """The table at `path`; TableNotFoundError when there is none."""
        _refuse_hadoop_settings(hadoopConf)
        path = os.fspath(path)
        storage_options = with_session_storage(sparkSession, path, storage_options)
        table = cls(sparkSession, open_store(path, storage_options), storage_options=storage_options, config=config)
        with suggest_parent_table(path, storage_options):
            table._snapshot()
        return table

    @classmethod
    @checked(sparkSession=session, identifier=table_path, storage_options=optional(text_map))
    def isDeltaTable(
        cls, sparkSession: SparkSession, identifier: TablePath, *, storage_options: StorageOptions | None = None
    ) -> bool:
        """Whether a Delta table is at this path. A table that cannot be read (a broken log) still is one.

        StorageError when the store cannot be asked: a bucket that does not exist, credentials that are refused.
        """
        path = os.fspath(identifier)
        storage_options = with_session_storage(sparkSession, path, storage_options)
        try:
            load_snapshot(open_store(path, storage_options))
        except TableNotFoundError:
            return False
        except StorageError:
            raise
        except DeltaError as error:
            return not isinstance(error, RequestError)
        return True

    @classmethod
    @checked(sparkSession=optional(session))
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """A builder for a new table; TableAlreadyExistsError when there is one."""
        return cls._builder(sparkSession, "create")

    @classmethod
    @checked(sparkSession=optional(session))
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """A builder for a new table; an existing one is left as it is."""
        return cls._builder(sparkSession, "create_if_not_exists")

    @classmethod
    @checked(sparkSession=optional(session))
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """A builder that replaces a table and its rows; TableNotFoundError when there is none."""
        return cls._builder(sparkSession, "replace")

    @classmethod
    @checked(sparkSession=optional(session))
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """A builder for a table that replaces the existing one, if any."""
        return cls._builder(sparkSession, "create_or_replace")

    @classmethod
    def _builder(cls, session: SparkSession | None, how: CreateHow) -> DeltaTableBuilder[DeltaTable]:
        spark = session or SparkSession.getActiveSession()
        if spark is None:
            raise RequestError("There is no active Spark session. Give one to the call, or start one first.")

        def open_table(store: ObjectStore, storage_options: StorageOptions | None) -> DeltaTable:
            return cls(spark, store, storage_options=storage_options)

        return DeltaTableBuilder(spark, how, open_table)

    @checked(aliasName=text)
    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name that conditions may use: `table.alias("t").delete("t.id = 5")`."""
        options, config = self._storage_options, self._config
        named = DeltaTable(self._spark, self._store, storage_options=options, config=config, alias=aliasName)
        named._latest = self._latest
        return named

    def toDF(self) -> DataFrame:
        """The rows of the newest version."""
        rows = read_rows(self._spark, self._snapshot(), storage_options=self._storage_options)
        return rows if self._alias is None else rows.alias(self._alias)

    # --- changing the table -------------------------------------------------------------------------------------------

    @checked(condition=optional(condition), **COMMIT_OPTIONS)
    def delete(self, condition: str | Column | None = None, **options: Unpack[CommitOptions]) -> DeleteResult:
        """Delete the rows for which the condition is true; all rows without one. A row where it is null stays.

        A condition may read other tables in subqueries: temporary views, and Delta tables as delta.`path`. The options
        are those of every changing call: `deletion_vectors`, `conflicts`, `txn_app_id` and `txn_version`,
        `user_metadata` (see `ebbtide.session_settings.CommitOptions`).
        """
        with reset_txn_version(self._spark, options):
            return self._delete(condition, self._options(**options))

    @checked(source=frame, on=names, **COMMIT_OPTIONS)
    def delete_matching(
        self, source: DataFrame, on: str | Sequence[str], **options: Unpack[CommitOptions]
    ) -> DeleteResult:
        """Delete the rows whose `on` columns equal those of some row of `source`; null equals nothing.

        The options are those of `delete`.
        """
        keys = MatchingKeys(source, (on,) if isinstance(on, str) else tuple(on))
        with reset_txn_version(self._spark, options):
            return self._delete(keys, self._options(**options))

    @checked(condition=optional(condition), set=optional(assignments), **COMMIT_OPTIONS)
    def update(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,
        **options: Unpack[CommitOptions],
    ) -> UpdateResult:
        """Give columns new values in the rows for which the condition is true; in all rows without one.

        `set` maps a column, or a field of a struct (`"address.city"`), to its new value: SQL text or a Column over the
        old row. Values are cast to the column's type, and one that does not fit raises. The options are those of
        `delete`; with deletion vectors only the new versions of the updated rows are written.
        """
        chosen = self._options(vectors_setting=UPDATE_WITH_VECTORS, **options)
        given = tuple((set or {}).items())
        request = UpdateRequest(self._store, condition, given, self._alias, chosen, self._latest)
        with reset_txn_version(self._spark, options):
            updated = UpdateCommand(self._spark, request).run()
        refresh_changed(self._spark, self.url)
        return updated

    @checked(source=frame, condition=condition, **COMMIT_OPTIONS)
    def merge(self, source: DataFrame, condition: str | Column, **options: Unpack[CommitOptions]) -> DeltaMergeBuilder:
        """Change rows by the rows of `source`: say what happens to which rows, then `.execute()`.

        `condition` pairs the rows: SQL text or a Column that names the two sides by their aliases, as in
        `table.alias("t").merge(updates.alias("s"), "t.id = s.id")`. The options are those of `delete`.
        """
        return DeltaMergeBuilder(
            self._spark,
            self._store,
            source,
            condition,
            self._options(vectors_setting=MERGE_WITH_VECTORS, **options),
            self._alias,
            self._latest,
            _evolves=merges_schema(self._spark),
            _given=options,
        )

    @checked(featureName=text)
    def addFeatureSupport(self, featureName: str) -> None:
        """Let the table's protocol support a feature, such as "deletionVectors", without switching it on."""
        add_feature_support(self._store, featureName, options=self._options(in_transaction=False), hint=self._latest)

    @checked(readerVersion=integer, writerVersion=integer)
    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Let the table support everything that these protocol versions stand for; it never supports less."""
        upgrade_table_protocol(
            self._store, readerVersion, writerVersion, options=self._options(in_transaction=False), hint=self._latest
        )

    @checked(featureName=text, truncateHistory=optional(flag))
    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Take a feature out of the table's protocol, so that engines without it can use the table again.

        What uses it in the newest version is ended first; for deletion vectors, files with deleted rows are rewritten.
        Older versions stay as they are, guarded by `checkpointProtection`. With `truncateHistory` they go instead: the
        first call raises and says when to call again.
        """
        request = DropFeatureRequest(
            self._store,
            featureName,
            bool(truncateHistory),
            optimize_settings(self._spark),
            options=self._options(in_transaction=False),
            hint=self._latest,
        )
        DropFeatureCommand(self._spark, request).run()
        refresh_changed(self._spark, self.url)

    def _delete(self, condition: str | Column | MatchingKeys | None, options: WriteOptions) -> DeleteResult:
        request = DeleteRequest(self._store, condition, self._alias, options, self._latest)
        deleted = DeleteCommand(self._spark, request).run()
        refresh_changed(self._spark, self.url)
        return deleted

    # --- looking at the table -----------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The table's absolute URL."""
        return self._store.url

    def version(self) -> int:
        return self._snapshot().version

    def count(self) -> int:
        """The number of rows: from the log where it is exact; Spark counts the rows of the other files."""
        return exact_count(self._spark, self._snapshot(), storage_options=self._storage_options)

    @checked(limit=optional(integer))
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

    def __repr__(self) -> str:
        at = f" at version {self._latest.version}" if self._latest is not None else ""
        return f"<DeltaTable {self._store.url}{at}>"


@contextmanager
def suggest_parent_table(path: str, storage_options: StorageOptions | None) -> Iterator[None]:
    """If no table is found, say whether the path is a partition directory of one."""
    try:
        yield
    except TableNotFoundError as error:
        above = path.rstrip("/")
        while "=" in above.rpartition("/")[2]:
            above = above.rpartition("/")[0]
            if above and list_log(open_store(above, storage_options)).has_log_files:
                raise TableNotFoundError(
                    f"{path} is a directory inside the Delta table at {above}, and a table can only be opened for a "
                    f"full scan. Open {above} and choose the partition with a condition.",
                    error_class="DELTA_UNEXPECTED_PARTIAL_SCAN",
                ) from error
        raise


def _refuse_hadoop_settings(settings: Mapping[str, str] | None) -> None:
    if settings:
        raise RequestError(
            f"hadoopConf={{{', '.join(map(repr, settings))}}} cannot be used: the log is read without Hadoop. Give the "
            "credentials as storage_options={...}, and set the fs.* keys in the Spark session, which reads the rows."
        )
