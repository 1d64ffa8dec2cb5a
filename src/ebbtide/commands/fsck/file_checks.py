"""Is every live file there, whole, and as the log describes it?

The files of a snapshot are looked at a few thousand at a time. Per file one ranged read, many side by side, fetches the
footer; a second one only where the footer is long. Rows are not read: damage inside a file that keeps its length and
its footer is not found here. A failure of the storage itself (permission, network) is raised, never taken for damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from ebbtide.commands.fsck import findings
from ebbtide.commands.fsck.footer import (
    MAX_FOOTER_BYTES,
    TAIL_BYTES,
    Footer,
    footer_bytes,
    is_encrypted,
    is_read_by_arrow,
    parse_footer,
)
from ebbtide.commands.fsck.statistics_checks import StatisticsColumn, check_statistics, statistics_columns
from ebbtide.commands.fsck.vector_checks import VectorCheck, check_vectors, vector_path
from ebbtide.errors import CorruptTableError, ObjectNotFoundError, RequestError, UnsupportedFeatureError
from ebbtide.log import Snapshot, add_files
from ebbtide.log.thrift_compact import MalformedThriftError
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.log_names import LOG_DIRECTORY
from ebbtide.protocol.paths import resolve_data_path
from ebbtide.storage import ObjectStore, open_store
from ebbtide.storage.links import paths_outside
from ebbtide.storage.prefetch import prefetch

__all__ = ["FileCounts", "check_files", "object_at"]

_FILES_AT_ONCE: Final = 2048


@dataclass(slots=True)
class FileCounts:
    """What was looked at so far."""

    files: int = 0
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class _Look:
    """What came of looking at one data file."""

    path: str
    footer: Footer | None = None
    finding: findings.Finding | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """An object: a path in a store, and how findings name it."""

    store: ObjectStore
    path: str
    display_path: str


@dataclass(slots=True)
class _Outside:
    """How many files of the table lie in which directory outside of it."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, path: str) -> None:
        directory = path.rpartition("/")[0] or path
        self.counts[directory] = self.counts.get(directory, 0) + 1


def check_files(
    snapshot: Snapshot,
    storage_options: Mapping[str, str] | None,
    counts: FileCounts,
    on_progress: Callable[[int, int], None],
) -> Iterator[findings.Finding]:
    columns = statistics_columns(snapshot)
    outside = _Outside()
    table = snapshot.files
    for start in range(0, table.num_rows, _FILES_AT_ONCE):
        adds, broken = _entries(snapshot, table.slice(start, _FILES_AT_ONCE))
        yield from broken
        counts.files += len(broken)
        vectors = check_vectors(snapshot, adds, storage_options)
        counts.vectors += len(vectors)
        looks = prefetch(partial(_look_at_file, snapshot, storage_options), adds)
        for index, look in enumerate(looks):
            yield from _conclude(snapshot, adds[index], look, vectors.get(index), columns)
            counts.files += 1
            if counts.files % 100 == 0:
                on_progress(counts.files, table.num_rows)
        _note_outside(snapshot, adds, outside)
    for directory, count in sorted(outside.counts.items()):
        yield findings.files_outside(directory, snapshot.version, count)


def _entries(snapshot: Snapshot, files: pa.Table) -> tuple[list[AddFile], list[findings.Finding]]:
    """The files as actions, and those whose deletion vector is described in a way that nobody can follow."""
    try:
        return list(add_files(files)), []
    except CorruptTableError:
        adds: list[AddFile] = []
        broken: list[findings.Finding] = []
        for row in range(files.num_rows):
            try:
                adds += add_files(files.slice(row, 1))
            except CorruptTableError as error:
                path = unquote(files.column("path")[row].as_py())
                broken.append(findings.corrupt_vector(LOG_DIRECTORY, snapshot.version, path, error))
        return adds, broken


def object_at(
    encoded_path: str, snapshot: Snapshot, storage_options: Mapping[str, str] | None
) -> tuple[ObjectStore, str]:
    """The store and the path in it of a data file; UnsupportedFeatureError where it lies in another store."""
    place = _place(encoded_path, snapshot, storage_options)
    return place.store, place.path


def _place(encoded_path: str, snapshot: Snapshot, storage_options: Mapping[str, str] | None) -> _Place:
    location = resolve_data_path(encoded_path, snapshot.store.url, allow_foreign=snapshot.config.allow_foreign_paths)
    if location.relative_path is not None:
        return _Place(snapshot.store, location.relative_path, location.relative_path)
    url = location.absolute_url or ""
    directory, _, name = unquote(url).rpartition("/")
    return _Place(open_store(directory, storage_options), name, url)


def _look_at_file(snapshot: Snapshot, storage_options: Mapping[str, str] | None, add: AddFile) -> _Look:
    version = snapshot.version
    try:
        place = _place(add.path, snapshot, storage_options)
    except (UnsupportedFeatureError, RequestError) as error:
        return _Look(add.path, finding=findings.not_checked(add.path, version, error))
    try:
        # One byte more than there should be shows a file that is too long.
        start = max(0, add.size - TAIL_BYTES)
        tail = place.store.read_range(place.path, start, add.size - start + 1)
        found = start + len(tail) if tail else 0
        if found != add.size:
            return _look_at_other_size(place, add, version)
        return _look_at_footer(place, tail, add, version)
    except ObjectNotFoundError:
        return _Look(place.display_path, finding=findings.missing_data_file(place.display_path, version, add))


def _look_at_footer(place: _Place, tail: bytes, add: AddFile, version: int) -> _Look:
    if is_encrypted(tail):
        return _Look(place.display_path, finding=findings.not_checked(place.display_path, version, "it is encrypted"))
    try:
        data = _footer(place, tail, add.size)
    except MalformedThriftError as error:
        return _Look(
            place.display_path, finding=findings.truncated_data_file(place.display_path, version, add, str(error))
        )
    if data is None:
        return _Look(
            place.display_path, finding=findings.not_checked(place.display_path, version, "its footer is too long")
        )
    try:
        return _Look(place.display_path, parse_footer(data))
    except MalformedThriftError as error:
        if is_read_by_arrow(data):
            return _Look(place.display_path, finding=findings.odd_footer(place.display_path, version, str(error)))
        return _Look(
            place.display_path, finding=findings.truncated_data_file(place.display_path, version, add, str(error))
        )


def _look_at_other_size(place: _Place, add: AddFile, version: int) -> _Look:
    """A file of another length: cut short, or another Parquet file."""
    size = place.store.head(place.path).size
    if size == add.size:
        # Somebody is writing it this very moment.
        return _Look(
            place.display_path,
            finding=findings.not_checked(place.display_path, version, "it changed while it was read"),
        )
    start = max(0, size - TAIL_BYTES)
    try:
        data = _footer(place, place.store.read_range(place.path, start, size - start), size)
        is_whole = data is None or is_read_by_arrow(data)
    except MalformedThriftError:
        is_whole = False
    if is_whole:
        return _Look(place.display_path, finding=findings.replaced_data_file(place.display_path, version, add, size))
    problem = f"it has {size} bytes, the log says {add.size}"
    return _Look(place.display_path, finding=findings.truncated_data_file(place.display_path, version, add, problem))


def _footer(place: _Place, tail: bytes, size: int) -> bytes | None:
    """The bytes of the footer; None when they are too many. MalformedThriftError when the file has none."""
    length = footer_bytes(tail, size)
    if length > MAX_FOOTER_BYTES:
        return None
    if length > len(tail):
        tail = place.store.read_range(place.path, size - length, length)
    return tail[-length:]


def _conclude(
    snapshot: Snapshot,
    add: AddFile,
    look: _Look,
    vector: VectorCheck | None,
    columns: Sequence[StatisticsColumn],
) -> Iterator[findings.Finding]:
    if look.finding is not None:
        yield look.finding
    if vector is not None and vector.finding is not None:
        yield vector.finding
    if look.footer is None:
        return
    footer, version = look.footer, snapshot.version
    if vector is not None and vector.highest_row is not None and vector.highest_row >= footer.num_rows:
        assert add.deletion_vector is not None, "it was checked"
        path = vector_path(add.deletion_vector, snapshot.store.url)
        yield findings.vector_row_out_of_range(path, version, look.path, vector.highest_row, footer.num_rows)
    verdict = check_statistics(add.stats, footer, columns, has_deleted_rows=add.num_marked_rows > 0)
    if verdict is None:
        return
    if verdict.wrong_rows:
        yield findings.wrong_num_records(
            look.path, version, add, recorded=verdict.recorded_rows, found=footer.num_rows, stats=verdict.corrected
        )
    if verdict.wrong_columns:
        yield findings.narrow_statistics(look.path, version, add, verdict.wrong_columns, verdict.corrected)


def _note_outside(snapshot: Snapshot, adds: Sequence[AddFile], outside: _Outside) -> None:
    store = snapshot.store
    inside: list[str] = []
    for add in adds:
        try:
            location = resolve_data_path(add.path, store.url, allow_foreign=True)
        except CorruptTableError:
            continue
        if location.relative_path is None:
            outside.add(location.absolute_url or "")
        else:
            inside.append(location.relative_path)
        vector = add.deletion_vector
        # An absolute path that leads inside is shown as one below the root.
        if vector is not None and vector.is_absolute and ":/" in vector_path(vector, store.url):
            outside.add(vector_path(vector, store.url))
    for path in paths_outside(store, inside):
        outside.add(path)
