"""What must the log say about files of which rows were marked?

`process_unmodified_data` and the values around it, without Spark: which files go, which come back with a new vector,
what their statistics say, and the five counters. The scan that finds the rows is asked in `tests/spark/commands`.
"""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from tests.support.transactions import DV_TABLE, make_table

from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.touched_files import (
    DeletionVectorResult,
    TouchedFileWithDV,
    find_files_with_matching_rows,
    find_touched_files,
    process_unmodified_data,
    store_matched_rows,
)
from ebbtide.config import DEFAULT_CONFIG
from ebbtide.deletion_vectors import RowIndexSet, load
from ebbtide.errors import CorruptTableError, InternalError, RequestError
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import AddFile, RemoveFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.scan import ScanFile, without_rows

NOW = 1_800_000_000_000


def vector(cardinality, *, offset=1, max_row_index=None):
    return DeletionVectorDescriptor.on_disk_with_relative_path(
        uuid4(), size_in_bytes=34, cardinality=cardinality, offset=offset, max_row_index=max_row_index
    )


def add(path="a", *, rows=10, old=None, stats=None, **more):
    text = json.dumps({"numRecords": rows}) if stats is None and rows is not None else stats
    return AddFile(path, {}, 100, 7, True, stats=text, deletion_vector=old, **more)


def touched(file, new, deleted_rows=0):
    return TouchedFileWithDV(f"file:/t/{file.path}", file, new, deleted_rows)


def processed(*files):
    return process_unmodified_data(files, timestamp_ms=NOW)


# --- one touched file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "modified"), [(None, 3, 3), (2, 3, 1), (3, 3, 0), (9, 10, 1)])
def test_modified_rows_are_what_the_new_vector_has_more(old, new, modified):
    file = touched(add(old=None if old is None else vector(old)), vector(new))
    assert file.number_of_modified_rows == modified
    assert file.is_unchanged is (modified == 0)


@pytest.mark.parametrize(
    ("rows", "old", "new", "replaced"),
    [(10, None, 10, True), (10, 4, 10, True), (10, 4, 9, False), (10, None, 1, False), (None, None, 10, False)],
)
def test_file_is_fully_replaced_when_every_visible_row_was_modified(rows, old, new, replaced):
    file = touched(add(rows=rows, old=None if old is None else vector(old)), vector(new))
    assert file.is_fully_replaced() is replaced


def test_file_without_a_vector_of_its_own_counts_its_deleted_rows():
    file = touched(add(old=vector(4)), None, deleted_rows=6)
    assert (file.number_of_modified_rows, file.is_fully_replaced()) == (6, True)


# --- results to touched files -----------------------------------------------------------------------------------------


def test_result_of_a_file_that_is_no_candidate_is_refused():
    with pytest.raises(CorruptTableError, match="not among the candidates") as caught:
        find_files_with_matching_rows({}, [DeletionVectorResult("file:/t/a", vector(1), 1)])
    assert caught.value.error_class == "DELTA_FILE_TO_OVERWRITE_NOT_FOUND"


def test_result_that_marks_nothing_new_is_left_out():
    old = vector(2)
    adds = {"file:/t/a": add("a", old=old), "file:/t/b": add("b")}
    results = [DeletionVectorResult("file:/t/a", old, 1), DeletionVectorResult("file:/t/b", vector(1), 1)]
    found = find_files_with_matching_rows(adds, results)
    assert [file.file_log_entry.path for file in found] == ["b"]
    assert found[0].input_file_path == "file:/t/b"
    assert found[0].deleted_rows == 1


def test_only_row_level_commands_find_touched_files():
    with pytest.raises(RequestError, match="'MERGE' does not find touched files"):
        find_touched_files(None, None, [], None, "MERGE", options=WriteOptions())


# --- actions ----------------------------------------------------------------------------------------------------------


def test_actions_are_in_the_order_of_the_reference():
    gone, first, second = add("gone"), add("first"), add("second")
    outcome = processed(touched(first, vector(1)), touched(gone, vector(10)), touched(second, vector(2)))
    shown = [(type(action), action.path) for action in outcome.actions]
    assert shown == [
        (RemoveFile, "gone"),
        (AddFile, "first"),
        (AddFile, "second"),
        (RemoveFile, "first"),
        (RemoveFile, "second"),
    ]


def test_file_keeps_everything_but_its_vector():
    file = add(old=vector(1), tags={"k": "v"}, base_row_id=5, default_row_commit_version=2, clustering_provider="c")
    new = vector(3, max_row_index=9)
    before, _ = processed(touched(file, new)).actions
    assert (before.path, before.size, before.modification_time) == (file.path, file.size, file.modification_time)
    assert (before.tags, before.base_row_id, before.default_row_commit_version) == ({"k": "v"}, 5, 2)
    assert before.clustering_provider == "c"
    assert before.data_change is True
    assert before.deletion_vector == new
    assert before.deletion_vector.max_row_index is None


def test_remove_carries_the_old_vector_and_the_row_count_alone():
    old = vector(1)
    stats = json.dumps({"numRecords": 10, "minValues": {"id": 1}, "nullCount": {"id": 0}})
    _, remove = processed(touched(add(old=old, stats=stats), vector(3))).actions
    assert remove.deletion_vector == old
    assert (remove.stats, remove.deletion_timestamp) == ('{"numRecords":10}', NOW)
    assert (remove.extended_file_metadata, remove.data_change) == (True, True)


def test_remove_of_a_fully_deleted_file_carries_its_old_vector():
    old = vector(4)
    [remove] = processed(touched(add(old=old), vector(10))).actions
    assert remove.deletion_vector == old
    [remove] = processed(touched(add(), vector(10))).actions
    assert remove.deletion_vector is None


def test_statistics_are_widened_as_seen_before_this_operation():
    """Six of ten rows were visible and all of them null in `n`: all null, whatever the physical count says."""
    stats = {
        "numRecords": 10,
        "minValues": {"id": 1},
        "maxValues": {"id": 9},
        "nullCount": {"id": 0, "n": 6, "some": 3},
        "tightBounds": True,
    }
    new, _ = processed(touched(add(old=vector(4), stats=json.dumps(stats)), vector(5))).actions
    assert json.loads(new.stats) == stats | {"nullCount": {"id": 0, "n": 10, "some": 3}, "tightBounds": False}


def test_wide_statistics_stay_as_they_are():
    stats = {"numRecords": 10, "nullCount": {"n": 6}, "tightBounds": False}
    new, _ = processed(touched(add(old=vector(4), stats=json.dumps(stats)), vector(5))).actions
    assert json.loads(new.stats) == stats


def test_vector_that_would_shrink_is_our_mistake():
    with pytest.raises(InternalError, match="would shrink"):
        processed(touched(add(old=vector(4)), vector(2)))


def test_file_that_keeps_rows_needs_a_vector():
    with pytest.raises(InternalError, match="no deletion vector"):
        processed(touched(add(rows=None), None, deleted_rows=3))


# --- counters ---------------------------------------------------------------------------------------------------------


COUNTERS = (
    "num_modified_rows",
    "num_removed_files",
    "num_deletion_vectors_added",
    "num_deletion_vectors_removed",
    "num_deletion_vectors_updated",
)


def counters_of(outcome):
    """The counters that are not zero."""
    return {name: getattr(outcome, name) for name in COUNTERS if getattr(outcome, name)}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, 3, {"num_modified_rows": 3, "num_deletion_vectors_added": 1}),
        (2, 3, {"num_modified_rows": 1, "num_deletion_vectors_updated": 1}),
        (None, 10, {"num_modified_rows": 10, "num_removed_files": 1}),
        (2, 10, {"num_modified_rows": 8, "num_removed_files": 1, "num_deletion_vectors_removed": 1}),
    ],
)
def test_five_counters_follow_the_vectors_of_both_sides(old, new, expected):
    outcome = processed(touched(add(old=None if old is None else vector(old)), vector(new)))
    assert counters_of(outcome) == expected


def test_nothing_touched_is_nothing_to_say():
    outcome = processed()
    assert outcome.actions == ()
    assert counters_of(outcome) == {}


# --- storing ----------------------------------------------------------------------------------------------------------


def scan_file(file, marks=None):
    return ScanFile(file, f"file:/t/{file.path}", file.path, without_rows(marks), size_is_checked=True)


@pytest.fixture
def snapshot():
    return load_snapshot(make_table(**DV_TABLE))


def stored(snapshot, *matched):
    return list(store_matched_rows(snapshot, matched, config=DEFAULT_CONFIG))


def test_stored_vector_is_the_union_with_the_old_one(snapshot):
    [result] = stored(snapshot, (scan_file(add(old=vector(2)), RowIndexSet([1, 2])), RowIndexSet([5])))
    assert list(load(snapshot.store, snapshot.store.url, result.deletion_vector)) == [1, 2, 5]
    assert (result.file_path, result.matched_row_count) == ("file:/t/a", 1)
    assert result.deletion_vector.max_row_index == 5


def test_file_that_loses_its_last_row_gets_no_vector_file(snapshot):
    rows = RowIndexSet.from_range(2, 10)
    [result] = stored(snapshot, (scan_file(add(old=vector(2)), RowIndexSet([0, 1])), rows))
    assert (result.deletion_vector, result.matched_row_count) == (None, 8)
    assert not [item for item in snapshot.store.list("") if item.path.endswith(".bin")]


def test_nothing_matched_writes_nothing(snapshot):
    assert stored(snapshot) == []
    assert not [item for item in snapshot.store.list("") if item.path.endswith(".bin")]


def test_random_prefix_is_as_long_as_the_table_says():
    configuration = DV_TABLE["configuration"] | {
        "delta.randomizeFilePrefixes": "true",
        "delta.randomPrefixLength": "5",
    }
    snapshot = load_snapshot(make_table(features=["deletionVectors"], configuration=configuration))
    [result] = stored(snapshot, (scan_file(add()), RowIndexSet([1])))
    prefix, _ = result.deletion_vector.random_prefix_and_uuid
    assert len(prefix) == 5
    assert snapshot.store.head(result.deletion_vector.relative_path).path.startswith(f"{prefix}/deletion_vector_")
