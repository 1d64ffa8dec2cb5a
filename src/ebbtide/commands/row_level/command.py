"""How does a command that changes rows run, whatever its verb?

    begin -> gates -> already done? -> the verb's own work -> commit -> result
                                                               | lost a race: the work follows the winner
                                                               | refused: what was written is deleted

A verb is a subclass: it defines how its work is done on a snapshot (`perform`), and what its result is. The work
itself (`row_level.work.Work`) knows its actions, its counters, and how to follow a winner.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from pyspark.sql import SparkSession

from ebbtide.commands.results import CommandResult, TimedMetrics
from ebbtide.commands.row_level.committing import (
    ChangeRequest,
    begin_transaction,
    discarding,
    has_landed,
    refresh_readers,
    row_tracking_tags,
    run_after_commit,
    set_transaction,
)
from ebbtide.commands.row_level.counters import elapsed_ms
from ebbtide.commands.row_level.physical_row_counts import NUM_RECORDS_MISMATCH, explain_mismatch
from ebbtide.commands.row_level.work import Work
from ebbtide.errors import InternalError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.actions import RemoveFile, SetTransaction
from ebbtide.protocol.features import ensure_writable
from ebbtide.spark_border import spark_errors
from ebbtide.transaction import Lost, Operation, Rebased, Transaction

__all__ = ["RowLevelCommand"]

R = TypeVar("R", bound=ChangeRequest)
M = TypeVar("M", bound=TimedMetrics)
C = TypeVar("C", bound=CommandResult[Any])


def _ignore(phase: str) -> None:
    del phase


@dataclass(slots=True)
class RowLevelCommand(ABC, Generic[R, M, C]):
    """One command that changes rows; `run` does all of it."""

    spark: SparkSession
    request: R
    # Called with the current step, to show progress.
    on_phase: Callable[[str], None] = _ignore
    metrics: M = field(init=False)

    METRICS: ClassVar[type[Any]]
    # Whether an application's transaction is recorded even if no row is left to change.
    RECORDS_EMPTY_TRANSACTION: ClassVar[bool] = True
    # Whether a door may want something done after the commit, such as putting small files together.
    CHANGES_ROWS: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.metrics = self.METRICS()

    # --- what a verb says ---------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def operation_name(self) -> str:
        """The verb as the history shows it."""

    @abstractmethod
    def perform(self, transaction: Transaction) -> Work[M]:
        """Do the work on the transaction's snapshot: everything is written, nothing is committed."""

    @abstractmethod
    def result(self, version: int | None) -> C:
        """What the caller gets; None when nothing was committed."""

    @abstractmethod
    def metrics_of_nothing(self, metrics: M) -> M:
        """The counters of the search, without those of a change that was not needed after all."""

    def check_table(self, snapshot: Snapshot) -> None:
        """Refuse a table that this verb may never change. Also called for every winner's table."""

    @contextmanager
    def open_inputs(self, snapshot: Snapshot) -> Iterator[None]:
        """Open what the command needs while it runs, such as tables that its condition reads."""
        del snapshot
        yield

    def recorded_parameters(self, work: Work[M]) -> Mapping[str, Any]:
        """What the history shows of the request."""
        return work.parameters()

    def recorded_metrics(self, metrics: M) -> dict[str, int]:
        """The counters that the history shows."""
        return dict(metrics.operation_metrics)

    # --- what all verbs do --------------------------------------------------------------------------------------------

    def run(self) -> C:
        started = time.monotonic()
        self.on_phase("Reading the log")
        transaction = begin_transaction(self.request)
        self.check_table(transaction.snapshot)
        app_transaction = set_transaction(self.request.options)
        if has_landed(transaction, app_transaction):
            return self.result(None)
        # Each question to Spark is translated where it is asked; this is for what nobody expected to fail.
        unexpected = spark_errors(f"changing the rows of {transaction.snapshot.store.url}")
        with unexpected, self.open_inputs(transaction.snapshot):
            return self.commit(transaction, self.perform(transaction), started, app_transaction)

    @contextmanager
    def open_snapshot(self) -> Iterator[Snapshot]:
        """The table as `run` would find it, to tell what would be done without doing it."""
        self.on_phase("Reading the log")
        request = self.request
        snapshot = load_snapshot(request.store, config=request.options.config, hint=request.hint)
        ensure_writable(snapshot.protocol, snapshot.metadata)
        self.check_table(snapshot)
        with self.open_inputs(snapshot):
            yield snapshot

    def commit(
        self, transaction: Transaction, work: Work[M], started: float, app_transaction: SetTransaction | None = None
    ) -> C:
        """Commit the work, following winners, or discard it. `started` is a moment of `time.monotonic`."""
        self.on_phase("Committing")
        attempt = _Attempt(self, work, started, app_transaction)
        with discarding(attempt.discard), attempt.blaming_false_counts():
            committed = transaction.commit(
                attempt.work.actions(),
                attempt.operation(),
                rebase=attempt if self.request.options.conflicts == "rebase" else None,
                set_transaction=attempt.app_transaction,
                allow_empty=attempt.keeps_empty,
            )
        self.metrics = attempt.metrics()
        if not committed.is_new_version:
            # Another writer has done it, or left nothing to do.
            attempt.discard()
            self.metrics = self.metrics_of_nothing(self.metrics)
            return self.result(None)
        self.refresh_readers(transaction.snapshot)
        if self.CHANGES_ROWS:
            run_after_commit(committed, self.request.options)
        return self.result(committed.version)

    def refresh_readers(self, snapshot: Snapshot) -> None:
        refresh_readers(self.spark, snapshot.store)


@dataclass(slots=True)
class _Attempt(Generic[R, M, C]):
    """The work as it stands, moved on top of every winner, and what the commit says about it."""

    command: RowLevelCommand[R, M, C]
    work: Work[M]
    started: float
    app_transaction: SetTransaction | None

    @property
    def keeps_empty(self) -> bool:
        return self.app_transaction is not None and self.command.RECORDS_EMPTY_TRANSACTION

    def __call__(self, lost: Lost, /) -> Rebased | None:
        self.command.check_table(lost.newest)
        self.work = self.work.follow(lost)
        actions = self.work.actions()
        return Rebased(actions, self.operation()) if actions or self.keeps_empty else None

    def discard(self) -> None:
        """Delete what the last attempt wrote."""
        self.work.discard()

    @contextmanager
    def blaming_false_counts(self) -> Iterator[None]:
        """A commit that is refused because rows do not add up says which file the log is wrong about."""
        try:
            yield
        except InternalError as error:
            if error.error_class != NUM_RECORDS_MISMATCH:
                raise
            removed = [action for action in self.work.actions() if isinstance(action, RemoveFile)]
            options = self.command.request.options
            raise explain_mismatch(
                self.work.snapshot, removed, str(error.args[0]), storage_options=options.storage_options
            ) from error

    def metrics(self) -> M:
        return replace(self.work.metrics(), execution_time_ms=elapsed_ms(self.started))

    def operation(self) -> Operation:
        return Operation(
            name=self.command.operation_name,
            parameters=self.command.recorded_parameters(self.work),
            metrics=self.command.recorded_metrics(self.metrics()),
            user_metadata=self.command.request.options.user_metadata,
            tags=row_tracking_tags(self.work.snapshot, keeps_row_ids=self.work.keeps_row_ids),
        )
