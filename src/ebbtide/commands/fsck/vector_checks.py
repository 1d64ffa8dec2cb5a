"""Can every deletion vector of these files be read, and does it mark as many rows as the log says?

Vectors that share a file share its reads. When one of them is broken, each is read alone, so that the others are not
blamed for it. Whether the marked rows exist in the data file is for the caller, who knows how many rows it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from ebbtide.commands.fsck import findings
from ebbtide.commands.fsck.findings import Finding
from ebbtide.deletion_vectors import load_all
from ebbtide.errors import CorruptTableError, MissingDataFileError, UnsupportedFeatureError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor

__all__ = ["VectorCheck", "check_vectors", "vector_path"]

_WRONG_CARDINALITY: Final = "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH"
# Marks of this many rows are held at once; a bitmap takes at most a few bytes per row.
_ROWS_AT_ONCE: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class VectorCheck:
    """What came of one file's vector: the highest marked row (None: no row), or what is wrong."""

    highest_row: int | None = None
    finding: Finding | None = None


def check_vectors(
    snapshot: Snapshot, adds: Sequence[AddFile], storage_options: Mapping[str, str] | None
) -> dict[int, VectorCheck]:
    """By position in `adds`; files without a vector are not in the answer."""
    found: dict[int, VectorCheck] = {}
    with_vector = [(index, add) for index, add in enumerate(adds) if add.deletion_vector is not None]
    for group in _groups(with_vector):
        try:
            highest = _highest_rows(snapshot, [add for _, add in group], storage_options)
            found.update((index, VectorCheck(row)) for (index, _), row in zip(group, highest, strict=True))
        except (CorruptTableError, UnsupportedFeatureError):
            found.update((index, _check_one(snapshot, add, storage_options)) for index, add in group)
    return found


def vector_path(descriptor: DeletionVectorDescriptor, table_url: str) -> str:
    """The vector's file below the root where it is there, its URL elsewhere; the log for an inline vector."""
    if descriptor.is_inline:
        return "_delta_log"
    if descriptor.is_relative:
        return descriptor.relative_path
    path, root = descriptor.absolute_path(table_url), unquote(table_url).rstrip("/").replace("file:///", "file:/", 1)
    return path.removeprefix(f"{root}/")


def _groups(with_vector: Sequence[tuple[int, AddFile]]) -> Iterator[list[tuple[int, AddFile]]]:
    group: list[tuple[int, AddFile]] = []
    rows = 0
    for item in sorted(with_vector, key=lambda item: item[1].dv_id or ""):
        if group and rows + item[1].num_marked_rows > _ROWS_AT_ONCE:
            yield group
            group, rows = [], 0
        group.append(item)
        rows += item[1].num_marked_rows
    if group:
        yield group


def _highest_rows(
    snapshot: Snapshot, adds: Sequence[AddFile], storage_options: Mapping[str, str] | None
) -> list[int | None]:
    descriptors = [add.deletion_vector for add in adds if add.deletion_vector is not None]
    store, config = snapshot.store, snapshot.config
    loaded = load_all(store, store.url, descriptors, config=config, storage_options=storage_options)
    return [rows.max() for rows in loaded]


def _check_one(snapshot: Snapshot, add: AddFile, storage_options: Mapping[str, str] | None) -> VectorCheck:
    descriptor = add.deletion_vector
    assert descriptor is not None, "only files with a vector are checked"
    path, version, data_path = vector_path(descriptor, snapshot.store.url), snapshot.version, unquote(add.path)
    try:
        return VectorCheck(_highest_rows(snapshot, [add], storage_options)[0])
    except MissingDataFileError:
        return VectorCheck(finding=findings.missing_vector_file(path, version, data_path))
    except UnsupportedFeatureError as error:
        return VectorCheck(finding=findings.not_checked(path, version, error))
    except CorruptTableError as error:
        is_count = error.error_class == _WRONG_CARDINALITY
        say = findings.vector_cardinality if is_count else findings.corrupt_vector
        return VectorCheck(finding=say(path, version, data_path, error))
