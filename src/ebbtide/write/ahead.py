"""How is a write begun while others still find out whether it is needed?

It runs in a thread of its own, so that Spark works on both at once: a write of few large parts and a search leave cores
idle that the other can use. Whoever began it takes what it wrote, or leaves it, and then it is deleted.
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

__all__ = ["WriteAhead", "writing_ahead"]

_LOGGER = logging.getLogger(__name__)


class WriteAhead:
    """A write on its way."""

    def __init__(self, store: ObjectStore, running: Future[WrittenFiles]) -> None:
        self._store = store
        self._running = running
        self._is_taken = False

    def taken(self) -> WrittenFiles:
        """What was written, which from now on belongs to the caller; what went wrong with it is raised."""
        written = self._running.result()
        self._is_taken = True
        return written

    def leave(self) -> None:
        """Delete it, unless it was taken."""
        if self._is_taken:
            return
        error = self._running.exception()
        if error is None:
            discard(self._store, [self._running.result()])
        else:
            # It has deleted its own files, and nobody needs it any more.
            _LOGGER.debug("A write that nobody needed ended with: %s", error)


@contextmanager
def writing_ahead(spark: SparkSession, store: ObjectStore, write: Callable[[], WrittenFiles]) -> Iterator[WriteAhead]:
    """`write` runs beside the block. What the block did not take is deleted when it ends, however it ends."""
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
