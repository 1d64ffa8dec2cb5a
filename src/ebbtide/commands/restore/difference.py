"""Which files have to come back, and which have to go, for a table to show another version again?

Files are compared by (path, deletion vector): a file that is live in both versions with different vectors is removed
with the one and added with the other. A file with the same vector in both stays as it is. Only the log is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import AddFile, RemoveFile

__all__ = ["SnapshotDifference", "find_difference"]


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotDifference:
    """Rows of `LIVE_FILES_SCHEMA`: files that only the wanted version has, and those that only the current one has."""

    restored: pa.Table
    removed: pa.Table

    def adds(self) -> Iterator[AddFile]:
        """The files that come back, with the vectors, statistics and row ids that they had."""
        return add_files(self.restored, data_change=True)

    def removes(self, timestamp_ms: int) -> Iterator[RemoveFile]:
        """The tombstones of the others, with the vectors that they have now."""
        return (add.remove(timestamp_ms) for add in add_files(self.removed))

    def without(self, missing: frozenset[str]) -> SnapshotDifference:
        """The same, except for restored files with these paths, which are not there any more."""
        if not missing:
            return self
        is_missing = pc.is_in(self.restored["path"], value_set=pa.array(sorted(missing), pa.string()))
        return replace(self, restored=self.restored.filter(pc.invert(is_missing)))


def find_difference(wanted: Snapshot, current: Snapshot) -> SnapshotDifference:
    """What turns the files of `current` into those of `wanted`, another version of the same table."""
    wanted_keys, current_keys = wanted.live.keys(), current.live.keys()
    return SnapshotDifference(
        restored=wanted.files.filter(pc.invert(pc.is_in(wanted_keys, value_set=current_keys))),
        removed=current.files.filter(pc.invert(pc.is_in(current_keys, value_set=wanted_keys))),
    )
