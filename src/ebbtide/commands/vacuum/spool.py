"""Where do ten million paths wait until they are deleted?

In a temporary file, once they no longer fit a few megabytes of memory: what a VACUUM would delete has to be counted
before anything is deleted, and a failed job may have left any number of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import Final

__all__ = ["PathSpool"]

_MEMORY_BYTES: Final = 16 * 1024 * 1024
_READ_BYTES: Final = 1024 * 1024


class PathSpool:
    """Paths and their sizes, written by any number of threads and then read as often as needed, in no order."""

    def __init__(self) -> None:
        # Open as long as the spool is used; the file has no name and goes with it.
        self._file = SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115
        self._lock = Lock()
        self._count = 0
        self.size_in_bytes = 0

    def extend(self, found: Iterable[tuple[str, int]]) -> None:
        records = [(path, size) for path, size in found]
        # No path holds a NUL.
        data = b"".join(f"{size}/{path}\0".encode() for path, size in records)
        with self._lock:
            self._file.write(data)
            self._count += len(records)
            self.size_in_bytes += sum(size for _, size in records)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return (path for path, _ in self.items())

    def items(self) -> Iterator[tuple[str, int]]:
        at, rest = 0, b""
        while True:
            with self._lock:
                self._file.seek(at)
                chunk = self._file.read(_READ_BYTES)
                self._file.seek(0, 2)
            if not chunk:
                return
            at += len(chunk)
            *records, rest = (rest + chunk).split(b"\0")
            for record in records:
                size, _, path = record.decode().partition("/")
                yield path, int(size)
