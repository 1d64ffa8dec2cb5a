"""How are rows deleted?

`DeleteCommand` turns a request into log actions in one of three ways, the cheapest that the condition allows:

- no condition: every file is removed, nothing is read;
- a condition on partition columns only: the files it holds for are removed, nothing is read;
- any other condition: candidate files are scanned for matches. Where the table has deletion vectors the matches are
  marked and the data files stay; else the files that hold a match are rewritten without the matching rows.

A row for which the condition is null stays. When nothing matches, nothing is committed. When another writer was there
first, the deletion follows it (`row_deletion`) instead of giving up, unless the request says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide.commands.delete.results import DeleteMetrics, DeleteResult
from ebbtide.commands.delete.rows import RowDeletion, vector_mode
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.committing import (
    assert_not_append_only,
    begun,
    discarding,
    has_landed,
    row_tracking_tags,
    set_transaction,
)
from ebbtide.commands.row_level.conditions import Matcher, bind_matcher
from ebbtide.commands.row_level.counters import elapsed_ms, logical_rows, now_ms, partition_count, skipping_metrics
from ebbtide.commands.row_level.subqueries import condition_tables
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import Action, SetTransaction
from ebbtide.protocol.statistics import only_num_records
from ebbtide.transaction import Lost, Operation, Rebased, Transaction

__all__ = ["DeleteCommand", "DeleteOutcome"]

# What the reference records of a TRUNCATE.
_TRUNCATE_METRICS = ("numRemovedFiles", "executionTimeMs")


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """What a DELETE would commit, its counters, and the row-level work behind it where there was any."""

    actions: tuple[Action, ...]
    metrics: DeleteMetrics
    rows: RowDeletion | None = None


@dataclass(slots=True)
class DeleteCommand:
    """One DELETE. `run` does all of it; `perform_delete` is for commands that delete as part of something larger."""

    spark: SparkSession
    request: DeleteRequest
    metrics: DeleteMetrics = field(default_factory=DeleteMetrics)
    # Told what is being done, for whoever shows progress.
    on_phase: Callable[[str], None] = lambda _: None

    def run(self) -> DeleteResult:
        started = time.monotonic()
        self.on_phase("Reading the log")
        transaction = begun(self.request)
        assert_not_append_only(transaction.snapshot)
        applied = set_transaction(self.request.options)
        if has_landed(transaction, applied):
            return self._result(None)
        with condition_tables(self.spark, transaction.snapshot, self.request) as self.request:
            return self._run(transaction, applied, started)

    def _run(self, transaction: Transaction, applied: SetTransaction | None, started: float) -> DeleteResult:
        snapshot = transaction.snapshot
        self.on_phase("Looking for matching rows")
        matcher = bind_matcher(self.spark, snapshot, self.request)
        outcome = self.perform_delete(transaction, matcher)
        follower = _Follower(self, matcher, outcome, snapshot, started)
        self.on_phase("Committing")
        with discarding(follower.discard):
            committed = transaction.commit(
                outcome.actions,
                follower.operation(),
                rebase=follower if self.request.options.conflicts == "rebase" else None,
                set_transaction=applied,
            )
        self.metrics = follower.metrics()
        if not committed.is_new_version:
            # Somebody else has done it, or left nothing to do.
            follower.discard()
            self.metrics = _nothing_deleted(self.metrics)
            return self._result(None)
        self.refresh_readers(snapshot)
        return self._result(committed.version)

    def perform_delete(self, transaction: Transaction, matcher: Matcher | None) -> DeleteOutcome:
        """The actions that delete what `matcher` chooses from the transaction's snapshot (None: everything)."""
        snapshot = transaction.snapshot
        if matcher is None:
            transaction.record_read_whole_table()
            return self._remove_files(snapshot, snapshot.files)
        candidates = matcher.candidates(self.spark, snapshot)
        transaction.record_read(matcher.read_predicate(self.spark, snapshot), candidates)
        if matcher.is_partition_only:
            return self._remove_files(snapshot, candidates)
        return self._delete_rows(snapshot, candidates, matcher)

    def delete_again(self, snapshot: Snapshot, matcher: Matcher | None) -> DeleteOutcome:
        """The whole deletion on another snapshot, where only the log has to be asked."""
        files = snapshot.files if matcher is None else matcher.candidates(self.spark, snapshot)
        return self._remove_files(snapshot, files)

    def should_write_persistent_deletion_vectors(self, snapshot: Snapshot) -> bool:
        """The request allows vectors, and so does the table."""
        return vector_mode(snapshot, self.request.options.deletion_vectors) != "off"

    def _remove_files(self, snapshot: Snapshot, files: pa.Table) -> DeleteOutcome:
        started = time.monotonic()
        adds = list(add_files(files))
        now = now_ms()
        removes = tuple(replace(add.remove(now), stats=only_num_records(add.stats)) for add in adds)
        metrics = replace(
            skipping_metrics(snapshot, adds),
            num_removed_files=len(adds),
            num_removed_bytes=sum(add.size for add in adds),
            num_deletion_vectors_removed=sum(1 for add in adds if add.deletion_vector is not None),
            num_deleted_rows=logical_rows(adds) or 0,
            num_partitions_removed_from=partition_count(snapshot, adds),
            scan_time_ms=elapsed_ms(started),
        )
        return DeleteOutcome(removes, metrics)

    def _delete_rows(self, snapshot: Snapshot, candidates: pa.Table, matcher: Matcher) -> DeleteOutcome:
        rows = RowDeletion.perform(self.spark, matcher, self.request.options, snapshot, candidates)
        return DeleteOutcome(rows.actions(), rows.metrics(), rows)

    def refresh_readers(self, snapshot: Snapshot) -> None:
        """Cached readers of the table's path forget what they hold."""
        self.spark.catalog.refreshByPath(snapshot.store.spark_path)

    def _result(self, version: int | None) -> DeleteResult:
        return DeleteResult(version, self.metrics, self.request.store.url)


@dataclass(slots=True)
class _Follower:
    """Moves a deletion on top of whoever won, and knows what the commit should say about it."""

    command: DeleteCommand
    matcher: Matcher | None
    outcome: DeleteOutcome
    snapshot: Snapshot
    started: float

    def __call__(self, lost: Lost, /) -> Rebased | None:
        assert_not_append_only(lost.newest)
        self.snapshot = lost.newest
        if self.outcome.rows is None:
            self.outcome = self.command.delete_again(lost.newest, self.matcher)
        else:
            rows = self.outcome.rows.follow(lost)
            self.outcome = DeleteOutcome(rows.actions(), rows.metrics(), rows)
        return Rebased(self.outcome.actions, self.operation()) if self.outcome.actions else None

    def discard(self) -> None:
        """Delete what was written, by whichever attempt was the last."""
        if self.outcome.rows is not None:
            self.outcome.rows.discard()

    def metrics(self) -> DeleteMetrics:
        return replace(self.outcome.metrics, execution_time_ms=elapsed_ms(self.started))

    def operation(self) -> Operation:
        predicates = [] if self.matcher is None else [self.matcher.shown]
        is_truncate = self.command.request.operation == "TRUNCATE"
        metrics = self.metrics().operation_metrics
        keeps_row_ids = self.outcome.rows is None or self.outcome.rows.keeps_row_ids
        return Operation(
            name=self.command.request.operation,
            parameters={} if is_truncate else {"predicate": orjson.dumps(predicates).decode()},
            metrics={name: metrics[name] for name in _TRUNCATE_METRICS} if is_truncate else metrics,
            user_metadata=self.command.request.options.user_metadata,
            tags=row_tracking_tags(self.snapshot, keeps_row_ids=keeps_row_ids),
        )


def _nothing_deleted(metrics: DeleteMetrics) -> DeleteMetrics:
    """The counters of looking, without those of a change that was not needed after all."""
    return DeleteMetrics(
        num_files_before_skipping=metrics.num_files_before_skipping,
        num_bytes_before_skipping=metrics.num_bytes_before_skipping,
        num_files_after_skipping=metrics.num_files_after_skipping,
        num_bytes_after_skipping=metrics.num_bytes_after_skipping,
        num_partitions_after_skipping=metrics.num_partitions_after_skipping,
        execution_time_ms=metrics.execution_time_ms,
    )
