"""How does a command follow a winner instead of giving up?

When a race is lost, the transaction gives the command a `Lost` and gets back what to commit on top of the winners, or
None when nothing is left to do. The command decides by (path, deletion vector): what did not change is kept, and only
the rest is done again. So the result is as if the command had started after the winners.

    def rebase(lost: Lost) -> Rebased | None:
        changes = lost.file_changes()
        ...

A command that cannot follow a particular change raises a conflict itself; `lost.conflict()` is the reference's verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ebbtide.errors import DeltaConcurrentModificationException
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.protocol.identity_columns import moves_only_marks
from ebbtide.transaction.file_changes import FileChanges, find_file_changes
from ebbtide.transaction.operation import Operation
from ebbtide.transaction.winners import WinningCommit

__all__ = ["Lost", "Rebase", "Rebased"]


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """A race that was lost. The winners are compatible with us in protocol, metadata, domains and application ids."""

    # What the staged actions were made from: the snapshot read at first, or the `newest` of the last rebase.
    read: Snapshot
    # The table as it is now; the next attempt goes on top of it.
    newest: Snapshot
    # Every commit between the two, oldest first.
    winners: tuple[WinningCommit, ...]
    verdict: Callable[[], DeltaConcurrentModificationException | None] = field(default=lambda: None, repr=False)
    verdict_on_files: Callable[[], DeltaConcurrentModificationException | None] = field(
        default=lambda: None, repr=False
    )

    @property
    def is_same_definition(self) -> bool:
        """Whether the winners left protocol and metadata as they were; identity columns may have counted on."""
        before, after = self.read.metadata, self.newest.metadata
        return self.read.protocol == self.newest.protocol and (before == after or moves_only_marks(before, after))

    def file_changes(self) -> FileChanges:
        """Which files the winners changed."""
        return find_file_changes(self.read, self.newest, self.winners)

    def conflict(self) -> DeltaConcurrentModificationException | None:
        """What the reference would raise here; None when it would let us commit the same actions."""
        return self.verdict()

    def conflict_of_files(self) -> DeltaConcurrentModificationException | None:
        """The same for a command that makes its metadata anew: what the winners did to files alone."""
        return self.verdict_on_files()


@dataclass(frozen=True, slots=True)
class Rebased:
    """The whole new commit, made from `Lost.newest`."""

    actions: tuple[Action, ...]
    operation: Operation


class Rebase(Protocol):
    def __call__(self, lost: Lost, /) -> Rebased | None:
        """What to commit on top of `lost.newest`; None when nothing is left to do."""
