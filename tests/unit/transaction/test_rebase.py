"""How does a transaction follow winners, and when does it give up?"""

from __future__ import annotations

import pytest
from tests.support.log_builder import LogBuilder, metadata, protocol
from tests.support.stores import HookedStore
from tests.support.transactions import (
    DV_TABLE,
    FakeTime,
    add_file,
    append,
    as_action,
    begin,
    commit,
    live_paths,
    make_table,
    mark_actions,
    operation,
    remove_of,
)

from ebbtide.config import EngineConfig
from ebbtide.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    UnsupportedFeatureError,
)
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import SetTransaction
from ebbtide.transaction import Rebased, property_changes

A, B = add_file("a"), add_file("b")


def remove_everything(snapshot):
    return tuple(remove_of(file) for file in snapshot.add_files())


def never(lost):
    raise AssertionError("must not be asked")


class RivalStore(HookedStore):
    """Before each of the first `times` commits that we try, a rival commits first."""

    def __init__(self, inner, rival, times=1):
        super().__init__(inner)
        self.rival = rival
        self.left = times

    def before(self, op, path):
        if op == "put_if_absent" and path.endswith(".json") and self.left:
            self.left -= 1
            self.rival(self.inner, self.left)


# --- following --------------------------------------------------------------------------------------------------------


def test_blind_append_lands_after_the_winner_without_being_asked():
    store = make_table()
    loser = begin(store)
    append(store, "w1")
    append(store, "w2")
    committed = loser.commit([A], operation())
    assert (committed.version, committed.attempts, committed.rebases) == (3, 2, 0)
    assert committed.actions[0].read_version == 2
    assert live_paths(store) == {"w1", "w2", "a"}


def test_rebase_is_given_both_snapshots_and_every_commit_between():
    store = make_table(None, A)
    loser = begin(store)
    first, second = append(store, "w1"), append(store, "w2")
    seen = []

    def rebase(lost):
        seen.append(lost)
        return Rebased(remove_everything(lost.newest), operation("DELETE"))

    loser.record_read_whole_table()
    committed = loser.commit(remove_everything(loser.snapshot), operation("DELETE"), rebase=rebase)
    (lost,) = seen
    assert lost.read is loser.snapshot
    assert (lost.read.version, lost.newest.version) == (0, 2)
    assert [winner.version for winner in lost.winners] == [1, 2]
    assert [winner.actions for winner in lost.winners] == [first.actions, second.actions]
    assert lost.winners[0].commit_info == first.actions[0]
    assert isinstance(lost.conflict(), ConcurrentAppendException)
    assert (committed.version, committed.attempts, committed.rebases) == (3, 2, 1)
    assert live_paths(store) == set()


def test_rebase_that_finds_nothing_left_makes_no_commit():
    store = make_table(None, A)
    loser = begin(store)
    commit(store, remove_of(A), name="DELETE")
    committed = loser.commit([remove_of(A)], operation("DELETE"), rebase=lambda lost: None)
    assert not committed.is_new_version
    assert not committed.already_executed
    assert (committed.version, committed.rebases) == (1, 1)
    assert committed.snapshot.version == load_snapshot(store).version == 1


def test_rebase_onto_no_actions_makes_no_commit():
    store = make_table(None, A)
    loser = begin(store)
    commit(store, remove_of(A), name="DELETE")
    committed = loser.commit([remove_of(A)], operation("DELETE"), rebase=lambda lost: Rebased((), operation("DELETE")))
    assert not committed.is_new_version
    assert load_snapshot(store).version == 1


def test_each_rebase_starts_from_the_one_before():
    inner = make_table(None, A)
    store = RivalStore(inner, lambda inner, left: append(inner, f"rival-{left}"), times=3)
    spans = []

    def rebase(lost):
        spans.append((lost.read.version, lost.newest.version))
        return Rebased(remove_everything(lost.newest), operation("DELETE"))

    transaction = begin(store)
    committed = transaction.commit(remove_everything(transaction.snapshot), operation("DELETE"), rebase=rebase)
    assert spans == [(0, 1), (1, 2), (2, 3)]
    assert (committed.version, committed.attempts, committed.rebases) == (4, 4, 3)
    assert live_paths(inner) == set()


def test_rebase_may_refuse_with_the_verdict_of_the_reference():
    store = make_table(None, A)
    loser = begin(store)
    loser.record_read_whole_table()
    append(store, "w")

    def rebase(lost):
        raise lost.conflict()

    with pytest.raises(ConcurrentAppendException):
        loser.commit([remove_of(A)], operation("DELETE"), rebase=rebase)


def test_rebased_commit_describes_itself_anew():
    store = make_table(None, A)
    loser = begin(store)
    append(store, "w")

    def rebase(lost):
        return Rebased(remove_everything(lost.newest), operation("DELETE", metrics={"numRemovedFiles": 2}))

    committed = loser.commit([remove_of(A)], operation("DELETE", metrics={"numRemovedFiles": 1}), rebase=rebase)
    assert committed.actions[0].operation_metrics == {"numRemovedFiles": "2"}


def test_two_markings_of_one_file_become_one_vector():
    store = make_table(None, A, **DV_TABLE)
    loser = begin(store)
    commit(store, *mark_actions(A, 1), name="DELETE")

    def rebase(lost):
        changes = lost.file_changes()
        (now,) = lost.newest.add_files(changes.vector_changed)
        return Rebased(tuple(mark_actions(now, 1, 2)), operation("DELETE"))

    committed = loser.commit(mark_actions(A, 2), operation("DELETE"), rebase=rebase)
    assert [file.dv_id for file in committed.snapshot.add_files()] == [mark_actions(A, 1, 2)[0].dv_id]


# --- what no rebase repairs -------------------------------------------------------------------------------------------


def lost_against(store, *actions, name="SET TBLPROPERTIES"):
    loser = begin(store)
    commit(store, *actions, name=name)
    return loser


def test_incompatible_metadata_stops_a_command_that_rebases():
    loser = lost_against(make_table(None, A), as_action(metadata(configuration={"delta.appendOnly": "true"})))
    with pytest.raises(MetadataChangedException):
        loser.commit([remove_of(A)], operation("DELETE"), rebase=never)


def test_protocol_that_we_cannot_write_stops_everybody():
    store = make_table(None, A)
    loser = begin(store)
    LogBuilder(store).commit(1, [protocol(features=["futureThing"])])
    with pytest.raises(UnsupportedFeatureError, match="futureThing"):
        loser.commit([remove_of(A)], operation("DELETE"), rebase=never)


def test_protocol_and_property_that_switch_deletion_vectors_on_stop_nobody():
    store = make_table(None, A)
    loser = begin(store)
    other = begin(store)
    changes = property_changes(
        other.snapshot.protocol, other.snapshot.metadata, set={"delta.enableDeletionVectors": "true"}
    )
    other.commit(changes, operation("SET TBLPROPERTIES"))
    loser.record_read_whole_table()
    rewrite = [remove_of(A), add_file("rewritten", rows=9)]
    committed = loser.commit(rewrite, operation("DELETE"))
    assert committed.version == 2
    assert committed.snapshot.properties.enable_deletion_vectors


def test_concurrent_work_of_the_application_we_asked_about_stops_a_command_that_rebases():
    store = make_table(None, A)
    loser = begin(store)
    loser.record_app_id("app")
    begin(store).commit([B], operation(), set_transaction=SetTransaction("app", 1))
    with pytest.raises(ConcurrentTransactionException):
        loser.commit([remove_of(A)], operation("DELETE"), rebase=never)


def test_same_application_transaction_sent_twice_at_once_lands_once():
    store = make_table(None, A)
    sent = SetTransaction("app", 5)
    loser = begin(store)
    assert not loser.has_been_executed("app", 5)
    begin(store).commit([remove_of(A)], operation("DELETE"), set_transaction=sent)
    committed = loser.commit([remove_of(A)], operation("DELETE"), rebase=never, set_transaction=sent)
    assert committed.already_executed
    assert not committed.is_new_version
    assert committed.snapshot.version == load_snapshot(store).version == 1


def test_next_transaction_of_one_application_follows_the_one_before():
    store = make_table(None, A)
    loser = begin(store)
    begin(store).commit([B], operation(), set_transaction=SetTransaction("app", 5))

    def rebase(lost):
        return Rebased((remove_of(A),), operation("DELETE"))

    sent = SetTransaction("app", 6)
    committed = loser.commit([remove_of(A)], operation("DELETE"), rebase=rebase, set_transaction=sent)
    assert committed.snapshot.transactions["app"].version == 6


def test_without_rebase_the_same_application_is_a_conflict_as_in_the_reference():
    store = make_table()
    sent = SetTransaction("app", 5)
    loser = begin(store)
    begin(store).commit([A], operation(), set_transaction=sent)
    with pytest.raises(ConcurrentTransactionException):
        loser.commit([B], operation(), set_transaction=sent)


def test_without_rebase_files_decide():
    store = make_table(None, A)
    loser = begin(store)
    loser.record_read_whole_table()
    commit(store, remove_of(A), name="DELETE")
    with pytest.raises(ConcurrentDeleteReadException, match=r"version 1 \(DELETE by Ebbtide"):
        loser.commit([add_file("c")], operation())
    assert load_snapshot(store).version == 1


def test_table_that_was_replaced_by_another_is_noticed():
    store = make_table(None, A)
    for number in range(3):
        append(store, f"w{number}")
    loser = begin(store)
    store.objects.clear()
    other = as_action(metadata(id="5b3ba9a6-7d0f-4d6e-9f38-0000000000ff"))
    LogBuilder(store).commit(0, [protocol(), {"metaData": other.to_json()}])
    for number in range(4):
        append(store, f"n{number}")
    with pytest.raises(MetadataChangedException, match="replaced"):
        loser.commit([B], operation())


# --- giving up, waiting, looking first --------------------------------------------------------------------------------


def test_writer_that_loses_too_often_gives_up_with_a_clear_error():
    inner = make_table()
    store = RivalStore(inner, lambda inner, left: append(inner, f"rival-{left}"), times=99)
    transaction = begin(store, config=EngineConfig(max_commit_attempts=3))
    with pytest.raises(ConcurrentWriteException, match="lost 3 races") as caught:
        transaction.commit([A], operation())
    assert isinstance(caught.value, DeltaConcurrentModificationException)
    assert caught.value.error_class == "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    assert "a" not in live_paths(inner)


def test_waits_grow_and_stop_growing():
    store = RivalStore(make_table(), lambda inner, left: append(inner, f"rival-{left}"), times=10)
    time = FakeTime()
    begin(store, time=time).commit([A], operation())
    assert time.waits == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]


def test_listing_that_lags_behind_the_put_is_waited_for():
    inner = make_table()
    rival = begin(inner)
    hidden = []

    class Lagging(HookedStore):
        def list_directory(self, prefix, *, start_after=None):
            found = list(super().list_directory(prefix, start_after=start_after))
            if len(hidden) < 4:
                hidden.append(1)
                found = [meta for meta in found if not meta.path.endswith("1.json")]
            return iter(found)

    late = begin(Lagging(inner))
    rival.commit([B], operation())
    committed = late.commit([A], operation())
    assert live_paths(inner) == {"a", "b"}
    assert committed.version == 2
    assert committed.attempts == 3


def test_transaction_that_took_long_looks_before_it_puts():
    """A version below what a log cleanup removed is free again; a commit there would land nowhere."""
    store = make_table(None, A)
    time = FakeTime()
    late = begin(store, time=time)
    append(store, "w1")
    append(store, "w2")
    LogBuilder(store).checkpoint(
        2, [protocol(), metadata(), *({"add": file.to_json()} for file in load_snapshot(store).add_files())]
    )
    store.delete(f"_delta_log/{0:020d}.json")
    store.delete(f"_delta_log/{1:020d}.json")
    time.now += 60_001
    with pytest.raises(ConcurrentWriteException, match=r"version 1.*cleaned up"):
        late.commit([B], operation())
    assert f"_delta_log/{1:020d}.json" not in store.objects


def test_looking_first_costs_no_commit_when_nobody_came():
    store = make_table()
    time = FakeTime()
    late = begin(store, time=time)
    time.now += 60_001
    assert late.commit([A], operation()).version == 1
