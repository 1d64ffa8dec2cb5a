"""Which files must stay?

Those of every kept action: a live file, a tombstone within the retention, a file of a version that the request keeps.
Each protects its data file and the file of its deletion vector, of whichever storage type: `u` with or without a
prefix, `p` when it lies below the root; an inline vector has no file. What the change feed of a commit needs (change
data, and the files and vectors that it removed) is protected for versions that the request keeps.

Paths are held as 64-bit hashes, eight bytes each. If two paths ever share a hash, a file that could go stays.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from ebbtide.log import Snapshot, load_snapshot, read_commit
from ebbtide.log.identity import canonical_column
from ebbtide.log.listing import list_log
from ebbtide.log.segment import LogFile
from ebbtide.log.table_state import scan_log_files
from ebbtide.protocol.actions import AddCDCFile, RemoveFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.paths import resolve_data_path
from ebbtide.storage import ObjectStore
from ebbtide.storage.links import relative_through_links

__all__ = ["ProtectedPaths", "hash_path", "protect", "vector_path"]

_ROWS_AT_A_TIME: Final = 8192


def hash_path(path: str) -> int:
    return xxhash.xxh3_64_intdigest(path.encode())


class ProtectedPaths:
    """Decoded paths below the root. Everything is added first; then `in` answers."""

    def __init__(self) -> None:
        self._added = array("Q")
        self._sorted = memoryview(b"").cast("Q")

    def __len__(self) -> int:
        return len(self._added) + len(self._sorted)

    def add(self, path: str) -> None:
        self._added.append(hash_path(path))

    def extend(self, paths: Iterable[str]) -> None:
        self._added.extend(map(hash_path, paths))

    def seal(self) -> ProtectedPaths:
        count = len(self._added)
        hashes = pa.Array.from_buffers(pa.uint64(), count, [None, pa.py_buffer(self._added)])
        ordered = hashes.take(pc.array_sort_indices(hashes))
        self._sorted = memoryview(ordered.buffers()[1] or b"").cast("B").cast("Q")[:count]
        self._added = array("Q")
        return self

    def __contains__(self, path: str) -> bool:
        wanted = hash_path(path)
        at = bisect_left(self._sorted, wanted)
        return at < len(self._sorted) and self._sorted[at] == wanted


def protect(
    snapshot: Snapshot, *, cutoff_ms: int, keeps: Iterable[int] = (), is_longer: bool = False
) -> ProtectedPaths:
    """What a VACUUM of the snapshot must leave alone.

    `is_longer`: the retention is longer than the table's own. Checkpoints may have forgotten tombstones that still
    count then, so the commits since the cutoff are read as well. VersionNotFoundError for a version in `keeps` that the
    log can no longer show.
    """
    protected = ProtectedPaths()
    _add_live_files(protected, snapshot)
    _add_tombstones(protected, snapshot, snapshot.tombstones().to_batches(max_chunksize=_ROWS_AT_A_TIME), cutoff_ms)
    if is_longer:
        _add_tombstones(protected, snapshot, _removed_since(snapshot, cutoff_ms), cutoff_ms)
    for version in sorted(set(keeps)):
        kept = load_snapshot(snapshot.store, version=version, config=snapshot.config)
        _add_live_files(protected, kept)
        _add_change_data(protected, kept)
    return protected.seal()


def vector_path(vector: DeletionVectorDescriptor, store: ObjectStore) -> str | None:
    """The decoded path below the root of the vector's file; None when it is inline or lies elsewhere."""
    if vector.is_inline:
        return None
    return vector.relative_path if vector.is_relative else _relative(vector.path_or_inline_dv, store)


def _add_live_files(protected: ProtectedPaths, snapshot: Snapshot) -> None:
    for part in snapshot.live.slices:
        _add_files(protected, part.canonical, part.rows.column("deletion_vector"), snapshot.store)


def _add_tombstones(
    protected: ProtectedPaths, snapshot: Snapshot, batches: Iterable[pa.RecordBatch], cutoff_ms: int
) -> None:
    for batch in batches:
        # A tombstone without a time is as old as can be.
        recent = pc.greater_equal(pc.fill_null(batch.column("deletion_timestamp"), 0), cutoff_ms)
        kept = batch.filter(recent)
        canonical = canonical_column(kept.column("path"), snapshot.store.url)
        _add_files(protected, canonical, kept.column("deletion_vector"), snapshot.store)


def _removed_since(snapshot: Snapshot, cutoff_ms: int) -> Iterable[pa.RecordBatch]:
    commits = list_log(snapshot.store).commits
    recent = [
        LogFile(version, version, commits[version])
        for version in sorted(commits)
        if version <= snapshot.version and commits[version].last_modified_ms >= cutoff_ms
    ]
    _, removes = scan_log_files(snapshot.store, tuple(recent), snapshot.config).file_actions()
    return removes.batches


def _add_files(
    protected: ProtectedPaths, canonical: pa.StringArray, vectors: pa.StructArray, store: ObjectStore
) -> None:
    for path in canonical.to_pylist():
        # A canonical path with "//" is the URL of a file that the log names outside the root.
        relative = path if "//" not in path else _relative(path, store)
        if relative is not None:
            protected.add(relative)
    if vectors.null_count == len(vectors):
        return
    # Many files share one vector file, and each needs it once.
    names = pa.Table.from_arrays(vectors.drop_null().flatten()[:2], ["type", "text"]).group_by(["type", "text"])
    for row in names.aggregate([]).to_pylist():
        vector = DeletionVectorDescriptor.from_json(
            {"storageType": row["type"], "pathOrInlineDv": row["text"], "sizeInBytes": 0, "cardinality": 0}
        )
        path = vector_path(vector, store)
        if path is not None:
            protected.add(path)


def _add_change_data(protected: ProtectedPaths, kept: Snapshot) -> None:
    if kept.segment.commit is None:
        return
    store = kept.store
    actions = read_commit(store, kept.version, config=kept.config)
    files = [action.path for action in actions if isinstance(action, AddCDCFile)]
    vectors: list[DeletionVectorDescriptor | None] = []
    if not files and kept.properties.enable_change_data_feed:
        # Without change data of its own, a commit is told by what it removed.
        removes = [action for action in actions if isinstance(action, RemoveFile) and action.data_change]
        files = [remove.path for remove in removes]
        vectors = [remove.deletion_vector for remove in removes]
    paths = [_relative(path, store) for path in files]
    paths += [vector_path(vector, store) for vector in vectors if vector is not None]
    protected.extend(path for path in paths if path is not None)


def _relative(encoded_path: str, store: ObjectStore) -> str | None:
    """The decoded path below the root that a path of the log means; None when it is elsewhere."""
    location = resolve_data_path(encoded_path, store.url, allow_foreign=True)
    if location.relative_path is not None:
        return location.relative_path
    # The table may be known under two names: by a link, and by what the link leads to.
    return relative_through_links(store, location.absolute_url or "")
