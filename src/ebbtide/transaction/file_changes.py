"""Which files did others change between two versions, by (path, deletion vector)?

Only paths that the commits in between mention are looked up. So this costs one pass over the live paths, not a
comparison of two tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.log import LIVE_FILES_SCHEMA, Snapshot
from ebbtide.log.identity import file_keys
from ebbtide.protocol.paths import canonical_path
from ebbtide.transaction.winners import WinningCommit, read_winners

__all__ = ["FileChanges", "select_among", "find_file_changes", "live_files_at"]


@dataclass(frozen=True, slots=True, eq=False)
class FileChanges:
    """Tables are rows of `LIVE_FILES_SCHEMA`; files that appear in none of them are unchanged.

    A vector that changed has nearly always grown, but a RESTORE may have made it smaller: compare the sets.
    """

    table_url: str
    # As they were; their paths are not live any more.
    gone: pa.Table
    # As they are now; the same path was live with another deletion vector, or with none.
    vector_changed: pa.Table
    # As they are now; the same path and vector, but added again (statistics, tags, row ids may differ).
    restated: pa.Table
    # As they are now; their paths were not live before.
    added: pa.Table

    @property
    def is_empty(self) -> bool:
        return not any(table.num_rows for table in (self.gone, self.vector_changed, self.restated, self.added))

    def canonical(self, path: str) -> str:
        """The path as all writers of the table would spell it."""
        return canonical_path(path, self.table_url)

    @property
    def changed_paths(self) -> frozenset[str]:
        """Canonical paths of files that were read and are no longer exactly as they were."""
        tables = (self.gone, self.vector_changed, self.restated)
        return frozenset(self.canonical(path) for table in tables for path in table["path"].to_pylist())

    def leaves_alone(self, paths: Iterable[str]) -> bool:
        """Whether each of these files, which were read, is exactly as it was."""
        changed = self.changed_paths
        return not changed or not any(self.canonical(path) in changed for path in paths)

    def unseen(self, candidates: pa.Table) -> pa.Table:
        """The candidates of the newer version that have, or may have, rows which were not there before."""
        return select_among(pa.concat_tables([self.added, self.vector_changed]), candidates)


def find_file_changes(read: Snapshot, now: Snapshot, winners: Sequence[WinningCommit] | None = None) -> FileChanges:
    """What happened to the files from `read` to `now`. `winners` are the commits in between; None reads them."""
    if winners is None:
        winners = read_winners(now.store, read.version + 1, now.version, config=now.config)
    table_url = now.store.url
    touched = {canonical_path(path, table_url) for winner in winners for path in winner.paths}
    before, now_live = live_files_at(read, touched), live_files_at(now, touched)
    old_paths, new_paths = pa.array(before.paths, pa.string()), pa.array(now_live.paths, pa.string())
    is_kept = pc.is_in(new_paths, value_set=old_paths)
    is_same = pc.is_in(pa.array(now_live.keys, pa.string()), value_set=pa.array(before.keys, pa.string()))
    return FileChanges(
        table_url=table_url,
        gone=before.files.filter(pc.invert(pc.is_in(old_paths, value_set=new_paths))),
        vector_changed=now_live.files.filter(pc.and_not(is_kept, is_same)),
        restated=now_live.files.filter(is_same),
        added=now_live.files.filter(pc.invert(is_kept)),
    )


def select_among(files: pa.Table, others: pa.Table) -> pa.Table:
    """The files that are among the others, which are of the same version."""
    return files.filter(pc.is_in(files["path"], value_set=others["path"].combine_chunks()))


@dataclass(frozen=True, slots=True, eq=False)
class LiveFilesAt:
    """Live files with their canonical paths and replay keys, row by row."""

    files: pa.Table
    paths: list[str]
    keys: list[str]


def live_files_at(snapshot: Snapshot, canonical: set[str]) -> LiveFilesAt:
    """The live files at the given canonical paths."""
    wanted = pa.array(sorted(canonical), pa.string())
    batches: list[pa.RecordBatch] = []
    paths: list[str] = []
    keys: list[str] = []
    for part in snapshot.live.slices if canonical else ():
        mask = pc.is_in(part.canonical, value_set=wanted)
        if pc.any(mask).as_py():
            found = part.filter(mask)
            batches.append(found.rows)
            paths += found.canonical.to_pylist()
            keys += file_keys(found.canonical, found.rows.column("deletion_vector")).to_pylist()
    return LiveFilesAt(pa.Table.from_batches(batches, schema=LIVE_FILES_SCHEMA), paths, keys)
