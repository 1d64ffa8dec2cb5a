"""How does a VACUUM run?

    snapshot -> what must stay -> what could go (a survey of storage, or the log alone)
             -> VACUUM START -> look again at what must stay -> delete -> VACUUM END

Only the log and storage are read: no Spark. Nothing that is younger than the retention is deleted, so a writer that is
still at work loses nothing. Nothing is deleted before VACUUM START has landed. Wherever a VACUUM is interrupted, the
files that are gone are some of those that no kept version needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ebbtide.commands.vacuum.deletion import Deletion
from ebbtide.commands.vacuum.hidden_names import hidden_names_of
from ebbtide.commands.vacuum.lite import expired_commits, find_in_log, write_last_vacuum_info
from ebbtide.commands.vacuum.protected import ProtectedPaths, protect
from ebbtide.commands.vacuum.request import Retention, VacuumRequest, choose_retention
from ebbtide.commands.vacuum.results import VacuumMetrics, VacuumPaths, VacuumResult
from ebbtide.commands.vacuum.survey import Findings, Survey, split_points
from ebbtide.errors import DeltaError, RequestError, StorageError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.features import ensure_writable
from ebbtide.transaction import SYSTEM_CLOCK, Clock, Operation, Transaction

__all__ = ["VacuumCommand"]

_LOGGER = logging.getLogger(__name__)
# Where the reference records a VACUUM: every store but S3, on which its commits need a single writer.
_LOGGED_SCHEMES: Final = ("file:", "gs:", "abfs", "az:")


class VacuumCommand:
    """One VACUUM. `on_phase` is told what is being done, for people."""

    def __init__(
        self,
        request: VacuumRequest,
        *,
        on_phase: Callable[[str], None] = lambda _: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._request = request
        self._store = request.store
        self._config = request.options.config
        self._on_phase = on_phase
        is_logged = request.is_logged
        self._is_logged = self._store.url.startswith(_LOGGED_SCHEMES) if is_logged is None else is_logged
        self._clock = clock

    def run(self) -> VacuumResult:
        request = self._request
        if any(version < 0 for version in request.keep_versions):
            raise RequestError(f"keep_versions={list(request.keep_versions)}: a version is 0 or more.")
        self._on_phase("Reading the log")
        snapshot = load_snapshot(self._store, config=self._config, hint=request.hint)
        ensure_writable(snapshot.protocol, snapshot.metadata)
        retention = choose_retention(request, snapshot.properties)
        cutoff_ms = self._clock.now_ms() - retention.ms
        protected = self._protect(snapshot, cutoff_ms, retention)
        expired = expired_commits(snapshot, cutoff_ms)
        found = self._find(snapshot, protected, cutoff_ms, expired)
        planned = VacuumMetrics(found.num_paths, found.files.size_in_bytes, 0, found.num_directories)
        if request.dry_run:
            return self._result(found, planned, cutoff_ms)
        newest = self._start(snapshot, retention, planned)
        still_needed = self._protect_anew(snapshot, newest, cutoff_ms, retention)
        deletion = self._delete(newest, found, still_needed, planned)
        done = VacuumMetrics(found.num_paths, found.files.size_in_bytes, deletion.num_deleted, found.num_directories)
        version = self._end(newest, deletion, done)
        if not deletion.num_failed and not request.keep_versions:
            self._remember(expired)
        return self._result(found, done, cutoff_ms, version, deletion)

    def _protect(self, snapshot: Snapshot, cutoff_ms: int, retention: Retention) -> ProtectedPaths:
        is_longer = retention.ms > retention.default_ms
        return protect(snapshot, cutoff_ms=cutoff_ms, keeps=self._request.keep_versions, is_longer=is_longer)

    def _protect_anew(
        self, snapshot: Snapshot, newest: Snapshot, cutoff_ms: int, retention: Retention
    ) -> ProtectedPaths:
        """What must stay besides what the survey knew: a RESTORE may have brought back files that nothing needed."""
        is_alone = newest.version == snapshot.version + self._is_logged and newest.metadata.id == snapshot.metadata.id
        return ProtectedPaths() if is_alone else self._protect(newest, cutoff_ms, retention)

    def _find(self, snapshot: Snapshot, protected: ProtectedPaths, cutoff_ms: int, expired: int | None) -> Findings:
        if self._request.lite:
            return find_in_log(snapshot, protected, cutoff_ms, expired)
        survey = Survey(self._store, hidden_names_of(snapshot), protected, cutoff_ms, self._on_phase)
        return survey.run(split_points(snapshot))

    def _delete(
        self, snapshot: Snapshot, found: Findings, protected: ProtectedPaths, planned: VacuumMetrics
    ) -> Deletion:
        deletion = Deletion(self._store)
        total = planned.num_files_to_delete

        def paths() -> Iterator[str]:
            return (path for path in found.files if path not in protected) if len(protected) else iter(found.files)

        try:
            deletion.delete_files(paths(), lambda done: self._on_phase(f"Deleting: {done:,} of {total:,}"))
            deletion.remove_directories(found.empty_directories)
        except DeltaError:
            self._commit(snapshot, Operation("VACUUM END", {"status": "FAILED"}))
            raise
        return deletion

    # --- the history --------------------------------------------------------------------------------------------------

    def _start(self, snapshot: Snapshot, retention: Retention, planned: VacuumMetrics) -> Snapshot:
        """Record what is about to be deleted; returns the newest version, which comes after the one read."""
        parameters: dict[str, bool | int] = {
            "retentionCheckEnabled": self._request.retention_check,
            "defaultRetentionMillis": retention.default_ms,
        }
        if retention.specified_ms is not None:
            parameters["specifiedRetentionMillis"] = retention.specified_ms
        metrics = _chosen(planned, "numFilesToDelete", "sizeOfDataToDelete")
        started = self._commit(snapshot, Operation("VACUUM START", parameters, metrics))
        if started is not None:
            return started
        newest = load_snapshot(self._store, config=self._config, hint=snapshot)
        ensure_writable(newest.protocol, newest.metadata)
        return newest

    def _end(self, snapshot: Snapshot, deletion: Deletion, done: VacuumMetrics) -> int | None:
        status = "FAILED" if deletion.num_failed else "COMPLETED"
        metrics = _chosen(done, "numDeletedFiles", "numVacuumedDirectories")
        ended = self._commit(snapshot, Operation("VACUUM END", {"status": status}, metrics))
        return None if ended is None else ended.version

    def _commit(self, hint: Snapshot, operation: Operation) -> Snapshot | None:
        """A commit without actions. None where VACUUM is not recorded."""
        if not self._is_logged:
            return None
        operation = replace(operation, user_metadata=self._request.options.user_metadata)
        transaction = Transaction.begin(self._store, config=self._config, hint=hint, clock=self._clock)
        return transaction.commit([], operation, allow_empty=True).snapshot

    def _remember(self, expired: int | None) -> None:
        try:
            write_last_vacuum_info(self._store, expired)
        except StorageError as error:
            # Only a hint for the next VACUUM LITE, which reads more commits without it.
            _LOGGER.warning("the progress of VACUUM could not be written to %s: %s", self._store.url, error)

    def _result(
        self,
        found: Findings,
        metrics: VacuumMetrics,
        cutoff_ms: int,
        version: int | None = None,
        deletion: Deletion | None = None,
    ) -> VacuumResult:
        return VacuumResult(
            version=version,
            metrics=metrics,
            table_url=self._store.url,
            spark_path=self._store.spark_path,
            cutoff_ms=cutoff_ms,
            is_dry_run=self._request.dry_run,
            is_lite=self._request.lite,
            paths=VacuumPaths(found.files, tuple(found.empty_directories), found.num_paths),
            num_failed=0 if deletion is None else deletion.num_failed,
            failures={} if deletion is None else deletion.failures,
            num_links=found.num_links,
            other_tables=tuple(sorted(found.other_tables)),
        )


def _chosen(metrics: VacuumMetrics, *names: str) -> dict[str, int]:
    named = metrics.operation_metrics
    return {name: named[name] for name in names}
