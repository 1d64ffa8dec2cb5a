"""Does the thousandth commit cost what the hundredth did?

Counted, not timed: what a commit asks of storage. `python -m bench` measures the time of the same thing.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.arrow_deletes import Condition, delete_without_spark
from tests.support.log_builder import MemoryStore
from tests.support.races import new_data_file
from tests.support.stores import HookedStore
from tests.support.transactions import DV_TABLE, FakeTime, make_table, operation

from ebbtide.log import load_snapshot
from ebbtide.transaction import Transaction

INTERVAL = 10


class MeteredStore(HookedStore):
    """Counts calls by kind, and how much came back: bytes that were read, names that were listed."""

    def __init__(self, inner):
        super().__init__(inner)
        self.meter = Counter()

    def list_directory(self, prefix, *, start_after=None):
        found = [*super().list_directory(prefix, start_after=start_after)]
        self.meter["names listed"] += len(found)
        return iter(found)

    def read(self, path, *, max_bytes=None):
        data = super().read(path, max_bytes=max_bytes)
        self.meter["bytes of commits read"] += len(data) if path.endswith(".json") else 0
        return data

    def _call(self, op, path, operation):
        self.meter[op] += 1
        return super()._call(op, path, operation)


def costs_of(commits, commit):
    """What each commit cost; `commit(store)` makes one version."""
    store = MeteredStore(make_table(MemoryStore(), **DV_TABLE))
    costs = []
    for _ in range(commits):
        store.meter.clear()
        commit(store)
        costs.append(dict(store.meter))
    return costs


def by_place_in_interval(costs, interval):
    """The costs of one stretch between checkpoints, by how far the commit is from the last one."""
    first = interval * INTERVAL
    return costs[first : first + INTERVAL]


@pytest.mark.parametrize("keeps_snapshot", [True, False], ids=["one writer", "a new writer each time"])
def test_commit_costs_the_same_however_long_the_log_is(keeps_snapshot):
    """A writer that keeps its snapshot pays the same always; a new one pays for the commits since the last checkpoint."""
    last = [None]

    def append(store):
        hint = last[0] if keeps_snapshot else None
        transaction = Transaction.begin(store, hint=hint, clock=FakeTime().clock)
        file = new_data_file(store.inner, [1])
        last[0] = transaction.commit([file], operation()).snapshot

    costs = costs_of(31 * INTERVAL, append)
    early, late = by_place_in_interval(costs, 3), by_place_in_interval(costs, 30)
    for cost, before in zip(late, early, strict=True):
        for kind in {*cost, *before}:
            assert cost.get(kind, 0) <= 1.1 * before.get(kind, 0) + 1, f"{kind}: {before} became {cost}"
    if keeps_snapshot:
        # The end of the log is listed three times: to begin, to see that it is still the same log, and after the put.
        # A handful of the hundreds of names that it holds by then; the commit with a checkpoint also cleans up.
        assert max(cost["list_directory"] for cost in late[:-1]) == 3
        assert max(cost["names listed"] for cost in late[:-1]) <= 3 * 5


def test_delete_of_one_row_costs_the_same_however_often_it_was_done_before():
    deleted = iter(range(10_000))

    def delete(store):
        number = next(deleted)
        if number == 0:
            file = new_data_file(store.inner, range(10_000))
            Transaction.begin(store, clock=FakeTime().clock).commit([file], operation())
        assert delete_without_spark(store, Condition("in", (number,))).num_affected_rows == 1

    costs = costs_of(12 * INTERVAL, delete)
    early, late = by_place_in_interval(costs, 2), by_place_in_interval(costs, 11)
    for cost, before in zip(late, early, strict=True):
        assert {kind: cost[kind] for kind in ("put_if_absent", "read", "list_directory")} == {
            kind: before[kind] for kind in ("put_if_absent", "read", "list_directory")
        }


def test_snapshot_of_a_long_log_reads_no_more_than_one_interval_of_commits():
    store = MeteredStore(make_table(MemoryStore(), **DV_TABLE))
    for _ in range(5 * INTERVAL + 4):
        file = new_data_file(store.inner, [1])
        Transaction.begin(store, clock=FakeTime().clock).commit([file], operation())
    store.meter.clear()
    store.calls.clear()
    assert load_snapshot(store).version == 5 * INTERVAL + 4
    assert sum(1 for op, path in store.calls if op == "read" and path.endswith(".json")) <= INTERVAL
