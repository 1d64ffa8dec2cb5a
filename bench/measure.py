"""How long does each of several ways take, measured side by side?

The ways take turns, so that a machine that becomes slower becomes slower for all of them. A ratio compares two
neighbours of the same turn, never medians of different minutes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Comparison", "Contender", "Sample", "compare"]


@dataclass(frozen=True)
class Sample:
    """One measurement that the way took itself, in another process for example."""

    seconds: float
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Contender:
    """A way to do the work. `run` is timed, unless it returns its own `Sample`; `prepare` is not part of the time."""

    label: str
    run: Callable[[], Sample | None]
    prepare: Callable[[], object] = lambda: None


@dataclass
class Comparison:
    """What came out, contenders against the first of them, the baseline. `bar` is the ratio promised for the second."""

    label: str
    bar: float | None
    contenders: list[str]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    peak_bytes: dict[str, list[int]] = field(default_factory=dict)

    @property
    def baseline(self) -> str:
        return self.contenders[0]

    def ratios(self, contender: str) -> list[float]:
        pairs = zip(self.seconds[contender], self.seconds[self.baseline], strict=True)
        return [ours / theirs for ours, theirs in pairs]

    def ratio(self, contender: str) -> float:
        return statistics.median(self.ratios(contender))

    @property
    def holds(self) -> bool | None:
        """Whether the second contender keeps to the bar; None where nothing was promised."""
        return None if self.bar is None else self.ratio(self.contenders[1]) <= self.bar

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    label: str, contenders: Sequence[Contender], *, repetitions: int, warmups: int = 1, bar: float | None = None
) -> Comparison:
    result = Comparison(label, bar, [contender.label for contender in contenders])
    for turn in range(warmups + repetitions):
        for contender in contenders:
            sample = _measured(contender)
            if turn >= warmups:
                result.seconds.setdefault(contender.label, []).append(sample.seconds)
                if sample.peak_bytes is not None:
                    result.peak_bytes.setdefault(contender.label, []).append(sample.peak_bytes)
    return result


def _measured(contender: Contender) -> Sample:
    contender.prepare()
    started = time.perf_counter()
    own = contender.run()
    return own or Sample(time.perf_counter() - started)
