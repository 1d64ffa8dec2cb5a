"""What came out of one question to one engine?

A `Cell` is one place in one of the three tables of the page. `objection_to` compares rows and puts what an engine
raised or shows otherwise into words; `verdict_on` says whether that is known (`interop.known`), and so whose fault it
is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from tests.support.comparison import difference

from interop import known
from interop.engines import conformed

__all__ = [
    "AGREES",
    "FAILS",
    "HISTORIES",
    "MAINTENANCE",
    "NOT_OFFERED",
    "READS_OURS",
    "READ_BY_US",
    "Cell",
    "complaint_of",
    "is_explained",
    "objection_to",
    "verdict_on",
    "words_of",
]

READS_OURS = "reads ours"
READ_BY_US = "we read theirs"
HISTORIES = "histories"
MAINTENANCE = "maintenance"

AGREES = "agrees"
FAILS = "FAILS"
NOT_OFFERED = "not offered"
SHOWN_CHARACTERS = 600


@dataclass
class Cell:
    """`known` are places in `interop.known.KNOWN`; `note` is for the page, `objection` for whoever looks into it."""

    table: str
    feature: str
    engine: str
    verdict: str = AGREES
    note: str = ""
    objection: str = ""
    known: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def words_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS]


def complaint_of(work: Callable[[], object]) -> str:
    """The words of whatever an engine raises at its work, panics of Rust included; empty when it does not."""
    try:
        work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return words_of(error)
    return ""


def objection_to(shown: Callable[[], pa.Table], expected: pa.Table) -> str:
    """Why the rows are not the expected ones; empty when they are."""
    found: list[pa.Table] = []
    complaint = complaint_of(lambda: found.append(conformed(shown(), expected.schema)))
    return complaint or difference(found[0], expected)[:SHOWN_CHARACTERS]


def verdict_on(cell: Cell, when: str, objection: str, *, step: str = "") -> Cell:
    """The cell with what the objection means for it; an objection that nothing explains is ours until looked into."""
    if not objection:
        return cell
    place = known.find(cell.engine, when, cell.feature, objection, step=step)
    cell.objection = f"{when} {step}: {objection}"
    if place is None:
        cell.verdict = FAILS
    else:
        cell.verdict = known.KNOWN[place].verdict
        cell.known.append(place)
    return cell


def is_explained(cell: Cell, kind: str, complaint: str) -> bool:
    """Whether the engine is known to raise at this step, and so to leave the table alone; if not, the cell fails."""
    place = known.find(cell.engine, "writes", cell.feature, complaint, step=kind)
    if place is None:
        verdict_on(cell, "writes", complaint, step=kind)
        return False
    if place not in cell.known:
        cell.known.append(place)
    return True
