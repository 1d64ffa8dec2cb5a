"""What can be done for a table that lives for years?

`TableMaintenance` holds the methods of `DeltaTable` that change how a table is stored, and not which rows it has.
`DeltaTable` inherits them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, SparkSession

from ebbtide.arguments import checked, condition, flag, integer, integers, names, number, optional, text, texts
from ebbtide.commands.drop.command import DropCommand, DropRequest
from ebbtide.commands.drop.results import DropResult
from ebbtide.commands.fsck.command import FsckCommand
from ebbtide.commands.fsck.request import FsckRequest
from ebbtide.commands.fsck.results import FsckResult
from ebbtide.commands.maintain.command import MaintainCommand
from ebbtide.commands.maintain.request import DEFAULT_MIN_SMALL_FILES, MaintainRequest
from ebbtide.commands.maintain.results import MaintainResult
from ebbtide.commands.optimize.answer import optimize_frame
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.request import OptimizeRequest
from ebbtide.commands.purge.command import PurgeCommand, PurgeRequest
from ebbtide.commands.purge.results import PurgeResult
from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.commands.vacuum.request import VacuumRequest
from ebbtide.commands.vacuum.results import VacuumResult
from ebbtide.errors import RequestError
from ebbtide.log import CheckpointResult, write_checkpoint
from ebbtide.log.cleanup import clean_expired_log
from ebbtide.log.compaction import CompactionResult, compact_log
from ebbtide.session_settings import checks_retention, logs_vacuum, optimize_settings, vacuums_lite
from ebbtide.table_handle import TableHandle
from ebbtide.temp_views import drop_views, refresh_changed

__all__ = ["DeltaOptimizeBuilder", "TableMaintenance"]


class TableMaintenance(TableHandle):
    """The maintenance of a table at a path."""

    @checked(
        target_size=optional(integer),
        min_size=optional(integer),
        max_deleted_share=optional(number),
        threads=optional(integer),
        commit_per_group=flag,
        user_metadata=optional(text),
    )
    def optimize(
        self,
        *,
        target_size: int | None = None,
        min_size: int | None = None,
        max_deleted_share: float | None = None,
        threads: int | None = None,
        commit_per_group: bool = False,
        user_metadata: str | None = None,
    ) -> DeltaOptimizeBuilder:
        """Put small files together, or sort rows: say where, then `.executeCompaction()` or `.executeZOrderBy(...)`.

        Files below `min_size` bytes are put together up to `target_size`, and so are files with a larger share of
        deleted rows than `max_deleted_share`. `threads` groups of files are written at the same time. With
        `commit_per_group` each of them is a commit of its own, so that a long run that dies keeps what it did. What is
        None is taken from the session's settings (`spark.databricks.delta.optimize.*`), then from the table's
        properties.
        """
        settings = optimize_settings(
            self._spark,
            target_bytes=target_size,
            min_bytes=min_size,
            max_deleted_share=max_deleted_share,
            threads=threads,
        )
        options = self._options(user_metadata=user_metadata, in_transaction=False)
        request = OptimizeRequest(
            self._store, settings=settings, commit_per_group=commit_per_group, options=options, hint=self._latest
        )
        return DeltaOptimizeBuilder(self._spark, request)

    @checked(
        retentionHours=optional(number),
        dry_run=flag,
        lite=optional(flag),
        keep_versions=integers,
        retention_check=optional(flag),
    )
    def vacuum(
        self,
        retentionHours: float | None = None,
        *,
        dry_run: bool = False,
        lite: bool | None = None,
        keep_versions: Collection[int] = (),
        retention_check: bool | None = None,
    ) -> VacuumResult:
        """Delete the files that no version of the last `retentionHours` needs; by default those that the table says.

        `dry_run` deletes nothing and names what would go. `lite` finds files in the log alone, without listing the
        table; it misses what failed writers left. All files of a version in `keep_versions` stay. `retention_check`
        refuses fewer hours than the table's own. A shallow clone elsewhere may use files that go: no log here knows.
        """
        spark = self._spark
        request = VacuumRequest(
            self._store,
            retentionHours,
            dry_run=dry_run,
            lite=vacuums_lite(spark) if lite is None else lite,
            keep_versions=tuple(keep_versions),
            retention_check=checks_retention(spark) if retention_check is None else retention_check,
            is_logged=logs_vacuum(spark),
            options=self._options(in_transaction=False),
            hint=self._latest,
        )
        return VacuumCommand(request).run()

    # --- the log ------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> CheckpointResult:
        """Write a checkpoint of the newest version now; readers then need no older commits."""
        return write_checkpoint(self._snapshot())

    @checked(start=optional(integer), end=optional(integer))
    def compact_log(self, start: int | None = None, end: int | None = None) -> CompactionResult:
        """Write the commits from `start` to `end` once more, as one file that readers can use in their place.

        By default all commits since the newest checkpoint. The commits themselves stay.
        """
        return compact_log(self._snapshot(), start, end)

    @checked(dry_run=flag)
    def clean_log(self, *, dry_run: bool = False) -> tuple[str, ...]:
        """Delete the log files that are older than `delta.logRetentionDuration` and that no later version needs.

        Returns their paths. Needs a checkpoint below which they lie; every version from that one on stays readable.
        """
        return clean_expired_log(self._snapshot(), config=self._config, dry_run=dry_run)

    @checked(repair=flag)
    def fsck(self, repair: bool = False) -> FsckResult:
        """Check that what the log says is true of the files in storage; `repair` puts right what can be.

        Looks at commits, checkpoints, the footers of the data files, deletion vectors and statistics; no row is read
        and nothing runs in Spark. A repair is one commit. It takes files from the log that are lost, and so is the
        consent to go on without their rows; `result.findings` says which they are. Look first.
        """
        result = FsckCommand(FsckRequest(self._store, repair, self._options(in_transaction=False))).run()
        if result.version is not None:
            refresh_changed(self._spark, self._store.url)
        return result

    @checked(where=optional(condition), target_size=optional(integer), user_metadata=optional(text))
    def purge(
        self,
        where: str | Column | None = None,
        *,
        target_size: int | None = None,
        user_metadata: str | None = None,
    ) -> PurgeResult:
        """Rewrite the files that hold deleted rows or dropped columns, so that no live file does.

        `where` chooses partitions. The rows are still in the files of older versions, until VACUUM deletes those.
        """
        settings = optimize_settings(self._spark, target_bytes=target_size)
        options = self._options(user_metadata=user_metadata, in_transaction=False)
        request = PurgeRequest(self._store, where, settings, options=options, hint=self._latest)
        result = PurgeCommand(self._spark, request).run()
        refresh_changed(self._spark, self._store.url)
        return result

    @checked(confirm=flag, dry_run=flag)
    def drop(self, *, confirm: bool = False, dry_run: bool = False) -> DropResult:
        """Delete the table: all its data files and its log. Nothing brings it back, so it takes `confirm=True`.

        `dry_run` deletes nothing and says what would go. Refused if anything below the root is not the table's. Views
        of the table that `ebbtide.sql` made in this session go with it.
        """
        if not confirm and not dry_run:
            raise RequestError(
                f"drop() deletes the table at {self._store.url} with all its versions, and nothing brings it back. Say "
                "drop(confirm=True) to do it, or drop(dry_run=True) to see what would go."
            )
        result = DropCommand(DropRequest(self._store, dry_run=dry_run, config=self._config)).run()
        if not dry_run:
            self._latest = None
            drop_views(self._spark, self._store.url)
        return result

    # --- all of it ----------------------------------------------------------------------------------------------------

    @checked(
        dry_run=flag,
        purge=flag,
        target_size=optional(integer),
        min_size=optional(integer),
        min_small_files=integer,
        max_deleted_share=optional(number),
        max_commits=optional(integer),
        retention_hours=optional(number),
        skip=texts,
        user_metadata=optional(text),
    )
    def maintain(
        self,
        *,
        dry_run: bool = False,
        purge: bool = False,
        target_size: int | None = None,
        min_size: int | None = None,
        min_small_files: int = DEFAULT_MIN_SMALL_FILES,
        max_deleted_share: float | None = None,
        max_commits: int | None = None,
        retention_hours: float | None = None,
        skip: Collection[str] = (),
        user_metadata: str | None = None,
    ) -> MaintainResult:
        """Look at the table, and do what it needs: OPTIMIZE, a checkpoint, VACUUM, cleanup of the log.

        `dry_run` only looks. At least `min_small_files` files below `min_size` that fit into one of `target_size` call
        for OPTIMIZE, as does a file with a larger share of deleted rows than `max_deleted_share`. `max_commits` since
        the newest checkpoint call for one. VACUUM retains files for `retention_hours`. With `purge`, no live file
        keeps a deleted row. None takes the session's settings, then the table's. `skip` names steps to leave out:
        "optimize", "checkpoint", "vacuum", "cleanup". A step that fails does not stop the others; the result names it.
        """
        spark = self._spark
        request = MaintainRequest(
            self._store,
            optimize_settings(
                spark,
                target_bytes=target_size,
                min_bytes=min_size,
                max_deleted_share=max_deleted_share,
                min_group_files=min_small_files,
            ),
            purges=purge,
            max_commits=max_commits,
            retention_hours=retention_hours,
            retention_check=checks_retention(spark),
            is_logged=logs_vacuum(spark),
            skip=frozenset(skip),
            dry_run=dry_run,
            options=self._options(user_metadata=user_metadata, in_transaction=False),
            hint=self._latest,
        )
        result = MaintainCommand(request).run(spark)
        if result.version is not None:
            refresh_changed(spark, self._store.url)
        return result


@dataclass(frozen=True, slots=True)
class DeltaOptimizeBuilder:
    """An OPTIMIZE in the making, as delta-spark has it."""

    _spark: SparkSession = field(repr=False)
    _request: OptimizeRequest = field(repr=False)

    @checked(partitionFilter=condition)
    def where(self, partitionFilter: str | Column) -> DeltaOptimizeBuilder:
        """Only the partitions for which the condition is true; it may use partition columns alone."""
        if self._request.where is not None:
            raise RequestError("where() was called before. Write one condition: where('a = 1 AND b = 2').")
        return replace(self, _request=replace(self._request, where=partitionFilter))

    def executeCompaction(self) -> DataFrame:
        """Put small files together. One row: the table's path, and what was done."""
        return self._execute(self._request)

    @checked(cols=names)
    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Rewrite all files so that each holds a small range of all these columns. One row, as `executeCompaction`."""
        given = tuple(name for part in cols for name in ((part,) if isinstance(part, str) else part))
        if not given:
            raise RequestError("executeZOrderBy() needs at least one column: executeZOrderBy('city', 'day').")
        return self._execute(replace(self._request, zorder_by=given))

    def _execute(self, request: OptimizeRequest) -> DataFrame:
        result = OptimizeCommand(self._spark, request).run()
        refresh_changed(self._spark, request.store.url)
        return optimize_frame(self._spark, request.store.spark_path, result.metrics)
