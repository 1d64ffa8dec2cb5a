"""What lies below the root, and which of it could go?

A survey lists the table and keeps the paths of files that no kept action needs and that are older than the cutoff. A
local directory is walked one directory at a time, without following links. An object store that lists in order is
listed in several ranges at once, split where the table's own files lie; others in one stream.

Files of another table below the root are left alone, and so is whatever a link inside the root leads to: the log may
name it by either path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Final, TypeVar

from ebbtide.commands.vacuum.hidden_names import HiddenNames
from ebbtide.commands.vacuum.protected import ProtectedPaths, hash_path
from ebbtide.commands.vacuum.spool import PathSpool
from ebbtide.log import Snapshot
from ebbtide.protocol.log_names import LOG_DIRECTORY
from ebbtide.storage import ObjectMeta, ObjectStore, is_local
from ebbtide.storage.names import utf8_order
from ebbtide.storage.store import can_seek
from ebbtide.storage.unlinked import FoundDirectory, FoundLink, walk

__all__ = ["Findings", "Survey", "split_points"]

_T = TypeVar("_T")

_FLUSH: Final = 1024
_RANGES: Final = 16
# Fewer files than this are listed in a few requests anyway.
_FILES_WORTH_SPLITTING: Final = 20_000
_SAMPLE: Final = 4096
# Sorts after everything in the log's directory.
_BEHIND_LOG: Final = f"{LOG_DIRECTORY}/\U0010ffff"


@dataclass(slots=True)
class Findings:
    """What a survey found. `empty_directories` are the deepest first."""

    files: PathSpool = field(default_factory=PathSpool)
    empty_directories: list[str] = field(default_factory=list)
    num_objects: int = 0
    num_directories: int = 0
    num_links: int = 0
    # Roots of other tables, and what links lead to: nothing there may go.
    other_tables: set[str] = field(default_factory=set)
    linked: set[str] = field(default_factory=set)

    @property
    def num_paths(self) -> int:
        return len(self.files) + len(self.empty_directories)

    def is_untouchable(self, path: str) -> bool:
        if not self.other_tables and not self.linked:
            return False
        levels = path.split("/")
        above = ("/".join(levels[:depth]) for depth in range(1, len(levels) + 1))
        return any(level in self.other_tables or level in self.linked for level in above)


@dataclass(slots=True)
class Survey:
    store: ObjectStore
    hidden: HiddenNames
    protected: ProtectedPaths
    cutoff_ms: int
    on_progress: Callable[[str], None] = lambda _: None
    findings: Findings = field(default_factory=Findings)
    _lock: Lock = field(default_factory=Lock)

    def run(self, splits: list[str]) -> Findings:
        """List everything. `splits` are paths between which a store that can seek is listed in parallel."""
        if is_local(self.store):
            self._walk()
        else:
            self._list(splits)
        found = self.findings
        if found.other_tables or found.linked:
            self._drop_untouchable()
        return found

    def _drop_untouchable(self) -> None:
        """What was found before it was known that it belongs to another table."""
        found, kept = self.findings, PathSpool()
        for batch in _batches(found.files.items()):
            kept.extend(item for item in batch if not found.is_untouchable(item[0]))
        found.files = kept
        found.empty_directories = [path for path in found.empty_directories if not found.is_untouchable(path)]

    def _may_go(self, meta: ObjectMeta) -> bool:
        return meta.last_modified_ms < self.cutoff_ms and meta.path not in self.protected

    def _count(self, listed: int) -> None:
        with self._lock:
            self.findings.num_objects += listed
            total = self.findings.num_objects
        self.on_progress(f"Listing: {total:,} objects, {len(self.findings.files):,} to delete")

    # --- local --------------------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        found = self.findings
        found.num_directories = 1
        # Directories with no file in them, the number of directories in each, and whether they are old enough.
        bare: dict[str, tuple[int, bool]] = {}
        for batch in _batches(walk(self.store, self._enters)):
            files = [entry for entry in batch if isinstance(entry, ObjectMeta)]
            shown = [meta for meta in files if not self.hidden.hides(meta.path.rpartition("/")[2])]
            found.files.extend((meta.path, meta.size) for meta in shown if self._may_go(meta))
            for entry in batch:
                if isinstance(entry, FoundLink):
                    found.num_links += 1
                    found.linked |= {entry.target} if entry.target is not None else set()
                elif isinstance(entry, FoundDirectory) and entry.path and not entry.num_files:
                    bare[entry.path] = (entry.num_directories, entry.last_modified_ms < self.cutoff_ms)
            self._count(len(files))
        found.empty_directories = _removable(bare)

    def _enters(self, path: str, beside: frozenset[str]) -> bool:
        above, _, name = path.rpartition("/")
        if above and LOG_DIRECTORY in beside:
            self.findings.other_tables.add(above)
            return False
        if self.hidden.hides(name):
            return False
        self.findings.num_directories += 1
        return True

    # --- object stores ------------------------------------------------------------------------------------------------

    def _list(self, splits: list[str]) -> None:
        bounds: list[str | None] = [None, *(splits if can_seek(self.store) else ()), None]
        directories: set[int] = set()
        with ThreadPoolExecutor(len(bounds) - 1, thread_name_prefix="ebbtide-list") as pool:
            for seen in pool.map(lambda ends: self._list_range(*ends), pairwise(bounds)):
                directories |= seen
        self.findings.num_directories = len(directories) + 1

    def _list_range(self, after: str | None, last: str | None) -> set[int]:
        """Look at the objects of one range, its end included; returns the directories seen, as hashes."""
        directories: set[int] = set()
        known, is_hidden = "", False
        for batch in _batches(self._objects(after, last)):
            candidates = []
            for meta in batch:
                directory, _, name = meta.path.rpartition("/")
                if directory != known:
                    known, is_hidden = directory, self.hidden.hides_directory(directory)
                    if not is_hidden:
                        directories |= {hash_path(level) for level in _levels(directory)}
                    self._note_other_table(directory)
                if not is_hidden and not self.hidden.hides(name) and self._may_go(meta):
                    candidates.append((meta.path, meta.size))
            self.findings.files.extend(candidates)
            self._count(len(batch))
        return directories

    def _note_other_table(self, directory: str) -> None:
        above, is_log, _ = f"/{directory}/".partition(f"/{LOG_DIRECTORY}/")
        if is_log and above:
            self.findings.other_tables.add(above.removeprefix("/"))

    def _objects(self, after: str | None, last: str | None) -> Iterator[ObjectMeta]:
        end = None if last is None else utf8_order(last)
        while True:
            is_log_ahead = False
            for meta in self.store.list("", start_after=after, in_order=False):
                if end is not None and utf8_order(meta.path) > end:
                    return
                if meta.path.startswith(f"{LOG_DIRECTORY}/"):
                    is_log_ahead = can_seek(self.store)
                    if is_log_ahead:
                        break
                    continue
                yield meta
            if not is_log_ahead:
                return
            # A long log is not read through, but jumped over.
            after = _BEHIND_LOG


def split_points(snapshot: Snapshot) -> list[str]:
    """Paths that divide the live files into ranges of about the same number; none for a table of few files."""
    if snapshot.num_files < _FILES_WORTH_SPLITTING:
        return []
    step = max(1, snapshot.num_files // _SAMPLE)
    sample: list[str] = []
    for part in snapshot.live.slices:
        sample += part.canonical.to_pylist()[::step]
    inside = sorted((path for path in sample if "//" not in path), key=utf8_order)
    return sorted({inside[len(inside) * part // _RANGES] for part in range(1, _RANGES)}, key=utf8_order)


def _removable(bare: dict[str, tuple[int, bool]]) -> list[str]:
    """The directories that hold nothing but directories that hold nothing, the deepest first."""
    emptied: dict[str, int] = {}
    removable = []
    for path in sorted(bare, key=lambda path: (-path.count("/"), path)):
        num_directories, is_old = bare[path]
        if is_old and emptied.get(path, 0) == num_directories:
            removable.append(path)
            above = path.rpartition("/")[0]
            emptied[above] = emptied.get(above, 0) + 1
    return removable


def _levels(directory: str) -> Iterator[str]:
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]


def _batches(items: Iterator[_T]) -> Iterator[list[_T]]:
    batch: list[_T] = []
    for item in items:
        batch.append(item)
        if len(batch) >= _FLUSH:
            yield batch
            batch = []
    yield batch
