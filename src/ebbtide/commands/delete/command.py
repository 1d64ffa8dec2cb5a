"""How are rows deleted?

`DeleteCommand` makes a plan (`row_level.plan`) and carries it out in one of two ways, the cheapest that the condition
allows:

- no condition, or one on partition columns only: whole files are removed, nothing is read (`delete.removal`);
- any other condition: candidate files are scanned for matches (`delete.rows`). Where the table has deletion vectors the
  matches are marked and the data files stay; else the files that hold a match are rewritten without the matching rows.

A row for which the condition is null stays. When nothing matches, nothing is committed. When another writer
commits first, the deletion follows it instead of giving up, unless the request says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from ebbtide.commands.delete.removal import FileRemoval
from ebbtide.commands.delete.results import DeleteMetrics, DeleteResult
from ebbtide.commands.delete.rows import RowDeletion
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.command import RowLevelCommand
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.conditions import Matcher, bind_matcher
from ebbtide.commands.row_level.plan import Plan, WholeFiles, WholeTable, plan_rows, record_reads
from ebbtide.commands.row_level.search import SparkSearch
from ebbtide.commands.row_level.subqueries import condition_tables
from ebbtide.commands.row_level.touched_files import RowSearch
from ebbtide.commands.row_level.work import Work
from ebbtide.log import Snapshot
from ebbtide.transaction import Transaction

__all__ = ["DeleteCommand"]

# What the reference records of a TRUNCATE.
_TRUNCATE_METRICS = ("numRemovedFiles", "executionTimeMs")


@dataclass(slots=True)
class DeleteCommand(RowLevelCommand[DeleteRequest, DeleteMetrics, DeleteResult]):
    """One DELETE. `run` does all of it; `perform_delete` is for commands that delete as part of something larger."""

    METRICS: ClassVar[type[DeleteMetrics]] = DeleteMetrics
    RECORDS_EMPTY_TRANSACTION: ClassVar[bool] = False

    @property
    def operation_name(self) -> str:
        return self.request.operation

    @contextmanager
    def open_inputs(self, snapshot: Snapshot) -> Iterator[None]:
        with condition_tables(self.spark, snapshot, self.request) as self.request:
            yield

    def check_table(self, snapshot: Snapshot) -> None:
        assert_not_append_only(snapshot)

    def perform(self, transaction: Transaction) -> FileRemoval | RowDeletion:
        self.on_phase("Looking for matching rows")
        return self.perform_delete(transaction, self.plan(transaction.snapshot, self.bind(transaction.snapshot)))

    @contextmanager
    def open_plan(self) -> Iterator[tuple[Snapshot, Plan]]:
        """The plan that `run` would carry out, and the table it is for; nothing is written."""
        with self.open_snapshot() as snapshot:
            self.on_phase("Looking for matching rows")
            yield snapshot, self.plan(snapshot, self.bind(snapshot))

    def bind(self, snapshot: Snapshot) -> Matcher | None:
        """What the request chooses in this table; None: every row."""
        return bind_matcher(self.spark, snapshot, self.request)

    def search(self) -> RowSearch:
        """What looks for the rows."""
        return SparkSearch(self.spark)

    def plan(self, snapshot: Snapshot, matcher: Matcher | None) -> Plan:
        """How to delete what `matcher` chooses (None: everything) from the snapshot."""
        return plan_rows(self.spark, snapshot, matcher, self.request.options.deletion_vectors)

    def perform_delete(self, transaction: Transaction, plan: Plan) -> FileRemoval | RowDeletion:
        """Carry out the plan on the transaction's snapshot; nothing is committed."""
        record_reads(self.spark, transaction, plan)
        snapshot = transaction.snapshot
        if isinstance(plan, WholeTable | WholeFiles):
            return FileRemoval.perform(self.spark, snapshot, plan)
        return RowDeletion.perform(self.spark, self.search(), self.request.options, snapshot, plan)

    def recorded_parameters(self, work: Work[DeleteMetrics]) -> Mapping[str, str]:
        return {} if self.request.operation == "TRUNCATE" else work.parameters()

    def recorded_metrics(self, metrics: DeleteMetrics) -> dict[str, int]:
        recorded = metrics.operation_metrics
        if self.request.operation == "TRUNCATE":
            return {name: recorded[name] for name in _TRUNCATE_METRICS}
        return recorded

    def metrics_of_nothing(self, metrics: DeleteMetrics) -> DeleteMetrics:
        return DeleteMetrics(
            num_files_before_skipping=metrics.num_files_before_skipping,
            num_bytes_before_skipping=metrics.num_bytes_before_skipping,
            num_files_after_skipping=metrics.num_files_after_skipping,
            num_bytes_after_skipping=metrics.num_bytes_after_skipping,
            num_partitions_after_skipping=metrics.num_partitions_after_skipping,
            execution_time_ms=metrics.execution_time_ms,
        )

    def result(self, version: int | None) -> DeleteResult:
        return DeleteResult(version, self.metrics, self.request.store.url)
