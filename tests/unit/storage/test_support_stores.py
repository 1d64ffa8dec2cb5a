"""The wrappers that other tests lean on do what they say."""

from __future__ import annotations

from threading import Thread
from uuid import uuid4

import pytest
from tests.support.stores import FailingStore, HookedStore, PausingStore, SimulatedCrash

from ebbtide.errors import ObjectExistsError, StorageError
from ebbtide.storage import open_store


@pytest.fixture
def inner():
    return open_store(f"memory://{uuid4().hex}/t")


def test_hooks_see_every_operation_before_and_after_it(inner):
    seen = []
    store = HookedStore(
        inner, before=lambda op, path: seen.append(("before", op)), after=lambda op, path: seen.append(("after", op))
    )
    store.put_if_absent("a", b"1")
    store.put("a", b"12")
    assert store.read("a") == b"12"
    assert store.read_range("a", 1, 1) == b"2"
    assert store.head("a").size == 2
    assert [meta.path for meta in store.list("")] == [meta.path for meta in store.list_directory("")] == ["a"]
    store.delete("a")
    operations = ["put_if_absent", "put", "read", "read_range", "head", "list", "list_directory", "delete"]
    assert [op for op, _ in store.calls] == operations
    assert seen == [(when, op) for op in operations for when in ("before", "after")]
    assert (store.url, store.spark_path) == (inner.url, inner.spark_path)


def test_a_paused_writer_loses_to_the_one_that_went_ahead(inner):
    paused, outcome = PausingStore(inner, suffix="1.json"), []

    def write():
        try:
            paused.put_if_absent("1.json", b"late")
        except ObjectExistsError as error:
            outcome.append(error)

    writer = Thread(target=write)
    writer.start()
    paused.wait_until_reached()
    inner.put_if_absent("1.json", b"early")
    paused.resume()
    writer.join(60)
    assert len(outcome) == 1
    assert inner.read("1.json") == b"early"


@pytest.mark.parametrize("happens", [True, False])
def test_a_failing_store_fails_once_at_the_chosen_call(inner, happens):
    store = FailingStore(inner, StorageError("lost"), op="put_if_absent", at=1, happens=happens)
    store.put_if_absent("a", b"")
    store.put("z", b"")
    with pytest.raises(StorageError, match="lost"):
        store.put_if_absent("b", b"")
    store.put_if_absent("c", b"")
    assert [meta.path for meta in inner.list("")] == (["a", "b", "c", "z"] if happens else ["a", "c", "z"])


def test_after_a_simulated_crash_nothing_more_happens(inner):
    store = FailingStore(inner, SimulatedCrash())
    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            store.put("a", b"")
    assert list(inner.list("")) == []
