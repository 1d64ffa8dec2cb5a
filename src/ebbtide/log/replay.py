"""Which files are live after a set of actions?

A logical file is (path, deletion-vector id), everywhere: changing a vector is a `remove` of the old pair and an `add`
of the new one. `LiveFiles` holds the live ones as Arrow batches and `LiveFiles.replay` gives the state after more
commits. Only the slices that a commit touches are copied, so each further commit costs a look at the paths, not a copy
of the table.

Guarantees of every `LiveFiles`:
- each path occurs once (two vectors on one path would show its rows twice), unless the caller allows repeats in order
  to repair them;
- the order of actions within a commit does not matter.
A log that breaks either raises a CorruptTableError that names the path. See "Action Reconciliation" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.errors import CorruptTableError
from ebbtide.log.commit_scan import FileActions
from ebbtide.log.file_tables import LIVE_FILES_SCHEMA, TOMBSTONES_SCHEMA
from ebbtide.log.identity import canonical_column, file_keys, path_of_key
from ebbtide.protocol.json_fields import INT64_MAX

__all__ = ["LiveFiles", "surviving_tombstones"]

# The unit of copying when a commit touches a file, and the size up to which small batches of new files are joined.
_SLICE_ROWS = 8192


@dataclass(frozen=True, slots=True)
class _Slice:
    rows: pa.RecordBatch
    # One text per file, however its path is spelled; the same buffers as `rows.path` for ordinary paths.
    canonical: pa.StringArray

    def filter(self, mask: pa.BooleanArray) -> _Slice:
        return _Slice(self.rows.filter(mask), self.canonical.filter(mask))

    def join(self, other: _Slice) -> _Slice:
        rows = pa.Table.from_batches([self.rows, other.rows]).combine_chunks().to_batches()[0]
        return _Slice(rows, pa.concat_arrays([self.canonical, other.canonical]))


@dataclass(frozen=True, slots=True)
class LiveFiles:
    slices: tuple[_Slice, ...] = ()

    @classmethod
    def of_checkpoint(
        cls, batches: Iterable[pa.RecordBatch], table_url: str, *, allow_repeats: bool = False
    ) -> LiveFiles:
        """The live files that a checkpoint lists, rows of `LIVE_FILES_SCHEMA`."""
        live = cls(tuple(part for batch in batches for part in _slices(batch, table_url)))
        if not allow_repeats:
            _refuse_repeats(live.slices)
        return live

    @property
    def num_files(self) -> int:
        return sum(part.rows.num_rows for part in self.slices)

    @property
    def size_in_bytes(self) -> int:
        """Exact: the log may claim any size, and Arrow's own sum wraps around beyond 64 bits."""
        total = 0
        for part in self.slices:
            sizes = part.rows.column("size")
            largest = pc.max(sizes).as_py() or 0
            total += sum(sizes.to_pylist()) if largest * len(sizes) > INT64_MAX else pc.sum(sizes).as_py() or 0
        return total

    def table(self) -> pa.Table:
        return pa.Table.from_batches([part.rows for part in self.slices], schema=LIVE_FILES_SCHEMA)

    def keys(self) -> pa.StringArray:
        """The identity of each live file, as `surviving_tombstones` compares it."""
        arrays = [file_keys(part.canonical, part.rows.column("deletion_vector")) for part in self.slices]
        return pa.concat_arrays(arrays) if arrays else pa.array([], pa.string())

    def replay(
        self, adds: FileActions, removes: FileActions, table_url: str, *, allow_repeats: bool = False
    ) -> LiveFiles:
        """The state after the given actions, which all come from commits later than this state."""
        if not adds.num_rows and not removes.num_rows:
            return self
        added = [part for batch in adds.batches for part in _slices(batch, table_url)]
        add_keys = _python_keys(added)
        removed_paths = [canonical_column(batch.column("path"), table_url) for batch in removes.batches]
        remove_keys = [
            key
            for batch, canonical in zip(removes.batches, removed_paths, strict=True)
            for key in file_keys(canonical, batch.column("deletion_vector")).to_pylist()
        ]
        winners = _winners(adds, add_keys, removes, remove_keys)
        new_slices = _select(added, winners)
        survivors = self.slices
        if survivors:
            touched_paths = pa.chunked_array([*(part.canonical for part in added), *removed_paths], pa.string())
            survivors = self._without(touched_paths, {*add_keys, *remove_keys})
            if not allow_repeats:
                _refuse_second_vector(survivors, new_slices)
        if not allow_repeats:
            _refuse_repeats(new_slices)
        return LiveFiles(_append(survivors, new_slices))

    def _without(self, touched_paths: pa.ChunkedArray, touched_keys: set[str]) -> tuple[_Slice, ...]:
        is_touched = _is_in([part.canonical for part in self.slices], touched_paths)
        kept = []
        for part, mask in zip(self.slices, is_touched, strict=True):
            if not pc.any(mask).as_py():
                kept.append(part)
                continue
            keys = file_keys(part.canonical, part.rows.column("deletion_vector")).to_pylist()
            keep = [key not in touched_keys for key in keys]
            remaining = part.filter(pa.array(keep, pa.bool_()))
            if remaining.rows.num_rows:
                kept.append(remaining)
        return tuple(kept)


def surviving_tombstones(removes: Iterable[pa.RecordBatch], live: LiveFiles, table_url: str) -> pa.Table:
    """The newest tombstone of each file that is not live; `removes` are rows of `TOMBSTONES_SCHEMA`, oldest first."""
    batches = [batch for batch in removes if batch.num_rows]
    table = pa.Table.from_batches(batches, schema=TOMBSTONES_SCHEMA)
    keys = [
        key
        for batch in batches
        for key in file_keys(
            canonical_column(batch.column("path"), table_url), batch.column("deletion_vector")
        ).to_pylist()
    ]
    newest = {key: row for row, key in enumerate(keys)}
    # A file whose last action was an `add` is live; the last action on the others was a `remove`.
    for key in live.keys().to_pylist():
        newest.pop(key, None)
    return table.take(pa.array(sorted(newest.values()), pa.int64()))


def _python_keys(slices: list[_Slice]) -> list[str]:
    return [
        key for part in slices for key in file_keys(part.canonical, part.rows.column("deletion_vector")).to_pylist()
    ]


def _winners(adds: FileActions, add_keys: list[str], removes: FileActions, remove_keys: list[str]) -> list[int]:
    """Rows of `adds` that are live after all of the actions, ascending."""
    newest: dict[str, int] = {}
    repeated: dict[int, int] = {}
    for row, key in enumerate(add_keys):
        earlier = newest.get(key)
        if earlier is not None and adds.versions[earlier] == adds.versions[row]:
            repeated[row] = earlier
        newest[key] = row
    # Versions ascend, so this keeps the last removal. A contradiction before it does not matter.
    last_removed = dict(zip(remove_keys, removes.versions, strict=True))
    for key, removed_in in last_removed.items():
        add_row = newest.get(key)
        if add_row is None:
            continue
        added_in = adds.versions[add_row]
        if removed_in == added_in:
            raise CorruptTableError(
                f"version {added_in} both adds and removes the file '{path_of_key(key)}' with the same deletion "
                "vector; which of the two holds is undefined",
                error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
            )
        if removed_in > added_in:
            del newest[key]
    winners = sorted(newest.values())
    for row in repeated.keys() & set(winners) if repeated else ():
        _refuse_different_adds(adds, repeated[row], row)
    return winners


def _refuse_different_adds(adds: FileActions, first: int, second: int) -> None:
    """Adding a file twice is harmless; adding it with different content in one commit has no meaning."""
    table = pa.Table.from_batches(adds.batches, schema=LIVE_FILES_SCHEMA)
    if table.slice(first, 1).to_pylist() != table.slice(second, 1).to_pylist():
        path = table.column("path")[first].as_py()
        raise CorruptTableError(
            f"version {adds.versions[first]} adds the file '{path}' twice, with different content",
            error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
        )


def _slices(batch: pa.RecordBatch, table_url: str) -> list[_Slice]:
    canonical = canonical_column(batch.column("path"), table_url)
    return [
        _Slice(batch.slice(start, _SLICE_ROWS), canonical.slice(start, _SLICE_ROWS))
        for start in range(0, batch.num_rows, _SLICE_ROWS)
    ]


def _select(slices: list[_Slice], rows: list[int]) -> list[_Slice]:
    total = sum(part.rows.num_rows for part in slices)
    if len(rows) == total:
        return slices
    wanted = set(rows)
    selected = []
    start = 0
    for part in slices:
        end = start + part.rows.num_rows
        part = part.filter(pa.array([row in wanted for row in range(start, end)], pa.bool_()))
        if part.rows.num_rows:
            selected.append(part)
        start = end
    return selected


def _append(slices: tuple[_Slice, ...], new: Iterable[_Slice]) -> tuple[_Slice, ...]:
    """Joins small neighbours of similar size, so that many small commits leave few slices and each row moves rarely."""
    result = list(slices)
    for part in new:
        result.append(part)
        while len(result) > 1:
            left, right = result[-2].rows.num_rows, result[-1].rows.num_rows
            if left > 2 * right or left + right > _SLICE_ROWS:
                break
            right_slice = result.pop()
            result.append(result.pop().join(right_slice))
    return tuple(result)


def _is_in(arrays: list[pa.StringArray], values: pa.ChunkedArray) -> list[pa.BooleanArray]:
    # One call for all arrays: Arrow builds its hash table of the values once.
    mask = pc.is_in(pa.chunked_array(arrays, pa.string()), value_set=values.combine_chunks())
    result = []
    start = 0
    for array in arrays:
        result.append(mask.slice(start, len(array)))
        start += len(array)
    return result


def _refuse_second_vector(survivors: tuple[_Slice, ...], new: list[_Slice]) -> None:
    if not survivors or not new:
        return
    new_paths = pa.chunked_array([part.canonical for part in new], pa.string())
    clash = pc.is_in(
        pa.chunked_array([part.canonical for part in survivors], pa.string()), value_set=new_paths.combine_chunks()
    )
    if pc.any(clash).as_py():
        position = pc.index(clash, value=True).as_py()
        _refuse_path(pa.chunked_array([part.canonical for part in survivors], pa.string())[position].as_py())


def _refuse_repeats(slices: Iterable[_Slice]) -> None:
    paths = pa.chunked_array([part.canonical for part in slices], pa.string())
    if len(pc.unique(paths)) == len(paths):
        return
    counts = pc.value_counts(paths)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    _refuse_path(repeated.field("values")[0].as_py())


def _refuse_path(path: str) -> NoReturn:
    raise CorruptTableError(
        f"the file '{path}' is live more than once, which would return its rows twice: an action changed its deletion "
        "vector without removing the old (path, deletion vector) pair",
        error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
    )
