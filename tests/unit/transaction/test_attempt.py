"""What does a writer believe when storage does not answer clearly?"""

from __future__ import annotations

import pytest
from tests.support.log_builder import MemoryStore
from tests.support.stores import HookedStore
from tests.support.transactions import FakeTime

from ebbtide.errors import CommitOutcomeUnknownError, ObjectExistsError, PermissionDeniedError, StorageError
from ebbtide.storage import PutOutcomeUnknownError
from ebbtide.transaction.attempt import put_commit

PATH = "_delta_log/00000000000000000005.json"
OURS = b'{"commitInfo":{"txnId":"ours"}}\n{"add":{}}\n'
THEIRS = b'{"commitInfo":{"txnId":"theirs"}}\n{"add":{}}\n'


class Scripted(HookedStore):
    """Each put follows the next word of the script; `reads` that are False fail."""

    def __init__(self, *puts, reads=()):
        super().__init__(MemoryStore())
        self.puts = list(puts)
        self.readable = list(reads)

    def put_if_absent(self, path, data):
        self.calls.append(("put_if_absent", path))
        word = self.puts.pop(0) if self.puts else "normal"
        if word == "lost before":
            raise PutOutcomeUnknownError("no answer")
        if word == "refused":
            raise PermissionDeniedError("no more")
        if word == "rival first":
            self.inner.put_if_absent(path, THEIRS)
        self.inner.put_if_absent(path, data)
        if word == "lost after":
            raise PutOutcomeUnknownError("no answer")
        if word == "repeated":
            # The client sends the request again and reports what the second one was told.
            raise ObjectExistsError("exists")

    def read_range(self, path, offset, length):
        if self.readable and not self.readable.pop(0):
            raise StorageError("cannot read")
        return super().read_range(path, offset, length)


def attempt(store):
    time = FakeTime()
    return put_commit(store, 5, OURS, txn_id="ours", clock=time.clock), time


def test_put_that_succeeds_has_landed_without_another_look():
    store = Scripted()
    assert attempt(store)[0] is True
    assert len(store.calls) == 1


def test_version_that_holds_another_commit_is_lost():
    store = Scripted("rival first")
    assert attempt(store)[0] is False
    assert store.inner.objects[PATH] == THEIRS


def test_object_that_exists_because_the_client_repeated_its_request_is_ours():
    assert attempt(Scripted("repeated"))[0] is True


def test_answer_lost_after_the_put_took_effect_is_found_out():
    store = Scripted("lost after")
    landed, time = attempt(store)
    assert landed is True
    assert time.waits == []
    assert [op for op, _ in store.calls] == ["put_if_absent", "read_range"]


def test_answer_lost_before_the_put_took_effect_is_put_again_with_the_same_bytes():
    store = Scripted("lost before")
    assert attempt(store)[0] is True
    assert store.inner.objects[PATH] == OURS


def test_put_under_way_that_takes_effect_late_is_recognised():
    """The first put is still travelling; the second finds the object it made."""
    store = Scripted("lost before", "repeated")
    assert attempt(store)[0] is True


def test_rival_that_comes_in_while_the_outcome_is_open_has_won():
    assert attempt(Scripted("lost before", "rival first"))[0] is False


def test_look_that_fails_is_repeated_with_growing_waits():
    store = Scripted("lost after", "normal", "normal", reads=[False, False])
    landed, time = attempt(store)
    assert landed is True
    assert time.waits == [0.01, 0.02]


def test_outcome_that_stays_open_is_an_error_that_says_how_to_find_out():
    store = Scripted(*["lost after"], reads=[False] * 99)
    with pytest.raises(CommitOutcomeUnknownError) as caught:
        attempt(store)
    for part in ("version 5", "memory://tests/table", PATH, "txnId ours", "Nothing was cleaned up", "txnAppId"):
        assert part in str(caught.value)
    assert store.inner.objects[PATH] == OURS
    assert not any(op == "delete" for op, _ in store.calls)


def test_refusal_after_an_open_outcome_does_not_close_it():
    store = Scripted("lost after", "refused", "refused", "refused", "refused", reads=[False] * 99)
    with pytest.raises(CommitOutcomeUnknownError):
        attempt(store)


def test_plain_refusal_is_passed_on_because_nothing_was_created():
    store = Scripted("refused")
    with pytest.raises(PermissionDeniedError):
        attempt(store)
    assert len(store.calls) == 1
    assert store.inner.objects == {}


def test_commit_that_merely_begins_like_ours_is_not_ours():
    store = Scripted()
    store.inner.put_if_absent(PATH, OURS[:20])
    assert attempt(store)[0] is False
