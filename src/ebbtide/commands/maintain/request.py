"""What may a maintenance be asked for?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from ebbtide.commands.maintain.findings import SKIPPABLE, Step
from ebbtide.commands.optimize.request import OptimizeSettings
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.vacuum.request import VacuumRequest
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.storage import ObjectStore

__all__ = ["DEFAULT_MIN_SMALL_FILES", "MaintainRequest"]

# Fewer would be rewritten for little gain, and again after the next few appends.
DEFAULT_MIN_SMALL_FILES: Final = 5


@dataclass(frozen=True, slots=True)
class MaintainRequest:
    """Look at a table and do what it needs.

    `settings` are the sizes and shares of OPTIMIZE. `purges`: no live file shall keep a deleted row. `max_commits`:
    more since the newest checkpoint call for one; None: what the table says. `retention_hours`, `retention_check` and
    `is_logged` are those of VACUUM. Steps in `skip` are neither looked at nor done.
    """

    store: ObjectStore
    settings: OptimizeSettings = field(
        default_factory=lambda: OptimizeSettings(min_group_files=DEFAULT_MIN_SMALL_FILES)
    )
    purges: bool = False
    max_commits: int | None = None
    retention_hours: float | None = None
    retention_check: bool = True
    is_logged: bool | None = None
    skip: frozenset[str] = frozenset()
    dry_run: bool = False
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None

    def __post_init__(self) -> None:
        unknown = sorted(self.skip - frozenset(SKIPPABLE))
        if unknown:
            raise RequestError(f"{unknown[0]!r} is no step to skip; expected some of {', '.join(SKIPPABLE)}.")
        if self.max_commits is not None and self.max_commits < 1:
            raise RequestError(f"max_commits={self.max_commits}: it must be 1 or more.")

    def wants(self, step: Step) -> bool:
        return step not in self.skip and (step != "purge" or self.purges)

    def vacuum(self, *, dry_run: bool) -> VacuumRequest:
        """The VACUUM that this asks for. It lists storage: what failed writers left is in no log."""
        return VacuumRequest(
            self.store,
            self.retention_hours,
            dry_run=dry_run,
            retention_check=self.retention_check,
            is_logged=self.is_logged,
            options=self.options,
            hint=self.hint,
        )

    def at(self, snapshot: Snapshot | None) -> MaintainRequest:
        """The same; the snapshot saves reading the log from the start."""
        return replace(self, hint=snapshot)
