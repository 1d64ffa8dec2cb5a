"""Does each rule of the reference see its conflict, and only that one?

Every test hands one rule our side and one winning commit; no race is run here.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.log_builder import domain, metadata, protocol
from tests.support.transactions import DV_TABLE, add_file, as_action, make_table, mark_actions, remove_of, vector_of

from ebbtide.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    DeltaError,
    MetadataChangedException,
    ProtocolChangedException,
)
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import CommitInfo, Protocol, SetTransaction
from ebbtide.protocol.identity_columns import MARK
from ebbtide.transaction import ReadPredicate, WinningCommit
from ebbtide.transaction.conflicts import (
    Contender,
    append_conflict,
    application_conflict,
    delete_delete_conflict,
    delete_read_conflict,
    domain_conflict,
    feature_drop_conflict,
    first_conflict,
    first_lasting_conflict,
    metadata_conflict,
    protocol_conflict,
)
from ebbtide.transaction.reads import Reads

A, B = add_file("a"), add_file("b")
INFO = CommitInfo({"operation": "OPTIMIZE", "engineInfo": "Other/1.0", "txnId": "their-id", "userMetadata": "nightly"})
PARTITIONED = {"columns": {"id": "long", "p": "integer"}, "partitions": ["p"]}


def ours(*actions, reads=None, name="DELETE", store=None, **options):
    store = store or make_table(None, A, B, **options)
    return Contender(load_snapshot(store), reads or Reads(), actions, name)


def winner(*actions, version=1, info=INFO):
    return WinningCommit(version, actions, info)


def whole_table():
    return Reads().with_whole_table()


def reading(contender, condition=None, paths=("a", "b")):
    files = contender.snapshot.files
    files = files.filter([path in paths for path in files.column("path").to_pylist()])
    return replace(contender, reads=contender.reads.with_files(ReadPredicate(condition), files))


# --- what every conflict says -----------------------------------------------------------------------------------------


def test_conflict_names_the_winner_its_writer_its_deed_and_what_to_do():
    conflict = delete_delete_conflict(ours(remove_of(A)), winner(remove_of(A), version=7))
    text = str(conflict)
    for part in ("version 7", "OPTIMIZE", "Other/1.0", "their-id", "nightly", "'a'", "DELETE", "again"):
        assert part in text


def test_conflict_with_a_winner_that_left_no_provenance_still_names_its_version():
    conflict = delete_delete_conflict(ours(remove_of(A)), winner(remove_of(A), info=None))
    assert "version 1 (its writer left no commitInfo)" in str(conflict)


@pytest.mark.parametrize(
    ("kind", "error_class"),
    [
        (ConcurrentAppendException, "DELTA_CONCURRENT_APPEND"),
        (ConcurrentDeleteReadException, "DELTA_CONCURRENT_DELETE_READ"),
        (ConcurrentDeleteDeleteException, "DELTA_CONCURRENT_DELETE_DELETE"),
        (ConcurrentTransactionException, "DELTA_CONCURRENT_TRANSACTION"),
        (ConcurrentWriteException, "DELTA_CONCURRENT_WRITE"),
        (MetadataChangedException, "DELTA_METADATA_CHANGED"),
        (ProtocolChangedException, "DELTA_PROTOCOL_CHANGED"),
    ],
)
def test_every_conflict_is_in_fact_a_concurrent_modification(kind, error_class):
    assert issubclass(kind, DeltaConcurrentModificationException)
    assert issubclass(kind, DeltaError)
    assert kind("x").error_class == error_class


# --- protocol ---------------------------------------------------------------------------------------------------------

RAISED = as_action(protocol(features=["deletionVectors", "appendOnly", "invariants"]))


def test_two_protocol_changes_conflict():
    assert isinstance(protocol_conflict(ours(RAISED), winner(RAISED)), ProtocolChangedException)


def test_protocol_that_gained_a_feature_is_adopted():
    assert protocol_conflict(ours(remove_of(A)), winner(RAISED)) is None


def test_protocol_that_lost_a_feature_conflicts():
    contender = ours(remove_of(A), features=["deletionVectors", "appendOnly", "invariants"])
    conflict = protocol_conflict(contender, winner(Protocol(1, 2)))
    assert isinstance(conflict, ProtocolChangedException)
    assert "deletionVectors" in str(conflict)


def test_our_protocol_change_does_not_mind_a_winner_without_one():
    assert protocol_conflict(ours(RAISED), winner(add_file("c"))) is None


def test_dropping_a_feature_minds_any_winner_that_may_have_used_it():
    contender = ours(Protocol(1, 2), features=["deletionVectors", "appendOnly", "invariants"], name="DROP FEATURE")
    conflict = feature_drop_conflict(contender, winner(add_file("c")))
    assert isinstance(conflict, ProtocolChangedException)
    assert conflict.error_class == "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    assert feature_drop_conflict(contender, winner(SetTransaction("app", 1))) is None
    assert feature_drop_conflict(ours(RAISED), winner(add_file("c"))) is None


# --- metadata ---------------------------------------------------------------------------------------------------------


def test_two_metadata_changes_conflict_even_when_harmless():
    same = as_action(metadata())
    assert isinstance(metadata_conflict(ours(same), winner(same)), MetadataChangedException)


def test_winner_that_restates_the_same_metadata_is_tolerated():
    assert metadata_conflict(ours(remove_of(A)), winner(as_action(metadata()))) is None


def test_winner_that_changes_the_metadata_conflicts_and_says_how():
    changed = as_action(metadata(configuration={"delta.appendOnly": "true"}))
    conflict = metadata_conflict(ours(remove_of(A)), winner(changed))
    assert isinstance(conflict, MetadataChangedException)
    assert "delta.appendOnly = 'true'" in str(conflict)


def test_deletion_vectors_enabled_by_one_winner_are_judged_by_the_protocol_of_the_same_commit():
    enabled = as_action(metadata(configuration={"delta.enableDeletionVectors": "true"}))
    assert metadata_conflict(ours(remove_of(A)), winner(RAISED, enabled)) is None
    assert metadata_conflict(ours(remove_of(A)), winner(enabled)) is not None


def test_second_winner_is_judged_against_what_the_first_one_left():
    enabled = as_action(metadata(configuration={"delta.enableDeletionVectors": "true"}))
    winners = [winner(RAISED), winner(enabled, version=2), winner(enabled, version=3)]
    assert first_conflict(ours(remove_of(A)), winners) is None


def counting(mark, **options):
    entries = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    field = {"name": "id", "type": "long", "nullable": True, "metadata": {**entries, MARK: mark}}
    return {"schemaString": json.dumps({"type": "struct", "fields": [field]}), **options}


@pytest.mark.parametrize(
    ("mine", "theirs", "conflicts"),
    [
        # Both count, or one of them does and the other changes something that can be made anew.
        ({}, {}, False),
        ({"configuration": {"mine": "1"}}, {}, False),
        ({}, {"configuration": {"io.unitycatalog.tableId": "1"}}, False),
        ({}, {"configuration": {"delta.appendOnly": "true"}}, True),
        ({"configuration": {"mine": "1"}}, {"configuration": {"theirs": "1"}}, True),
    ],
)
def test_counting_on_conflicts_with_no_command_that_follows(mine, theirs, conflicts):
    own, other = as_action(metadata(**counting(7, **mine))), as_action(metadata(**counting(9, **theirs)))
    contender = ours(own, writer_features=["identityColumns"], **counting(5))
    assert (first_lasting_conflict(contender, [winner(other)]) is not None) == conflicts
    assert isinstance(first_conflict(contender, [winner(other)]), MetadataChangedException), "without following"


def test_writer_that_counts_on_need_not_see_blind_appends():
    level = {"delta.isolationLevel": "WriteSerializable"}
    table = {"writer_features": ["identityColumns"], **counting(5, configuration=level)}
    added = winner(add_file("c"), info=CommitInfo({"operation": "WRITE", "isBlindAppend": True}))
    configurations = (level, {**level, "a": "b"})
    counted, changed = (as_action(metadata(**counting(7, configuration=which))) for which in configurations)
    assert append_conflict(ours(counted, remove_of(A), reads=whole_table(), **table), added) is None
    assert append_conflict(ours(changed, remove_of(A), reads=whole_table(), **table), added) is not None


# --- domains and applications -----------------------------------------------------------------------------------------


def test_one_domain_stated_by_both_conflicts():
    mine = as_action(domain("clustering"))
    assert isinstance(domain_conflict(ours(mine), winner(mine)), ConcurrentTransactionException)
    assert domain_conflict(ours(mine), winner(as_action(domain("other")))) is None


def test_row_tracking_mark_stated_by_both_does_not_conflict():
    mark = as_action(domain("delta.rowTracking", '{"rowIdHighWaterMark":5}'))
    assert domain_conflict(ours(mark), winner(mark)) is None


def test_application_that_we_asked_for_and_the_winner_moved_conflicts():
    contender = ours(remove_of(A), reads=Reads().with_app_id("app"))
    assert isinstance(application_conflict(contender, winner(SetTransaction("app", 1))), ConcurrentTransactionException)
    assert application_conflict(contender, winner(SetTransaction("other", 1))) is None
    assert application_conflict(ours(remove_of(A)), winner(SetTransaction("app", 1))) is None


def test_command_that_rebases_is_not_stopped_by_its_own_application():
    contender = ours(remove_of(A), reads=Reads().with_app_id("app").with_app_id("asked"))
    contender = replace(contender, set_transaction=SetTransaction("app", 2))
    assert first_lasting_conflict(contender, [winner(SetTransaction("app", 2))]) is None
    assert first_conflict(contender, [winner(SetTransaction("app", 2))]) is not None
    assert first_lasting_conflict(contender, [winner(SetTransaction("asked", 2))]) is not None


# --- appends ----------------------------------------------------------------------------------------------------------


def test_append_to_a_table_that_was_read_whole_conflicts():
    contender = ours(remove_of(A), reads=whole_table())
    assert isinstance(append_conflict(contender, winner(add_file("c"))), ConcurrentAppendException)


def test_append_after_a_blind_append_does_not_conflict():
    assert append_conflict(ours(add_file("d")), winner(add_file("c"))) is None


def test_append_to_an_unpartitioned_table_conflicts_with_any_read():
    contender = reading(ours(remove_of(A)), "id = 7")
    assert isinstance(append_conflict(contender, winner(add_file("c"))), ConcurrentAppendException)


def partitioned(condition):
    store = make_table(None, add_file("a", partition={"p": "1"}), **PARTITIONED)
    return reading(ours(remove_of(add_file("a", partition={"p": "1"})), store=store), condition, paths=("a",))


@pytest.mark.parametrize(
    ("condition", "value", "conflicts"),
    [
        ("p = 1", "1", True),
        ("p = 1", "2", False),
        ("p = 1", None, False),
        ("p IS NULL", None, True),
        ("p > 1 OR p = 0", "1", False),
        (None, "2", True),
        # Only partitions excuse a file; a condition on data never does.
        ("id = 7", "2", True),
        ("p = 1 AND id = 7", "2", False),
        ("rand() < p", "2", True),
        ("this is no SQL (", "2", True),
    ],
)
def test_append_conflicts_exactly_where_the_partition_could_have_been_read(condition, value, conflicts):
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":1}}'
    added = add_file("c", partition={"p": value}, stats=stats)
    conflict = append_conflict(partitioned(condition), winner(added))
    assert isinstance(conflict, ConcurrentAppendException) is conflicts
    if conflicts:
        assert "partition [p=" in str(conflict)


def test_any_of_several_reads_can_conflict():
    contender = reading(partitioned("p = 1"), "p = 2", paths=())
    assert append_conflict(contender, winner(add_file("c", partition={"p": "2"}))) is not None
    assert append_conflict(contender, winner(add_file("c", partition={"p": "3"}))) is None


def test_reading_nothing_but_removing_does_not_conflict_with_appends():
    assert append_conflict(ours(remove_of(A)), winner(add_file("c"))) is None


def test_compaction_overlooks_appends():
    moved = [remove_of(A, data_change=False), add_file("c", data_change=False)]
    assert append_conflict(ours(*moved, reads=whole_table()), winner(add_file("d"))) is None


def test_file_that_gets_a_vector_counts_as_added():
    contender = ours(*mark_actions(A, 1), reads=whole_table(), **DV_TABLE)
    assert isinstance(append_conflict(contender, winner(*mark_actions(B, 2))), ConcurrentAppendException)


def test_write_serializable_overlooks_blind_appends_only():
    level = {"delta.isolationLevel": "WriteSerializable"}
    contender = ours(remove_of(A), reads=whole_table(), configuration=level)
    blind = CommitInfo({"isBlindAppend": True})
    assert append_conflict(contender, winner(add_file("c"), info=blind)) is None
    assert append_conflict(contender, winner(add_file("c"))) is not None
    assert append_conflict(contender, winner(add_file("c"), info=None)) is not None
    with_metadata = replace(contender, actions=(*contender.actions, as_action(metadata(configuration=level))))
    assert append_conflict(with_metadata, winner(add_file("c"), info=blind)) is not None


# --- deletes ----------------------------------------------------------------------------------------------------------


def test_removal_of_a_file_that_was_read_conflicts():
    contender = reading(ours(add_file("d")), "id = 1", paths=("a",))
    assert isinstance(delete_read_conflict(contender, winner(remove_of(A))), ConcurrentDeleteReadException)
    assert delete_read_conflict(contender, winner(remove_of(B))) is None


def test_any_removal_conflicts_with_reading_the_whole_table():
    contender = ours(add_file("d"), reads=whole_table())
    assert delete_read_conflict(contender, winner(remove_of(B))) is not None
    assert delete_read_conflict(contender, winner(add_file("c"))) is None


def test_removed_file_is_found_however_its_path_is_spelled():
    contender = reading(ours(add_file("d")), "id = 1", paths=("a",))
    assert delete_read_conflict(contender, winner(remove_of(add_file("./a")))) is not None
    assert delete_delete_conflict(ours(remove_of(A)), winner(remove_of(add_file("%61")))) is not None


def test_files_are_compared_by_path_whatever_their_vectors():
    contender = reading(ours(*mark_actions(A, 1), **DV_TABLE), None, paths=("a",))
    other_vector = remove_of(add_file("a", vector=vector_of(9)))
    assert isinstance(delete_read_conflict(contender, winner(other_vector)), ConcurrentDeleteReadException)
    assert isinstance(delete_delete_conflict(contender, winner(other_vector)), ConcurrentDeleteDeleteException)


def test_both_removing_one_file_conflicts():
    assert isinstance(delete_delete_conflict(ours(remove_of(A)), winner(remove_of(A))), ConcurrentDeleteDeleteException)
    assert delete_delete_conflict(ours(remove_of(A)), winner(remove_of(B))) is None
    assert delete_delete_conflict(ours(add_file("d")), winner(remove_of(B))) is None


# --- their order ------------------------------------------------------------------------------------------------------


def test_rules_are_asked_in_the_order_of_the_reference():
    everything = winner(
        as_action(protocol(features=[])),
        as_action(metadata(configuration={"x": "y"})),
        as_action(domain("d")),
        SetTransaction("app", 1),
        add_file("c"),
        remove_of(A),
    )
    reads = whole_table().with_app_id("app")
    contender = ours(RAISED, as_action(metadata()), as_action(domain("d")), remove_of(A), reads=reads)
    expected = [
        (Protocol, ProtocolChangedException),
        (type(everything.metadata), MetadataChangedException),
        (type(everything.domains[0]), ConcurrentTransactionException),
        (SetTransaction, ConcurrentTransactionException),
        (type(A), ConcurrentAppendException),
        (type(remove_of(A)), ConcurrentDeleteReadException),
    ]
    left = everything
    for kind, exception in expected:
        assert type(first_conflict(contender, [left])) is exception
        left = replace(left, actions=tuple(action for action in left.actions if not isinstance(action, kind)))
    assert first_conflict(contender, [left]) is None


def test_oldest_winner_is_judged_first():
    contender = ours(remove_of(A), reads=whole_table())
    conflict = first_conflict(contender, [winner(remove_of(B), version=1), winner(add_file("c"), version=2)])
    assert isinstance(conflict, ConcurrentDeleteReadException)
