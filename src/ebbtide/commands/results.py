"""What does a command tell its caller?

One frozen result per verb, with the version it made (None when there was nothing to do), the metrics that the commit
carries, and a form for people: text in a terminal, a small table in a notebook.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any, ClassVar, Generic, Protocol, TypeVar

__all__ = [
    "CommandResult",
    "Metrics",
    "TimedMetrics",
    "format_bytes",
    "format_count",
    "format_share",
    "history_metrics",
    "named_metrics",
]


class Metrics(Protocol):
    """The counters of one command."""

    @property
    def operation_metrics(self) -> Mapping[str, int]:
        """What the commit records, in the reference's spelling."""

    @property
    def num_affected_rows(self) -> int: ...


class TimedMetrics(Metrics, Protocol):
    """The counters of a command that measures its own time. A frozen dataclass, so the time can be filled in last."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def execution_time_ms(self) -> int: ...


_M = TypeVar("_M", bound=Metrics)


@dataclass(frozen=True, slots=True, repr=False)
class CommandResult(ABC, Generic[_M]):
    """What a command did. `version` is the version it made; None: nothing was committed."""

    version: int | None
    metrics: _M
    table_url: str

    VERB: ClassVar[str]
    # What people read when there is no new version, and the word between that and the table.
    NOTHING: ClassVar[tuple[str, str]] = ("nothing matched", "in")

    @property
    def num_affected_rows(self) -> int:
        return self.metrics.num_affected_rows

    @property
    def operation_metrics(self) -> Mapping[str, int]:
        return self.metrics.operation_metrics

    @abstractmethod
    def sentences(self) -> list[str]:
        """What happened, for people, the most important first."""

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.version is None:
            return f"<{name}: {' '.join(self.NOTHING)} {self.table_url}, no new version>"
        return f"<{name} version {self.version}: {'; '.join(self.sentences())}>"

    def _repr_html_(self) -> str:
        title = self.NOTHING[0] if self.version is None else f"version {self.version}"
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td style='text-align:right'>{value:,}</td></tr>"
            for name, value in self.operation_metrics.items()
        )
        return (
            f"<b>{self.VERB}</b> {escape(self.table_url)}: {title}"
            f"<br>{escape('; '.join(self.sentences()))}<table>{rows}</table>"
        )


def format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_bytes(size: int) -> str:
    number = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(number) < 1024:
            return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} PiB"


def format_share(share: float) -> str:
    """A percentage; 0 and 100 only if they are exact."""
    if 0 < share < 0.001:
        return "<0.1 %"
    if 0.999 < share < 1:
        return ">99.9 %"
    return f"{share * 100:.1f} %"


def named_metrics(metrics: Any) -> dict[str, int]:
    """The fields of a dataclass of counters in the reference's spelling: `num_added_files` is `numAddedFiles`."""
    return {_camel(field.name): getattr(metrics, field.name) for field in fields(metrics)}


def history_metrics(named: Mapping[str, int], names: Sequence[str], *, vectors: str) -> dict[str, int]:
    """What the commit records: these names. An updated vector counts as one added and one removed as well.

    `vectors` is how the names of the three counters of vectors begin.
    """
    updated = named[f"{vectors}Updated"]
    counted_twice = {f"{vectors}{kind}": named[f"{vectors}{kind}"] + updated for kind in ("Added", "Removed")}
    return {name: counted_twice.get(name, named[name]) for name in names}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
