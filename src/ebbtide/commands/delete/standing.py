"""What did winners leave of the files that a deletion has read?

A file that nobody changed stands. So does one whose vector only grew: no row came back, so what we know of its rows
still holds. Everything else must be searched again, if a deletion that began now would search it at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from ebbtide.commands.requests import WriteOptions
from ebbtide.deletion_vectors import RowIndexSet, load
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.statistics import num_records
from ebbtide.transaction import Lost
from ebbtide.transaction.file_changes import FileChanges, live_files_at, select_among

__all__ = ["MarkedRows", "Standing"]


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """Loads the rows that the vectors of a table's files mark."""

    snapshot: Snapshot
    options: WriteOptions

    def of(self, add: AddFile) -> RowIndexSet:
        if add.deletion_vector is None:
            return RowIndexSet()
        store = self.snapshot.store
        return load(
            store,
            store.url,
            add.deletion_vector,
            num_records=num_records(add.stats),
            config=self.options.config,
            storage_options=self.options.storage_options,
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """What winners left of the files that we read. Paths are canonical: two writers may spell one path differently."""

    changes: FileChanges
    marked: MarkedRows
    # Of files that have changed since we read them.
    changed: frozenset[str]
    # Those of them in which no row came back, in their new state.
    known: Mapping[str, AddFile]
    # Candidates with rows that we have not searched.
    unknown: pa.Table

    @classmethod
    def of(cls, lost: Lost, candidates: pa.Table, marked: MarkedRows) -> Standing:
        changes = lost.file_changes()
        restated = {changes.canonical(add.path): add for add in add_files(changes.restated)}
        # A file that a deletion starting now would not search holds no match any more.
        searched = select_among(changes.vector_changed, candidates)
        now = {changes.canonical(add.path): add for add in add_files(searched)}
        before = live_files_at(lost.read, set(now))
        grown = {
            path: now[path]
            for path, old in zip(before.paths, add_files(before.files), strict=True)
            if marked.of(old).issubset(marked.of(now[path]))
        }
        has_shrunk = [changes.canonical(path) not in grown for path in searched["path"].to_pylist()]
        return cls(
            changes,
            marked,
            changed=changes.changed_paths,
            known={**restated, **grown},
            unknown=pa.concat_tables(
                [select_among(changes.added, candidates), searched.filter(pa.array(has_shrunk, pa.bool_()))]
            ),
        )

    def now(self, add: AddFile) -> AddFile | None:
        """The file's new state, if we have seen all its rows; `add` itself when nobody changed the file."""
        path = self.changes.canonical(add.path)
        return self.known.get(path) if path in self.changed else add
