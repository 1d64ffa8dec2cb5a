"""How is what was deleted taken out of the files?

`PurgeCommand` rewrites every live file that has marked rows, and every file with a column that was dropped, by passes
of the same machine as OPTIMIZE. Rows that others delete while a pass runs are marked in its new files, so there may be
another pass. It ends when it finds no such file, or after a number of passes.

What is promised when the result says `is_complete`: at some moment during the call no live file (of the partitions
chosen) held a marked row or a dropped column. In any case, no row that was deleted before the call is in a live file
afterwards. Older versions still need the old files, until VACUUM deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import pyarrow as pa
from pyspark.sql import Column, SparkSession

from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.packing import pack
from ebbtide.commands.optimize.planning import LayoutPlan, plan_nothing
from ebbtide.commands.optimize.request import OptimizeRequest, OptimizeSettings
from ebbtide.commands.optimize.results import OptimizeMetrics
from ebbtide.commands.purge.choosing import choose_purge_files
from ebbtide.commands.purge.results import PurgeResult
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.counters import elapsed_ms
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.storage import ObjectStore

__all__ = ["PurgeCommand", "PurgePass", "PurgeRequest"]

# Each pass follows the writers that were faster than the one before. A table that is deleted from all the time would
# never let it end.
_MOST_PASSES: Final = 10


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """Take deleted rows and dropped columns out of the files of the partitions that `where` chooses."""

    store: ObjectStore
    where: str | Column | None = None
    settings: OptimizeSettings = field(default_factory=OptimizeSettings)
    commit_per_group: bool = False
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None


@dataclass(slots=True)
class PurgePass(OptimizeCommand):
    """One REORG: an OPTIMIZE that chooses files by what they hold instead of by their sizes."""

    looks_for_columns: bool = True

    def plan(self, snapshot: Snapshot) -> LayoutPlan:
        self.on_phase("Choosing files")
        plan = plan_nothing(self.spark, snapshot, self.request)
        chosen = self.choose(snapshot, plan.considered)
        return replace(plan, groups=tuple(pack(chosen, plan.rules.target_bytes)))

    def choose(self, snapshot: Snapshot, considered: pa.Table) -> list[AddFile]:
        """The files to rewrite."""
        return choose_purge_files(
            snapshot,
            considered,
            looks_for_columns=self.looks_for_columns,
            storage_options=self.request.options.storage_options,
        )


@dataclass(slots=True)
class PurgeCommand:
    """One PURGE: as many REORGs as it takes."""

    spark: SparkSession
    request: PurgeRequest
    # Called with the current step, to show progress.
    on_phase: Callable[[str], None] = lambda _: None

    PASS: ClassVar[type[PurgePass]] = PurgePass

    def run(self) -> PurgeResult:
        started = time.monotonic()
        metrics, is_complete = OptimizeMetrics(), False
        versions: list[int] = []
        looks_for_columns = True
        for number in range(_MOST_PASSES):
            done = self.first_pass(looks_for_columns=looks_for_columns).run()
            metrics = done.metrics if number == 0 else metrics + done.metrics
            versions += done.versions
            if done.version is None:
                is_complete = done.metrics.num_dropped_groups == 0
                break
            # A file of ours has no dropped column, and files of others are not expected to get one now.
            looks_for_columns = done.metrics.num_dropped_groups > 0
        metrics = replace(metrics, execution_time_ms=elapsed_ms(started))
        version = versions[-1] if versions else None
        return PurgeResult(version, metrics, self.request.store.url, tuple(versions), is_complete)

    def first_pass(self, *, looks_for_columns: bool = True) -> PurgePass:
        """The command of one pass; `open_plan` says what it would do."""
        request = OptimizeRequest(
            self.request.store,
            self.request.where,
            settings=self.request.settings,
            commit_per_group=self.request.commit_per_group,
            purpose="purge",
            options=self.request.options,
            hint=self.request.hint,
        )
        return self.PASS(self.spark, request, on_phase=self.on_phase, looks_for_columns=looks_for_columns)
