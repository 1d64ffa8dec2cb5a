"""Does a snapshot carried forward equal one loaded afresh, and does it notice when it may not be used?"""

import pytest
from tests.support.log_builder import (
    LogBuilder,
    MemoryStore,
    add,
    domain,
    live_keys,
    metadata,
    protocol,
    remove,
    txn,
    vector,
)

from ebbtide.errors import CorruptTableError, UnsupportedFeatureError, VersionNotFoundError
from ebbtide.log import load_snapshot

HEAD = [protocol(), metadata()]


def make_log():
    log = LogBuilder()
    log.commit(0, [*HEAD, add("a"), add("b"), txn("app", 1), domain("d")])
    return log


def assert_same(left, right):
    assert left.version == right.version
    assert left.files.sort_by("path").to_pylist() == right.files.sort_by("path").to_pylist()
    assert left.tombstones().sort_by("path").to_pylist() == right.tombstones().sort_by("path").to_pylist()
    for field in ("protocol", "metadata", "schema", "properties", "transactions", "domain_metadata", "timestamp_ms"):
        assert getattr(left, field) == getattr(right, field), field


def test_only_new_commits_are_read():
    log = make_log()
    hint = load_snapshot(log.store)
    log.commit(1, [remove("a"), add("a", dv=vector()), txn("app", 2), domain("d", removed=True)])
    log.commit(2, [add("c"), metadata({"id": "long", "x": "string"})])
    log.store.reads.clear()
    snapshot = load_snapshot(log.store, hint=hint)
    assert log.store.reads == [f"_delta_log/{1:020d}.json", f"_delta_log/{2:020d}.json"]
    assert_same(snapshot, load_snapshot(log.store))


def test_only_the_log_from_the_hint_on_is_listed():
    log = make_log()
    log.commit(1, [add("c")])
    hint = load_snapshot(log.store)
    log.commit(2, [add("d")])
    log.store.listings.clear()
    assert load_snapshot(log.store, hint=hint).num_files == 4
    assert log.store.listings == [f"_delta_log/{1:020d}."]


def local_log(commits, *, interval=10):
    """A log on a disk, where a listing reads the whole directory and looking for one name costs nothing."""
    log = LogBuilder(MemoryStore("file:///somewhere"))
    properties = {"delta.checkpointInterval": str(interval)}
    log.commit(0, [protocol(), metadata(configuration=properties), add("0")])
    for version in range(1, commits):
        log.commit(version, [add(str(version))])
    return log


def test_disk_is_asked_for_the_next_commits_by_name_and_not_listed():
    log = local_log(3)
    hint = load_snapshot(log.store)
    log.commit(3, [add("3")])
    log.commit(4, [remove("0")])
    log.store.listings.clear()
    snapshot = load_snapshot(log.store, hint=hint)
    assert log.store.listings == []
    assert_same(snapshot, load_snapshot(log.store))


def test_commits_too_many_to_ask_for_by_name_are_listed():
    log = local_log(1, interval=3)
    hint = load_snapshot(log.store)
    for version in range(1, 20):
        log.commit(version, [add(str(version))])
    log.store.listings.clear()
    assert_same(load_snapshot(log.store, hint=hint), load_snapshot(log.store))
    assert log.store.listings


def test_new_checkpoints_are_noticed_every_now_and_then():
    log = local_log(2, interval=2)
    snapshot = load_snapshot(log.store)
    for version in range(2, 12):
        log.commit(version, [add(str(version)), remove(str(version - 1))])
        if version % 2 == 0:
            live = [add(str(number)) for number in (0, version)]
            log.checkpoint(version, [protocol(), metadata(configuration={"delta.checkpointInterval": "2"}), *live])
        snapshot = load_snapshot(log.store, hint=snapshot)
        assert live_keys(snapshot) == live_keys(load_snapshot(log.store))
    assert snapshot.segment.checkpoint is not None
    assert snapshot.version - snapshot.segment.checkpoint.version <= 4


def test_commit_missing_before_another_is_not_taken_for_the_end_of_the_log():
    log = local_log(3)
    hint = load_snapshot(log.store)
    log.commit(4, [add("4")])
    with pytest.raises(CorruptTableError, match="version 3 is missing"):
        load_snapshot(log.store, hint=hint)


def test_hint_itself_comes_back_when_nothing_happened():
    log = make_log()
    hint = load_snapshot(log.store)
    assert load_snapshot(log.store, hint=hint) is hint


def test_hint_newer_than_the_version_asked_for_is_ignored():
    log = make_log()
    log.commit(1, [add("c")])
    hint = load_snapshot(log.store)
    assert load_snapshot(log.store, version=0, hint=hint).num_files == 2


def test_version_between_is_reached_from_the_hint():
    log = make_log()
    hint = load_snapshot(log.store)
    for version in range(1, 5):
        log.commit(version, [add(f"{version}")])
    assert load_snapshot(log.store, version=3, hint=hint).version == 3


def test_version_not_there_yet_is_refused_as_without_a_hint():
    log = make_log()
    hint = load_snapshot(log.store)
    with pytest.raises(VersionNotFoundError, match="does not exist yet"):
        load_snapshot(log.store, version=1, hint=hint)


def test_table_made_anew_is_loaded_in_full():
    log = make_log()
    hint = load_snapshot(log.store)
    log.delete(f"{0:020d}.json")
    log.commit(0, [*HEAD, add("other")])
    log.commit(1, [add("c")])
    assert live_keys(load_snapshot(log.store, hint=hint)) == {("other", None), ("c", None)}


def test_table_made_anew_with_fewer_versions_is_loaded_in_full():
    log = make_log()
    log.commit(1, [add("c")])
    hint = load_snapshot(log.store)
    log.delete(f"{1:020d}.json")
    log.delete(f"{0:020d}.json")
    log.commit(0, [*HEAD, add("other")])
    assert live_keys(load_snapshot(log.store, hint=hint)) == {("other", None)}


def test_hint_of_another_table_is_ignored():
    log, other = make_log(), LogBuilder()
    other.store.url = "memory://tests/other"
    other.commit(0, [*HEAD, add("z")])
    assert live_keys(load_snapshot(log.store, hint=load_snapshot(other.store))) == {("a", None), ("b", None)}


def test_commits_cleaned_up_meanwhile_lead_to_the_checkpoint():
    log = make_log()
    hint = load_snapshot(log.store)
    for version in range(1, 4):
        log.commit(version, [add(f"{version}")])
    log.checkpoint(2, [*HEAD, add("a"), add("b"), add("1"), add("2")])
    for version in range(2):
        log.delete(f"{version:020d}.json")
    assert load_snapshot(log.store, hint=hint).num_files == 5


def test_missing_commit_is_reported_as_without_a_hint():
    log = make_log()
    hint = load_snapshot(log.store)
    log.commit(2, [add("c")])
    with pytest.raises(CorruptTableError, match="version 1 is missing"):
        load_snapshot(log.store, hint=hint)


def test_feature_that_came_meanwhile_is_refused():
    log = make_log()
    hint = load_snapshot(log.store)
    log.commit(1, [protocol(features=["fromTheFuture"])])
    with pytest.raises(UnsupportedFeatureError):
        load_snapshot(log.store, hint=hint)


def test_second_vector_on_a_live_path_is_refused():
    log = make_log()
    hint = load_snapshot(log.store)
    log.commit(1, [add("a", dv=vector())])
    with pytest.raises(CorruptTableError, match="more than once"):
        load_snapshot(log.store, hint=hint)


def test_tombstones_of_a_long_walk_are_those_of_a_fresh_load():
    log = make_log()
    snapshot = load_snapshot(log.store)
    live = {"a", "b"}
    for version in range(1, 30):
        gone = min(live)
        live = live - {gone} | {f"f{version:03d}"}
        log.commit(version, [remove(gone, at=version), add(f"f{version:03d}")])
        if version % 10 == 0:
            removed = [
                remove(row["path"], at=row["deletion_timestamp"])
                for row in load_snapshot(log.store).tombstones().to_pylist()
            ]
            log.checkpoint(version, [*HEAD, txn("app", 1), domain("d"), *map(add, sorted(live)), *removed])
        snapshot = load_snapshot(log.store, hint=snapshot)
    fresh = load_snapshot(log.store)
    assert snapshot.files.column("path").to_pylist() == [*sorted(live)]
    assert snapshot.tombstones().num_rows == fresh.tombstones().num_rows == 29
    assert snapshot.segment.checkpoint == fresh.segment.checkpoint


def test_tombstones_survive_the_cleanup_of_the_checkpoint_they_came_from():
    log = LogBuilder()
    log.checkpoint(1, [*HEAD, add("a"), remove("gone")])
    log.commit(1, [])
    snapshot = load_snapshot(log.store)
    log.commit(2, [add("b")])
    snapshot = load_snapshot(log.store, hint=snapshot)
    log.checkpoint(2, [*HEAD, add("a"), add("b"), remove("gone")])
    log.delete(f"{1:020d}.checkpoint.parquet")
    assert snapshot.tombstones().column("path").to_pylist() == ["gone"]


def test_many_commits_leave_few_slices_and_no_copy_of_untouched_ones():
    log = LogBuilder()
    log.commit(0, [*HEAD, *(add(f"base{number}") for number in range(20_000))])
    snapshot = load_snapshot(log.store)
    first = snapshot.live.slices[0].rows
    for version in range(1, 200):
        log.commit(version, [add(f"new{version}")])
        snapshot = load_snapshot(log.store, hint=snapshot)
    assert len(snapshot.live.slices) < 20
    assert snapshot.live.slices[0].rows is first
    assert snapshot.num_files == 20_199
