"""What has a command done to a snapshot, but not committed yet?

Every changing command gives its `Work` to `row_level.command`, which commits it, moves it on top of a winner, or
discards it. `FileWork` is the part that all of them share: rows marked, files replaced, files written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.results import Metrics
from ebbtide.commands.row_level.touched_files import (
    TouchedActions,
    TouchedFileWithDV,
    mark_rows,
    process_unmodified_data,
    tombstone,
    with_new_vector,
)
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.scan import ScanFile
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Lost
from ebbtide.write import WrittenFiles
from ebbtide.write.abandoned import discard

__all__ = ["FileWork", "Work"]

M_co = TypeVar("M_co", bound=Metrics, covariant=True)


class Work(Protocol[M_co]):
    """The work of one verb on one snapshot. Everything it needs is in storage, but no commit names it yet."""

    @property
    def snapshot(self) -> Snapshot:
        """The table that the work was done on."""

    @property
    def keeps_row_ids(self) -> bool:
        """Whether rewritten rows kept their ids, where the table tracks rows."""

    def actions(self) -> tuple[Action, ...]:
        """What the commit must say; empty when there was nothing to change."""

    def metrics(self) -> M_co:
        """The counters, without the time of the whole command."""

    def parameters(self) -> Mapping[str, Any]:
        """What the history shows of the request."""

    def follow(self, lost: Lost, /) -> Work[M_co]:
        """The same work on top of the winners, as if it had begun after them.

        What it no longer needs is deleted. After an error, `discard` of the old work must still be right.
        """

    def discard(self) -> None:
        """Delete what was written. Only if no commit can have named it."""


@dataclass(frozen=True, slots=True)
class FileWork:
    """What was done to files: rows marked in files that stay, files replaced, and what was written for either.

    `hidden` are written files in which rows are marked from the start: winners deleted them while we copied them.
    """

    marked: tuple[TouchedFileWithDV, ...] = ()
    replaced: tuple[AddFile, ...] = ()
    written: WrittenFiles | None = None
    hidden: tuple[TouchedFileWithDV, ...] = ()
    # False: rows only moved from one file to another.
    data_change: bool = True

    @property
    def touched_files(self) -> list[AddFile]:
        """The files that it changes, in their old state."""
        return [*self.replaced, *(file.file_log_entry for file in self.marked)]

    @property
    def new_vectors(self) -> list[DeletionVectorDescriptor]:
        vectors = (file.new_deletion_vector for file in (*self.marked, *self.hidden))
        return [vector for vector in vectors if vector is not None and vector.is_relative]

    @property
    def marks(self) -> TouchedActions:
        """The actions and counters of the marks; the actions carry no time."""
        return process_unmodified_data(self.marked, timestamp_ms=0)

    @property
    def num_replaced_vectors(self) -> int:
        """Vectors of the files that are replaced."""
        return sum(1 for add in self.replaced if add.deletion_vector is not None)

    def actions(self, timestamp_ms: int) -> tuple[Action, ...]:
        marks = process_unmodified_data(self.marked, timestamp_ms=timestamp_ms)
        removes = (tombstone(add, timestamp_ms, data_change=self.data_change) for add in self.replaced)
        changes: tuple[Action, ...] = () if self.written is None else self.written.change_files
        return (*marks.actions, *removes, *self.adds, *changes)

    @property
    def adds(self) -> tuple[AddFile, ...]:
        """The written files as the commit names them. One in which every row is hidden is left out."""
        written = () if self.written is None else self.written.adds
        if not self.hidden:
            return written
        hidden = {file.file_log_entry.path: file for file in self.hidden}
        whole = {path for path, file in hidden.items() if file.is_fully_replaced()}
        return tuple(
            with_new_vector(hidden[add.path], data_change=self.data_change) if add.path in hidden else add
            for add in written
            if add.path not in whole
        )

    def with_marks(
        self, snapshot: Snapshot, matched: Iterable[tuple[ScanFile, RowIndexSet]], *, options: WriteOptions
    ) -> FileWork:
        """The work with these rows marked. On an error everything is deleted, including what was written before."""
        return replace(self, marked=mark_rows(snapshot, matched, self.written, options=options))

    def discard(self, store: ObjectStore, *, keeping: Iterable[FileWork] = ()) -> None:
        """Delete what was written, except what the works in `keeping` use.

        A file holds the vectors of many data files, so it is deleted only when none of them is needed.
        """
        kept = tuple(keeping)
        needed = {vector.relative_path for work in kept for vector in work.new_vectors}
        is_kept = self.written is None or any(work.written is self.written for work in kept)
        discard(
            store,
            [] if is_kept or self.written is None else [self.written],
            [vector for vector in self.new_vectors if vector.relative_path not in needed],
        )
