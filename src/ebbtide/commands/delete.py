"""How are rows deleted?

`DeleteCommand` turns a request into log actions in one of three ways, the cheapest that the condition allows:

- no condition: every file is removed, nothing is read;
- a condition on partition columns only: the files it holds for are removed, nothing is read;
- any other condition: candidate files are scanned for matches. Where the table has deletion vectors the matches are
  marked and the data files stay; else the files that hold a match are rewritten without the matching rows.

A row for which the condition is null stays. When nothing matches, nothing is committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide.commands.conditions import Matcher, bind_matcher
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.results import DeleteMetrics, DeleteResult
from ebbtide.commands.rewriting import rewrite_without
from ebbtide.commands.touched_files import (
    TouchedActions,
    find_files_with_matching_rows,
    matched_row_sets,
    process_unmodified_data,
    store_matched_rows,
)
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import DeltaError
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import Action, AddFile, SetTransaction
from ebbtide.protocol.features import deletion_vectors_writable, ensure_writable
from ebbtide.protocol.statistics import num_records, only_num_records
from ebbtide.scan import ScanFile, resolve_files
from ebbtide.transaction import Operation, Transaction
from ebbtide.write import WrittenFiles

__all__ = ["DeleteCommand", "DeleteOutcome"]

# With `auto`, a file of which more than this share would be marked is rewritten instead.
_MOSTLY_DELETED = 0.5


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """What a DELETE would commit, and its counters so far."""

    actions: tuple[Action, ...]
    metrics: DeleteMetrics


@dataclass(slots=True)
class DeleteCommand:
    """One DELETE. `run` does all of it; `perform_delete` is for commands that delete as part of something larger."""

    spark: SparkSession
    request: DeleteRequest
    metrics: DeleteMetrics = field(default_factory=DeleteMetrics)

    def run(self) -> DeleteResult:
        started = time.monotonic()
        options = self.request.options
        transaction = Transaction.begin(self.request.store, config=options.config, hint=self.request.hint)
        snapshot = transaction.snapshot
        ensure_writable(snapshot.protocol, snapshot.metadata)
        assert_removable(snapshot)
        applied = self._set_transaction()
        if applied is not None and transaction.has_been_executed(applied.app_id, applied.version):
            return self._result(None)
        matcher = bind_matcher(self.spark, snapshot, self.request)
        outcome = self.perform_delete(transaction, matcher)
        self.metrics = replace(outcome.metrics, execution_time_ms=_elapsed_ms(started))
        if not outcome.actions:
            return self._result(None)
        committed = transaction.commit(
            outcome.actions,
            self._operation(matcher, self.metrics),
            set_transaction=applied,
        )
        self.refresh_readers(snapshot)
        return self._result(committed.version)

    def perform_delete(self, transaction: Transaction, matcher: Matcher | None) -> DeleteOutcome:
        """The actions that delete what `matcher` chooses from the transaction's snapshot (None: everything)."""
        snapshot = transaction.snapshot
        if matcher is None:
            transaction.record_read_whole_table()
            return self._remove_files(snapshot, snapshot.files)
        started = time.monotonic()
        candidates = matcher.candidates(self.spark, snapshot)
        transaction.record_read(matcher.read_predicate(snapshot), candidates)
        if matcher.is_partition_only:
            outcome = self._remove_files(snapshot, candidates)
            return replace(outcome, metrics=replace(outcome.metrics, scan_time_ms=_elapsed_ms(started)))
        return self._delete_rows(snapshot, candidates, matcher)

    def should_write_persistent_deletion_vectors(self, snapshot: Snapshot) -> bool:
        """The request allows vectors, and so does the table."""
        allowed = self.request.options.deletion_vectors != "off"
        return allowed and deletion_vectors_writable(snapshot.protocol, snapshot.metadata)

    # --- whole files --------------------------------------------------------------------------------------------------

    def _remove_files(self, snapshot: Snapshot, files: pa.Table) -> DeleteOutcome:
        adds = list(add_files(files))
        now = _now_ms()
        removes = tuple(replace(add.remove(now), stats=only_num_records(add.stats)) for add in adds)
        metrics = replace(
            _skipping_metrics(snapshot, adds),
            num_removed_files=len(adds),
            num_removed_bytes=sum(add.size for add in adds),
            num_deletion_vectors_removed=sum(1 for add in adds if add.deletion_vector is not None),
            num_deleted_rows=_logical_rows(adds) or 0,
            num_partitions_removed_from=_partitions(snapshot, adds),
        )
        return DeleteOutcome(removes, metrics)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _delete_rows(self, snapshot: Snapshot, candidates: pa.Table, matcher: Matcher) -> DeleteOutcome:
        files = resolve_files(snapshot, candidates, storage_options=self.request.options.storage_options)
        before = _skipping_metrics(snapshot, [file.add for file in files])
        if not self.should_write_persistent_deletion_vectors(snapshot):
            return self._rewrite(snapshot, files, matcher, before)
        if self.request.options.deletion_vectors == "auto" and not snapshot.properties.enable_change_data_feed:
            return self._mark_or_rewrite(snapshot, files, matcher, before)
        matched = matched_row_sets(self.spark, snapshot, files, matcher.matching)
        marked = self._mark(snapshot, files, matched)
        return DeleteOutcome(marked.actions, _with_marks(before, marked))

    def _mark(
        self, snapshot: Snapshot, files: Sequence[ScanFile], matched: Iterable[tuple[ScanFile, RowIndexSet]]
    ) -> TouchedActions:
        config = self.request.options.config
        results = store_matched_rows(snapshot, matched, config=config)
        touched = find_files_with_matching_rows({file.spark_path: file.add for file in files}, results)
        return process_unmodified_data(touched, timestamp_ms=_now_ms())

    def _rewrite(
        self, snapshot: Snapshot, files: Sequence[ScanFile], matcher: Matcher, before: DeleteMetrics
    ) -> DeleteOutcome:
        started = time.monotonic()
        matched = list(matched_row_sets(self.spark, snapshot, files, matcher.matching))
        scan_time_ms = _elapsed_ms(started)
        if not matched:
            return DeleteOutcome((), before)
        started = time.monotonic()
        outcome = self.rewrite_files(snapshot, matched, before)
        metrics = replace(outcome.metrics, scan_time_ms=scan_time_ms, rewrite_time_ms=_elapsed_ms(started))
        return replace(outcome, metrics=metrics)

    def rewrite_files(
        self, snapshot: Snapshot, matched: Sequence[tuple[ScanFile, RowIndexSet]], before: DeleteMetrics
    ) -> DeleteOutcome:
        """Replace the files by new ones without the matched rows; a table with a change feed gets those as changes."""
        written = rewrite_without(self.spark, snapshot, matched)
        now = _now_ms()
        adds = [file.add for file, _ in matched]
        removes = [replace(add.remove(now), stats=only_num_records(add.stats)) for add in adds]
        return DeleteOutcome(
            (*removes, *written.adds, *written.changes), _with_rewrite(before, snapshot, matched, written)
        )

    def _mark_or_rewrite(
        self, snapshot: Snapshot, files: Sequence[ScanFile], matcher: Matcher, before: DeleteMetrics
    ) -> DeleteOutcome:
        matched = list(matched_row_sets(self.spark, snapshot, files, matcher.matching))
        mostly = [pair for pair in matched if _ends_mostly_deleted(*pair)]
        lightly = [pair for pair in matched if not _ends_mostly_deleted(*pair)]
        marked = self._mark(snapshot, files, lightly)
        outcome = DeleteOutcome(marked.actions, _with_marks(before, marked))
        if not mostly:
            return outcome
        rewritten = self.rewrite_files(snapshot, mostly, outcome.metrics)
        return replace(rewritten, actions=(*outcome.actions, *rewritten.actions))

    # --- around the work ----------------------------------------------------------------------------------------------

    def refresh_readers(self, snapshot: Snapshot) -> None:
        """Cached readers of the table's path forget what they hold."""
        self.spark.catalog.refreshByPath(snapshot.store.spark_path)

    def _operation(self, matcher: Matcher | None, metrics: DeleteMetrics) -> Operation:
        predicates = [] if matcher is None else [matcher.shown]
        return Operation(
            name="DELETE",
            parameters={"predicate": orjson.dumps(predicates).decode()},
            metrics=metrics.operation_metrics,
            user_metadata=self.request.options.user_metadata,
        )

    def _set_transaction(self) -> SetTransaction | None:
        options = self.request.options
        if options.txn_app_id is None or options.txn_version is None:
            return None
        return SetTransaction(options.txn_app_id, options.txn_version, _now_ms())

    def _result(self, version: int | None) -> DeleteResult:
        return DeleteResult(version, self.metrics, self.request.store.url)


def assert_removable(snapshot: Snapshot) -> None:
    """An append-only table refuses before any work, also when nothing would match."""
    if snapshot.properties.append_only:
        raise DeltaError(
            f"The table at {snapshot.store.url} is append-only (delta.appendOnly=true), so no row can be deleted. "
            "Set the property to false first if the rows really must go.",
            error_class="DELTA_CANNOT_MODIFY_APPEND_ONLY",
        )


# --- counters ---------------------------------------------------------------------------------------------------------


def _skipping_metrics(snapshot: Snapshot, kept: Sequence[AddFile]) -> DeleteMetrics:
    return DeleteMetrics(
        num_files_before_skipping=snapshot.num_files,
        num_bytes_before_skipping=snapshot.size_in_bytes,
        num_files_after_skipping=len(kept),
        num_bytes_after_skipping=sum(add.size for add in kept),
        num_partitions_after_skipping=_partitions(snapshot, kept),
    )


def _with_marks(before: DeleteMetrics, marked: TouchedActions) -> DeleteMetrics:
    return replace(
        before,
        num_deleted_rows=marked.num_modified_rows,
        num_removed_files=marked.num_removed_files,
        num_deletion_vectors_added=marked.num_deletion_vectors_added,
        num_deletion_vectors_removed=marked.num_deletion_vectors_removed,
        num_deletion_vectors_updated=marked.num_deletion_vectors_updated,
    )


def _with_rewrite(
    before: DeleteMetrics,
    snapshot: Snapshot,
    matched: Sequence[tuple[ScanFile, RowIndexSet]],
    written: WrittenFiles,
) -> DeleteMetrics:
    removed = [file.add for file, _ in matched]
    deleted = sum(len(rows) for _, rows in matched)
    return replace(
        before,
        num_removed_files=before.num_removed_files + len(removed),
        num_removed_bytes=sum(add.size for add in removed),
        num_added_files=len(written.adds),
        num_added_bytes=sum(add.size for add in written.adds),
        num_added_change_files=len(written.changes),
        change_file_bytes=sum(change.size for change in written.changes),
        num_deleted_rows=before.num_deleted_rows + deleted,
        num_copied_rows=written.num_rows,
        num_touched_rows=written.num_rows + deleted,
        num_deletion_vectors_removed=before.num_deletion_vectors_removed
        + sum(1 for add in removed if add.deletion_vector is not None),
        num_partitions_removed_from=_partitions(snapshot, removed),
        num_partitions_added_to=_partitions(snapshot, written.adds),
    )


def _partitions(snapshot: Snapshot, adds: Sequence[AddFile]) -> int:
    if not snapshot.metadata.partition_columns:
        return 0
    return len({tuple(sorted(add.partition_values.items())) for add in adds})


def _logical_rows(adds: Sequence[AddFile]) -> int | None:
    counts = [num_records(add.stats) for add in adds]
    known = [count for count in counts if count is not None]
    if len(known) != len(counts):
        return None
    return sum(known) - sum(add.deletion_vector.cardinality for add in adds if add.deletion_vector is not None)


def _ends_mostly_deleted(file: ScanFile, rows: RowIndexSet) -> bool:
    physical = num_records(file.add.stats)
    already = file.add.deletion_vector.cardinality if file.add.deletion_vector is not None else 0
    gone = already + len(rows)
    return physical is not None and physical > gone > _MOSTLY_DELETED * physical


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _elapsed_ms(started: float) -> int:
    return int((time.monotonic() - started) * 1000)
