"""How is a table looked after?

    look -> findings -> steps in order -> each step by its own command

`MaintainCommand.look` says what the table needs and why; `carry_out` does it. Steps do not depend on each other: when
one fails, the others still run, and the result names it. Running it again starts with a new look, and so goes on where
this one ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from ebbtide.commands.maintain.findings import STEPS, Finding
from ebbtide.commands.maintain.looking import look_at
from ebbtide.commands.maintain.request import MaintainRequest
from ebbtide.commands.maintain.results import MaintainResult, MaintainStep
from ebbtide.commands.maintain.steps import StepRunner
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.features import ensure_writable
from ebbtide.transaction import SYSTEM_CLOCK, Clock

__all__ = ["MaintainCommand", "plan_steps"]


@dataclass(slots=True)
class MaintainCommand:
    """One maintenance. `on_phase` is called with what is being done, to show progress."""

    request: MaintainRequest
    on_phase: Callable[[str], None] = lambda _: None
    clock: Clock = SYSTEM_CLOCK
    _snapshot: Snapshot | None = None

    def run(self, spark: SparkSession | None) -> MaintainResult:
        plan = self.look()
        return plan if self.request.dry_run else self.carry_out(plan, spark)

    def look(self) -> MaintainResult:
        """What the table needs. Nothing is written, and no Spark is needed."""
        self.on_phase("Reading the log")
        request = self.request
        self._snapshot = load_snapshot(request.store, config=request.options.config, hint=request.hint)
        ensure_writable(self._snapshot.protocol, self._snapshot.metadata)
        look = look_at(self._snapshot, request, on_phase=self.on_phase, clock=self.clock)
        return MaintainResult(request.store.url, look, plan_steps(look.findings), is_dry_run=True)

    def carry_out(self, plan: MaintainResult, spark: SparkSession | None) -> MaintainResult:
        """Do the steps of a plan; `spark` may be None when none of them needs it."""
        done: list[MaintainStep] = []
        for number, step in enumerate(plan.steps, start=1):
            runner = StepRunner(
                spark, self.request.at(self._snapshot), self._phase(number, len(plan.steps), step.title), self.clock
            )
            done.append(runner.run(step))
        return replace(plan, steps=tuple(done), is_dry_run=False)

    def _phase(self, number: int, total: int, title: str) -> Callable[[str], None]:
        return lambda phase: self.on_phase(f"{title} ({number} of {total}): {phase}")


def plan_steps(findings: Sequence[Finding]) -> tuple[MaintainStep, ...]:
    """The steps that mend the findings, each once, in the order of `STEPS`."""
    reasons = {step: tuple(found for found in findings if step == found.STEP) for step in STEPS}
    return tuple(MaintainStep(step, found) for step, found in reasons.items() if found)
