"""Are objects read ahead in order, and does a reader that gives up leave nothing waiting?"""

from __future__ import annotations

import gc
import threading

import pytest

from ebbtide.storage import open_store
from ebbtide.storage.prefetch import choose_read_ahead, prefetch


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 100])
def test_results_come_in_the_order_of_their_items(count):
    assert list(prefetch(lambda n: n * n, range(count))) == [n * n for n in range(count)]


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
def test_no_more_calls_than_asked_are_under_way(ahead):
    threads = set()
    results = list(prefetch(lambda n: threads.add(threading.current_thread().name) or n, range(20), ahead=ahead))
    assert results == list(range(20))
    assert len(threads) <= max(1, ahead)
    assert ("MainThread" in threads) == (ahead < 2)


def test_threads_are_for_stores_that_are_far_away(tmp_path):
    assert choose_read_ahead(open_store(str(tmp_path))) == 1
    assert choose_read_ahead(open_store("s3://bucket/table", {"aws_region": "x"})) > 1


def test_an_error_surfaces_at_its_item():
    results = prefetch(lambda n: 1 // (n - 3), range(5))
    assert [next(results) for _ in range(3)] == [-1, -1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("abandon", ["close", "forget"])
def test_reader_that_gives_up_does_not_wait_for_calls_under_way(abandon):
    """The garbage collector may end it, inside any thread and any lock: waiting for a thread there can be for ever."""
    may_end = threading.Event()
    calls = []

    def call(number):
        calls.append(number)
        if number:
            may_end.wait(60)
        return number

    results = prefetch(call, range(100))
    assert next(results) == 0
    if abandon == "close":
        results.close()
    else:
        del results
        gc.collect()
    waiting = [thread for thread in threading.enumerate() if thread.name.startswith("ebbtide-read")]
    assert waiting
    may_end.set()
    for thread in waiting:
        thread.join(60)
    assert len(calls) <= 17
