"""Which files does a DELETE look for rows in, first and after each race that it lost?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.scan import ScanFile

__all__ = ["Searches", "watched"]


@dataclass
class Searches:
    """The paths of each search and the version it was made in, in order. `before` is called ahead of each one, and may raise."""

    rounds: list[list[str]] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    @property
    def rebases(self) -> int:
        return max(len(self.rounds) - 1, 0)

    @property
    def rescanned(self) -> int:
        return sum(map(len, self.rounds[1:]))


@dataclass(frozen=True)
class _WatchedSearch:
    inner: Any
    searches: Searches

    def matches(
        self, snapshot: Snapshot, files: Sequence[ScanFile], matcher: Any
    ) -> Iterator[tuple[ScanFile, RowIndexSet]]:
        self.searches.before()
        self.searches.rounds.append([file.add.path for file in files])
        self.searches.versions.append(snapshot.version)
        yield from self.inner.matches(snapshot, files, matcher)


def watched(command: type[DeleteCommand], searches: Searches) -> type[DeleteCommand]:
    """The command, noting in `searches` what it looks at."""

    class Watched(command):  # type: ignore[misc, valid-type]
        def search(self) -> _WatchedSearch:
            return _WatchedSearch(command.search(self), searches)

    return Watched
