"""How are many small objects read without waiting for each in turn?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ebbtide.storage.store import ObjectStore, is_local

__all__ = ["choose_read_ahead", "prefetch"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Enough to hide an object store's latency, few enough that the waiting results stay small.
_AHEAD = 16


def choose_read_ahead(store: ObjectStore) -> int:
    """How many calls for small objects are worth making at once.

    On a local disk there is nothing to wait for, and starting threads takes longer than reading a commit.
    """
    return 1 if is_local(store) else _AHEAD


def prefetch(function: Callable[[_Item], _Result], items: Sequence[_Item], *, ahead: int = _AHEAD) -> Iterator[_Result]:
    """`map(function, items)`, in order, with at most `ahead` calls under way. An error surfaces at its item."""
    if len(items) <= 1 or ahead <= 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(max_workers=min(ahead, len(items)), thread_name_prefix="ebbtide-read")
    under_way: deque[Future[_Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(function, item))
            if len(under_way) >= ahead:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        # Never wait for the threads here. When a reader gives up (an error further on), this runs inside the garbage
        # collector, at any allocation of any thread; joining there can wait for a lock that the same thread holds.
        pool.shutdown(wait=False, cancel_futures=True)
