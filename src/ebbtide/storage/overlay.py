"""What would a command write? A store whose writes stay in memory, for dry runs.

Reads see what was written here, and below it the real store, which is never changed. Only what goes through the store
is held back: files that Spark writes are not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock

from ebbtide.errors import CorruptTableError, ObjectExistsError, ObjectNotFoundError, StorageError
from ebbtide.storage.names import is_after, utf8_order, validate_path, validate_prefix, validate_range
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["OverlayStore"]


@dataclass(frozen=True, slots=True)
class OverlayStore:
    """`inner` with the objects that were put here, and without those that were deleted here."""

    inner: ObjectStore
    _written: dict[str, tuple[bytes, int]] = field(default_factory=dict, repr=False)
    _deleted: set[str] = field(default_factory=set, repr=False)
    _lock: RLock = field(default_factory=RLock, repr=False)

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def spark_path(self) -> str:
        return self.inner.spark_path

    @property
    def spark_options(self) -> Mapping[str, str]:
        return self.inner.spark_options

    def list(self, prefix: str, *, start_after: str | None = None, in_order: bool = True) -> Iterator[ObjectMeta]:
        below = self.inner.list(prefix, start_after=start_after, in_order=in_order)
        return self._merge(below, validate_prefix(prefix), start_after, is_deep=True)

    def list_directory(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        below = self.inner.list_directory(prefix, start_after=start_after)
        return self._merge(below, validate_prefix(prefix), start_after, is_deep=False)

    def head(self, path: str) -> ObjectMeta:
        if path in self._written:
            return self._meta(path)
        self._refuse_deleted(path)
        return self.inner.head(path)

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        if path not in self._written:
            self._refuse_deleted(path)
            return self.inner.read(path, max_bytes=max_bytes)
        data = self._written[path][0]
        if max_bytes is not None and len(data) > max_bytes:
            raise CorruptTableError(f"{self.url}/{path} would be {len(data)} bytes long; at most {max_bytes} are read.")
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        if path not in self._written:
            self._refuse_deleted(path)
            return self.inner.read_range(path, offset, length)
        validate_range(path, offset, length)
        return self._written[path][0][offset : offset + length]

    def put_if_absent(self, path: str, data: bytes) -> None:
        with self._lock:
            try:
                self.head(path)
            except ObjectNotFoundError:
                self.put(path, data)
                return
        raise ObjectExistsError(f"Could not create {self.url}/{path}: it exists already.")

    def put(self, path: str, data: bytes) -> None:
        with self._lock:
            self._deleted.discard(path)
            self._written[validate_path(path)] = (data, int(time.time() * 1000))

    def delete(self, path: str) -> None:
        with self._lock:
            self._written.pop(path, None)
            self._deleted.add(validate_path(path))

    def delete_all(self, paths: Sequence[str]) -> Mapping[str, StorageError]:
        for path in [validate_path(path) for path in paths]:
            self.delete(path)
        return {}

    def _meta(self, path: str) -> ObjectMeta:
        data, at_ms = self._written[path]
        return ObjectMeta(path, len(data), at_ms)

    def _refuse_deleted(self, path: str) -> None:
        if path in self._deleted:
            raise ObjectNotFoundError(f"Could not read {self.url}/{path}: it does not exist.")

    def _merge(
        self, below: Iterator[ObjectMeta], prefix: str, start_after: str | None, *, is_deep: bool
    ) -> Iterator[ObjectMeta]:
        base = f"{prefix}/" if prefix else ""
        own = [
            self._meta(path)
            for path in list(self._written)
            if path.startswith(base) and is_after(path, start_after) and (is_deep or "/" not in path[len(base) :])
        ]
        kept = [meta for meta in below if meta.path not in self._deleted and meta.path not in self._written]
        return iter(sorted([*own, *kept], key=lambda meta: utf8_order(meta.path)))
