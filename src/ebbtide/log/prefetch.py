"""How are many small objects read without waiting for each in turn?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["prefetched"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Enough to hide an object store's latency, few enough that the results in waiting stay small.
_AHEAD = 16


def prefetched(function: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
    """`map(function, items)`, in order, with a bounded number of calls under way. An error surfaces at its item."""
    if len(items) <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(max_workers=min(_AHEAD, len(items)), thread_name_prefix="ebbtide-log") as pool:
        under_way: deque[Future[_Result]] = deque()
        try:
            for item in items:
                under_way.append(pool.submit(function, item))
                if len(under_way) >= _AHEAD:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()
