"""How is a table merged with a source?

`MergeCommand` judges the request (`merge_clauses`), pins the source (`merge_source`), chooses the files that can matter
(`merge_pruning`), does the work (`row_merge`) and commits it. When there is nothing to change nothing is committed,
except the record of an application's transaction. When another writer was there first, the merge follows it instead of
giving up, unless the request says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import orjson
from pyspark.sql import SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundClause, BoundMerge, bind_merge
from ebbtide.commands.merge.pruning import Scopes, candidates, key_ranges, pinned_source
from ebbtide.commands.merge.request import MergeRequest
from ebbtide.commands.merge.results import MergeMetrics, MergeResult
from ebbtide.commands.merge.rows import RowMerge
from ebbtide.commands.merge.source import Source, open_source
from ebbtide.commands.row_level.committing import begun, discarding, has_landed, row_tracking_tags, set_transaction
from ebbtide.commands.row_level.counters import elapsed_ms
from ebbtide.errors import ConcurrentAppendException, RequestError
from ebbtide.log import Snapshot
from ebbtide.transaction import Lost, Operation, Rebased, Transaction

__all__ = ["MergeCommand"]

_CHANGE_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})


@dataclass(slots=True)
class MergeCommand:
    """One MERGE; `run` does all of it."""

    spark: SparkSession
    request: MergeRequest
    metrics: MergeMetrics = field(default_factory=MergeMetrics)
    # Told what is being done, for whoever shows progress.
    on_phase: Callable[[str], None] = lambda _: None

    def run(self) -> MergeResult:
        started = time.monotonic()
        self.on_phase("Reading the log")
        transaction = begun(self.request)
        snapshot = transaction.snapshot
        applied = set_transaction(self.request.options)
        if has_landed(transaction, applied):
            return self._result(None)
        source = open_source(self.request, snapshot.schema.names)
        merge = bind_merge(self.spark, snapshot, self.request, source)
        _refuse_change_columns(snapshot, merge)
        work = self._performed(transaction, merge, source)
        follower = _Follower(self, work, started, self.metrics.materialize_source_time_ms, applied is not None)
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
            # Somebody else has done it, or there was nothing to do.
            follower.discard()
            self.metrics = MergeMetrics(
                num_source_rows=self.metrics.num_source_rows,
                operation_num_source_rows=self.metrics.operation_num_source_rows,
                execution_time_ms=self.metrics.execution_time_ms,
            )
            return self._result(None)
        self.spark.catalog.refreshByPath(snapshot.store.spark_path)
        return self._result(committed.version)

    def _performed(self, transaction: Transaction, merge: BoundMerge, source: Source) -> RowMerge:
        """Everything is written, nothing is committed."""
        snapshot = transaction.snapshot
        self.on_phase("Reading the source")
        started = time.monotonic()
        scopes = Scopes.of(self.spark, snapshot, merge, source)
        ranges = key_ranges(merge, scopes)
        pinned, key_conditions = pinned_source(self.spark, source, merge, ranges)
        self.metrics = MergeMetrics(materialize_source_time_ms=elapsed_ms(started))
        self.on_phase("Looking for matching rows")
        chosen = candidates(merge, scopes, key_conditions)
        files = chosen.files(self.spark, snapshot)
        if chosen.reads_everything:
            transaction.record_read_whole_table()
        else:
            transaction.record_read(chosen.read_predicate(self.spark, snapshot), files)
        work = RowMerge(self.spark, self.request, merge, pinned, chosen, snapshot, files)
        work.perform()
        return work

    def reads_target(self) -> bool:
        """Whether the source reads data files of the table itself."""
        root = f"{self.request.store.spark_path.rstrip('/')}/"
        with border.spark_errors("listing the files of the source"):
            names = border.input_files(self.request.source)
        return any(border.file_path_of(name).startswith(root) for name in names)

    def _result(self, version: int | None) -> MergeResult:
        return MergeResult(version, self.metrics, self.request.store.url)


@dataclass(slots=True)
class _Follower:
    """Moves a merge on top of whoever won, and knows what the commit should say about it."""

    command: MergeCommand
    work: RowMerge
    started: float
    source_time_ms: int
    # An application's transaction is recorded even when no row is left to change.
    keeps_empty: bool

    def __call__(self, lost: Lost, /) -> Rebased | None:
        if not lost.changes().is_empty and self.command.reads_target():
            # The source was read before the winner wrote, so this merge cannot be as if it had begun afterwards.
            raise lost.conflict() or ConcurrentAppendException(
                f"The source of the merge reads the table at {lost.newest.store.url} itself, and another writer "
                "changed the table meanwhile. Nothing was changed. Run the merge again."
            )
        self.work = self.work.follow(lost)
        actions = self.work.actions()
        return Rebased(actions, self.operation()) if actions or self.keeps_empty else None

    def discard(self) -> None:
        """Delete what was written, by whichever attempt was the last."""
        self.work.discard()

    def metrics(self) -> MergeMetrics:
        return replace(
            self.work.metrics(),
            execution_time_ms=elapsed_ms(self.started),
            materialize_source_time_ms=self.source_time_ms,
        )

    def operation(self) -> Operation:
        merge = self.work.merge
        return Operation(
            name="MERGE",
            parameters={
                "predicate": orjson.dumps([merge.shown]).decode(),
                "matchedPredicates": _recorded(merge.matched),
                "notMatchedPredicates": _recorded(merge.not_matched),
                "notMatchedBySourcePredicates": _recorded(merge.by_source),
            },
            metrics=self.metrics().operation_metrics,
            user_metadata=self.command.request.options.user_metadata,
            tags=row_tracking_tags(self.work.snapshot, keeps_row_ids=self.work.keeps_row_ids),
        )


def _recorded(clauses: Sequence[BoundClause]) -> str:
    return orjson.dumps(
        [
            {**({} if clause.shown is None else {"predicate": clause.shown}), "actionType": clause.kind}
            for clause in clauses
        ]
    ).decode()


def _refuse_change_columns(snapshot: Snapshot, merge: BoundMerge) -> None:
    if not snapshot.properties.enable_change_data_feed:
        return
    taken = [name for name in merge.schema.names if name.lower() in _CHANGE_COLUMNS]
    if taken:
        raise RequestError(
            f"The column '{taken[0]}' has a name that the change data feed keeps for itself. Rename it in the source.",
            error_class="RESERVED_CDC_COLUMNS_ON_WRITE",
        )
