"""How is a table merged with a source?

`MergeCommand` checks the request (`merge.clauses`), computes the source once (`merge.source`), chooses the files that
can matter (`merge.pruning`) and does the work (`merge.rows`). When there is nothing to change nothing is committed,
except the record of an application's transaction. When another writer commits first, the merge follows it instead of
giving up, unless the request says otherwise.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

from ebbtide.commands.merge.clauses import BoundMerge, bind_merge
from ebbtide.commands.merge.performing import MergePlan, perform_merge
from ebbtide.commands.merge.pruning import Scopes, candidates, key_ranges
from ebbtide.commands.merge.request import MergeRequest
from ebbtide.commands.merge.results import MergeMetrics, MergeResult
from ebbtide.commands.merge.rows import RowMerge
from ebbtide.commands.merge.source import Source, open_source
from ebbtide.commands.merge.strategy import MergeThresholds, choose_strategy
from ebbtide.commands.row_level.command import RowLevelCommand
from ebbtide.commands.row_level.counters import elapsed_ms
from ebbtide.log import Snapshot
from ebbtide.protocol.change_columns import refuse_change_columns
from ebbtide.transaction import Transaction

__all__ = ["MergeCommand"]


@dataclass(slots=True)
class MergeCommand(RowLevelCommand[MergeRequest, MergeMetrics, MergeResult]):
    """One MERGE; `run` does all of it."""

    # Tests choose others, so that tiny tables take every path.
    thresholds: MergeThresholds = field(default_factory=MergeThresholds)

    METRICS: ClassVar[type[MergeMetrics]] = MergeMetrics

    @property
    def operation_name(self) -> str:
        return "MERGE"

    def perform(self, transaction: Transaction) -> RowMerge:
        snapshot = transaction.snapshot
        merge, source = self.bind(snapshot)
        self.on_phase("Reading the source")
        started = time.monotonic()
        scopes = Scopes.of(self.spark, snapshot, merge, source)
        ranges = key_ranges(merge, scopes)
        source, key_conditions = source.compute(self.spark, ranges)
        source_time_ms = elapsed_ms(started)
        self.on_phase("Looking for matching rows")
        chosen = candidates(merge, scopes, key_conditions)
        files = chosen.files(self.spark, snapshot)
        if chosen.reads_everything:
            transaction.record_read_whole_table()
        else:
            transaction.record_read(chosen.read_predicate(self.spark, snapshot), files)
        strategy = choose_strategy(self.request, merge, source, snapshot, self.thresholds)
        plan = MergePlan(self.spark, self.request, merge, source, strategy, snapshot, files, chosen.relevant)
        return RowMerge(plan, chosen, perform_merge(plan), source_time_ms)

    def bind(self, snapshot: Snapshot) -> tuple[BoundMerge, Source]:
        """The clauses, checked against both sides, and the source, which has not been read yet."""
        source = open_source(self.spark, self.request, snapshot.schema.names)
        merge = bind_merge(self.spark, snapshot, self.request, source)
        if snapshot.properties.enable_change_data_feed:
            refuse_change_columns(merge.schema.names)
        return merge, source

    def metrics_of_nothing(self, metrics: MergeMetrics) -> MergeMetrics:
        return MergeMetrics(
            num_source_rows=metrics.num_source_rows,
            operation_num_source_rows=metrics.operation_num_source_rows,
            execution_time_ms=metrics.execution_time_ms,
        )

    def result(self, version: int | None) -> MergeResult:
        return MergeResult(version, self.metrics, self.request.store.url)
