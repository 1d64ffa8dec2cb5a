"""What does a workload get to work with: engines that are here, places for its data, and how large to be?"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.spark_session import JVM_OPTIONS

from bench.peers.client import Process
from bench.peers.data import one_maker
from bench.peers.engines import ALL, EBBTIDE, Engine, missing

__all__ = ["Run", "opened"]

SHORT_SCALE = 500
_LISTENING_SECONDS = 1.0


@dataclass
class Run:
    """`scale` divides the size of the data. A short run keeps its processes, so its cold times mean nothing."""

    data: Path
    scratch: Path
    scale: int = 1
    is_short: bool = False
    only: tuple[str, ...] = ()
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    _kept: dict[str, Process] = field(default_factory=dict, repr=False)
    _done: set[tuple[str, str]] = field(default_factory=set, repr=False)
    _places: int = 0

    @property
    def turns(self) -> int:
        return 1 if self.is_short else 5

    @property
    def patience_seconds(self) -> float:
        """An engine whose warm runs took this long together has no more of them."""
        return 12.0

    def sized(self, number: int, *, at_least: int = 1) -> int:
        return max(number // self.scale, at_least)

    def present(self, engines: Iterable[Engine]) -> list[Engine]:
        """Those that can take part; of the others it is noted why not."""
        chosen = [engine for engine in engines if not self.only or engine.name in self.only]
        for engine in chosen:
            reason = missing(engine)
            if reason is not None and engine.name not in self.missing:
                self.missing[engine.name] = reason
                print(f"NOT HERE: {engine.name}: {reason}", flush=True)
        return [engine for engine in chosen if engine.name not in self.missing]

    def choose(self, engines: Iterable[Engine], task: str) -> list[Engine]:
        """Who does this kind of task. In a short run a peer does it once: that shows that its adapter works."""
        present = self.present(engines)
        if not self.is_short:
            return present
        chosen = [engine for engine in present if engine is EBBTIDE or (engine.adapter, task) not in self._done]
        # Two engines of one adapter differ in the table they are given, which is not theirs to get wrong.
        chosen = list({engine.adapter: engine for engine in reversed(chosen)}.values())[::-1]
        self._done |= {(engine.adapter, task) for engine in chosen}
        return chosen

    def start(self, engine: Engine) -> Process:
        process = self._kept.pop(engine.name, None) or Process(engine, self.scratch)
        self.versions[engine.name] = process.versions
        return process

    def release(self, process: Process) -> None:
        if self.is_short:
            self._kept[process.engine.name] = process
        else:
            process.close()

    def close(self) -> None:
        for process in self._kept.values():
            process.close()
        self._kept.clear()

    @contextmanager
    def place(self, name: str) -> Iterator[Path]:
        """A path where nothing was ever, since engines remember tables by their path; and nothing afterwards."""
        self._places += 1
        path = self.scratch / f"{self._places}-{name}"
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def load(self) -> float:
        """How many cores others keep busy just now, while no engine of ours works; on a quiet machine about none.

        The system's own average would count what the workload before this one has done.
        """
        busy, total = _processor_ticks()
        time.sleep(_LISTENING_SECONDS)
        busy_now, total_now = _processor_ticks()
        return round((busy_now - busy) / max(total_now - total, 1) * (os.cpu_count() or 1), 2)


def _processor_ticks() -> tuple[int, int]:
    """Since the machine started: spent on work, and in all."""
    ticks = [int(number) for number in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


@contextmanager
def opened(data: Path, *, scale: int, is_short: bool, only: tuple[str, ...] = ()) -> Iterator[Run]:
    """The data stays for the next run with the same directory; everything else goes."""
    unknown = set(only) - {engine.name for engine in ALL}
    assert not unknown, f"no such engine: {', '.join(sorted(unknown))}"
    scratch = data / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    run = Run(data, scratch, scale, is_short, only)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        if is_short:
            stack.enter_context(_quick_java())
            stack.enter_context(one_maker(scratch))
        stack.callback(run.close)
        yield run


@contextmanager
def _quick_java() -> Iterator[None]:
    """A short run is over before Java's optimising compiler pays for itself; what is measured runs as users run it."""
    name = "JAVA_TOOL_OPTIONS"
    before = os.environ.get(name)
    os.environ[name] = JVM_OPTIONS if before is None else f"{before} {JVM_OPTIONS}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
