"""What does a maintenance tell its caller?

Which findings there were, and what became of each step: a frozen value that prints as a small picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, Literal

from ebbtide.commands.maintain.findings import Finding, Step
from ebbtide.commands.maintain.looking import TableLook
from ebbtide.commands.results import format_bytes, format_count

__all__ = ["TITLES", "MaintainResult", "MaintainStep", "Status"]

# planned: a dry run. unfinished: some of it is left, for a reason that may pass, and running it again goes on.
Status = Literal["planned", "done", "unfinished", "failed"]

TITLES: Final[dict[Step, str]] = {
    "optimize": "OPTIMIZE",
    "purge": "PURGE",
    "checkpoint": "CHECKPOINT",
    "vacuum": "VACUUM",
    "cleanup": "LOG CLEANUP",
}
_INDENT: Final = 2 + max(map(len, TITLES.values())) + 2


@dataclass(frozen=True, slots=True)
class MaintainStep:
    """A step, why it was planned, and what came of it.

    `outcome` is a sentence, "" before it has run. `versions` are those that it committed. `result` is what its own
    command returned, and `error` what it raised.
    """

    step: Step
    findings: tuple[Finding, ...]
    status: Status = "planned"
    outcome: str = ""
    versions: tuple[int, ...] = ()
    result: Any = field(default=None, compare=False, repr=False)
    error: Exception | None = field(default=None, compare=False, repr=False)

    @property
    def title(self) -> str:
        return TITLES[self.step]

    def to_json(self) -> dict[str, Any]:
        return {"step": self.step, "status": self.status, "outcome": self.outcome, "versions": list(self.versions)}


@dataclass(frozen=True, slots=True, repr=False)
class MaintainResult:
    """What a table needed and what was done about it. `look` is the table as it was found."""

    table_url: str
    look: TableLook
    steps: tuple[MaintainStep, ...] = ()
    is_dry_run: bool = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.look.findings

    @property
    def version(self) -> int | None:
        """The last version that was committed; None: nothing was."""
        return max((version for step in self.steps for version in step.versions), default=None)

    @property
    def unfinished(self) -> tuple[MaintainStep, ...]:
        """The steps that failed, or that left something to do."""
        return tuple(step for step in self.steps if step.status in {"failed", "unfinished"})

    @property
    def is_complete(self) -> bool:
        return not self.unfinished

    def lines(self) -> Iterator[str]:
        """The picture, line by line."""
        yield f"version {self.look.version:,}: {_summary(self.look)}"
        if not self.steps:
            yield "  nothing to do"
        for step in self.steps:
            title = step.title
            for finding in step.findings:
                yield f"  {title:<{_INDENT - 2}}{_displayable(finding.reason)}"
                title = ""
            if step.status != "planned":
                yield f"{'':<{_INDENT}}{step.status}: {_displayable(step.outcome)}"

    def __repr__(self) -> str:
        first, *others = self.lines()
        kind = "planned for" if self.is_dry_run else "of"
        return "\n".join([f"<MaintainResult {kind} {self.table_url}, {first}", *others]) + ">"

    def _repr_html_(self) -> str:
        return f"<b>MAINTAIN</b> {escape(self.table_url)}<pre>{escape(chr(10).join(self.lines()))}</pre>"


def _summary(look: TableLook) -> str:
    files = f"{format_count(look.num_files, 'file')} ({format_bytes(look.num_bytes)})"
    at = "no checkpoint" if look.checkpoint_version is None else f"checkpoint at version {look.checkpoint_version:,}"
    return f"{files}, log of {format_count(look.num_commits, 'commit')}, {at}"


def _displayable(text: str) -> str:
    """On one line, control characters escaped: values of partitions and messages may hold any."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
