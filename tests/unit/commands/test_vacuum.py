"""Does VACUUM keep exactly what kept versions need, and delete the rest?"""

from __future__ import annotations

import json
import math

import pytest
from tests.support.log_reading import commit_info
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import HOUR_MS, SCHEMA, at, builder, names_below, needed_by, put, settle, vacuum

from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.vacuum import deletion
from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.commands.vacuum.request import VacuumRequest
from ebbtide.errors import (
    CorruptDeletionVectorError,
    RequestError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from ebbtide.log import load_snapshot, read_history, write_checkpoint
from ebbtide.log.change_bounds import ChangeBounds
from ebbtide.log.change_feed import read_change_feed
from ebbtide.storage import open_store
from ebbtide.transaction import Clock

ROWS = [{"id": number, "part": "a"} for number in range(5)]
WEEK = 168


def replaced_vector(path, **vector):
    """Version 1 replaces the vector of the only file."""
    table = builder(path).file(ROWS, deleted=[0], **vector).commit()
    settle(table)
    table.mark(table.files[0], [1], **vector).commit()
    settle(table)
    return table


# --- how long removed files stay --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hours", "least"), [(0, 168), (167.9, 168)])
def test_retention_shorter_than_the_tables_is_refused_and_changes_nothing(tmp_path, hours, least):
    table = replaced_vector(tmp_path / "t")
    before = names_below(table.path)
    with pytest.raises(RequestError, match=f"{least} hours") as refused:
        vacuum(table.path, at(1, hours=1000), retention_hours=hours, retention_check=True)
    assert refused.value.getCondition() == "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"
    assert refused.value.getSqlState() == "22003"
    assert names_below(table.path) == before
    assert load_snapshot(open_store(str(table.path))).version == 1


def test_retention_as_long_as_the_tables_passes_the_check(tmp_path):
    table = replaced_vector(tmp_path / "t")
    assert vacuum(table.path, at(1, hours=WEEK + 1), retention_hours=WEEK, retention_check=True).version == 3


def test_check_compares_with_the_tables_own_retention(tmp_path):
    table = builder(tmp_path / "t").table_property("delta.deletedFileRetentionDuration", "interval 2 hours").commit()
    vacuum(table.path, at(0, hours=9), retention_hours=2, retention_check=True)
    with pytest.raises(RequestError, match="at least 2 hours"):
        vacuum(table.path, at(0, hours=9), retention_hours=1.5, retention_check=True)


@pytest.mark.parametrize("check", [True, False])
def test_negative_retention_is_refused_whatever_is_checked(tmp_path, check):
    table = replaced_vector(tmp_path / "t")
    with pytest.raises(RequestError) as refused:
        vacuum(table.path, at(1), retention_hours=-1, retention_check=check)
    assert refused.value.getCondition() == "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"


@pytest.mark.parametrize("hours", [math.nan, math.inf])
def test_retention_that_is_no_length_of_time_is_refused(tmp_path, hours):
    table = replaced_vector(tmp_path / "t")
    with pytest.raises(RequestError, match="not a length of time"):
        vacuum(table.path, at(1), retention_hours=hours)


def test_no_table_is_said_to_be_no_table(tmp_path):
    with pytest.raises(TableNotFoundError):
        vacuum(tmp_path / "none", at(0))


def test_retention_is_not_rounded_down_to_whole_hours(tmp_path):
    table = replaced_vector(tmp_path / "t")
    assert not vacuum(table.path, at(1, hours=0.4), retention_hours=0.45).paths
    assert len(vacuum(table.path, at(1, hours=0.5), retention_hours=0.45).paths) == 1


# --- deletion vectors -------------------------------------------------------------------------------------------------

VECTORS = [
    pytest.param({"vector": "u"}, id="u"),
    pytest.param({"vector": "u", "vector_prefix": "ab"}, id="u with prefix"),
    pytest.param({"vector": "p"}, id="p below the root"),
]


@pytest.mark.parametrize("vector", VECTORS)
def test_vector_goes_when_its_tombstone_expires_and_the_live_one_stays(tmp_path, vector):
    table = replaced_vector(tmp_path / "t", **vector)
    everything = names_below(table.path)
    vacuum(table.path, at(1, hours=WEEK))
    assert names_below(table.path) == everything, "the tombstone is exactly as old as the retention"
    done = vacuum(table.path, at(1, hours=WEEK) + 1)
    assert names_below(table.path) == needed_by(table)
    assert done.metrics.num_deleted_files == 1
    assert table.rows() == [row for row in ROWS if row["id"] > 1]


def test_inline_vectors_have_no_file_to_protect(tmp_path):
    table = replaced_vector(tmp_path / "t", vector="i")
    vacuum(table.path, at(1, hours=WEEK + 1))
    assert names_below(table.path) == needed_by(table)


def test_vector_file_stays_while_one_of_its_vectors_is_needed(tmp_path):
    table = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors(share_a_file=True)
    table.file(ROWS, deleted=[0]).file(ROWS, deleted=[1]).commit()
    settle(table)
    table.remove(table.files[0]).commit()
    vacuum(table.path, at(1, hours=WEEK + 1))
    assert names_below(table.path) == needed_by(table)
    table.remove(table.files[0])
    table.version = load_snapshot(open_store(str(table.path))).version
    table.commit()
    vacuum(table.path, at(table.version, hours=WEEK + 1))
    assert names_below(table.path) == set()


def test_vector_with_an_absolute_path_is_protected_when_the_table_is_opened_by_a_link(tmp_path):
    table = replaced_vector(tmp_path / "real", vector="p")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    vacuum(tmp_path / "link", at(1, hours=WEEK + 1))
    assert names_below(table.path) == needed_by(table)


def test_broken_vector_in_the_log_stops_before_anything_is_deleted(tmp_path):
    table = replaced_vector(tmp_path / "t")
    put(table.path, "orphan.parquet", at(0))
    broken = table.files[0].add | {
        "path": "x.parquet",
        "deletionVector": {"storageType": "u", "pathOrInlineDv": "short"},
    }
    broken["deletionVector"] |= {"sizeInBytes": 1, "cardinality": 1}
    table.raw({"add": broken}).commit()
    before = names_below(table.path)
    with pytest.raises(CorruptDeletionVectorError):
        vacuum(table.path, at(2, hours=1000), retention_hours=0)
    assert names_below(table.path) == before


# --- tombstones and kept versions -------------------------------------------------------------------------------------


def test_removed_file_and_its_vector_stay_as_long_as_the_retention(tmp_path):
    table = builder(tmp_path / "t").file(ROWS, deleted=[0]).file(ROWS).commit()
    settle(table)
    table.remove(table.files[0]).commit()
    everything = names_below(table.path)
    vacuum(table.path, at(1, hours=10), retention_hours=10)
    assert names_below(table.path) == everything
    vacuum(table.path, at(1, hours=10) + 1, retention_hours=10)
    assert names_below(table.path) == needed_by(table)


def test_tombstone_without_a_time_protects_nothing(tmp_path):
    table = builder(tmp_path / "t").file(ROWS).commit()
    settle(table)
    path = table.files[0].add["path"]
    table.raw({"remove": {"path": path, "dataChange": True}}).commit()
    vacuum(table.path, at(1, hours=WEEK), retention_hours=1)
    assert names_below(table.path) == set()


@pytest.mark.parametrize("kind", ["classic", "multipart", "v2-json"])
def test_tombstones_in_a_checkpoint_count(tmp_path, kind):
    table = builder(tmp_path / "t").feature("v2Checkpoint").file(ROWS, deleted=[0]).commit()
    settle(table)
    table.remove(table.files[0]).commit().checkpoint(kind)
    before = names_below(table.path)
    vacuum(table.path, at(1, hours=1), retention_hours=1)
    assert names_below(table.path) == before
    vacuum(table.path, at(1, hours=2), retention_hours=1)
    assert names_below(table.path) == set()


def test_retention_longer_than_the_tables_finds_tombstones_that_a_checkpoint_forgot(tmp_path):
    table = builder(tmp_path / "t").table_property("delta.deletedFileRetentionDuration", "interval 1 hours")
    table.file(ROWS, deleted=[0]).commit()
    settle(table)
    table.remove(table.files[0]).commit()
    store = open_store(str(table.path))
    write_checkpoint(load_snapshot(store), now_ms=at(1, hours=2))
    assert load_snapshot(store).tombstones().num_rows == 0
    before = names_below(table.path)
    vacuum(table.path, at(1, hours=3), retention_hours=3)
    assert names_below(table.path) == before
    vacuum(table.path, at(1, hours=3) + 1, retention_hours=3)
    assert names_below(table.path) == set()


def history_of_three(path):
    table = builder(path).change_data_feed().file(ROWS, deleted=[0]).commit()
    settle(table)
    table.mark(table.files[0], [1]).change_file([ROWS[1] | {"_change_type": "delete"}]).commit()
    settle(table)
    table.remove(table.files[0]).file(ROWS[:2]).commit()
    settle(table)
    return table


def test_kept_version_keeps_what_its_commit_removed_where_the_feed_needs_it(tmp_path):
    """A DELETE that records no change data is told by the file it removed, or by the vector that it replaced."""
    table = builder(tmp_path / "t").change_data_feed()
    table.file([{"id": 1, "part": "a"}]).file([{"id": number, "part": "a"} for number in range(2, 6)]).commit()
    settle(table)
    removed, marked = (file.add["path"] for file in table.files)
    table.mark(table.files[1], [0]).commit()
    settle(table)
    table.remove(table.files[0]).mark(table.files[-1], [1]).commit()
    settle(table)
    table.remove(table.files[0]).commit()
    settle(table)
    vacuum(table.path, at(3, hours=1000), keep_versions=(2,))
    assert {removed, marked} <= names_below(table.path)
    feed = read_change_feed(open_store(str(table.path)), ChangeBounds(start_version=2, end_version=2))
    vectors = [vector for change in feed.changes for vector in (change.shown, change.hidden) if vector is not None]
    assert {vector.relative_path for vector in vectors} <= names_below(table.path)
    assert len(vectors) > 1, "the old one and the new one"


def test_files_vectors_and_change_data_of_kept_versions_stay(tmp_path):
    table = history_of_three(tmp_path / "t")
    everything = names_below(table.path)
    kept = vacuum(table.path, at(2, hours=1000), keep_versions=(1,))
    assert names_below(table.path) | set(kept.paths) == everything
    [gone] = kept.paths
    assert gone.startswith("deletion_vector_"), "that of version 0, which nobody keeps"
    assert any(name.startswith("_change_data/") for name in names_below(table.path))
    vacuum(table.path, at(4, hours=1000))
    assert names_below(table.path) == needed_by(table)


@pytest.mark.parametrize("versions", [(9,), (0, 9)])
def test_version_to_keep_that_does_not_exist_is_an_error(tmp_path, versions):
    table = history_of_three(tmp_path / "t")
    before = names_below(table.path)
    with pytest.raises(VersionNotFoundError, match="version 9"):
        vacuum(table.path, at(2, hours=1000), keep_versions=versions)
    with pytest.raises(RequestError, match="0 or more"):
        vacuum(table.path, at(2, hours=1000), keep_versions=(-1,))
    assert names_below(table.path) == before


def test_change_data_goes_when_it_is_older_than_the_retention(tmp_path):
    table = builder(tmp_path / "t").change_data_feed().file(ROWS)
    table.change_file([ROWS[0] | {"_change_type": "insert"}]).commit()
    settle(table)
    young = put(table.path, "_change_data/young.parquet", at(0, hours=5))
    vacuum(table.path, at(0, hours=6), retention_hours=2)
    assert names_below(table.path) == needed_by(table) | {young.relative_to(table.path).as_posix()}


# --- beside writers ---------------------------------------------------------------------------------------------------


def test_nothing_younger_than_the_retention_is_touched(tmp_path):
    table = builder(tmp_path / "t").file(ROWS).commit()
    settle(table)
    kept = {"running/part-0.parquet", "deletion_vector_x.bin", "exactly.parquet"}
    for name in kept:
        put(table.path, name, at(0, hours=8))
    put(table.path, "old.parquet", at(0, hours=8) - 1)
    vacuum(table.path, at(0, hours=10), retention_hours=2)
    assert names_below(table.path) == needed_by(table) | kept


def test_file_that_comes_back_while_the_table_is_surveyed_stays(tmp_path):
    """As a RESTORE does it, between the survey and VACUUM START."""
    table = builder(tmp_path / "t").file(ROWS, deleted=[0]).commit()
    settle(table)
    file = table.files[0]
    table.remove(file).commit()
    orphan = put(table.path, "orphan.parquet", at(0))

    def bring_back(op, path):
        if op == "put_if_absent" and path.endswith("02.json") and table.version == 1:
            table._stage_add(file).commit()

    store = HookedStore(open_store(str(table.path)), before=bring_back)
    done = vacuum(store, at(1, hours=1000))
    assert done.version == 4
    assert names_below(table.path) == needed_by(table)
    assert not orphan.exists()


def test_file_that_comes_back_stays_also_where_nothing_is_recorded(tmp_path):
    table = builder(tmp_path / "t").file(ROWS, deleted=[0]).commit()
    settle(table)
    file = table.files[0]
    table.remove(file).commit()
    looks = []

    def bring_back(op, path):
        looks.append((op, path))
        # The last look at the log before anything is deleted.
        if op == "head" and path.endswith("02.json") and table.version == 1:
            table._stage_add(file).commit()

    store = HookedStore(open_store(str(table.path)), before=bring_back)
    done = vacuum(store, at(1, hours=1000), is_logged=False)
    assert (done.version, table.version) == (None, 2), looks
    assert names_below(table.path) == needed_by(table)


# --- what the history says --------------------------------------------------------------------------------------------


def test_history_has_a_start_and_an_end_as_the_reference_writes_them(tmp_path):
    table = replaced_vector(tmp_path / "t")
    put(table.path, "orphan.parquet", at(0), b"12345")
    done = vacuum(table.path, at(1, hours=1000), options=WriteOptions(user_metadata="nightly"))
    start, end = commit_info(table.path, 2), commit_info(table.path, 3)
    assert start["operation"] == "VACUUM START"
    assert start["operationParameters"] == {"retentionCheckEnabled": False, "defaultRetentionMillis": 604_800_000}
    assert start["operationMetrics"] == {"numFilesToDelete": "2", "sizeOfDataToDelete": "48"}
    assert (start["readVersion"], start["isolationLevel"], start["isBlindAppend"]) == (1, "SnapshotIsolation", True)
    assert end["operation"] == "VACUUM END"
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"] == {"numDeletedFiles": "2", "numVacuumedDirectories": "1"}
    assert start["userMetadata"] == end["userMetadata"] == "nightly"
    assert (done.version, done.status) == (3, "COMPLETED")
    assert (table.path / "_delta_log/00000000000000000002.json").read_text().count("\n") == 1


def test_given_retention_is_recorded(tmp_path):
    table = replaced_vector(tmp_path / "t")
    vacuum(table.path, at(1), retention_hours=0)
    assert commit_info(table.path, 2)["operationParameters"]["specifiedRetentionMillis"] == 0


def test_vacuum_with_nothing_to_delete_is_recorded_too(tmp_path):
    table = builder(tmp_path / "t").file(ROWS).commit()
    assert vacuum(table.path, at(0)).version == 2
    assert commit_info(table.path, 1)["operationMetrics"] == {"numFilesToDelete": "0", "sizeOfDataToDelete": "0"}


def test_dry_run_writes_and_deletes_nothing(tmp_path):
    table = replaced_vector(tmp_path / "t")
    put(table.path, "orphan.parquet", at(0), b"12345")
    before = names_below(table.path)
    log = sorted((table.path / "_delta_log").iterdir())
    looked = vacuum(table.path, at(1, hours=1000), dry_run=True)
    assert sorted((table.path / "_delta_log").iterdir()) == log
    assert names_below(table.path) == before
    assert set(looked.paths) == before - needed_by(table)
    assert set(looked.absolute_paths()) == {f"file:{table.path}/{name}" for name in looked.paths}
    assert (looked.version, looked.metrics.num_files_to_delete, looked.metrics.size_of_data_to_delete) == (None, 2, 48)
    assert "shallow clone" in repr(looked)


def test_table_with_in_commit_timestamps_is_vacuumed_by_its_own_times(tmp_path):
    table = builder(tmp_path / "t").in_commit_timestamps().file(ROWS, deleted=[0]).commit()
    settle(table)
    table.mark(table.files[0], [1]).commit()
    settle(table)
    vacuum(table.path, at(1, hours=WEEK + 1))
    assert names_below(table.path) == needed_by(table)
    stamps = [commit_info(table.path, version)["inCommitTimestamp"] for version in range(4)]
    assert stamps == sorted(set(stamps))


def test_table_with_vacuum_protocol_check_is_vacuumed(tmp_path):
    table = builder(tmp_path / "t").feature("vacuumProtocolCheck").file(ROWS).commit()
    settle(table)
    put(table.path, "orphan.parquet", at(0))
    vacuum(table.path, at(0, hours=1000))
    assert names_below(table.path) == needed_by(table)


@pytest.mark.parametrize("reader", [True, False])
def test_table_with_a_feature_that_we_do_not_know_is_left_alone(tmp_path, reader):
    table = builder(tmp_path / "t").feature("somethingNew", reader=reader).file(ROWS).commit()
    settle(table)
    put(table.path, "orphan.parquet", at(0))
    before = names_below(table.path)
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        vacuum(table.path, at(0, hours=1000))
    assert names_below(table.path) == before


# --- what cannot be deleted -------------------------------------------------------------------------------------------


class StubbornStore(HookedStore):
    """Some files cannot be deleted."""

    def delete_all(self, paths):
        stubborn = {path: StorageError(f"no permission for {path}") for path in paths if "stubborn" in path}
        return {**self.inner.delete_all([path for path in paths if path not in stubborn]), **stubborn}


def test_file_that_cannot_be_deleted_is_counted_and_named_and_the_others_go(tmp_path, monkeypatch):
    monkeypatch.setattr(deletion, "BATCH", 3)
    table = builder(tmp_path / "t").file(ROWS).commit()
    settle(table)
    for number in range(10):
        put(table.path, f"{'stubborn' if number % 5 == 0 else 'orphan'}-{number}.parquet", at(0))
    done = vacuum(StubbornStore(open_store(str(table.path))), at(0, hours=1000))
    assert names_below(table.path) == needed_by(table) | {"stubborn-0.parquet", "stubborn-5.parquet"}
    assert (done.num_failed, done.status) == (2, "FAILED")
    assert done.failures["stubborn-5.parquet"] == "no permission for stubborn-5.parquet"
    end = commit_info(table.path, 2)
    assert end["operationParameters"] == {"status": "FAILED"}
    assert end["operationMetrics"]["numDeletedFiles"] == "8"
    assert "2 files could not be deleted" in repr(done)


def test_vacuum_with_failures_does_not_tell_the_next_lite_one_that_they_are_gone(tmp_path):
    table = builder(tmp_path / "t").file(ROWS).file(ROWS, name="stubborn.parquet").commit()
    settle(table)
    table.remove(table.files[1]).commit()
    vacuum(StubbornStore(open_store(str(table.path))), at(1, hours=1000))
    assert not (table.path / "_delta_log/_last_vacuum_info").exists()
    assert set(vacuum(table.path, at(1, hours=1000), lite=True).paths) == {"stubborn.parquet"}
    assert names_below(table.path) == needed_by(table)


def test_progress_is_told(tmp_path):
    table = builder(tmp_path / "t").file(ROWS).commit()
    settle(table)
    put(table.path, "orphan.parquet", at(0))
    told = []
    clock = Clock(now_ms=lambda: at(0, hours=1000))
    VacuumCommand(VacuumRequest(open_store(str(table.path))), on_phase=told.append, clock=clock).run()
    assert told == ["Reading the log", "Listing: 2 objects, 1 to delete", "Deleting: 1 of 1"]


def test_result_reads_well_in_a_notebook(tmp_path):
    table = replaced_vector(tmp_path / "t")
    done = vacuum(table.path, at(1, hours=1000))
    assert "numDeletedFiles" in done._repr_html_()
    assert repr(done).startswith("<VacuumResult version 3: 1 path deleted; 43 bytes")
    assert json.loads(json.dumps(done.operation_metrics))["numDeletedFiles"] == 1
    assert [record.operation for record in read_history(open_store(str(table.path)), limit=2)] == [
        "VACUUM END",
        "VACUUM START",
    ]
    assert done.cutoff_ms == at(1, hours=1000) - WEEK * HOUR_MS
