"""How is each step done?

A step is a command of its own, with commits of its own; it looks at the newest version itself, so it does what is
needed when its turn comes and not what was needed when the plan was made. Whatever it raises becomes its outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ebbtide.commands.maintain.findings import Step
from ebbtide.commands.maintain.request import MaintainRequest
from ebbtide.commands.maintain.results import MaintainStep, Status
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.request import OptimizeRequest
from ebbtide.commands.optimize.results import OptimizeResult
from ebbtide.commands.purge.command import PurgeCommand, PurgeRequest
from ebbtide.commands.results import format_bytes, format_count
from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.errors import InternalError
from ebbtide.log import load_snapshot, write_checkpoint
from ebbtide.log.cleanup import clean_up_log
from ebbtide.transaction import Clock
from ebbtide.transaction.post_commit import FAILURES

__all__ = ["StepRunner", "needs_spark"]


def needs_spark(step: MaintainStep) -> bool:
    return step.step in {"optimize", "purge"}


@dataclass(slots=True)
class StepRunner:
    """Does steps, one after the other. `spark` may be None when no step needs it."""

    spark: SparkSession | None
    request: MaintainRequest
    on_phase: Callable[[str], None]
    clock: Clock

    def run(self, step: MaintainStep) -> MaintainStep:
        """The step with what came of it; an interrupt ends the program, any other error only this step."""
        perform: dict[Step, Callable[[MaintainStep], MaintainStep]] = {
            "optimize": self._optimize,
            "purge": self._purge,
            "checkpoint": self._checkpoint,
            "vacuum": self._vacuum,
            "cleanup": self._cleanup,
        }
        try:
            return perform[step.step](step)
        except (*FAILURES, PySparkException) as error:
            return replace(step, status="failed", outcome=str(error), error=error)

    def _session(self) -> SparkSession:
        if self.spark is None:
            raise InternalError("A step that rewrites files was started without a Spark session.")
        return self.spark

    # --- data files ---------------------------------------------------------------------------------------------------

    def _optimize(self, step: MaintainStep) -> MaintainStep:
        request = OptimizeRequest(
            self.request.store,
            settings=self.request.settings,
            # What is done stays done when the run is ended early, and the next one goes on from there.
            commit_per_group=True,
            options=self.request.options,
            hint=self.request.hint,
        )
        return _with_layout(step, OptimizeCommand(self._session(), request, on_phase=self.on_phase).run())

    def _purge(self, step: MaintainStep) -> MaintainStep:
        request = PurgeRequest(
            self.request.store,
            settings=self.request.settings,
            commit_per_group=True,
            options=self.request.options,
            hint=self.request.hint,
        )
        result = PurgeCommand(self._session(), request, on_phase=self.on_phase).run()
        return _with_layout(step, result, is_complete=result.is_complete)

    # --- the log and storage ------------------------------------------------------------------------------------------

    def _checkpoint(self, step: MaintainStep) -> MaintainStep:
        self.on_phase("Writing a checkpoint")
        snapshot = load_snapshot(self.request.store, config=self.request.options.config, hint=self.request.hint)
        written = write_checkpoint(snapshot, now_ms=self.clock.now_ms())
        size = format_bytes(written.size_in_bytes)
        outcome = f"checkpoint of version {written.version:,}, {size}" if written.is_new else "it was there already"
        return replace(step, status="done", outcome=outcome, result=written)

    def _vacuum(self, step: MaintainStep) -> MaintainStep:
        command = VacuumCommand(self.request.vacuum(dry_run=False), on_phase=self.on_phase, clock=self.clock)
        result = command.run()
        outcome = f"{format_count(result.metrics.num_deleted_files, 'path')} deleted"
        if result.num_failed:
            reason = next(iter(result.failures.values()), "")
            outcome += f"; {format_count(result.num_failed, 'path')} could not be: {reason}"
        versions = () if result.version is None else (result.version,)
        status: Status = "failed" if result.num_failed else "done"
        return replace(step, status=status, outcome=outcome, versions=versions, result=result)

    def _cleanup(self, step: MaintainStep) -> MaintainStep:
        self.on_phase("Deleting expired log files")
        config = self.request.options.config
        snapshot = load_snapshot(self.request.store, config=config, hint=self.request.hint)
        deleted = clean_up_log(snapshot, config=config, now_ms=self.clock.now_ms())
        return replace(step, status="done", outcome=f"{format_count(len(deleted), 'log file')} deleted", result=deleted)


def _with_layout(step: MaintainStep, result: OptimizeResult, *, is_complete: bool = True) -> MaintainStep:
    is_complete = is_complete and not result.metrics.num_dropped_groups
    outcome = "; ".join(result.sentences()) if result.versions else "nothing was left to do"
    status: Status = "done" if is_complete else "unfinished"
    return replace(step, status=status, outcome=outcome, versions=result.versions, result=result)
