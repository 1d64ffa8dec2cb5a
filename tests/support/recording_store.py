"""What did the code under test ask of the store?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.errors import StorageError
from ebbtide.storage import ObjectMeta, ObjectStore

__all__ = ["RecordingStore"]


@dataclass
class RecordingStore:
    """Hands everything to `inner` and writes down ranged reads and conditional puts."""

    inner: ObjectStore
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    puts: list[tuple[str, bytes]] = field(default_factory=list)

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
        return self.inner.list(prefix, start_after=start_after, in_order=in_order)

    def list_directory(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return self.inner.list_directory(prefix, start_after=start_after)

    def head(self, path: str) -> ObjectMeta:
        return self.inner.head(path)

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return self.inner.read(path, max_bytes=max_bytes)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.reads.append((path, offset, length))
        return self.inner.read_range(path, offset, length)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self.puts.append((path, data))
        self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self.inner.put(path, data)

    def delete(self, path: str) -> None:
        self.inner.delete(path)

    def delete_all(self, paths: Sequence[str]) -> Mapping[str, StorageError]:
        return self.inner.delete_all(paths)
