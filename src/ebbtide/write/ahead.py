"""How is a write started before it is known whether it is needed?

It runs in its own thread, so that Spark works on both at once: a write of a few large parts leaves cores idle that a
search can use, and the other way round. The caller takes the files that were written; otherwise they are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ebbtide import spark_border as border
from ebbtide.storage import ObjectStore
from ebbtide.write.abandoned import discard
from ebbtide.write.target import WrittenFiles

__all__ = ["WriteAhead", "write_ahead"]

_LOGGER = logging.getLogger(__name__)


class WriteAhead:
    """A write on its way."""

    def __init__(self, store: ObjectStore, running: Future[WrittenFiles]) -> None:
        self._store = store
        self._running = running
        self._is_taken = False

    def take(self) -> WrittenFiles:
        """The files that were written, which now belong to the caller. Raises what the write raised."""
        written = self._running.result()
        self._is_taken = True
        return written

    def leave(self) -> None:
        """Delete the files, unless they were taken."""
        if self._is_taken:
            return
        error = self._running.exception()
        if error is None:
            discard(self._store, [self._running.result()])
        else:
            # The write has deleted its own files, and nobody needs it any more.
            _LOGGER.debug("A write that nobody needed ended with: %s", error)


@contextmanager
def write_ahead(spark: SparkSession, store: ObjectStore, write: Callable[[], WrittenFiles]) -> Iterator[WriteAhead]:
    """Run `write` beside the block. Files that the block did not take are deleted when it ends, however it ends."""
    with ThreadPoolExecutor(1, "ebbtide-write-ahead") as pool:
        target, interrupt = border.interruptible(spark, write)
        ahead = WriteAhead(store, pool.submit(target))
        try:
            yield ahead
        except BaseException:
            interrupt()
            raise
        finally:
            ahead.leave()
