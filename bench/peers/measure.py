"""How long does the same work take in each engine, cold and warm?

Cold is the first command of a fresh process, told apart from the start of that process. Then the engines take turns,
so that a machine that becomes slower becomes slower for all of them: those are the warm runs. Every run has a fresh
table at a path of its own. What the cold run left is counted by the engine itself: a quick answer that is wrong is
not measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.peers.client import EngineError, Process
from bench.peers.engines import Engine
from bench.peers.run import Run

__all__ = ["Case", "Measurement", "Work", "measured"]


@dataclass
class Measurement:
    """What came out for one engine. `undeleted_seconds` is the same read of the table before rows were deleted."""

    engine: str
    start_seconds: float | None = None
    cold_seconds: float | None = None
    warm_seconds: list[float] = field(default_factory=list)
    undeleted_seconds: list[float] = field(default_factory=list)
    driver_bytes: int | None = None
    worker_bytes: int | None = None
    written_bytes: int | None = None
    jobs: int | None = None
    # Of the same work on an object store.
    requests: int | None = None
    # What only one workload has: commits and aborts.
    extra: dict[str, float] = field(default_factory=dict)
    trouble: str | None = None

    @property
    def median(self) -> float | None:
        """Of the warm runs; None when there are none."""
        return statistics.median(self.warm_seconds) if self.warm_seconds and not self.trouble else None

    @property
    def overhead(self) -> float | None:
        if not self.warm_seconds or not self.undeleted_seconds:
            return None
        return statistics.median(self.warm_seconds) / statistics.median(self.undeleted_seconds)


@dataclass
class Case:
    label: str
    measurements: list[Measurement]

    def of(self, engine: str) -> Measurement | None:
        return next((each for each in self.measurements if each.engine == engine), None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Case:
        return cls(told["label"], [Measurement(**each) for each in told["measurements"]])


@dataclass(frozen=True)
class Work:
    """One thing that every engine is asked to do. `rows_left` is what a count must say afterwards."""

    label: str
    table: Callable[[Path, Engine], object]
    task: Callable[[Path], dict[str, Any]]
    rows_left: int | None = None
    counts_jobs: bool = False
    # Looks at an answer, and says what is wrong with it.
    check: Callable[[dict[str, Any]], str | None] | None = None
    # Looks at what lies in the table's directory afterwards, and says what is wrong with it.
    left: Callable[[Path], str | None] | None = None

    def kind(self, path: Path) -> str:
        """What an adapter is asked to do, whatever the table."""
        task = self.task(path)
        return f"{task['do']} sorted" if task.get("zorder") else f"{task['do']}"


def measured(run: Run, work: Work, engines: Sequence[Engine]) -> Case:
    chosen = run.choose(engines, work.kind(run.scratch))
    results = {engine.name: Measurement(engine.name) for engine in chosen}
    alive: list[Process] = []
    for engine in chosen:
        process = _cold(run, work, engine, results[engine.name])
        if process is not None:
            alive.append(process)
    for turn in range(1, run.turns + 1):
        for process in alive:
            result = results[process.engine.name]
            if not result.trouble and sum(result.warm_seconds) < run.patience_seconds:
                _warm(run, work, process, result, turn)
    for process in alive:
        _finish(run, work, process, results[process.engine.name])
    case = Case(work.label, list(results.values()))
    print("\n".join(_lines(case)), flush=True)
    return case


def _cold(run: Run, work: Work, engine: Engine, result: Measurement) -> Process | None:
    try:
        process = run.start(engine)
    except EngineError as error:
        result.trouble = f"{error}"
        return None
    result.start_seconds = process.start_seconds
    try:
        with run.place(f"{engine.slug}-cold") as path:
            answer, result.written_bytes = _done(work, process, path)
            result.cold_seconds = answer["seconds"]
            result.trouble = _wrong(work, answer) or _miscounted(work, process, path) or _left(work, path)
            result.extra = _numbers(answer["result"])
    except EngineError as error:
        result.trouble = f"{error}"
    return process


def _warm(run: Run, work: Work, process: Process, result: Measurement, turn: int) -> None:
    try:
        with run.place(f"{process.engine.slug}-{turn}") as path:
            answer, result.written_bytes = _done(work, process, path)
            result.trouble = _wrong(work, answer)
            result.warm_seconds.append(answer["seconds"])
            for name, value in _numbers(answer["result"]).items():
                # Of several runs the sum; the page divides by their number.
                result.extra[name] = result.extra.get(name, 0) + value
    except EngineError as error:
        result.trouble = f"{error}"


def _finish(run: Run, work: Work, process: Process, result: Measurement) -> None:
    """Memory, and the jobs of one more run, which is not timed because counting is not free."""
    memory = process.memory()
    result.driver_bytes, result.worker_bytes = memory.driver, memory.workers
    if work.counts_jobs and not result.trouble:
        with run.place(f"{process.engine.slug}-jobs") as path:
            work.table(path, process.engine)
            result.jobs = process.ask(work.task(path) | {"count_jobs": True}).get("jobs")
    run.release(process)


def _done(work: Work, process: Process, path: Path) -> tuple[dict[str, Any], int]:
    """The answer, and how many bytes lie in the table that did not before."""
    work.table(path, process.engine)
    before = {file.relative_to(path) for file in path.rglob("*")}
    answer = process.ask(work.task(path))
    new = [file for file in path.rglob("*") if file.is_file() and file.relative_to(path) not in before]
    return answer, sum(file.stat().st_size for file in new)


def _wrong(work: Work, answer: dict[str, Any]) -> str | None:
    return None if work.check is None else work.check(answer)


def _miscounted(work: Work, process: Process, path: Path) -> str | None:
    if work.rows_left is None:
        return None
    [left] = process.ask({"do": "query", "path": str(path), "select": ["count(*)"]})["result"]
    return None if left == work.rows_left else f"{left:,} rows are left instead of {work.rows_left:,}"


def _left(work: Work, path: Path) -> str | None:
    return None if work.left is None else work.left(path)


def _numbers(result: Any) -> dict[str, float]:
    return dict(result) if isinstance(result, dict) else {}


def _lines(case: Case) -> list[str]:
    """For whoever watches; the page has more."""
    lines = [f"  {case.label}"]
    for each in case.measurements:
        cold = f"{each.cold_seconds:8.3f}" if each.cold_seconds is not None else "       -"
        warm = f"{each.median:8.3f}" if each.median is not None else "       -"
        lines.append(f"    {each.engine:28} cold {cold}  warm {warm}  {(each.trouble or '').partition(chr(10))[0]}")
    return lines
