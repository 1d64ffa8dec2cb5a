"""How do the statements of maintenance become calls?"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ebbtide.commands.fsck.answer import fsck_frame
from ebbtide.commands.fsck.command import FsckCommand
from ebbtide.commands.fsck.request import FsckRequest
from ebbtide.errors import StorageError
from ebbtide.sql.maintenance_statements import Fsck, MaintenanceStatement, Vacuum
from ebbtide.sql.session import SqlSession
from ebbtide.temp_views import refresh_changed

__all__ = ["run_maintenance"]

_NAMED_FAILURES = 10


def run_maintenance(session: SqlSession, statement: MaintenanceStatement) -> DataFrame:
    """The statement's answer; an empty frame where it has none."""
    match statement:
        case Vacuum():
            return _run_vacuum(session, statement)
        case Fsck():
            return _run_fsck(session, statement)


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
    store, options = session.store(statement.path), session.options(statement.path).without_transaction()
    result = FsckCommand(FsckRequest(store, not statement.dry_run, options)).run()
    if result.version is not None:
        refresh_changed(session.spark, store.url)
    return fsck_frame(session.spark, result)
