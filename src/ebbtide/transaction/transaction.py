"""How do staged actions become a version of the table?

A `Transaction` pins a snapshot, records what was read from it, and turns actions into one commit:

    checks -> attempt -> landed                                 -> snapshot, post-commit work
                      -> lost -> rebase, or the reference's rules -> checks -> attempt -> ...
                      -> unknown: look (`attempt`), then CommitOutcomeUnknownError

Losing a race is a value inside this loop; what leaves it is a `Committed` or a typed error. A file that a command wrote
may be cleaned up only after an error that says so: a conflict, a refused request, a plain StorageError of the put.
Never after CommitOutcomeUnknownError, nor when the process was interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import pyarrow as pa

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    DeltaError,
    InternalError,
    MetadataChangedException,
    ProtocolChangedException,
    TableAlreadyExistsError,
)
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.continuation import is_continued
from ebbtide.log.listing import list_log
from ebbtide.protocol.actions import Action, Metadata, Protocol, SetTransaction
from ebbtide.storage import ObjectStore
from ebbtide.transaction import post_commit
from ebbtide.transaction.attempt import put_commit
from ebbtide.transaction.clock import SYSTEM_CLOCK, Clock
from ebbtide.transaction.conflicts import (
    Contender,
    first_conflict,
    first_conflict_of_files,
    first_lasting_conflict,
)
from ebbtide.transaction.operation import Operation
from ebbtide.transaction.preparation import Prepared, Staged, prepare
from ebbtide.transaction.reads import ReadPredicate, Reads
from ebbtide.transaction.rebase import Lost, Rebase
from ebbtide.transaction.table_changes import protocol_for
from ebbtide.transaction.winners import read_winners

__all__ = ["Committed", "Transaction"]

_LOGGER = logging.getLogger(__name__)
# A log cleanup removes old commits. After this long our next version could be among those removed, and a put there
# would succeed and mean nothing. So a transaction that took longer looks before it puts.
_LOOK_FIRST_AFTER_MS: Final = 60_000


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    """The result of a commit. Without `actions` there was nothing to do at `version`."""

    version: int
    # As written, commitInfo first.
    actions: tuple[Action, ...]
    attempts: int
    rebases: int
    # The application transaction was on the table already, so nothing was done again.
    already_executed: bool
    # None when reading the table back failed; the commit has landed anyway.
    _loaded: Snapshot | None = field(repr=False)
    _store: ObjectStore = field(repr=False)
    _config: EngineConfig = field(repr=False)

    @property
    def is_new_version(self) -> bool:
        return bool(self.actions)

    @property
    def snapshot(self) -> Snapshot:
        """The table at `version`."""
        if self._loaded is not None:
            return self._loaded
        return load_snapshot(self._store, version=self.version, config=self._config)


class Transaction:
    """One transaction: begin, record what is read, commit once."""

    def __init__(
        self,
        store: ObjectStore,
        snapshot: Snapshot | None,
        *,
        config: EngineConfig,
        clock: Clock,
        first_actions: tuple[Action, ...] = (),
    ) -> None:
        self.txn_id = str(uuid4())
        self._store = store
        self._base = snapshot
        self._pinned = snapshot
        self._config = config
        self._clock = clock
        self._first_actions = first_actions
        self._looked_at_ms = clock.now_ms()
        self._reads = Reads()
        self._is_over = False

    @classmethod
    def begin(
        cls,
        store: ObjectStore,
        *,
        config: EngineConfig = DEFAULT_CONFIG,
        hint: Snapshot | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Transaction:
        """A transaction on the newest version; `hint` is an older snapshot to start reading from."""
        return cls(store, load_snapshot(store, config=config, hint=hint), config=config, clock=clock)

    @classmethod
    def create(
        cls,
        store: ObjectStore,
        metadata: Metadata,
        protocol: Protocol | None = None,
        *,
        config: EngineConfig = DEFAULT_CONFIG,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Transaction:
        """A transaction that makes version 0. `protocol` defaults to the smallest one that the metadata needs."""
        if list_log(store).has_log_files:
            raise TableAlreadyExistsError(
                f"There is a Delta table at {store.url} already. Choose another path, or write to that table."
            )
        first_actions = (protocol_for(metadata) if protocol is None else protocol, metadata)
        return cls(store, None, config=config, clock=clock, first_actions=first_actions)

    @property
    def snapshot(self) -> Snapshot:
        """The table as this transaction reads it. A transaction that creates a table has none."""
        if self._pinned is None:
            raise InternalError("A transaction that creates a table has no snapshot to read.")
        return self._pinned

    # --- what was read ------------------------------------------------------------------------------------------------

    def record_read(self, predicate: ReadPredicate, files: pa.Table) -> None:
        """Files (with a column `path`) were read because of a condition; only its partition part is given."""
        self._reads = self._reads.with_files(predicate, files)

    def record_read_whole_table(self) -> None:
        self._reads = self._reads.with_whole_table()

    def record_app_id(self, app_id: str) -> None:
        """The progress of an application was read, so a concurrent change of it matters."""
        self._reads = self._reads.with_app_id(app_id)

    def has_been_executed(self, app_id: str, version: int) -> bool:
        """Whether the application's transaction `version`, or a later one, is on the table already."""
        self.record_app_id(app_id)
        return _has_been_executed(self._pinned, SetTransaction(app_id, version))

    # --- committing ---------------------------------------------------------------------------------------------------

    def commit(
        self,
        actions: Sequence[Action],
        operation: Operation,
        *,
        rebase: Rebase | None = None,
        set_transaction: SetTransaction | None = None,
        allow_empty: bool = False,
    ) -> Committed:
        """Make the actions a version. Without actions there is no commit, unless `allow_empty`.

        `rebase` follows winners; without it the reference's rules decide whether the actions are still valid.
        `set_transaction` marks the commit as an application's, so that it lands once, however often it is sent.
        """
        if self._is_over:
            raise InternalError("A transaction commits once; begin another one.")
        self._is_over = True
        if set_transaction is not None:
            self.record_app_id(set_transaction.app_id)
        staged = Staged((*self._first_actions, *actions), operation, set_transaction)
        rebases = 0
        for attempt in range(1, self._config.max_commit_attempts + 1):
            if _has_been_executed(self._base, set_transaction):
                return self._nothing_to_do(attempt - 1, rebases, already_executed=True)
            if not staged.actions and not allow_empty:
                return self._nothing_to_do(attempt - 1, rebases)
            prepared = self._prepare(staged)
            if self._may_put() and self._put(prepared):
                return self._finish(prepared, attempt, rebases)
            self._clock.wait(attempt)
            lost = self._catch_up(staged)
            if lost is None:
                continue
            followed = self._follow(lost, staged, rebase)
            if followed is None:
                return self._nothing_to_do(attempt, rebases + 1)
            staged = followed
            rebases += rebase is not None
        raise ConcurrentWriteException(
            f"{operation.name} on the table at {self._store.url} lost {self._config.max_commit_attempts} races in a "
            "row against other writers and gave up; nothing was changed. Run it again when fewer writers are active, "
            "or raise EngineConfig.max_commit_attempts.",
            error_class="DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
        )

    def _prepare(self, staged: Staged) -> Prepared:
        return prepare(
            staged,
            self._base,
            reads=self._reads,
            txn_id=self.txn_id,
            table_url=self._store.url,
            config=self._config,
            clock=self._clock,
        )

    def _put(self, prepared: Prepared) -> bool:
        return put_commit(self._store, prepared.version, prepared.data, txn_id=self.txn_id, clock=self._clock)

    def _may_put(self) -> bool:
        """Whether the next version can be put without reading the log first.

        Not after a long time, nor when the table was dropped or replaced by another one.
        """
        if self._base is None:
            return True
        return self._clock.now_ms() - self._looked_at_ms <= _LOOK_FIRST_AFTER_MS and is_continued(self._base)

    def _catch_up(self, staged: Staged) -> Lost | None:
        """The race that was lost, read from the log; None when the log shows no newer version (yet)."""
        read = self._base
        if read is None:
            raise self._lost_creation()
        self._looked_at_ms = self._clock.now_ms()
        newest = load_snapshot(self._store, config=self._config, hint=read)
        if newest.version == read.version and not _is_replaced(read, newest):
            # A cleanup may have removed the commit that made the version; the checkpoint replaces it now.
            self._base = newest
            return None
        if newest.version <= read.version or newest.metadata.id != read.metadata.id:
            raise MetadataChangedException(
                f"The table at {self._store.url} was replaced by another one while {staged.operation.name} ran on "
                f"version {read.version}; nothing was changed. Open the table again."
            )
        winners = read_winners(self._store, read.version + 1, newest.version, config=self._config)
        ours = self._contender(read, staged)
        return Lost(
            read,
            newest,
            winners,
            lambda: first_conflict(ours, winners),
            lambda: first_conflict_of_files(ours, winners),
        )

    def _follow(self, lost: Lost, staged: Staged, rebase: Rebase | None) -> Staged | None:
        """What to commit on top of the winners; None when they left nothing to do. Raises when they conflict."""
        self._base = lost.newest
        if rebase is None:
            _raise(lost.conflict())
            return staged.after(lost)
        _raise(first_lasting_conflict(self._contender(lost.read, staged), lost.winners))
        if _has_been_executed(lost.newest, staged.set_transaction):
            # The loop notices that the work is done; the command has nothing to add.
            return staged
        rebased = rebase(lost)
        return None if rebased is None else Staged(rebased.actions, rebased.operation, staged.set_transaction)

    def _contender(self, read: Snapshot, staged: Staged) -> Contender:
        return Contender(read, self._reads, staged.all_actions, staged.operation.name, staged.set_transaction)

    def _lost_creation(self) -> DeltaConcurrentModificationException:
        winner = read_winners(self._store, 0, 0, config=self._config)[0]
        return ProtocolChangedException(
            f"Another writer created the table at {self._store.url} first: {winner.description} won. Nothing was "
            "changed. Look at that table, and write to it if that is what you meant."
        )

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def _finish(self, prepared: Prepared, attempts: int, rebases: int) -> Committed:
        snapshot = self._read_back(prepared.version)
        if snapshot is not None:
            post_commit.run_post_commit(snapshot, config=self._config, actions=prepared.actions)
        return Committed(
            prepared.version, prepared.actions, attempts, rebases, False, snapshot, self._store, self._config
        )

    def _nothing_to_do(self, attempts: int, rebases: int, *, already_executed: bool = False) -> Committed:
        base = self._base
        if base is None:
            raise InternalError("A transaction that creates a table always has something to commit.")
        return Committed(base.version, (), attempts, rebases, already_executed, base, self._store, self._config)

    def _read_back(self, version: int) -> Snapshot | None:
        try:
            return load_snapshot(self._store, version=version, config=self._config, hint=self._base)
        except DeltaError:
            # The commit has landed. An error here would make the caller repeat it.
            _LOGGER.warning("version %d of %s landed, but cannot be read back", version, self._store.url, exc_info=True)
            return None


def _is_replaced(read: Snapshot, now: Snapshot) -> bool:
    """Whether another commit made the same version."""
    before, after = read.segment.commit, now.segment.commit
    is_same_commit = before == after or before is None or after is None
    return read.metadata.id != now.metadata.id or not is_same_commit


def _has_been_executed(snapshot: Snapshot | None, set_transaction: SetTransaction | None) -> bool:
    if snapshot is None or set_transaction is None:
        return False
    known = snapshot.transactions.get(set_transaction.app_id)
    return known is not None and known.version >= set_transaction.version


def _raise(conflict: DeltaConcurrentModificationException | None) -> None:
    if conflict is not None:
        raise conflict
