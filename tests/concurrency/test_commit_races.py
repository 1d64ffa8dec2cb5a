"""Is no row lost and nobody stopped without need when transactions meet at the put?

Chosen interleavings: a `PausingStore` holds a writer at its commit while others go first. No sleeps. Actions are made
by hand; a "delete" here is one that removes every file it finds, and rebases by looking again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from tests.support.stores import PausingStore
from tests.support.transactions import (
    DV_TABLE,
    add_file,
    append,
    begin,
    commit,
    live_paths,
    make_table,
    mark_actions,
    operation,
    remove_of,
    vector_of,
)

from ebbtide.errors import ConcurrentAppendException, ConcurrentDeleteReadException, MetadataChangedException
from ebbtide.log import load_snapshot, read_commit, read_history
from ebbtide.protocol.actions import RemoveFile, SetTransaction
from ebbtide.storage import open_store
from ebbtide.transaction import Clock, Rebased, Transaction, property_changes

A, B = add_file("a"), add_file("b")
NO_WAITING = Clock(sleep=lambda seconds: None)


@contextmanager
def held_at_commit(work, store, *, suffix=".json"):
    """Runs `work(store)` in a thread up to its commit; leaving the block lets it go on. Gives its future."""
    paused = PausingStore(store, suffix=suffix)
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work, paused)
        try:
            paused.wait_until_reached()
            yield future
        finally:
            paused.resume()


def delete_all(store, **options):
    """Removes every live file, and follows whoever was quicker."""

    def rebase(lost):
        actions = removals(lost.newest)
        return Rebased(actions, operation("DELETE")) if actions else None

    transaction = begin(store)
    transaction.record_read_whole_table()
    return transaction.commit(removals(transaction.snapshot), operation("DELETE"), rebase=rebase, **options)


def removals(snapshot):
    return tuple(remove_of(file) for file in snapshot.add_files())


def mark_rows(store, path, *rows):
    """Marks rows of one file, united with whatever others have marked meanwhile; nothing if all are marked."""

    def actions(snapshot):
        (file,) = [file for file in snapshot.add_files() if file.path == path] or [None]
        if file is None:
            return ()
        before = set() if file.deletion_vector is None else set(file.deletion_vector.inline_data) - {255}
        if before >= set(rows):
            return ()
        return tuple(mark_actions(file, *sorted(before | set(rows))))

    def rebase(lost):
        again = actions(lost.newest)
        return Rebased(again, operation("DELETE")) if again else None

    transaction = begin(store)
    return transaction.commit(actions(transaction.snapshot), operation("DELETE"), rebase=rebase)


# --- two transactions -------------------------------------------------------------------------------------------------


def test_delete_that_lost_against_an_append_deletes_the_new_file_too():
    store = make_table(None, A)
    with held_at_commit(delete_all, store) as deleted:
        append(store, "new")
    assert deleted.result().rebases == 1
    assert live_paths(store) == set()


def test_two_deletes_of_the_same_files_delete_them_once():
    store = make_table(None, A, B)
    with held_at_commit(delete_all, store) as late:
        delete_all(store)
    assert not late.result().is_new_version
    assert load_snapshot(store).version == 1
    removed = [action.path for action in read_commit(store, 1) if isinstance(action, RemoveFile)]
    assert sorted(removed) == ["a", "b"]


def test_two_markings_of_one_file_are_both_kept_and_the_file_is_live_once():
    store = make_table(None, A, **DV_TABLE)
    with held_at_commit(lambda paused: mark_rows(paused, "a", 2), store) as late:
        mark_rows(store, "a", 1)
    assert late.result().version == 2
    (file,) = load_snapshot(store).add_files()
    assert file.deletion_vector == vector_of(1, 2)


def test_marking_rows_that_the_winner_marked_already_makes_no_commit():
    store = make_table(None, A, **DV_TABLE)
    with held_at_commit(lambda paused: mark_rows(paused, "a", 1), store) as late:
        mark_rows(store, "a", 1, 2)
    assert not late.result().is_new_version
    assert load_snapshot(store).version == 1


def test_marking_rows_of_a_file_that_was_removed_makes_no_commit():
    store = make_table(None, A, **DV_TABLE)
    with held_at_commit(lambda paused: mark_rows(paused, "a", 1), store) as late:
        delete_all(store)
    assert not late.result().is_new_version
    assert live_paths(store) == set()


def test_two_appends_both_land():
    store = make_table()
    with held_at_commit(lambda paused: append(paused, "late"), store) as late:
        append(store, "early")
    assert late.result().version == 2
    assert live_paths(store) == {"early", "late"}


def test_delete_without_rebase_is_stopped_by_an_append_and_changes_nothing():
    store = make_table(None, A)

    def strict(paused):
        transaction = begin(paused)
        transaction.record_read_whole_table()
        return transaction.commit([remove_of(A)], operation("DELETE"))

    with held_at_commit(strict, store) as late:
        append(store, "new")
    with pytest.raises(ConcurrentAppendException, match=r"version 1 \(WRITE by Ebbtide"):
        late.result()
    assert live_paths(store) == {"a", "new"}


def test_delete_is_stopped_when_the_table_became_append_only():
    store = make_table(None, A)
    with held_at_commit(delete_all, store) as late:
        other = begin(store)
        snapshot = other.snapshot
        changes = property_changes(snapshot.protocol, snapshot.metadata, set={"delta.appendOnly": "true"})
        other.commit(changes, operation("SET TBLPROPERTIES"))
    with pytest.raises(MetadataChangedException, match=r"delta\.appendOnly"):
        late.result()
    assert live_paths(store) == {"a"}


def test_same_application_transaction_sent_twice_at_once_lands_once():
    store = make_table(None, A)
    sent = SetTransaction("job", 7)
    with held_at_commit(lambda paused: delete_all(paused, set_transaction=sent), store) as late:
        assert delete_all(store, set_transaction=sent).is_new_version
        append(store, "kept")
    assert not late.result().is_new_version
    # What came after the first sending must survive the second.
    assert live_paths(store) == {"kept"}


def test_compaction_and_append_do_not_disturb_each_other():
    store = make_table(None, A, B)

    def compact(paused):
        transaction = begin(paused)
        transaction.record_read_whole_table()
        moved = [remove_of(file, data_change=False) for file in (A, B)]
        return transaction.commit([*moved, add_file("ab", rows=20, data_change=False)], operation("OPTIMIZE"))

    with held_at_commit(compact, store) as late:
        append(store, "new")
    assert late.result().version == 2
    assert live_paths(store) == {"ab", "new"}


def test_compaction_is_stopped_when_one_of_its_files_was_marked():
    store = make_table(None, A, B, **DV_TABLE)

    def compact(paused):
        transaction = begin(paused)
        transaction.record_read_whole_table()
        moved = [remove_of(file, data_change=False) for file in (A, B)]
        return transaction.commit([*moved, add_file("ab", rows=20, data_change=False)], operation("OPTIMIZE"))

    with held_at_commit(compact, store) as late:
        mark_rows(store, "b", 3)
    with pytest.raises(ConcurrentDeleteReadException):
        late.result()
    assert live_paths(store) == {"a", "b"}


# --- three transactions -----------------------------------------------------------------------------------------------


def test_two_losers_follow_one_winner_in_turn():
    store = make_table(None, A, B, **DV_TABLE)
    with (
        held_at_commit(lambda paused: mark_rows(paused, "a", 1), store) as first,
        held_at_commit(lambda paused: mark_rows(paused, "a", 2), store) as second,
    ):
        mark_rows(store, "a", 3)
    assert {first.result().version, second.result().version} == {2, 3}
    vectors = {file.path: file.deletion_vector for file in load_snapshot(store).add_files()}
    assert vectors == {"a": vector_of(1, 2, 3), "b": None}


def test_loser_that_loses_again_while_rebasing_tries_a_third_time():
    store = make_table(None, A)
    third = []

    def delete_and_meet_another(paused):
        def rebase(lost):
            if not third:
                third.append(append(store, "during-the-rebase"))
            return Rebased(removals(lost.newest), operation("DELETE"))

        transaction = begin(paused)
        return transaction.commit(removals(transaction.snapshot), operation("DELETE"), rebase=rebase)

    with held_at_commit(delete_and_meet_another, store) as late:
        append(store, "before")
    assert (late.result().version, late.result().rebases, late.result().attempts) == (3, 2, 3)
    assert live_paths(store) == set()


def test_compaction_between_two_markings_loses_neither():
    """The loser's file is gone; it finds its rows again in the compacted one."""
    store = make_table(None, A, **DV_TABLE)

    def mark_wherever_it_is(paused):
        def rebase(lost):
            (moved,) = lost.newest.add_files(lost.file_changes().added)
            return Rebased(tuple(mark_actions(moved, 5)), operation("DELETE"))

        transaction = begin(paused)
        return transaction.commit(mark_actions(A, 5), operation("DELETE"), rebase=rebase)

    with held_at_commit(mark_wherever_it_is, store) as late:
        mark_rows(store, "a", 1)
        (now,) = load_snapshot(store).add_files()
        commit(store, remove_of(now, data_change=False), add_file("compacted", rows=9, data_change=False))
    assert late.result().version == 3
    (file,) = load_snapshot(store).add_files()
    assert (file.path, file.deletion_vector) == ("compacted", vector_of(5))


# --- many -------------------------------------------------------------------------------------------------------------


def test_every_one_of_many_writers_on_disk_lands_exactly_once(tmp_path):
    make_table(open_store(str(tmp_path)), **DV_TABLE)
    writers, commits_each = 4, 6

    def write(writer):
        store = open_store(str(tmp_path))
        hint = None
        for number in range(commits_each):
            transaction = Transaction.begin(store, hint=hint, clock=NO_WAITING)
            hint = transaction.commit([add_file(f"w{writer}-{number}")], operation()).snapshot

    with ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(write, writer) for writer in range(writers)]:
            done.result()
    store = open_store(str(tmp_path))
    snapshot = load_snapshot(store)
    assert snapshot.version == writers * commits_each
    assert live_paths(store) == {f"w{writer}-{number}" for writer in range(writers) for number in range(commits_each)}
    ids = [record.commit_info.txn_id for record in read_history(store) if record.commit_info is not None]
    assert len(set(ids)) == writers * commits_each


def test_markings_of_one_file_by_many_writers_on_disk_are_all_kept(tmp_path):
    make_table(open_store(str(tmp_path)), A, **DV_TABLE)

    def mark(row):
        return mark_rows(open_store(str(tmp_path)), "a", row)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(mark, range(10)))
    assert sorted(result.version for result in results) == list(range(1, 11))
    (file,) = load_snapshot(open_store(str(tmp_path))).add_files()
    assert file.deletion_vector == vector_of(*range(10))
