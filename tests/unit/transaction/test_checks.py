"""Is every commit that would harm the table refused before the attempt, and every legal one let through?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.log_builder import LogBuilder, metadata, protocol
from tests.support.transactions import (
    DV_TABLE,
    add_file,
    as_action,
    begin,
    commit,
    make_table,
    mark_actions,
    operation,
    remove_of,
    vector_of,
)

from ebbtide.errors import InternalError, RequestError
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import (
    AddCDCFile,
    CheckpointMetadata,
    CommitInfo,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
)
from ebbtide.transaction import Operation, Rebased

FILE = add_file("a.parquet")


def refused(store, *actions, name="WRITE", metrics=None, match, kind=InternalError):
    before = load_snapshot(store).version
    with pytest.raises(kind, match=match):
        begin(store).commit(actions, Operation(name, metrics=metrics or {}))
    assert load_snapshot(store).version == before


@pytest.mark.parametrize("action", [CommitInfo({}), CheckpointMetadata(1), Sidecar("s", 1, 1)])
def test_actions_that_no_command_may_stage_are_refused(action):
    refused(make_table(), action, match="must not stage")


# --- partition values -------------------------------------------------------------------------------------------------

PARTITIONED = {"columns": {"id": "long", "p": "string"}, "partitions": ["p"]}


@pytest.mark.parametrize("values", [{}, {"q": "1"}, {"p": "1", "q": "2"}, {"P": "1"}])
def test_file_without_exactly_the_partition_columns_is_refused(values):
    store = make_table(**PARTITIONED)
    refused(store, add_file("a", partition=values), match="DELTA_INVALID_PARTITIONING_SCHEMA")
    refused(store, AddCDCFile("_change_data/c", values, 1), match="DELTA_INVALID_PARTITIONING_SCHEMA")


def test_null_partition_value_is_a_value():
    assert commit(make_table(**PARTITIONED), add_file("a", partition={"p": None})).version == 1


def test_partition_values_of_a_mapped_table_go_by_physical_names():
    table = metadata(partitions=["p"], configuration={"delta.columnMapping.mode": "name"})
    fields = [
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{name}"},
        }
        for number, name in enumerate(["id", "p"], start=1)
    ]
    table["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    log = LogBuilder()
    log.commit(0, [protocol(2, 5), table])
    assert commit(log.store, add_file("a", partition={"col-p": "1"})).version == 1
    refused(log.store, add_file("b", partition={"p": "1"}), match="DELTA_INVALID_PARTITIONING_SCHEMA")


# --- duplicates -------------------------------------------------------------------------------------------------------


def test_one_path_added_twice_is_refused_however_it_is_spelled():
    for second in ("a%2Eparquet", "./a.parquet", "a.parquet"):
        refused(make_table(), FILE, add_file(second), match="DELTA_DUPLICATE_ACTIONS_FOUND.*adds the file")


def test_one_path_added_with_two_vectors_is_refused():
    store = make_table(**DV_TABLE)
    twice = [add_file("a", vector=vector_of(1)), add_file("a", vector=vector_of(2))]
    refused(store, *twice, match="DELTA_DUPLICATE_ACTIONS_FOUND.*adds the file")


def test_one_path_removed_twice_is_refused():
    store = make_table(None, FILE)
    refused(store, remove_of(FILE), remove_of(FILE), match="DELTA_DUPLICATE_ACTIONS_FOUND.*removes the file")


def test_file_both_added_and_removed_with_the_same_vector_is_refused():
    refused(make_table(None, FILE), FILE, remove_of(FILE), match="DELTA_DUPLICATE_ACTIONS_FOUND.*both adds and removes")


def test_application_transaction_and_domain_may_be_stated_once():
    twice = [SetTransaction("app", 1), SetTransaction("app", 2)]
    refused(make_table(), *twice, match="DELTA_DUPLICATE_ACTIONS_FOUND.*'app' twice")
    domain = as_action({"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}})
    store = make_table(features=[], writer_features=["domainMetadata"])
    refused(store, domain, domain, match="DELTA_DUPLICATE_ACTIONS_FOUND.*'d' twice")


def test_adding_a_live_file_again_is_an_update_of_what_is_known_about_it():
    store = make_table(None, FILE)
    committed = commit(store, add_file("a.parquet", rows=11, data_change=False), name="COMPUTE STATS")
    assert [file.stats for file in committed.snapshot.add_files()] == ['{"numRecords":11,"tightBounds":true}']


# --- what is removed must be live -------------------------------------------------------------------------------------


def test_removing_a_file_that_is_not_live_is_refused():
    refused(make_table(), remove_of(FILE), name="DELETE", match="is not live")


def test_removing_a_file_with_another_vector_than_it_has_is_refused():
    with_vector = add_file("a.parquet", vector=vector_of(1))
    refused(
        make_table(None, with_vector, **DV_TABLE), remove_of(FILE), name="DELETE", match="is live with the deletion"
    )
    refused(make_table(None, FILE, **DV_TABLE), remove_of(with_vector), name="DELETE", match="but it is live with")


def test_changing_a_vector_without_removing_the_old_one_is_refused():
    store = make_table(None, FILE, **DV_TABLE)
    refused(store, add_file("a.parquet", vector=vector_of(1)), match="live twice")


def test_dropping_a_feature_may_write_tombstones_of_files_that_were_never_live():
    tombstone = RemoveFile("deletion_vector_x.bin", 1, data_change=False)
    assert commit(make_table(), tombstone, name="Deletion Vector Tombstones").version == 1
    # Only that commit: the one that changes the protocol removes nothing.
    with pytest.raises(InternalError, match="is not live"):
        commit(make_table(), tombstone, name="DROP FEATURE")


# --- deletion vectors -------------------------------------------------------------------------------------------------


def test_vector_on_a_table_that_allows_it_is_committed():
    store = make_table(None, FILE, **DV_TABLE)
    committed = commit(store, *mark_actions(FILE, 1, 2), name="DELETE")
    assert [file.dv_id for file in committed.snapshot.add_files()] == [vector_of(1, 2).unique_id]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": ["deletionVectors"]},
        {"features": ["deletionVectors"], "configuration": {"delta.enableDeletionVectors": "false"}},
    ],
)
def test_vector_on_a_table_that_does_not_allow_it_is_refused(options):
    store = make_table(None, FILE, **options)
    match = "DELTA_ADDING_DELETION_VECTORS_DISALLOWED"
    refused(store, *mark_actions(FILE, 1), name="DELETE", match=match, kind=RequestError)


def test_removing_a_file_that_has_a_vector_is_never_gated():
    file = add_file("a", vector=vector_of(1))
    assert commit(make_table(None, file, features=["deletionVectors"]), remove_of(file), name="DELETE").version == 1


def test_statistics_may_be_recomputed_for_files_with_vectors_though_new_ones_are_off():
    file = add_file("a", vector=vector_of(1))
    store = make_table(None, file, features=["deletionVectors"])
    restated = add_file("a", vector=vector_of(1), stats='{"numRecords":10}', data_change=False)
    assert commit(store, restated, name="COMPUTE STATS").version == 1


@pytest.mark.parametrize(
    ("stats", "error_class"),
    [
        (None, "DELTA_DELETION_VECTOR_MISSING_NUM_RECORDS"),
        ('{"tightBounds":false}', "DELTA_DELETION_VECTOR_MISSING_NUM_RECORDS"),
        ('{"numRecords":10}', "DELTA_ADDING_DELETION_VECTORS_WITH_TIGHT_BOUNDS_DISALLOWED"),
        ('{"numRecords":10,"tightBounds":true}', "DELTA_ADDING_DELETION_VECTORS_WITH_TIGHT_BOUNDS_DISALLOWED"),
        ('{"numRecords":1,"tightBounds":false}', "DELTA_DELETION_VECTOR_INVALID_ROW_INDEX"),
    ],
)
def test_vector_needs_statistics_that_count_rows_and_admit_wide_bounds(stats, error_class):
    store = make_table(None, FILE, **DV_TABLE)
    new = add_file("a.parquet", vector=vector_of(1, 2), stats=stats)
    refused(store, new, remove_of(FILE), name="DELETE", match=error_class)


def test_restore_may_bring_back_tight_bounds_and_a_smaller_vector():
    now = add_file("a", vector=vector_of(1, 2))
    store = make_table(None, now, **DV_TABLE)
    then = add_file("a", vector=vector_of(1), stats='{"numRecords":10}')
    assert commit(store, then, remove_of(now), name="RESTORE").version == 1


def test_vector_that_would_shrink_is_refused():
    now = add_file("a", vector=vector_of(1, 2))
    store = make_table(None, now, **DV_TABLE)
    match = "DELTA_DELETION_VECTOR_SIZE_MISMATCH"
    refused(store, add_file("a", vector=vector_of(1)), remove_of(now), name="DELETE", match=match)


def test_vector_that_marks_no_row_is_refused():
    store = make_table(None, FILE, **DV_TABLE)
    refused(store, *mark_actions(FILE), name="DELETE", match="marks no row")


def test_row_index_beyond_the_file_is_refused():
    store = make_table(None, FILE, **DV_TABLE)
    vector = replace(vector_of(1), max_row_index=10)
    new = add_file("a.parquet", vector=vector)
    refused(store, new, remove_of(FILE), name="DELETE", match="DELTA_DELETION_VECTOR_INVALID_ROW_INDEX")


# --- append-only ------------------------------------------------------------------------------------------------------


def test_append_only_table_loses_no_rows_but_may_be_compacted():
    store = make_table(None, FILE, configuration={"delta.appendOnly": "true"})
    match = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    refused(store, remove_of(FILE), name="DELETE", match=match, kind=RequestError)
    moved = [remove_of(FILE, data_change=False), add_file("b", data_change=False)]
    assert commit(store, *moved, name="OPTIMIZE").version == 1


# --- row counts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows_after", "metrics"),
    [
        ("DELETE", 11, {}),
        ("UPDATE", 9, {}),
        ("UPDATE", 11, {}),
        ("OPTIMIZE", 9, {}),
        ("MERGE", 12, {"numTargetRowsInserted": 3, "numTargetRowsDeleted": 0}),
        ("MERGE", 10, {"numTargetRowsInserted": 0, "numTargetRowsDeleted": 1}),
    ],
)
def test_row_counts_that_do_not_add_up_are_refused(name, rows_after, metrics):
    store = make_table(None, FILE)
    actions = [remove_of(FILE), add_file("b", rows=rows_after)]
    refused(store, *actions, name=name, metrics=metrics, match="DELTA_NUM_RECORDS_MISMATCH")


@pytest.mark.parametrize(
    ("name", "rows_after", "metrics"),
    [
        ("DELETE", 9, {}),
        ("UPDATE", 10, {}),
        ("MERGE", 12, {"numTargetRowsInserted": 3, "numTargetRowsDeleted": 1}),
        ("MERGE", 99, {}),
        ("WRITE", 99, {}),
    ],
)
def test_row_counts_that_add_up_or_are_nobodys_business_pass(name, rows_after, metrics):
    store = make_table(None, FILE)
    committed = begin(store).commit([remove_of(FILE), add_file("b", rows=rows_after)], Operation(name, {}, metrics))
    assert committed.version == 1


def test_row_counts_are_logical_and_unknown_when_a_file_does_not_say():
    store = make_table(None, FILE, **DV_TABLE)
    # 10 rows, 2 of them marked, in place of 10: two fewer.
    refused(store, *mark_actions(FILE, 1, 2), name="UPDATE", match="DELTA_NUM_RECORDS_MISMATCH")
    unknown = [remove_of(FILE), add_file("b", stats=None)]
    assert commit(store, *unknown, name="UPDATE").version == 1


# --- protocol and metadata --------------------------------------------------------------------------------------------


def test_protocol_may_not_lose_a_feature_unless_one_is_dropped_on_purpose():
    store = make_table(features=["deletionVectors"])
    smaller = Protocol(1, 2)
    refused(store, smaller, match="DELTA_INVALID_PROTOCOL_DOWNGRADE.*deletionVectors", kind=RequestError)
    assert commit(store, smaller, name="DROP FEATURE").version == 1


@pytest.mark.parametrize(
    "broken",
    [
        Protocol(3, 7, None, frozenset({"deletionVectors"})),
        Protocol(3, 7, frozenset({"deletionVectors"}), None),
        Protocol(1, 2, frozenset(), None),
        Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"appendOnly", "invariants"})),
    ],
)
def test_protocol_whose_lists_do_not_fit_its_versions_is_refused(broken):
    refused(make_table(), broken, match="protocol|reader feature")


def test_metadata_that_needs_a_feature_the_protocol_lacks_is_refused():
    changed = as_action(metadata(configuration={"delta.enableChangeDataFeed": "true"}))
    match = "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH.*changeDataFeed"
    refused(make_table(), changed, match=match, kind=RequestError)


def test_manifests_may_not_be_turned_on_while_files_have_vectors():
    store = make_table(None, add_file("a", vector=vector_of(1)), features=["deletionVectors"])
    changed = as_action(metadata(configuration={"delta.compatibility.symlinkFormatManifest.enabled": "true"}))
    match = "EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"
    refused(store, changed, match=match, kind=RequestError)


def test_property_that_does_not_parse_is_refused():
    changed = as_action(metadata(configuration={"delta.checkpointInterval": "soon"}))
    refused(make_table(), changed, match="delta.checkpointInterval", kind=RequestError)


def test_rebased_actions_pass_the_checks_again():
    store = make_table(None, FILE)
    transaction = begin(store)
    commit(store, add_file("winner"))
    wrong = Rebased((remove_of(add_file("never.parquet")),), operation("DELETE"))
    with pytest.raises(InternalError, match="is not live"):
        transaction.commit([remove_of(FILE)], operation("DELETE"), rebase=lambda lost: wrong)
