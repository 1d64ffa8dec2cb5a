"""How do VACUUM, FSCK, RESTORE, CLONE, CONVERT and GENERATE become calls?"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ebbtide.commands.clone.command import CloneRequest, clone_table
from ebbtide.commands.convert.command import ConvertRequest, convert_folder
from ebbtide.commands.convert.identifier import parquet_path
from ebbtide.commands.convert.schema import partition_fields_of
from ebbtide.commands.fsck.answer import fsck_frame
from ebbtide.commands.fsck.command import FsckCommand
from ebbtide.commands.fsck.request import FsckRequest
from ebbtide.commands.row_level.committing import refresh_readers
from ebbtide.errors import StorageError
from ebbtide.session_settings import enforces_file_retention, restore_may_downgrade, table_defaults
from ebbtide.spark_border import timestamp_ms
from ebbtide.sql.layout_commands import run_optimize, run_reorg
from ebbtide.sql.maintenance_statements import (
    Clone,
    Convert,
    Fsck,
    Generate,
    MaintenanceStatement,
    Optimize,
    Reorg,
    Restore,
    Vacuum,
)
from ebbtide.sql.queries import instant
from ebbtide.sql.session import SqlSession
from ebbtide.table_views import clone_frame
from ebbtide.temp_views import refresh_changed

__all__ = ["run_maintenance"]

_NAMED_FAILURES = 10


def run_maintenance(session: SqlSession, statement: MaintenanceStatement) -> DataFrame:
    """The statement's answer; an empty frame where it has none."""
    match statement:
        case Optimize():
            return run_optimize(session, statement)
        case Reorg():
            return run_reorg(session, statement)
        case Vacuum():
            return _run_vacuum(session, statement)
        case Fsck():
            return _run_fsck(session, statement)
        case Restore():
            return _run_restore(session, statement)
        case Clone():
            return _run_clone(session, statement)
        case Convert():
            _run_convert(session, statement)
        case Generate():
            session.table(statement.path).generate(statement.mode)
    return session.spark.createDataFrame([], "key STRING, value STRING")


def _run_vacuum(session: SqlSession, statement: Vacuum) -> DataFrame:
    """The paths that would go, or else the table's own: the answers of the reference."""
    result = session.table(statement.path).vacuum(
        statement.retain_hours, dry_run=statement.dry_run, lite=statement.lite
    )
    if result.num_failed:
        named = "; ".join(list(result.failures.values())[:_NAMED_FAILURES])
        raise StorageError(
            f"VACUUM deleted {result.metrics.num_deleted_files} files of {result.table_url}, but {result.num_failed} "
            f"could not be deleted: {named}. Nothing that a version needs is lost; run it again when they can be."
        )
    paths = result.absolute_paths() if statement.dry_run else iter((result.spark_path,))
    return session.spark.createDataFrame([(path,) for path in paths], "path STRING")


def _run_fsck(session: SqlSession, statement: Fsck) -> DataFrame:
    # Not through DeltaTable, which refuses a table that cannot be read.
    store, options = session.store(statement.path), session.options(statement.path, in_transaction=False)
    result = FsckCommand(FsckRequest(store, not statement.dry_run, options)).run()
    if result.version is not None:
        refresh_changed(session.spark, store.url)
    return fsck_frame(session.spark, result)


def _run_restore(session: SqlSession, statement: Restore) -> DataFrame:
    table = session.table(statement.path)
    if statement.timestamp is not None:
        return table.restoreToTimestamp(instant(session.spark, statement.timestamp))
    return table.restoreToVersion(statement.version or 0)


def _run_clone(session: SqlSession, statement: Clone) -> DataFrame:
    at = None if statement.timestamp is None else instant(session.spark, statement.timestamp)
    request = CloneRequest(
        session.store(statement.source),
        session.store(statement.path),
        statement.version,
        None if at is None else timestamp_ms(session.spark, at),
        statement.how,
        statement.properties,
        session.options(statement.path, in_transaction=False),
        may_downgrade=restore_may_downgrade(session.spark),
        enforces_retention=enforces_file_retention(session.spark),
    )
    result = clone_table(request)
    refresh_readers(session.spark, request.target)
    refresh_changed(session.spark, request.target.url)
    return clone_frame(session.spark, result)


def _run_convert(session: SqlSession, statement: Convert) -> None:
    path = parquet_path(statement.identifier)
    request = ConvertRequest(
        session.store(path),
        partition_fields_of(statement.partition_columns),
        statement.collects_statistics,
        session.options(path, in_transaction=False),
        lambda: table_defaults(session.spark),
    )
    convert_folder(session.spark, request)
    refresh_readers(session.spark, request.store)
