"""Which log files are chosen for a version, and which shapes of a log are refused?"""

import pytest
from tests.support.log_builder import LogBuilder, add, live_keys, metadata, protocol, remove

from ebbtide.errors import CorruptTableError, RequestError, TableNotFoundError, VersionNotFoundError
from ebbtide.log import load_snapshot
from ebbtide.log.listing import last_checkpoint_version, list_log
from ebbtide.log.segment import segments

HEAD = [protocol(), metadata()]


def appends(count, *, start=0):
    log = LogBuilder()
    for version in range(start, count):
        log.commit(version, [*(HEAD if version == 0 else []), add(f"{version}.parquet")])
    return log


def paths(snapshot):
    return {path for path, _ in live_keys(snapshot)}


def test_commits_alone_make_a_snapshot():
    snapshot = load_snapshot(appends(3).store)
    assert snapshot.version == 2
    assert paths(snapshot) == {"0.parquet", "1.parquet", "2.parquet"}


def test_names_that_are_no_log_files_are_ignored():
    log = appends(2)
    for name in ("00000000000000000002.json.tmp", ".00000000000000000002.json.crc", "2.json", "_staged_commits/x.json"):
        log.raw(name, b"not a commit")
    log.raw("00000000000000000001.crc", b"not a checksum")
    assert load_snapshot(log.store).version == 1


def test_directory_without_log_is_no_table():
    with pytest.raises(TableNotFoundError):
        load_snapshot(LogBuilder().store)


def test_log_directory_with_foreign_files_only_is_no_table():
    log = LogBuilder()
    log.raw("readme.txt", b"hello")
    with pytest.raises(TableNotFoundError):
        load_snapshot(log.store)


@pytest.mark.parametrize("parts", [1, 3], ids=["classic", "multipart"])
def test_checkpoint_replaces_the_commits_below_it(parts):
    log = appends(4)
    log.checkpoint(2, [*HEAD, *(add(f"{version}.parquet") for version in range(3))], parts=parts)
    for version in range(3):
        log.delete(f"{version:020d}.json")
    assert paths(load_snapshot(log.store)) == {f"{version}.parquet" for version in range(4)}


@pytest.mark.parametrize("format", ["json", "parquet"])
@pytest.mark.parametrize("sidecars", [0, 1, 3])
def test_v2_checkpoint_replaces_the_commits_below_it(format, sidecars):
    log = appends(4)
    log.v2_checkpoint(2, [*HEAD, *(add(f"{v}.parquet") for v in range(3))], format=format, sidecars=sidecars)
    for version in range(3):
        log.delete(f"{version:020d}.json")
    assert paths(load_snapshot(log.store)) == {f"{version}.parquet" for version in range(4)}


def test_checkpoint_without_its_commit_is_the_newest_version():
    log = LogBuilder()
    log.checkpoint(7, [*HEAD, add("a.parquet")])
    snapshot = load_snapshot(log.store)
    assert snapshot.version == 7
    assert paths(snapshot) == {"a.parquet"}


def test_incomplete_multipart_checkpoint_is_ignored():
    log = appends(3)
    names = log.checkpoint(2, [*HEAD, add("wrong.parquet"), add("other.parquet")], parts=2)
    log.store.delete(names[1])
    assert paths(load_snapshot(log.store)) == {"0.parquet", "1.parquet", "2.parquet"}


def test_incomplete_checkpoint_as_the_only_start_is_corrupt():
    log = appends(4, start=3)
    names = log.checkpoint(2, [*HEAD, add("a.parquet"), add("b.parquet")], parts=2)
    log.store.delete(names[0])
    with pytest.raises(CorruptTableError) as caught:
        load_snapshot(log.store)
    assert caught.value.error_class == "DELTA_TRUNCATED_TRANSACTION_LOG"


def test_parts_of_two_different_checkpoints_do_not_make_one():
    log = appends(3)
    two = log.checkpoint(2, [*HEAD, add("wrong.parquet")], parts=2)
    three = log.checkpoint(2, [*HEAD, add("wrong.parquet")], parts=3)
    for name in (two[1], three[2]):
        log.store.delete(name)
    assert list_log(log.store).checkpoints == ()


def test_missing_commit_is_named():
    log = appends(5)
    log.delete(f"{3:020d}.json")
    with pytest.raises(CorruptTableError, match="version 3 is missing") as caught:
        load_snapshot(log.store)
    assert caught.value.error_class == "DELTA_VERSIONS_NOT_CONTIGUOUS"


def test_version_before_a_gap_is_still_readable():
    log = appends(5)
    log.delete(f"{3:020d}.json")
    assert load_snapshot(log.store, version=2).version == 2


def test_gap_below_a_checkpoint_does_not_matter():
    log = appends(5)
    log.checkpoint(3, [*HEAD, *(add(f"{version}.parquet") for version in range(4))])
    log.delete(f"{1:020d}.json")
    assert load_snapshot(log.store).num_files == 5


def test_compacted_file_stands_in_for_its_commits():
    log = appends(6)
    log.compact(1, 4, [add(f"{version}.parquet") for version in range(1, 5)])
    for version in range(1, 5):
        log.raw(f"{version:020d}.json", b"broken, but nobody needs it")
    assert paths(load_snapshot(log.store)) == {f"{version}.parquet" for version in range(6)}


def test_of_several_compacted_files_the_longest_that_fits_is_used():
    log = appends(8)
    log.compact(1, 3, [])
    log.compact(1, 5, [])
    log.compact(4, 9, [])
    (segment, *_) = segments(list_log(log.store), version=7, table_url="t")
    assert [(file.version, file.end_version) for file in segment.log_files] == [(0, 0), (1, 5), (6, 6), (7, 7)]


def test_compacted_file_beyond_the_version_asked_for_is_not_used():
    log = appends(6)
    log.compact(1, 4, [remove("0.parquet")])
    assert paths(load_snapshot(log.store, version=3)) == {f"{version}.parquet" for version in range(4)}


def test_removal_inside_a_compacted_file_is_applied():
    log = appends(4)
    log.compact(1, 2, [remove("0.parquet"), add("2.parquet")])
    assert paths(load_snapshot(log.store)) == {"2.parquet", "3.parquet"}


def test_damaged_compacted_file_falls_back_to_the_commits():
    log = appends(4)
    log.compact(1, 3, [])
    log.raw(f"{1:020d}.{3:020d}.compacted.json", b'{"add":{"path":')
    assert load_snapshot(log.store).num_files == 4


def test_damaged_compacted_file_without_commits_is_corrupt():
    log = appends(4)
    log.raw(f"{1:020d}.{2:020d}.compacted.json", b'{"add":{"path":')
    log.delete(f"{1:020d}.json")
    with pytest.raises(CorruptTableError):
        load_snapshot(log.store)


class TestLastCheckpoint:
    def test_hint_limits_the_listing(self):
        log = appends(5)
        log.checkpoint(3, [*HEAD, *(add(f"{version}.parquet") for version in range(4))])
        log.last_checkpoint(3)
        assert load_snapshot(log.store).num_files == 5
        assert log.store.listings == [f"_delta_log/{3:020d}."]

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"version":"x"}',
            b'{"version":-1}',
            b'{"size":3}',
            b"\xff\xfe",
            b'{"version":1e400}',
        ],
    )
    def test_corrupt_hint_is_as_good_as_none(self, content):
        log = appends(3)
        log.raw("_last_checkpoint", content)
        assert last_checkpoint_version(log.store) is None
        assert load_snapshot(log.store).num_files == 3

    @pytest.mark.parametrize("version", [0, 1, 2, 99, 2**62])
    def test_hint_at_a_checkpoint_that_does_not_exist_changes_nothing(self, version):
        log = appends(3)
        log.last_checkpoint(version)
        assert load_snapshot(log.store).num_files == 3

    def test_hint_with_the_wrong_number_of_parts_changes_nothing(self):
        log = appends(4)
        log.checkpoint(2, [*HEAD, *(add(f"{version}.parquet") for version in range(3))])
        log.last_checkpoint(2, parts=17)
        assert load_snapshot(log.store).num_files == 4

    def test_hint_at_an_old_checkpoint_does_not_hide_a_newer_one(self):
        log = appends(6)
        for version in (1, 4):
            log.checkpoint(version, [*HEAD, *(add(f"{v}.parquet") for v in range(version + 1))])
        log.last_checkpoint(1)
        snapshot = load_snapshot(log.store)
        assert snapshot.num_files == 6
        assert snapshot.segment.checkpoint.version == 4

    def test_hint_at_a_damaged_checkpoint_falls_back_to_older_files(self):
        log = appends(5)
        log.checkpoint(1, [*HEAD, *(add(f"{v}.parquet") for v in range(2))])
        log.raw(f"{3:020d}.checkpoint.parquet", b"PAR1 is all that is left")
        log.last_checkpoint(3)
        snapshot = load_snapshot(log.store)
        assert snapshot.num_files == 5
        assert snapshot.segment.checkpoint.version == 1

    def test_hint_beyond_the_version_asked_for_is_not_used(self):
        log = appends(5)
        log.checkpoint(3, [*HEAD, *(add(f"{version}.parquet") for version in range(4))])
        log.last_checkpoint(3)
        assert load_snapshot(log.store, version=1).num_files == 2


class TestDamagedCheckpoints:
    def test_commits_serve_when_the_checkpoint_is_damaged(self):
        log = appends(4)
        log.raw(f"{2:020d}.checkpoint.parquet", b"garbage")
        assert load_snapshot(log.store).num_files == 4

    def test_another_checkpoint_of_the_same_version_serves(self):
        log = LogBuilder()
        log.raw(f"{2:020d}.checkpoint.parquet", b"garbage")
        log.v2_checkpoint(2, [*HEAD, add("a.parquet")])
        assert paths(load_snapshot(log.store)) == {"a.parquet"}

    def test_only_checkpoint_damaged_is_corrupt(self):
        log = appends(4, start=3)
        log.raw(f"{2:020d}.checkpoint.parquet", b"garbage")
        with pytest.raises(CorruptTableError, match="checkpoint"):
            load_snapshot(log.store)

    def test_sidecar_missing_is_corrupt(self):
        log = LogBuilder()
        log.v2_checkpoint(2, [*HEAD, add("a.parquet")], sidecars=1)
        (sidecar,) = [path for path in log.store.objects if "_sidecars" in path]
        log.store.delete(sidecar)
        with pytest.raises(CorruptTableError, match="gone"):
            load_snapshot(log.store)

    def test_sidecar_damaged_falls_back_to_the_commits(self):
        log = appends(3)
        log.v2_checkpoint(2, [*HEAD, *(add(f"{version}.parquet") for version in range(3))], sidecars=1)
        (sidecar,) = [path for path in log.store.objects if "_sidecars" in path]
        log.store.objects[sidecar] = b"garbage"
        assert load_snapshot(log.store).num_files == 3

    def test_sidecar_outside_its_directory_is_refused(self):
        log = LogBuilder()
        log.v2_checkpoint(2, [*HEAD, {"sidecar": {"path": "../../secret.parquet", "sizeInBytes": 1}}])
        with pytest.raises(CorruptTableError):
            load_snapshot(log.store)

    def test_v2_checkpoint_of_another_version_is_not_believed(self):
        log = appends(3)
        log.raw(
            f"{2:020d}.checkpoint.00000000-0000-0000-0000-000000000001.json",
            b'{"checkpointMetadata":{"version":1}}\n{"add":{"path":"wrong","partitionValues":{},"size":1}}\n',
        )
        assert paths(load_snapshot(log.store)) == {"0.parquet", "1.parquet", "2.parquet"}

    @pytest.mark.parametrize("missing", ["protocol", "metaData"])
    def test_checkpoint_without_protocol_or_metadata_is_corrupt_even_beside_commits(self, missing):
        log = appends(3)
        log.checkpoint(2, [*(action for action in HEAD if missing not in action), add("0.parquet")])
        with pytest.raises(CorruptTableError, match=missing) as caught:
            load_snapshot(log.store)
        assert caught.value.error_class == "DELTA_STATE_RECOVER_ERROR"


class TestVersionsAskedFor:
    def test_version_that_is_not_there_yet_names_the_newest(self):
        with pytest.raises(VersionNotFoundError, match="does not exist yet; versions 0 to 2"):
            load_snapshot(appends(3).store, version=3)

    def test_version_beyond_the_hint_still_names_the_oldest(self):
        log = appends(3)
        log.checkpoint(1, [*HEAD, add("0.parquet"), add("1.parquet")])
        log.last_checkpoint(1)
        with pytest.raises(VersionNotFoundError, match="versions 0 to 2"):
            load_snapshot(log.store, version=3)

    def test_version_that_was_cleaned_up_names_the_oldest(self):
        log = appends(6, start=2)
        log.checkpoint(3, [*HEAD, add("a.parquet")])
        with pytest.raises(VersionNotFoundError, match="was cleaned up; versions 3 to 5"):
            load_snapshot(log.store, version=2)

    def test_negative_version_does_not_exist(self):
        with pytest.raises(VersionNotFoundError):
            load_snapshot(appends(3).store, version=-1)

    def test_version_and_timestamp_together_are_refused(self):
        with pytest.raises(RequestError):
            load_snapshot(appends(3).store, version=1, timestamp_ms=1)

    def test_every_version_of_a_log_with_checkpoints_is_readable(self):
        log = appends(8)
        for version in (2, 5):
            log.checkpoint(version, [*HEAD, *(add(f"{v}.parquet") for v in range(version + 1))])
        log.last_checkpoint(5)
        assert [load_snapshot(log.store, version=v).num_files for v in range(8)] == list(range(1, 9))
