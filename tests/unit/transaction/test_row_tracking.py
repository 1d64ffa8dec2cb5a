"""Does every row keep or get its id, and is no id given twice?"""

from __future__ import annotations

import pytest
from tests.support.log_builder import domain
from tests.support.transactions import (
    DV_TABLE,
    add_file,
    append,
    as_action,
    begin,
    commit,
    make_table,
    mark_actions,
    operation,
    remove_of,
    vector_of,
)

from ebbtide.errors import CorruptTableError, InternalError
from ebbtide.protocol.actions import serialize_actions
from ebbtide.transaction import Rebased, property_changes
from ebbtide.transaction.row_tracking import high_water_mark

TRACKED = {"features": [], "writer_features": ["rowTracking", "domainMetadata"]}


def ids(snapshot):
    return {file.path: (file.base_row_id, file.default_row_commit_version) for file in snapshot.add_files()}


def test_new_files_get_the_ids_after_the_highest_and_the_version_that_adds_them():
    store = make_table(**TRACKED)
    commit(store, add_file("a", rows=10), add_file("b", rows=5))
    second = commit(store, add_file("c", rows=1))
    assert ids(second.snapshot) == {"a": (0, 1), "b": (10, 1), "c": (15, 2)}
    assert high_water_mark(second.snapshot) == 15


def test_file_that_gets_a_vector_keeps_its_ids_and_its_physical_rows():
    store = make_table(
        features=["deletionVectors"],
        writer_features=["rowTracking", "domainMetadata"],
        configuration=DV_TABLE["configuration"],
    )
    first = commit(store, add_file("a", rows=10))
    (live,) = first.snapshot.add_files()
    second = commit(store, *mark_actions(live, 1, 2), name="DELETE")
    assert ids(second.snapshot) == {"a": (0, 1)}
    assert high_water_mark(second.snapshot) == 9
    assert not any(type(action).__name__ == "DomainMetadata" for action in second.actions)


def test_new_file_with_a_vector_takes_as_many_ids_as_it_has_physical_rows():
    store = make_table(
        features=["deletionVectors"],
        writer_features=["rowTracking", "domainMetadata"],
        configuration=DV_TABLE["configuration"],
    )
    committed = commit(store, add_file("a", rows=10, vector=vector_of(1)), name="CLONE")
    assert high_water_mark(committed.snapshot) == 9


def test_ids_that_are_given_are_kept():
    committed = commit(make_table(**TRACKED), add_file("a", base_row_id=100, default_row_commit_version=7))
    assert ids(committed.snapshot) == {"a": (100, 7)}


def test_file_without_a_row_count_cannot_be_numbered():
    with pytest.raises(InternalError, match="DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS"):
        commit(make_table(**TRACKED), add_file("a", stats=None))


def test_table_without_the_feature_or_with_tracking_suspended_numbers_nothing():
    assert ids(append(make_table(), "a").snapshot) == {"a": (None, None)}
    suspended = make_table(**TRACKED, configuration={"delta.rowTrackingSuspended": "true"})
    assert ids(append(suspended, "a").snapshot) == {"a": (None, None)}


def test_staged_mark_is_taken_into_account_and_stated_once():
    store = make_table(**TRACKED)
    mark = as_action(domain("delta.rowTracking", '{"rowIdHighWaterMark":41}'))
    committed = commit(store, mark, add_file("a", rows=2), name="CLONE")
    assert ids(committed.snapshot) == {"a": (42, 1)}
    assert high_water_mark(committed.snapshot) == 43


@pytest.mark.parametrize("configuration", ["", "[]", '{"rowIdHighWaterMark":"x"}', "{}"])
def test_broken_mark_is_refused_rather_than_started_anew(configuration):
    store = make_table(**TRACKED)
    log = as_action(domain("delta.rowTracking", configuration))
    store.put_if_absent(f"_delta_log/{1:020d}.json", serialize_actions([log]))
    with pytest.raises(CorruptTableError, match=r"delta.rowTracking|rowIdHighWaterMark"):
        append(store, "a")


def test_loser_of_a_race_is_numbered_after_the_winner():
    store = make_table(**TRACKED)
    loser = begin(store)
    commit(store, add_file("winner", rows=10))
    committed = loser.commit([add_file("late", rows=5)], operation())
    assert ids(committed.snapshot) == {"winner": (0, 1), "late": (10, 2)}
    assert high_water_mark(committed.snapshot) == 14


def test_ids_that_a_winner_gave_to_our_file_are_carried_over():
    store = make_table(None, add_file("a"), **TRACKED)
    loser = begin(store)
    (stale,) = loser.snapshot.add_files()
    commit(store, add_file("a", base_row_id=50, default_row_commit_version=0, data_change=False), name="COMPUTE STATS")
    rebased = Rebased((stale,), operation("COMPUTE STATS"))
    committed = loser.commit([stale], operation("COMPUTE STATS"), rebase=lambda lost: rebased)
    assert ids(committed.snapshot) == {"a": (50, 0)}


def test_rewrite_that_raced_with_the_switching_on_of_row_tracking_admits_that_it_kept_no_ids():
    file = add_file("a", partition={"p": "1"})
    store = make_table(None, file, columns={"id": "long", "p": "string"}, partitions=["p"], **TRACKED)
    loser = begin(store)
    other = begin(store)
    snapshot = other.snapshot
    changes = property_changes(snapshot.protocol, snapshot.metadata, set={"delta.enableRowTracking": "true"})
    other.commit(changes, operation("SET TBLPROPERTIES"))
    rewrite = [remove_of(file), add_file("b", partition={"p": "1"})]
    committed = loser.commit(rewrite, operation("UPDATE", tags={"k": "v"}))
    assert committed.actions[0].tags == {"k": "v", "delta.rowTracking.preserved": "false"}
