"""How do new marks become deletion-vector files and descriptors?

`write_deletion_vectors` unites each file's new marks with its old vector, packs the results into `.bin` files below the
table root, and returns the descriptors. A descriptor is returned only after its file has been stored durably, so a
commit can never name a file that is not there. A file that no commit ends up naming is an orphan for VACUUM.
Nothing is ever overwritten.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID, uuid4

from ebbtide.config import DEFAULT_CONFIG
from ebbtide.deletion_vectors.bitmap import RowIndexSet
from ebbtide.deletion_vectors.container import FRAMING_BYTES, VERSION_HEADER, frame
from ebbtide.errors import ObjectExistsError, RequestError
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.storage import ObjectStore, PutOutcomeUnknownError

__all__ = ["DeletionVectorResult", "NewMarks", "write_deletion_vectors"]

Key = TypeVar("Key")

_PREFIX_CHARACTERS = string.ascii_letters + string.digits
_MAX_INT32 = 2**31 - 1
_TARGET_LIMIT_BYTES = 3 * 2**29  # 1.5 GiB: the offset of one more vector still fits 31 bits
_PUT_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class NewMarks(Generic[Key]):
    """The rows that one operation marks in one data file, besides those marked before.

    `key` lets the caller recognise the result. `existing` is the file's old descriptor and `existing_rows` its
    loaded rows; both or neither.
    """

    key: Key
    rows: RowIndexSet
    existing: DeletionVectorDescriptor | None = None
    existing_rows: RowIndexSet | None = None

    def __post_init__(self) -> None:
        if (self.existing is None) != (self.existing_rows is None):
            raise RequestError("An existing deletion vector is given by its descriptor and its rows, both or neither.")


@dataclass(frozen=True, slots=True)
class DeletionVectorResult(Generic[Key]):
    """The vector that holds old and new marks of one data file.

    `matched_row_count` counts the rows of this operation, whether or not they had been marked before.
    """

    key: Key
    descriptor: DeletionVectorDescriptor
    matched_row_count: int


def write_deletion_vectors(
    store: ObjectStore,
    marks: Iterable[NewMarks[Key]],
    *,
    target_bytes: int = DEFAULT_CONFIG.deletion_vector_target_bytes,
    prefix_length: int = 0,
    new_uuid: Callable[[], UUID] = uuid4,
    rng: random.Random | None = None,
) -> Iterator[DeletionVectorResult[Key]]:
    """One result per item of `marks`, in order, as soon as its file is stored.

    Vectors share a file in order of arrival until the next one would take it past `target_bytes`; one file is held in
    memory at a time. `prefix_length` random letters and digits become a directory above each file (object stores
    spread load by prefix). Without new marks the existing descriptor is returned unchanged, or `EMPTY`.
    """
    if not 0 <= target_bytes < _TARGET_LIMIT_BYTES:
        raise RequestError(f"The target size of deletion-vector files is {target_bytes}, not between 0 and 1.5 GiB.")
    files = _FileNames(prefix_length, new_uuid, rng or random.Random())
    return _write_bins(store, marks, target_bytes, files)


def _write_bins(
    store: ObjectStore, marks: Iterable[NewMarks[Key]], target_bytes: int, names: _FileNames
) -> Iterator[DeletionVectorResult[Key]]:
    current: _Bin[Key] = _Bin()
    for item in marks:
        new_payload = item.rows.serialize()
        estimate = _estimated_bytes(new_payload, item.existing)
        if current.results and current.estimated_bytes + estimate > target_bytes:
            yield from current.store(store, names)
            current = _Bin()
        current.add(item, new_payload, estimate)
    yield from current.store(store, names)


def _estimated_bytes(new_payload: bytes, existing: DeletionVectorDescriptor | None) -> int:
    """Estimated size of a vector in the file; how much of old and new coincides is not known yet."""
    existing_bytes = existing.size_in_bytes if existing is not None else 0
    return min(len(new_payload) + existing_bytes + FRAMING_BYTES, _MAX_INT32)


@dataclass(frozen=True, slots=True)
class _FileNames:
    prefix_length: int
    new_uuid: Callable[[], UUID]
    rng: random.Random

    def next(self) -> tuple[UUID, str]:
        return self.new_uuid(), "".join(self.rng.choices(_PREFIX_CHARACTERS, k=self.prefix_length))


@dataclass(frozen=True, slots=True)
class _PlacedVector:
    """A vector that has its place in a bin, but no file name yet."""

    offset: int
    size_in_bytes: int
    cardinality: int
    max_row_index: int | None


@dataclass(slots=True)
class _Bin(Generic[Key]):
    """The vectors of one future file. An item that needs no file is kept for the order of the results."""

    estimated_bytes: int = 0
    data: bytearray = field(default_factory=lambda: bytearray(VERSION_HEADER))
    results: list[tuple[NewMarks[Key], _PlacedVector | DeletionVectorDescriptor]] = field(default_factory=list)

    def add(self, item: NewMarks[Key], new_payload: bytes, estimate: int) -> None:
        self.estimated_bytes += estimate
        if not item.rows:
            self.results.append((item, item.existing or DeletionVectorDescriptor.EMPTY))
            return
        rows, payload = item.rows, new_payload
        if item.existing_rows is not None:
            rows = item.rows | item.existing_rows
            payload = rows.serialize()
        self.results.append((item, _PlacedVector(len(self.data), len(payload), len(rows), rows.max())))
        self.data += frame(payload)

    def store(self, store: ObjectStore, names: _FileNames) -> Iterator[DeletionVectorResult[Key]]:
        """Puts the file, if any vector needs one, and only then yields the descriptors."""
        file_name = _put_under_fresh_name(store, bytes(self.data), names) if self._needs_file() else None
        for item, placed in self.results:
            if isinstance(placed, _PlacedVector):
                assert file_name is not None
                uuid, prefix = file_name
                descriptor = DeletionVectorDescriptor.on_disk_with_relative_path(
                    uuid,
                    random_prefix=prefix,
                    offset=placed.offset,
                    size_in_bytes=placed.size_in_bytes,
                    cardinality=placed.cardinality,
                    max_row_index=placed.max_row_index,
                )
            else:
                descriptor = placed
            yield DeletionVectorResult(item.key, descriptor, len(item.rows))

    def _needs_file(self) -> bool:
        return len(self.data) > len(VERSION_HEADER)


def _put_under_fresh_name(store: ObjectStore, data: bytes, names: _FileNames) -> tuple[UUID, str]:
    """Names are random, so a name that is taken, or may be, is not worth a check: the next one will do.

    A store reports "exists" when its own lost request had succeeded after all; that object is then an orphan.
    """
    for _ in range(_PUT_ATTEMPTS - 1):
        try:
            return _put_once(store, data, names)
        except (ObjectExistsError, PutOutcomeUnknownError):
            continue
    return _put_once(store, data, names)


def _put_once(store: ObjectStore, data: bytes, names: _FileNames) -> tuple[UUID, str]:
    uuid, prefix = names.next()
    path = DeletionVectorDescriptor.assemble_deletion_vector_path("", uuid, prefix).lstrip("/")
    store.put_if_absent(path, data)
    return uuid, prefix
