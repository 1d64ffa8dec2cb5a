"""How are the files of a table rewritten without changing a row?

`OptimizeCommand` makes a plan (`optimize.planning`), copies its groups of files side by side (`optimize.copying`), and
replaces the old files by the new ones in one commit, or in one commit per group. Rows only move: every action says
`dataChange: false`. When another writer commits first, the copies follow it (`optimize.work`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from ebbtide import spark_border as border
from ebbtide.commands.optimize.copying import Copier, GroupCopy, SparkCopier
from ebbtide.commands.optimize.packing import FileGroup
from ebbtide.commands.optimize.planning import LayoutPlan, plan_layout
from ebbtide.commands.optimize.request import OptimizeRequest
from ebbtide.commands.optimize.results import OptimizeMetrics, OptimizeResult
from ebbtide.commands.optimize.work import Relayout, copy_groups
from ebbtide.commands.results import format_count
from ebbtide.commands.row_level.command import RowLevelCommand
from ebbtide.commands.row_level.committing import begin_transaction
from ebbtide.commands.row_level.counters import elapsed_ms
from ebbtide.log import Snapshot
from ebbtide.scan import resolve_adds
from ebbtide.transaction import ReadPredicate, Transaction

__all__ = ["OptimizeCommand"]


@dataclass(slots=True)
class OptimizeCommand(RowLevelCommand[OptimizeRequest, OptimizeMetrics, OptimizeResult]):
    """One OPTIMIZE. `run` does all of it, in one commit or, if the request says so, in one per group of files."""

    _versions: list[int] = field(default_factory=list, init=False)
    _newest: Snapshot | None = field(default=None, init=False)

    METRICS: ClassVar[type[OptimizeMetrics]] = OptimizeMetrics
    CHANGES_ROWS: ClassVar[bool] = False

    @property
    def operation_name(self) -> str:
        return "REORG" if self.request.purpose == "purge" else "OPTIMIZE"

    def run(self) -> OptimizeResult:
        if self.request.commit_per_group:
            return self._run_group_by_group()
        return RowLevelCommand.run(self)

    @contextmanager
    def open_plan(self) -> Iterator[tuple[Snapshot, LayoutPlan]]:
        """The plan that `run` would carry out, and the table it is for; nothing is written."""
        with self.open_snapshot() as snapshot:
            yield snapshot, self.plan(snapshot)

    def plan(self, snapshot: Snapshot) -> LayoutPlan:
        self.on_phase("Choosing files")
        return plan_layout(self.spark, snapshot, self.request)

    # --- one commit ---------------------------------------------------------------------------------------------------

    def perform(self, transaction: Transaction) -> Relayout:
        snapshot = transaction.snapshot
        plan = self.plan(snapshot)
        transaction.record_read(ReadPredicate(), plan.considered)
        work = Relayout(self.copier(plan), self.request, snapshot, plan)
        try:
            self._copy(snapshot, plan, on_done=work.copies.append, on_left=work.copies.append)
        except BaseException:
            work.discard()
            raise
        return work

    def _copy(
        self,
        snapshot: Snapshot,
        plan: LayoutPlan,
        *,
        on_done: Callable[[GroupCopy], None],
        on_left: Callable[[GroupCopy], None],
    ) -> None:
        done = 0
        groups = format_count(len(plan.groups), "group")
        files = format_count(sum(len(group.files) for group in plan.groups), "file")

        def count(copy: GroupCopy) -> None:
            nonlocal done
            on_done(copy)
            done += 1
            self.on_phase(f"Rewriting {files}: {done:,} of {groups} done")

        if plan.groups:
            self.on_phase(f"Rewriting {files}: 0 of {groups} done")
        copier = self.copier(plan)
        copies = [self.in_thread(partial(self._copy_one, copier, snapshot, group)) for group in plan.groups]
        copy_groups(copies, threads=self.request.settings.threads, on_done=count, on_left=on_left)

    def _copy_one(self, copier: Copier, snapshot: Snapshot, group: FileGroup) -> GroupCopy:
        files = resolve_adds(snapshot, group.files, storage_options=self.request.options.storage_options)
        return copier(snapshot, files)

    def copier(self, plan: LayoutPlan) -> Copier:
        """What copies the files."""
        options = self.request.options.storage_options
        return SparkCopier(self.spark, plan.order, plan.clustering_provider, storage_options=options)

    def in_thread(self, copy: Callable[[], GroupCopy]) -> tuple[Callable[[], GroupCopy], Callable[[], object]]:
        """The same, to be called in another thread with the settings of this one, and what stops its Spark jobs."""
        return border.interruptible(self.spark, copy)

    # --- a commit for each group --------------------------------------------------------------------------------------

    def _run_group_by_group(self) -> OptimizeResult:
        """Commit every copy as soon as it is made. What was committed stays, whatever happens to the others."""
        started = time.monotonic()
        self.on_phase("Reading the log")
        snapshot = begin_transaction(self.request).snapshot
        plan = self.plan(snapshot)
        total, copier = plan.metrics(snapshot), self.copier(plan)

        def commit(copy: GroupCopy) -> None:
            nonlocal total
            self._commit_copy(Relayout(copier, self.request, snapshot, plan, [copy]))
            total = total + self.metrics

        def leave(copy: GroupCopy) -> None:
            copy.work.discard(snapshot.store)

        self._copy(snapshot, plan, on_done=commit, on_left=leave)
        self.metrics = replace(total, execution_time_ms=elapsed_ms(started))
        return self.result(self._versions[-1] if self._versions else None)

    def _commit_copy(self, work: Relayout) -> None:
        started = time.monotonic()
        read = work.snapshot
        transaction = begin_transaction(replace(self.request, hint=self._newest or read))
        self._newest = transaction.snapshot
        transaction.record_read(ReadPredicate(), work.plan.considered)
        if self._newest.version != read.version:
            # Written for a table of another definition, it is written again.
            is_same = self._newest.metadata == read.metadata and self._newest.protocol == read.protocol
            work = work.moved_to(self._newest, work.copies, again=not is_same)
        version = self.commit(transaction, work, started).version
        if version is not None:
            self._versions.append(version)

    # --- what came of it ----------------------------------------------------------------------------------------------

    def metrics_of_nothing(self, metrics: OptimizeMetrics) -> OptimizeMetrics:
        return replace(
            metrics,
            added_sizes=(),
            removed_sizes=(),
            num_deletion_vectors_removed=0,
            num_deletion_vector_rows_removed=0,
            num_carried_rows=0,
            num_groups=0,
            partitions=frozenset(),
        )

    def result(self, version: int | None) -> OptimizeResult:
        versions: Sequence[int] = self._versions or ([] if version is None else [version])
        return OptimizeResult(version, self.metrics, self.request.store.url, tuple(versions))
