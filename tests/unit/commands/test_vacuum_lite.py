"""Does VACUUM LITE find in the log what left the retention, and refuse when the log no longer tells?"""

from __future__ import annotations

import json

import pytest
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import SCHEMA, at, builder, names_below, needed_by, put, settle, vacuum

from ebbtide.errors import RequestError
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

ROWS = [{"id": number, "part": "a"} for number in range(3)]


def info(table):
    return json.loads((table.path / "_delta_log/_last_vacuum_info").read_text())


def changed(path):
    """Version 1 replaces a vector, version 2 removes a file; change data in both; an orphan that no commit names."""
    table = builder(path).change_data_feed().file(ROWS, deleted=[0]).file(ROWS).commit()
    settle(table)
    table.mark(table.files[0], [1]).change_file([ROWS[1] | {"_change_type": "delete"}]).commit()
    settle(table)
    table.remove(table.files[0]).change_file([ROWS[2] | {"_change_type": "delete"}]).commit()
    settle(table)
    put(table.path, "orphan.parquet", at(0))
    return table


def test_removed_files_vectors_and_change_data_go_without_a_listing(tmp_path):
    table = changed(tmp_path / "t")
    store = HookedStore(open_store(str(table.path)))
    done = vacuum(store, at(2, hours=1000), lite=True)
    assert names_below(table.path) == {*needed_by(table), "orphan.parquet"}
    assert done.is_lite
    assert not [call for call in store.calls if call[0] == "list"]
    assert {path for op, path in store.calls if op == "list_directory"} == {"_delta_log"}
    assert done.metrics.num_vacuumed_directories == 1
    assert info(table) == {"latestCommitVersionOutsideOfRetentionWindow": 2}


def test_only_commits_outside_of_the_retention_are_read(tmp_path):
    table = changed(tmp_path / "t")
    before = names_below(table.path)
    done = vacuum(table.path, at(1, hours=1) + 1, retention_hours=1, lite=True)
    assert info(table) == {"latestCommitVersionOutsideOfRetentionWindow": 1}
    assert before - names_below(table.path) == set(done.paths)
    assert sorted(name.split("-")[0].split("/")[0][:9] for name in done.paths) == ["_change_d", "deletion_"]


def test_next_one_starts_where_the_last_one_stopped(tmp_path):
    table = changed(tmp_path / "t")
    done = vacuum(table.path, at(1, hours=1) + 1, retention_hours=1, lite=True)
    [vector] = [name for name in done.paths if name.startswith("deletion_vector")]
    put(table.path, vector, at(0))
    vacuum(table.path, at(2, hours=2), retention_hours=1, lite=True)
    assert names_below(table.path) == {*needed_by(table), "orphan.parquet", vector}, "version 1 is not read again"


def test_nothing_is_outside_of_the_retention_yet(tmp_path):
    table = changed(tmp_path / "t")
    before = names_below(table.path)
    assert not vacuum(table.path, at(2, hours=1), lite=True).paths
    assert names_below(table.path) == before
    assert info(table) == {}


def test_dry_run_names_the_files_that_are_there(tmp_path):
    table = changed(tmp_path / "t")
    everything = names_below(table.path)
    looked = vacuum(table.path, at(2, hours=1000), lite=True, dry_run=True)
    assert set(looked.paths) == everything - needed_by(table) - {"orphan.parquet"}
    assert len(looked.paths) == len(set(looked.paths))
    assert not (table.path / "_delta_log/_last_vacuum_info").exists()
    (table.path / next(iter(looked.paths))).unlink()
    assert len(vacuum(table.path, at(2, hours=1000), lite=True, dry_run=True).paths) == len(looked.paths) - 1


def test_one_vector_file_of_many_tombstones_is_named_once(tmp_path):
    table = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors(share_a_file=True)
    table.file(ROWS, deleted=[0]).file(ROWS, deleted=[1]).commit()
    settle(table)
    table.remove(table.files[0]).commit()
    table.remove(table.files[0]).commit()
    looked = vacuum(table.path, at(2, hours=1000), lite=True, dry_run=True)
    assert sorted(name[:4] for name in looked.paths) == ["dele", "part", "part"]


def test_full_vacuum_spares_the_next_lite_one_the_commits_it_covered(tmp_path):
    table = changed(tmp_path / "t")
    vacuum(table.path, at(2, hours=1000))
    assert info(table) == {"latestCommitVersionOutsideOfRetentionWindow": 2}
    table.version = load_snapshot(open_store(str(table.path))).version
    table.checkpoint().clean_commits(before=3)
    assert not vacuum(table.path, at(2, hours=1001), lite=True).paths


def test_kept_versions_are_looked_at_again_by_the_next_one(tmp_path):
    table = changed(tmp_path / "t")
    vacuum(table.path, at(2, hours=1000), lite=True, keep_versions=(0,))
    assert not (table.path / "_delta_log/_last_vacuum_info").exists()
    vacuum(table.path, at(4, hours=1000), lite=True)
    assert names_below(table.path) == {*needed_by(table), "orphan.parquet"}


def test_log_that_was_cleaned_up_before_any_vacuum_is_refused(tmp_path):
    table = changed(tmp_path / "t").checkpoint()
    table.clean_commits(before=1)
    before = names_below(table.path)
    with pytest.raises(RequestError, match="Run VACUUM FULL") as refused:
        vacuum(table.path, at(2, hours=1000), lite=True)
    assert refused.value.getCondition() == "DELTA_CANNOT_VACUUM_LITE"
    assert refused.value.getSqlState() == "55000"
    assert names_below(table.path) == before
    assert load_snapshot(open_store(str(table.path))).version == 2


@pytest.mark.parametrize(("last", "is_refused"), [(0, False), (1, False), (None, True)])
def test_log_that_was_cleaned_up_only_where_the_last_vacuum_had_been_is_fine(tmp_path, last, is_refused):
    table = changed(tmp_path / "t").checkpoint()
    field = {} if last is None else {"latestCommitVersionOutsideOfRetentionWindow": last}
    (table.path / "_delta_log/_last_vacuum_info").write_text(json.dumps(field))
    table.clean_commits(before=1)
    if is_refused:
        with pytest.raises(RequestError, match="DELTA_CANNOT_VACUUM_LITE"):
            vacuum(table.path, at(2, hours=1000), lite=True)
    else:
        assert vacuum(table.path, at(2, hours=1000), lite=True).paths


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"latestCommitVersionOutsideOfRetentionWindow": "x"}'])
def test_progress_that_makes_no_sense_counts_as_none(tmp_path, text):
    table = changed(tmp_path / "t")
    (table.path / "_delta_log/_last_vacuum_info").write_text(text)
    vacuum(table.path, at(2, hours=1000), lite=True)
    assert names_below(table.path) == {*needed_by(table), "orphan.parquet"}


def test_progress_beyond_the_newest_commit_finds_nothing(tmp_path):
    table = changed(tmp_path / "t")
    (table.path / "_delta_log/_last_vacuum_info").write_text('{"latestCommitVersionOutsideOfRetentionWindow": 99}')
    assert not vacuum(table.path, at(2, hours=1000), lite=True).paths


@pytest.mark.parametrize(
    "path",
    ["../outside.parquet", "_delta_log/00000000000000000000.json", "link/outside.parquet", "link.parquet"],
)
def test_log_cannot_send_it_outside_or_into_the_log(tmp_path, path):
    table = changed(tmp_path / "t")
    outside = put(tmp_path, "outside.parquet", at(0))
    (table.path / "link").symlink_to(tmp_path)
    (table.path / "link.parquet").symlink_to(outside)
    if path.startswith(".."):
        path = f"file://{tmp_path}/outside.parquet"
    table.raw({"remove": {"path": path, "deletionTimestamp": at(2), "dataChange": True}}).commit()
    vacuum(table.path, at(3, hours=1000), lite=True)
    assert outside.exists()
    assert (table.path / "_delta_log/00000000000000000000.json").exists()
    assert (table.path / "link.parquet").is_symlink()


def test_removed_file_that_was_copied_lately_stays(tmp_path):
    """A table restored from a backup: its files are younger than the log says."""
    table = changed(tmp_path / "t")
    before = names_below(table.path)
    for name in before:
        put(table.path, name, at(2, hours=999), (table.path / name).read_bytes())
    vacuum(table.path, at(2, hours=1000), lite=True)
    assert names_below(table.path) == before
