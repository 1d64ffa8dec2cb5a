"""How are very many files deleted quickly, and what happens to those that cannot be deleted?

In batches, a few at a time: a batch is one request where the service deletes in bulk. A file that cannot be deleted is
noted and the others go on; it is still an orphan for the next VACUUM.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ebbtide.errors import StorageError
from ebbtide.storage import ObjectStore
from ebbtide.storage.unlinked import remove_directory

__all__ = ["Deletion"]

# What S3 takes in one request.
BATCH: Final = 1000
_THREADS: Final = 8
# Enough to see what is wrong; a million names would not help more.
_NAMED_FAILURES: Final = 1000


@dataclass(slots=True)
class Deletion:
    """Deletes, and counts what was deleted."""

    store: ObjectStore
    num_deleted: int = 0
    num_failed: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    def delete_files(self, paths: Iterable[str], on_deleted: Callable[[int], None]) -> None:
        under_way: deque[tuple[int, Future[dict[str, str]]]] = deque()
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ebbtide-delete")
        try:
            for batch in _batches(iter(paths)):
                under_way.append((len(batch), pool.submit(self._delete_batch, batch)))
                if len(under_way) >= 2 * _THREADS:
                    self._take(*under_way.popleft(), on_deleted)
            while under_way:
                self._take(*under_way.popleft(), on_deleted)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def remove_directories(self, paths: Iterable[str]) -> None:
        """Remove empty directories, in the given order; one that is not empty any more stays."""
        for path in paths:
            try:
                self.num_deleted += remove_directory(self.store, path)
            except StorageError as error:
                self._note(path, str(error))

    def _delete_batch(self, batch: list[str]) -> dict[str, str]:
        return {path: str(error) for path, error in self.store.delete_all(batch).items()}

    def _take(self, count: int, done: Future[dict[str, str]], on_deleted: Callable[[int], None]) -> None:
        failed = done.result()
        self.num_deleted += count - len(failed)
        for path, reason in failed.items():
            self._note(path, reason)
        on_deleted(self.num_deleted)

    def _note(self, path: str, reason: str) -> None:
        self.num_failed += 1
        if len(self.failures) < _NAMED_FAILURES:
            self.failures[path] = reason


def _batches(paths: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(paths, BATCH)):
        yield batch
