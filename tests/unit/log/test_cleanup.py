"""Does log cleanup delete what has expired, and nothing that any kept version needs?"""

from __future__ import annotations

import json

import pytest
from tests.support.log_builder import LogBuilder, MemoryStore, add, commit_info, live_keys, metadata, protocol

from ebbtide.config import DEFAULT_CONFIG
from ebbtide.errors import CorruptTableError, StorageError, UnsupportedFeatureError, VersionNotFoundError
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.log.cleanup import clean_up_log

DAY = 86_400_000
# Midnight UTC.
START = 19_700 * DAY
V2 = protocol(features=["v2Checkpoint"])
V2_POLICY = {"delta.checkpointPolicy": "v2"}


def path_of(version, suffix="json"):
    return f"_delta_log/{version:020d}.{suffix}"


def history(days, *, checkpoints=(), head=None, configuration=None, infos=None):
    """A table with one commit a day at noon (version = day), its checkpoints written a second later."""
    log = LogBuilder()
    for version in range(days):
        first = [head or protocol(), metadata(configuration=configuration)] if version == 0 else []
        info = [infos(version)] if infos else []
        log.store.times[log.commit(version, [*info, *first, add(f"f{version}")])] = noon(version)
        if version in checkpoints:
            result = write_checkpoint(load_snapshot(log.store, version=version), now_ms=noon(version))
            for path in result.files:
                log.store.times[path] = noon(version) + 1000
    return log


def noon(day):
    return START + day * DAY + DAY // 2


def cleaned(log, *, day, **options):
    """Clean up at noon of a day. With 30 days of retention everything up to midnight of day - 30 has expired."""
    return clean_up_log(load_snapshot(log.store), config=DEFAULT_CONFIG, now_ms=noon(day), **options)


def versions_left(store):
    return sorted(int(path[11:31]) for path in store.objects if path.endswith(".json") and "checkpoint" not in path)


def assert_readable(store, versions):
    for version in versions:
        for start in (None, load_snapshot(store)):
            snapshot = load_snapshot(store, version=version, hint=start)
            assert live_keys(snapshot) == {(f"f{number}", None) for number in range(version + 1)}


def test_history_below_the_newest_expired_checkpoint_goes():
    log = history(40, checkpoints=[5, 10, 20])
    log.raw(f"{3:020d}.crc", b"{}")
    deleted = cleaned(log, day=42)
    # Version 11 (noon of day 11) is the newest before midnight of day 12, so the boundary is the checkpoint of 10.
    expected = {path_of(version) for version in range(10)}
    assert set(deleted) == expected | {path_of(3, "crc"), path_of(5, "checkpoint.parquet")}
    assert versions_left(log.store) == list(range(10, 40))
    assert_readable(log.store, range(10, 40, 7))


def test_version_below_the_boundary_is_said_to_be_cleaned_up():
    log = history(40, checkpoints=[10])
    cleaned(log, day=42)
    with pytest.raises(VersionNotFoundError, match="cleaned up"):
        load_snapshot(log.store, version=9)


def test_checkpoint_younger_than_the_newest_expired_commit_is_no_boundary():
    log = history(40, checkpoints=[12])
    assert cleaned(log, day=42) == ()
    assert len(cleaned(log, day=43)) == 12


def test_cutoff_is_cut_to_midnight():
    log = history(40, checkpoints=[11])
    # 30 days before noon of day 41 is noon of day 11, the time of the commit; midnight of that day is before it.
    assert cleaned(log, day=41) == ()
    assert len(cleaned(log, day=42)) == 11


def test_retention_is_the_tables_own():
    log = history(6, checkpoints=[3], configuration={"delta.logRetentionDuration": "interval 1 day"})
    assert len(cleaned(log, day=5)) == 3


def test_table_without_checkpoint_keeps_everything():
    assert cleaned(history(40), day=1000) == ()


def test_table_whose_hint_is_gone_keeps_everything():
    log = history(40, checkpoints=[10])
    log.delete("_last_checkpoint")
    assert cleaned(log, day=42) == ()


def test_checkpoint_that_the_hint_names_stays():
    log = history(40, checkpoints=[5, 10])
    log.last_checkpoint(5)
    assert set(cleaned(log, day=42)) == {path_of(version) for version in range(5)}


def test_switched_off_cleanup_deletes_nothing():
    log = history(40, checkpoints=[10], configuration={"delta.enableExpiredLogCleanup": "false"})
    assert cleaned(log, day=42) == ()


@pytest.mark.parametrize(("protected", "is_allowed"), [(10, True), (11, False)])
def test_protected_versions_go_at_once_or_not_at_all(protected, is_allowed):
    head = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["checkpointProtection"]}}
    configuration = {"delta.requireCheckpointProtectionBeforeVersion": str(protected)}
    log = history(40, checkpoints=[10], head=head, configuration=configuration)
    assert bool(cleaned(log, day=42)) is is_allowed


def test_table_with_unknown_writer_feature_is_left_alone():
    log = history(40, checkpoints=[10])
    log.commit(40, [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["newThing"]}}])
    before = dict(log.store.objects)
    with pytest.raises(UnsupportedFeatureError, match="newThing"):
        cleaned(log, day=42)
    assert log.store.objects == before


def test_damaged_checkpoint_is_no_boundary():
    log = history(40, checkpoints=[5, 10])
    log.store.objects[path_of(10, "checkpoint.parquet")] = b"PAR1 not really"
    assert set(cleaned(log, day=42)) == {path_of(version) for version in range(5)}
    assert_readable(log.store, [5, 10, 39])


def test_v2_checkpoint_with_a_lost_sidecar_is_no_boundary():
    log = history(40, checkpoints=[5, 10], head=V2, configuration=V2_POLICY)
    newest = max((path for path in log.store.objects if "_sidecars" in path), key=log.store.times.__getitem__)
    log.store.delete(newest)
    cleaned(log, day=42)
    assert versions_left(log.store)[0] == 5


def test_checkpoint_without_its_commit_is_no_boundary():
    log = history(40, checkpoints=[5, 10])
    log.delete(f"{10:020d}.json")
    assert set(cleaned(log, day=42)) == {path_of(version) for version in range(5)}


def test_time_travel_answers_the_same_after_cleanup():
    log = history(40, checkpoints=[5, 10])
    # The clock went back: version 10's file is older than version 9's, so its time leans on version 9.
    log.store.times[path_of(10)] = log.store.times[path_of(9)] - 5000
    moment = noon(9) + 1
    assert load_snapshot(log.store, timestamp_ms=moment).version == 10
    cleaned(log, day=42)
    assert load_snapshot(log.store, timestamp_ms=moment).version == 10
    assert versions_left(log.store)[0] == 5


def test_in_commit_timestamps_decide_where_commits_have_them():
    head = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}}
    # The files look two days older than the commits say they are.
    log = history(
        40,
        checkpoints=[5, 10],
        head=head,
        configuration={"delta.enableInCommitTimestamps": "true"},
        infos=lambda version: commit_info(inCommitTimestamp=noon(version + 2)),
    )
    cleaned(log, day=42)
    assert versions_left(log.store)[0] == 5


def test_compacted_files_that_begin_below_the_boundary_go_too():
    log = history(40, checkpoints=[10])
    for first, last in [(0, 4), (8, 12), (10, 14), (11, 14)]:
        actions = [add(f"f{version}") for version in range(first, last + 1)]
        log.compact(first, last, actions if first else [protocol(), metadata(), *actions])
    cleaned(log, day=42)
    left = {path for path in log.store.objects if "compacted" in path}
    assert left == {f"_delta_log/{11:020d}.{14:020d}.compacted.json"}
    assert_readable(log.store, range(10, 40, 7))


def test_names_that_are_no_part_of_the_log_stay():
    log = history(40, checkpoints=[10])
    strangers = [
        log.raw(name, b"x") for name in (".00000000000000000001.json.tmp", "_commits/x.json", f"{1:020d}.json.bak")
    ]
    cleaned(log, day=42)
    assert set(strangers) <= log.store.objects.keys()


def test_parts_of_an_old_multipart_checkpoint_go():
    log = history(40, checkpoints=[10])
    parts = log.checkpoint(4, [protocol(), metadata(), *(add(f"f{number}") for number in range(5))], parts=3)
    log.store.delete(parts[1])
    for path in parts:
        log.store.times[path] = noon(4)
    cleaned(log, day=42)
    assert not [path for path in log.store.objects if f"{4:020d}" in path]


def test_log_without_expired_files_is_not_listed_to_its_end():
    class CountingStore(MemoryStore):
        listed = 0

        def list_directory(self, prefix, *, start_after=None):
            for meta in super().list_directory(prefix, start_after=start_after):
                self.listed += 1
                yield meta

    log = history(40, checkpoints=[10])
    store = CountingStore()
    store.objects, store.times = log.store.objects, log.store.times
    snapshot = load_snapshot(store)
    store.listed = 0
    assert clean_up_log(snapshot, config=DEFAULT_CONFIG, now_ms=noon(29)) == ()
    assert store.listed == 1


def test_commit_zero_that_cannot_be_deleted_keeps_the_rest():
    class StubbornStore(MemoryStore):
        def delete(self, path):
            if path == path_of(0):
                raise StorageError("no")
            super().delete(path)

    log = history(40, checkpoints=[10])
    store = StubbornStore()
    store.objects, store.times = log.store.objects, log.store.times
    with pytest.raises(StorageError):
        cleaned(LogBuilder(store), day=42)
    assert_readable(store, range(0, 40, 7))


# --- sidecars ---------------------------------------------------------------------------------------------------------


def sidecars(store):
    return {path for path in store.objects if "/_sidecars/" in path}


def test_sidecars_of_deleted_checkpoints_go_and_those_of_kept_ones_stay():
    log = history(40, checkpoints=[5, 10, 20], head=V2, configuration=V2_POLICY)
    by_age = sorted(sidecars(log.store), key=log.store.times.__getitem__)
    cleaned(log, day=42)
    assert sidecars(log.store) == set(by_age[1:])
    assert_readable(log.store, range(10, 40, 7))


def test_sidecar_that_nobody_names_yet_stays_while_it_is_young():
    log = history(40, checkpoints=[5, 10], head=V2, configuration=V2_POLICY)
    old, young = log.raw("_sidecars/old.parquet", b"x"), log.raw("_sidecars/young.parquet", b"x")
    log.store.times[old], log.store.times[young] = noon(8), noon(42) - 3_600_000
    cleaned(log, day=42)
    assert old not in log.store.objects
    assert young in log.store.objects


def test_young_sidecars_stay_even_with_a_retention_of_nothing():
    configuration = {**V2_POLICY, "delta.logRetentionDuration": "interval 0 days"}
    log = history(6, checkpoints=[2, 4], head=V2, configuration=configuration)
    orphan = log.raw("_sidecars/orphan.parquet", b"x")
    log.store.times[orphan] = noon(5) - DAY // 2 - 1000
    assert cleaned(log, day=5)
    assert orphan in log.store.objects


def test_sidecar_of_two_checkpoints_stays_while_one_of_them_does():
    log = history(40, checkpoints=[5, 10], head=V2, configuration=V2_POLICY)
    shared = min(sidecars(log.store), key=log.store.times.__getitem__)
    name = shared.removeprefix("_delta_log/_sidecars/")
    older = {"sidecar": {"path": name, "sizeInBytes": len(log.store.objects[shared]), "modificationTime": 1}}
    newer = {"sidecar": log.sidecar([add(f"f{version}") for version in range(6, 11)])}
    top = next(path for path in log.store.objects if f"{10:020d}.checkpoint" in path)
    kept = [line for line in log.store.objects[top].splitlines() if b'"sidecar"' not in line]
    log.store.objects[top] = b"\n".join([*kept, json.dumps(older).encode(), json.dumps(newer).encode()])
    cleaned(log, day=42)
    assert versions_left(log.store)[0] == 10
    assert shared in log.store.objects
    assert_readable(log.store, [10, 39])


def test_checkpoint_that_names_a_file_twice_is_no_boundary():
    log = history(40, checkpoints=[5, 10], head=V2, configuration=V2_POLICY)
    top = next(path for path in log.store.objects if f"{10:020d}.checkpoint" in path)
    log.store.objects[top] += json.dumps({"sidecar": log.sidecar([add("f1")])}).encode()
    cleaned(log, day=42)
    assert versions_left(log.store)[0] == 5


def test_unreadable_kept_checkpoint_keeps_all_sidecars():
    log = history(40, checkpoints=[5, 10, 20], head=V2, configuration=V2_POLICY)
    newest = next(path for path in log.store.objects if f"{20:020d}.checkpoint" in path)
    log.store.objects[newest] = b"not json\n"
    before = sidecars(log.store)
    with pytest.raises(CorruptTableError):
        cleaned(log, day=42)
    assert sidecars(log.store) == before
    assert_readable(log.store, range(10, 40, 7))


# --- a dry run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"head": V2, "configuration": V2_POLICY}], ids=["classic", "v2"])
def test_dry_run_names_what_would_go_and_deletes_nothing(options):
    log = history(50, checkpoints=(5, 10, 20), **options)
    before = dict(log.store.objects)
    planned = cleaned(log, day=49, dry_run=True)
    assert log.store.objects == before
    assert planned
    assert planned == cleaned(log, day=49)
    assert set(log.store.objects) == set(before) - set(planned)
