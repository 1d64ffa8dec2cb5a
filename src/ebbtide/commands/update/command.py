"""How are rows updated?

`UpdateCommand` gives columns new values in the rows that a condition chooses, as its plan (`row_level.plan`) says:

- no condition, or one on partition columns only: the files it chooses are rewritten whole, without a search;
- any other condition: candidate files are scanned for matches. Where the table has deletion vectors the matches are
  marked and only their new versions are written; else the files that hold a match are rewritten.

A row for which the condition is null stays as it is. When nothing matches, nothing is committed, except the record of
an application's transaction. When another writer commits first, the update follows it (`update.rows`) instead of
giving up, unless the request says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from ebbtide.commands.requests import UpdateRequest
from ebbtide.commands.row_level.assignments import BoundAssignments, bind_assignments
from ebbtide.commands.row_level.command import RowLevelCommand
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.conditions import Matcher, bind_condition
from ebbtide.commands.row_level.counters import elapsed_ms
from ebbtide.commands.row_level.plan import Plan, plan_rows, record_reads
from ebbtide.commands.row_level.search import SparkSearch
from ebbtide.commands.row_level.subqueries import update_tables
from ebbtide.commands.update.results import UpdateMetrics, UpdateResult
from ebbtide.commands.update.rows import RowUpdate
from ebbtide.log import Snapshot
from ebbtide.transaction import Transaction

__all__ = ["UpdateCommand"]


@dataclass(slots=True)
class UpdateCommand(RowLevelCommand[UpdateRequest, UpdateMetrics, UpdateResult]):
    """One UPDATE; `run` does all of it."""

    METRICS: ClassVar[type[UpdateMetrics]] = UpdateMetrics

    @property
    def operation_name(self) -> str:
        return "UPDATE"

    @contextmanager
    def open_inputs(self, snapshot: Snapshot) -> Iterator[None]:
        with update_tables(self.spark, snapshot, self.request) as self.request:
            yield

    def check_table(self, snapshot: Snapshot) -> None:
        assert_not_append_only(snapshot, "updated")

    def perform(self, transaction: Transaction) -> RowUpdate:
        snapshot = transaction.snapshot
        matcher, assignments = self.bind(snapshot)
        self.on_phase("Looking for matching rows")
        started = time.monotonic()
        plan = self.plan(snapshot, matcher)
        record_reads(self.spark, transaction, plan)
        work = RowUpdate(self.spark, SparkSearch(self.spark), assignments, self.request.options, snapshot, plan)
        work.scan_time_ms = elapsed_ms(started)
        work.update_from(plan.files)
        return work

    @contextmanager
    def open_plan(self) -> Iterator[tuple[Snapshot, Plan]]:
        """The plan that `run` would carry out, and the table it is for; nothing is written."""
        with self.open_snapshot() as snapshot:
            yield snapshot, self.plan(snapshot, self.bind(snapshot)[0])

    def bind(self, snapshot: Snapshot) -> tuple[Matcher | None, BoundAssignments]:
        """The condition (None: every row) and the new values, checked against the table's columns."""
        request, matcher = self.request, None
        if request.condition is not None:
            matcher = bind_condition(
                self.spark, snapshot, request.condition, alias=request.alias, display_text=request.display_text
            )
        return matcher, bind_assignments(self.spark, snapshot, request.assignments, alias=request.alias)

    def plan(self, snapshot: Snapshot, matcher: Matcher | None) -> Plan:
        """How to update what `matcher` chooses (None: everything) in the snapshot."""
        return plan_rows(self.spark, snapshot, matcher, self.request.options.deletion_vectors)

    def metrics_of_nothing(self, metrics: UpdateMetrics) -> UpdateMetrics:
        return UpdateMetrics(execution_time_ms=metrics.execution_time_ms)

    def result(self, version: int | None) -> UpdateResult:
        return UpdateResult(version, self.metrics, self.request.store.url)
