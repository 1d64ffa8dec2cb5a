"""What becomes of a copy when winners changed the files that were copied?

If a vector only grew, the rows it gained are in the copy and must not come back. Their places in the new files are
known (`optimize.positions`), so they are marked there, and the copy stays valid. Rewriting a gigabyte because somebody
deleted a row would lose the next race as well.

Anything else makes the copy wrong, and the files are copied again: a file is gone, or got rows back (a RESTORE); the
copy is in another order than the files; the table no longer writes vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ebbtide.commands.optimize.copying import GroupCopy
from ebbtide.commands.optimize.positions import CopiedFile, carry_over
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.touched_files import TouchedFileWithDV, mark_rows
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.features import deletion_vectors_writable
from ebbtide.protocol.paths import canonical_path
from ebbtide.protocol.statistics import num_records
from ebbtide.scan import ScanFile, resolve_file, resolve_files
from ebbtide.transaction.file_changes import live_files_at
from ebbtide.write import footer_of

__all__ = ["Follower"]

_FOOTER_THREADS = 16


@dataclass(frozen=True, slots=True)
class Follower:
    """Moves copies to a newer version of the table."""

    newest: Snapshot
    options: WriteOptions

    def live_now(self, copy: GroupCopy) -> list[ScanFile]:
        """The files that were copied, as they are now; those that are gone are left out."""
        now = self._by_path(copy)
        return [now[path] for path in map(self._canonical, copy.files) if path in now]

    def bring_up_to_date(self, copy: GroupCopy) -> GroupCopy | None:
        """The same copy as a replacement of the files as they are now; None when they must be copied again."""
        now = self.live_now(copy)
        if len(now) != len(copy.files):
            return None
        marked = [
            (file.marks or RowIndexSet(), live.marks or RowIndexSet())
            for file, live in zip(copy.files, now, strict=True)
        ]
        if not all(before.issubset(after) for before, after in marked):
            return None
        work = replace(copy.work, replaced=tuple(file.add for file in now), hidden=())
        if all(before == after for before, after in marked):
            return replace(copy, work=work)
        if not copy.keeps_order or not deletion_vectors_writable(self.newest.protocol, self.newest.metadata):
            return None
        return replace(copy, work=replace(work, hidden=self._hidden(copy, marked)))

    def _hidden(
        self, copy: GroupCopy, marked: Sequence[tuple[RowIndexSet, RowIndexSet]]
    ) -> tuple[TouchedFileWithDV, ...]:
        """The new files in which rows must be marked, with their vectors, which are in storage."""
        adds = () if copy.work.written is None else copy.work.written.adds
        with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
            counts = list(pool.map(self._rows_in_footer, (file.add for file in copy.files)))
        copied = [CopiedFile(count, *sets) for count, sets in zip(counts, marked, strict=True)]
        rows = carry_over(copied, [_stated_rows(add) for add in adds])
        matched = [(resolve_file(self.newest, add, None), part) for add, part in zip(adds, rows, strict=True) if part]
        return mark_rows(self.newest, matched, options=self.options)

    def _rows_in_footer(self, add: AddFile) -> int:
        return int(footer_of(self.newest, add, storage_options=self.options.storage_options).num_rows)

    def _by_path(self, copy: GroupCopy) -> Mapping[str, ScanFile]:
        found = live_files_at(self.newest, set(map(self._canonical, copy.files)))
        files = resolve_files(self.newest, found.files, storage_options=self.options.storage_options)
        return dict(zip(found.paths, files, strict=True))

    def _canonical(self, file: ScanFile) -> str:
        return canonical_path(file.add.path, self.newest.store.url)


def _stated_rows(add: AddFile) -> int:
    """Rows of a file that we wrote: its statistics are those of its footer."""
    stated = num_records(add.stats)
    if stated is None:
        raise InternalError(f"The new file '{add.path}' does not state its row count.")
    return stated
