"""Which version was current at a given time?"""

import pytest
from tests.support.log_builder import LogBuilder, add, commit_info, metadata, protocol

from ebbtide.errors import CorruptTableError, VersionNotFoundError
from ebbtide.log import load_snapshot, read_history
from ebbtide.log.commit_times import version_at_timestamp

HEAD = [protocol(), metadata()]
OWN_CLOCK = protocol(writer=7, writerFeatures=["inCommitTimestamp"])
ENABLED = {"delta.enableInCommitTimestamps": "true"}


def log_with_times(*times):
    log = LogBuilder()
    for version, time in enumerate(times):
        path = log.commit(version, [*(HEAD if version == 0 else []), add(f"{version}")])
        log.store.times[path] = time
    return log


def log_with_own_times(*times, configuration=None):
    log = LogBuilder()
    for version, time in enumerate(times):
        head = [OWN_CLOCK, metadata(configuration=configuration or ENABLED)] if version == 0 else []
        info = [] if time is None else [commit_info(inCommitTimestamp=time, operation="WRITE")]
        log.commit(version, [*info, *head, add(f"{version}")])
    return log


class TestFileTimes:
    @pytest.mark.parametrize(("asked", "version"), [(100, 0), (199, 0), (200, 1), (299, 1), (300, 2)])
    def test_newest_version_at_or_before_the_time_is_taken(self, asked, version):
        log = log_with_times(100, 200, 300)
        assert version_at_timestamp(log.store, asked) == version
        assert load_snapshot(log.store, timestamp_ms=asked).version == version

    def test_times_that_run_backwards_are_pushed_forward(self):
        log = log_with_times(100, 50, 50, 400)
        assert [version_at_timestamp(log.store, time) for time in (100, 101, 102, 399, 400)] == [0, 1, 2, 2, 3]

    def test_equal_times_differ_by_a_millisecond(self):
        log = log_with_times(100, 100, 100)
        assert [version_at_timestamp(log.store, time) for time in (100, 101, 102)] == [0, 1, 2]

    def test_time_before_the_first_commit_is_refused(self):
        with pytest.raises(VersionNotFoundError, match="version 0") as caught:
            version_at_timestamp(log_with_times(100, 200).store, 99)
        assert caught.value.error_class == "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"

    def test_time_after_the_last_commit_is_refused_and_the_last_one_named(self):
        with pytest.raises(VersionNotFoundError, match=r"version 1 at 1970-01-01T00:00:00\.200\+00:00") as caught:
            version_at_timestamp(log_with_times(100, 200).store, 201)
        assert caught.value.error_class == "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"

    def test_version_whose_state_was_cleaned_up_is_not_offered(self):
        log = log_with_times(100, 200, 300, 400)
        log.checkpoint(2, [*HEAD, add("0"), add("1"), add("2")])
        log.delete(f"{0:020d}.json")
        with pytest.raises(VersionNotFoundError, match="version 2"):
            version_at_timestamp(log.store, 250)
        assert version_at_timestamp(log.store, 350) == 2

    def test_checkpoint_without_any_commit_has_no_times(self):
        log = LogBuilder()
        log.checkpoint(3, [*HEAD])
        with pytest.raises(VersionNotFoundError, match="by version"):
            version_at_timestamp(log.store, 100)

    def test_time_beyond_every_calendar_is_refused_in_words(self):
        with pytest.raises(VersionNotFoundError):
            version_at_timestamp(log_with_times(100).store, 2**62)

    def test_snapshot_has_the_time_of_its_commit_file(self):
        assert load_snapshot(log_with_times(100, 200).store).timestamp_ms == 200

    def test_own_time_without_the_feature_does_not_count(self):
        log = log_with_times(100)
        path = log.commit(1, [commit_info(inCommitTimestamp=5_000), add("x")])
        log.store.times[path] = 200
        assert load_snapshot(log.store).timestamp_ms == 200
        assert [record.timestamp_ms for record in read_history(log.store)] == [200, 100]


class TestOwnTimes:
    def test_time_inside_the_commit_beats_the_file(self):
        log = log_with_own_times(10, 20, 30)
        assert [version_at_timestamp(log.store, time) for time in (10, 15, 20, 29, 30)] == [0, 0, 1, 1, 2]
        assert load_snapshot(log.store).timestamp_ms == 30
        assert [record.timestamp_ms for record in read_history(log.store)] == [30, 20, 10]

    def test_few_commits_are_read_to_find_one_of_many(self):
        log = log_with_own_times(*range(0, 2000, 10))
        log.checkpoint(199, [OWN_CLOCK, metadata(configuration=ENABLED)])
        log.last_checkpoint(199)
        assert version_at_timestamp(log.store, 705) == 70
        assert len([path for path in log.store.reads if path.endswith(".json")]) < 15

    def test_first_commit_info_longer_than_the_first_read_is_found(self):
        log = LogBuilder()
        info = commit_info(operationParameters={"predicate": "x" * 100_000}, inCommitTimestamp=7)
        log.commit(0, [info, OWN_CLOCK, metadata(configuration=ENABLED)])
        assert version_at_timestamp(log.store, 7) == 0

    def test_time_of_a_checkpointed_version_is_read_from_its_commit(self):
        log = log_with_own_times(10, 20)
        log.checkpoint(1, [OWN_CLOCK, metadata(configuration=ENABLED), add("0"), add("1")])
        assert load_snapshot(log.store).timestamp_ms == 20

    def test_versions_before_enablement_go_by_file_times(self):
        log = log_with_times(100, 200)
        provenance = {
            **ENABLED,
            "delta.inCommitTimestampEnablementVersion": "2",
            "delta.inCommitTimestampEnablementTimestamp": "1000",
        }
        log.commit(2, [commit_info(inCommitTimestamp=1000), OWN_CLOCK, metadata(configuration=provenance)])
        log.commit(3, [commit_info(inCommitTimestamp=2000)])
        asked = (100, 199, 200, 999, 1000, 1999, 2000)
        assert [version_at_timestamp(log.store, time) for time in asked] == [0, 0, 1, 1, 2, 2, 3]
        assert [record.timestamp_ms for record in read_history(log.store)] == [2000, 1000, 200, 100]

    def test_file_copied_after_enablement_still_comes_before_it(self):
        log = log_with_times(100, 5_000_000)
        provenance = {
            **ENABLED,
            "delta.inCommitTimestampEnablementVersion": "2",
            "delta.inCommitTimestampEnablementTimestamp": "1000",
        }
        log.commit(2, [commit_info(inCommitTimestamp=1000), OWN_CLOCK, metadata(configuration=provenance)])
        assert version_at_timestamp(log.store, 1000) == 2
        assert version_at_timestamp(log.store, 999) == 1

    def test_commit_that_lacks_its_time_is_corrupt_for_time_travel(self):
        with pytest.raises(CorruptTableError) as caught:
            version_at_timestamp(log_with_own_times(10, None).store, 10)
        assert caught.value.error_class == "DELTA_MISSING_COMMIT_TIMESTAMP"

    def test_commit_that_lacks_its_time_is_still_readable_by_version(self):
        assert load_snapshot(log_with_own_times(10, None).store).version == 1
