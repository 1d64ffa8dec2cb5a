"""How does a table show an older version again?

    version or time -> the older snapshot, and the newest one
                    -> their difference by (path, vector): adds with their old vectors, tombstones for the others
                    -> every file and vector that comes back is looked at in storage
                    -> one commit, with the older definition

No data is read or written, and no Spark is needed. When another writer commits first, the difference is computed again
from the newest version: the result is as if the RESTORE had begun after it. The versions in between stay in the
history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.restore.availability import find_missing_files
from ebbtide.commands.restore.definition import definition_changes
from ebbtide.commands.restore.difference import SnapshotDifference, find_difference
from ebbtide.commands.restore.results import RestoreMetrics, RestoreResult, restore_metrics
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.counters import now_ms
from ebbtide.errors import RequestError, VersionNotFoundError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.commit_times import version_at_timestamp
from ebbtide.log.file_retention import ensure_files_retained
from ebbtide.protocol.actions import Action
from ebbtide.protocol.features import ensure_writable
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Lost, Operation, Rebased, Transaction

__all__ = ["Moment", "RestoreRequest", "restore_table"]

_CLASSES = {
    "DELTA_VERSION_NOT_FOUND": "DELTA_CANNOT_RESTORE_TABLE_VERSION",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION": "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
}
_REMEDY = (
    "Restore to a version whose files are still there, bring the files back from a copy, or set "
    "spark.sql.files.ignoreMissingFiles to true to restore without the rows of missing data files."
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, and how the history is to show it."""

    timestamp_ms: int
    display_text: str


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Show a version again, or what was the newest one at a time: exactly one of the two is given.

    `ignores_missing_files` leaves data files out that are gone; vectors are needed in any case. `may_downgrade` lets
    the protocol go back as well.
    """

    store: ObjectStore
    version: int | None = None
    moment: Moment | None = None
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None
    ignores_missing_files: bool = False
    may_downgrade: bool = False
    dry_run: bool = False
    # Whether a version is refused that is older than the time for which the table keeps removed files.
    enforces_retention: bool = False

    def __post_init__(self) -> None:
        if (self.version is None) == (self.moment is None):
            raise RequestError("A table is restored to a version or to a timestamp: give one of them.")


def _ignore(phase: str) -> None:
    del phase


def restore_table(request: RestoreRequest, *, on_phase: Callable[[str], None] = _ignore) -> RestoreResult:
    """Restore the table in one commit; `on_phase` is told the current step."""
    on_phase("Reading the log")
    transaction = Transaction.begin(request.store, config=request.options.config, hint=request.hint)
    current = transaction.snapshot
    ensure_writable(current.protocol, current.metadata)
    wanted = _wanted_snapshot(request, current)
    if request.enforces_retention:
        ensure_files_retained(wanted, newest=current)
    if wanted.version == current.version:
        unchanged = RestoreMetrics(current.size_in_bytes, current.num_files)
        return RestoreResult(None, wanted.version, unchanged, request.store.url)
    on_phase("Looking at the files")
    work = _Work.between(request, wanted, current)
    if request.dry_run:
        return work.result(None)
    on_phase("Committing")
    # Every file was compared, so a change of any of them matters to a commit that does not follow winners.
    transaction.record_read_whole_table()
    follower = _Follower(work)
    committed = transaction.commit(
        work.actions(),
        work.operation(),
        rebase=follower if request.options.conflicts == "rebase" else None,
        # The history says that the table was restored, even where the versions have the same files.
        allow_empty=True,
    )
    return follower.work.result(committed.version)


def _wanted_snapshot(request: RestoreRequest, current: Snapshot) -> Snapshot:
    try:
        version = request.version
        if version is None:
            at_ms = 0 if request.moment is None else request.moment.timestamp_ms
            version = version_at_timestamp(request.store, at_ms, config=current.config)
        # A commit may have come after `current` was loaded; restoring to it is not what was asked for.
        return current if version == current.version else _load(request, version, current)
    except VersionNotFoundError as error:
        message = f"The table cannot be restored: {error.args[0]}"
        raise VersionNotFoundError(message, error_class=_CLASSES.get(error.error_class)) from error


def _load(request: RestoreRequest, version: int, current: Snapshot) -> Snapshot:
    if version > current.version:
        raise VersionNotFoundError(
            f"version {version} of the table at {request.store.url} does not exist yet; the newest is {current.version}"
        )
    return load_snapshot(request.store, version=version, config=current.config)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What has to be committed on top of `current`."""

    request: RestoreRequest
    wanted: Snapshot
    current: Snapshot
    difference: SnapshotDifference
    missing: tuple[str, ...] = ()

    @classmethod
    def between(cls, request: RestoreRequest, wanted: Snapshot, current: Snapshot) -> _Work:
        work = cls(request, wanted, current, find_difference(wanted, current))
        if work.difference.removed.num_rows:
            # Setting the property to false is a decision of its own, even where that version did not have it yet.
            assert_not_append_only(current, "removed")
        options = request.options
        missing = find_missing_files(
            request.store,
            work.difference.adds(),
            config=options.config,
            storage_options=options.storage_options,
        )
        if missing.vectors or (missing.data and not request.ignores_missing_files):
            raise missing.refusal(request.store.url, wanted.version, _REMEDY)
        if not missing.data:
            return work
        return replace(work, difference=work.difference.without(frozenset(missing.data)), missing=missing.data)

    def actions(self) -> tuple[Action, ...]:
        definition = definition_changes(self.wanted, self.current, may_downgrade=self.request.may_downgrade)
        return (*definition, *self.difference.adds(), *self.difference.removes(now_ms()))

    def operation(self) -> Operation:
        moment = self.request.moment
        return Operation(
            "RESTORE",
            {"version": self.request.version, "timestamp": None if moment is None else moment.display_text},
            self.metrics.operation_metrics,
            user_metadata=self.request.options.user_metadata,
        )

    @property
    def metrics(self) -> RestoreMetrics:
        return restore_metrics(self.current, self.difference)

    def result(self, version: int | None) -> RestoreResult:
        return RestoreResult(version, self.wanted.version, self.metrics, self.request.store.url, self.missing)


@dataclass(slots=True)
class _Follower:
    """Computes the difference again when another writer won."""

    work: _Work

    def __call__(self, lost: Lost, /) -> Rebased:
        self.work = _Work.between(self.work.request, self.work.wanted, lost.newest)
        return Rebased(self.work.actions(), self.work.operation())
