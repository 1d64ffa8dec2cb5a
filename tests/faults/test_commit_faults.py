"""Is the table old or new, and never anything else, whatever storage does during a commit?

One transaction is run once for every storage call it makes, and at that call storage fails in one of the ways it can:
it refuses, its answer is lost before or after the call took effect, the client sends the request twice, the process
dies. Afterwards the table must open at the old or the new version, an error must mean what it says, and the next writer
must get through. A second transaction does the same while a rival commits in between, so that the way of the loser is
covered call by call as well.
"""

from __future__ import annotations

import pytest
from tests.support.log_builder import MemoryStore
from tests.support.stores import HookedStore, SimulatedCrash
from tests.support.transactions import FakeTime, add_file, append, live_paths, make_table, operation, remove_of

from ebbtide.errors import CommitOutcomeUnknownError, DeltaError, ObjectExistsError, StorageError
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import SetTransaction
from ebbtide.storage import PutOutcomeUnknownError, open_store
from ebbtide.transaction import Rebased, Transaction

OLD = add_file("old")
# Every commit makes a checkpoint, so the work after the commit is part of the run.
TABLE = {"configuration": {"delta.checkpointInterval": "1"}}
SENT = SetTransaction("job", 1)


class FaultyStore(HookedStore):
    """Call number `at` (and with `lasting` all after it) goes wrong in the way that `fault` names."""

    def __init__(self, inner, fault, at, *, lasting=False):
        super().__init__(inner)
        self.fault = fault
        self.at = at
        self.lasting = lasting

    @property
    def is_due(self):
        number = len(self.calls) - 1
        return number == self.at or (number > self.at and (self.lasting or self.fault.startswith("crash")))

    def _call(self, op, path, call):
        self.calls.append((op, path))
        if not self.is_due:
            return call()
        if self.fault == "crash before":
            raise SimulatedCrash
        if self.fault == "refused":
            raise StorageError("refused")
        if self.fault == "lost before":
            raise self._no_answer(op)
        result = call()
        if self.fault == "crash after":
            raise SimulatedCrash
        if self.fault == "lost after":
            raise self._no_answer(op)
        assert self.fault == "sent twice"
        return call() if op != "list" else result

    def _no_answer(self, op):
        return PutOutcomeUnknownError("no answer") if op.startswith("put") else StorageError("no answer")


FAULTS = ["refused", "lost before", "lost after", "sent twice", "crash before", "crash after"]


def replace_old_by_new(store):
    """The transaction under test: removes `old`, adds `new`, and follows winners."""

    def actions(snapshot):
        return (*(remove_of(file) for file in snapshot.add_files() if file.path == "old"), add_file("new"))

    def rebase(lost):
        return Rebased(actions(lost.newest), operation())

    transaction = Transaction.begin(store, clock=FakeTime().clock)
    return transaction.commit(actions(transaction.snapshot), operation(), rebase=rebase, set_transaction=SENT)


class RivalFirst(HookedStore):
    """Commits a file of its own just before our first commit reaches the store."""

    def put_if_absent(self, path, data):
        if path.endswith("1.json") and path not in self.inner.objects:
            append(self.inner, "rival")
        super().put_if_absent(path, data)


def number_of_calls(wrap):
    store = HookedStore(wrap(make_table(None, OLD, **TABLE)))
    replace_old_by_new(store)
    return len(store.calls)


ALONE = number_of_calls(lambda store: store)
WITH_RIVAL = number_of_calls(RivalFirst)


def outcome_of(store):
    """`landed`, `refused` (certainly not landed), `unknown` or `crashed`."""
    try:
        assert replace_old_by_new(store).is_new_version
    except SimulatedCrash:
        return "crashed"
    except CommitOutcomeUnknownError:
        return "unknown"
    except DeltaError:
        return "refused"
    return "landed"


def assert_old_or_new(inner, outcome, *, others=frozenset()):
    snapshot = load_snapshot(inner)
    live = {file.path for file in snapshot.add_files()}
    assert live in ({"old", *others}, {"new", *others})
    has_landed = "new" in live
    assert has_landed == ("job" in snapshot.transactions)
    if outcome == "landed":
        assert has_landed
    if outcome == "refused":
        assert not has_landed


def assert_next_writers_work(inner, *, others=frozenset()):
    """Somebody appends, and the interrupted work is sent again: it must be there exactly once."""
    version = load_snapshot(inner).version
    assert append(inner, "next").version == version + 1
    replace_old_by_new(inner)
    assert live_paths(inner) == {"new", "next", *others}
    again = replace_old_by_new(inner)
    assert again.already_executed
    assert load_snapshot(inner).version == again.version


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", range(ALONE))
def test_fault_at_any_call_leaves_the_table_old_or_new(at, fault):
    inner = make_table(None, OLD, **TABLE)
    store = FaultyStore(inner, fault, at)
    outcome = outcome_of(store)
    assert len(store.calls) > at
    assert_old_or_new(inner, outcome)
    assert_next_writers_work(inner)


@pytest.mark.parametrize("fault", ["refused", "lost after", "sent twice", "crash after"])
@pytest.mark.parametrize("at", range(WITH_RIVAL))
def test_fault_at_any_call_of_a_loser_loses_neither_commit(at, fault):
    inner = make_table(None, OLD, **TABLE)
    outcome = outcome_of(FaultyStore(RivalFirst(inner), fault, at))
    # A fault before the put ends the run before the rival comes.
    others = frozenset({"rival"} & live_paths(inner))
    assert_old_or_new(inner, outcome, others=others)
    assert_next_writers_work(inner, others=others)


@pytest.mark.parametrize("fault", ["refused", "lost before", "lost after"])
@pytest.mark.parametrize("at", range(ALONE))
def test_storage_that_never_comes_back_leaves_the_table_old_or_new(at, fault):
    inner = make_table(None, OLD, **TABLE)
    outcome = outcome_of(FaultyStore(inner, fault, at, lasting=True))
    assert_old_or_new(inner, outcome)
    assert_next_writers_work(inner)


@pytest.mark.parametrize("fault", ["lost before", "lost after"])
def test_outcome_is_unknown_only_when_nobody_can_tell(fault):
    """The put goes unanswered and nothing can be read any more."""
    inner = make_table(None, OLD, **TABLE)
    counting = HookedStore(make_table(None, OLD, **TABLE))
    replace_old_by_new(counting)
    put = [op for op, _ in counting.calls].index("put_if_absent")
    store = FaultyStore(inner, fault, put, lasting=True)
    with pytest.raises(CommitOutcomeUnknownError, match="txnId"):
        replace_old_by_new(store)
    assert not any(op == "delete" for op, _ in store.calls)
    assert_next_writers_work(inner)


def test_single_lost_answer_never_reaches_the_caller():
    for fault in ("lost before", "lost after", "sent twice"):
        inner = make_table(None, OLD, **TABLE)
        counting = HookedStore(make_table(None, OLD, **TABLE))
        replace_old_by_new(counting)
        put = [op for op, _ in counting.calls].index("put_if_absent")
        assert outcome_of(FaultyStore(inner, fault, put)) == "landed"


@pytest.mark.parametrize("at", range(ALONE))
def test_crash_on_disk_leaves_the_table_old_or_new(at, tmp_path):
    inner = open_store(str(tmp_path))
    make_table(inner, OLD, **TABLE)
    store = FaultyStore(inner, "crash after", at)
    outcome = outcome_of(store)
    # The log on disk is young, so its cleanup makes fewer calls than the one in memory.
    assert outcome == ("crashed" if len(store.calls) > at else "landed")
    fresh = open_store(str(tmp_path))
    assert_old_or_new(fresh, outcome)
    assert_next_writers_work(fresh)


def test_creation_that_crashes_leaves_no_table_or_a_whole_one():
    table = load_snapshot(make_table()).metadata
    for fault in FAULTS:
        for at in range(8):
            inner = MemoryStore()
            try:
                Transaction.create(FaultyStore(inner, fault, at), table, clock=FakeTime().clock).commit(
                    [add_file("new")], operation("CREATE TABLE")
                )
            except (SimulatedCrash, DeltaError):
                pass
            if inner.objects:
                assert live_paths(inner) == {"new"}
            else:
                Transaction.create(inner, table).commit([add_file("new")], operation("CREATE TABLE"))
                assert live_paths(inner) == {"new"}


def test_run_makes_calls_of_every_kind():
    """If the runs above stopped covering the put or the work after it, they would prove nothing."""
    store = HookedStore(make_table(None, OLD, **TABLE))
    replace_old_by_new(store)
    operations = [op for op, _ in store.calls]
    assert {"list_directory", "read", "put_if_absent"} <= set(operations)
    assert operations.index("put_if_absent") < len(operations) - 2
    assert WITH_RIVAL > ALONE
    with pytest.raises(ObjectExistsError):
        store.put_if_absent(f"_delta_log/{1:020d}.json", b"")
