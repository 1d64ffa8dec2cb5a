"""How are rows updated?

`UpdateCommand` gives columns new values in the rows that a condition chooses, in one of two ways:

- no condition, or one on partition columns only: the files it holds for are rewritten in whole, nothing is looked for;
- any other condition: candidate files are scanned for matches. Where the table has deletion vectors the matches are
  marked and only their new versions are written; else the files that hold a match are rewritten.

A row for which the condition is null stays as it is. When nothing matches, nothing is committed, except the record of
an application's transaction. When another writer was there first, the update follows it (`row_update`) instead of
giving up, unless the request says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import orjson
from pyspark.sql import SparkSession

from ebbtide.commands.requests import UpdateRequest
from ebbtide.commands.row_level.assignments import BoundAssignments, bind_assignments
from ebbtide.commands.row_level.committing import (
    assert_not_append_only,
    begun,
    discarding,
    has_landed,
    row_tracking_tags,
    set_transaction,
)
from ebbtide.commands.row_level.conditions import Matcher, bind_condition
from ebbtide.commands.row_level.counters import elapsed_ms
from ebbtide.commands.row_level.subqueries import update_tables
from ebbtide.commands.update.results import UpdateMetrics, UpdateResult
from ebbtide.commands.update.rows import RowUpdate
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import SetTransaction
from ebbtide.transaction import Lost, Operation, Rebased, Transaction

__all__ = ["UpdateCommand"]


@dataclass(slots=True)
class UpdateCommand:
    """One UPDATE; `run` does all of it."""

    spark: SparkSession
    request: UpdateRequest
    metrics: UpdateMetrics = field(default_factory=UpdateMetrics)
    # Told what is being done, for whoever shows progress.
    on_phase: Callable[[str], None] = lambda _: None

    def run(self) -> UpdateResult:
        started = time.monotonic()
        self.on_phase("Reading the log")
        transaction = begun(self.request)
        assert_not_append_only(transaction.snapshot, "updated")
        applied = set_transaction(self.request.options)
        if has_landed(transaction, applied):
            return self._result(None)
        with update_tables(self.spark, transaction.snapshot, self.request) as self.request:
            return self._run(transaction, applied, started)

    def _run(self, transaction: Transaction, applied: SetTransaction | None, started: float) -> UpdateResult:
        snapshot = transaction.snapshot
        matcher = self._matcher(snapshot)
        assignments = bind_assignments(self.spark, snapshot, self.request.assignments, alias=self.request.alias)
        self.on_phase("Looking for matching rows")
        work = self.perform_update(transaction, matcher, assignments)
        follower = _Follower(self, work, started, keeps_empty=applied is not None)
        self.on_phase("Committing")
        with discarding(follower.discard):
            committed = transaction.commit(
                work.actions(),
                follower.operation(),
                rebase=follower if self.request.options.conflicts == "rebase" else None,
                set_transaction=applied,
                allow_empty=applied is not None,
            )
        self.metrics = follower.metrics()
        if not committed.is_new_version:
            # Somebody else has done it, or left nothing to do.
            follower.discard()
            self.metrics = UpdateMetrics(execution_time_ms=self.metrics.execution_time_ms)
            return self._result(None)
        self.spark.catalog.refreshByPath(snapshot.store.spark_path)
        return self._result(committed.version)

    def perform_update(
        self, transaction: Transaction, matcher: Matcher | None, assignments: BoundAssignments
    ) -> RowUpdate:
        """Update the transaction's snapshot: everything is written, nothing is committed."""
        snapshot = transaction.snapshot
        started = time.monotonic()
        work = RowUpdate(self.spark, matcher, assignments, self.request.options, snapshot)
        candidates = work.candidates(snapshot)
        if matcher is None:
            transaction.record_read_whole_table()
        else:
            transaction.record_read(matcher.read_predicate(self.spark, snapshot), candidates)
        work.scan_time_ms = elapsed_ms(started)
        work.update_from(candidates)
        return work

    def _matcher(self, snapshot: Snapshot) -> Matcher | None:
        request = self.request
        if request.condition is None:
            return None
        return bind_condition(self.spark, snapshot, request.condition, alias=request.alias, shown=request.shown)

    def _result(self, version: int | None) -> UpdateResult:
        return UpdateResult(version, self.metrics, self.request.store.url)


@dataclass(slots=True)
class _Follower:
    """Moves an update on top of whoever won, and knows what the commit should say about it."""

    command: UpdateCommand
    work: RowUpdate
    started: float
    # An application's transaction is recorded even when no row is left to update.
    keeps_empty: bool

    def __call__(self, lost: Lost, /) -> Rebased | None:
        assert_not_append_only(lost.newest, "updated")
        self.work = self.work.follow(lost)
        actions = self.work.actions()
        return Rebased(actions, self.operation()) if actions or self.keeps_empty else None

    def discard(self) -> None:
        """Delete what was written, by whichever attempt was the last."""
        self.work.discard()

    def metrics(self) -> UpdateMetrics:
        return replace(self.work.metrics(), execution_time_ms=elapsed_ms(self.started))

    def operation(self) -> Operation:
        matcher = self.work.matcher
        predicates = [] if matcher is None else [matcher.shown]
        return Operation(
            name="UPDATE",
            parameters={"predicate": orjson.dumps(predicates).decode()},
            metrics=self.metrics().operation_metrics,
            user_metadata=self.command.request.options.user_metadata,
            tags=row_tracking_tags(self.work.snapshot, keeps_row_ids=self.work.keeps_row_ids),
        )
