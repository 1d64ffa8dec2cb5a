"""How is a table checked, and repaired?

    log (commits, checkpoints, hint) -> entries -> files, vectors, statistics -> [repair: one commit]

No Spark is needed: the log, the storage and the footers are enough. `FsckCommand.check` changes nothing; `repair` takes
its findings, so that somebody can be asked in between; `run` does both where the request says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ebbtide.commands.fsck import findings
from ebbtide.commands.fsck.checkpoint_checks import check_checkpoints, check_checksum, check_last_checkpoint
from ebbtide.commands.fsck.entry_checks import check_entries
from ebbtide.commands.fsck.file_checks import FileCounts, check_files
from ebbtide.commands.fsck.log_checks import LogFiles, check_commits, check_compacted_logs, find_gaps, list_log_files
from ebbtide.commands.fsck.repair import repair_table
from ebbtide.commands.fsck.request import FsckRequest
from ebbtide.commands.fsck.results import FsckMetrics, FsckResult
from ebbtide.errors import CorruptTableError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.log_names import LOG_DIRECTORY

__all__ = ["FsckCommand"]

_WEEK_MS: Final = 7 * 86_400_000


class FsckCommand:
    def __init__(self, request: FsckRequest, *, on_phase: Callable[[str], None] = lambda _: None) -> None:
        self._store = request.store
        self._request = request
        self._config = request.options.config
        self._on_phase = on_phase
        self._snapshot: Snapshot | None = None
        self._found: list[findings.Finding] = []

    def run(self) -> FsckResult:
        result = self.check()
        return self.repair(result) if self._request.repair else result

    # --- checking -----------------------------------------------------------------------------------------------------

    def check(self) -> FsckResult:
        """Look at everything and change nothing.

        TableNotFoundError when there is no table, UnsupportedFeatureError when it has features that only a newer
        engine understands.
        """
        started = time.monotonic()
        self._found = []
        self._on_phase("Reading the log")
        log = list_log_files(self._store)
        problem = self._load()
        self._check_log(log)
        counts = FileCounts()
        if self._snapshot is not None:
            problem = self._check_snapshot(self._snapshot, log, counts)
        if problem is not None:
            self._give_up(log, problem)
        metrics = FsckMetrics(
            num_checked_commits=len(log.listing.commits),
            num_checked_checkpoints=len(log.listing.checkpoints) + len(log.incomplete),
            num_checked_files=counts.files,
            num_checked_vectors=counts.vectors,
            num_findings=sum(found.severity != "note" for found in self._found),
            execution_time_ms=round((time.monotonic() - started) * 1000),
        )
        version = None if self._snapshot is None else self._snapshot.version
        return FsckResult(None, metrics, self._store.url, tuple(self._found), checked_version=version)

    def _load(self) -> CorruptTableError | None:
        """Load the newest version, even if a file is live twice in it. The error when it cannot be read at all."""
        self._snapshot = None
        try:
            self._snapshot = load_snapshot(self._store, config=self._config)
        except CorruptTableError as error:
            try:
                self._snapshot = load_snapshot(self._store, config=self._config, allow_repeats=True)
            except CorruptTableError:
                return error
        return None

    def _check_log(self, log: LogFiles) -> None:
        store, listing, config = self._store, log.listing, self._config
        needed_from = None
        if self._snapshot is None:
            needed_from = max((checkpoint.version + 1 for checkpoint in listing.checkpoints), default=0)
        retention_ms = _WEEK_MS if self._snapshot is None else self._snapshot.properties.deleted_file_retention_ms
        self._found += find_gaps(listing, needed_from=needed_from)
        self._found += check_commits(
            store,
            listing,
            needed_from=needed_from,
            change_data_since_ms=int(time.time() * 1000) - retention_ms,
            config=config,
            on_progress=self._progress("commits"),
        )
        self._found += check_compacted_logs(store, listing, config)
        self._on_phase("Checking the checkpoints")
        self._found += check_checkpoints(store, log, config, self._progress("checkpoints, by version"))
        self._found += check_last_checkpoint(store, log)

    def _check_snapshot(self, snapshot: Snapshot, log: LogFiles, counts: FileCounts) -> CorruptTableError | None:
        """Check the files of the newest version. The error when its definition does not allow that."""
        self._on_phase("Checking the files")
        try:
            if all(files.version != snapshot.version for files in log.listing.checkpoints):
                self._found += check_checksum(self._store, log, snapshot.version, snapshot.live, snapshot.metadata)
            self._found += check_entries(snapshot)
            options = self._request.options.storage_options
            self._found += check_files(snapshot, options, counts, self._progress("files"))
        except CorruptTableError as error:
            return error
        return None

    def _give_up(self, log: LogFiles, problem: CorruptTableError) -> None:
        """The table cannot be read, and nothing can be committed to it either."""
        self._snapshot = None
        self._found = [findings.without_repair(found) for found in self._found]
        if not any(found.severity == "error" for found in self._found):
            self._found.append(findings.unreadable_table(LOG_DIRECTORY, log.listing.latest_version, problem))

    def _progress(self, things: str) -> Callable[[int, int], None]:
        return lambda done, total: self._on_phase(f"Checking the {things}: {done:,} of {total:,}")

    # --- repairing ----------------------------------------------------------------------------------------------------

    def repair(self, result: FsckResult) -> FsckResult:
        """Repair what `check` found, in one commit; the same answer when nothing can be repaired."""
        if self._snapshot is None or not any(found.is_repairable for found in result.findings):
            return result
        repaired = repair_table(self._snapshot, result.findings, self._request.options, result.metrics, self._on_phase)
        return replace(result, version=repaired.version, metrics=repaired.metrics, repaired=repaired.findings)
