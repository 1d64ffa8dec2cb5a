"""Which rows of which files does the log say were changed, and when does it refuse to say?"""

from __future__ import annotations

import pytest
from tests.support.log_builder import LogBuilder, add, commit_info, metadata, protocol, remove, vector

from ebbtide.errors import CorruptTableError, RequestError, VersionNotFoundError
from ebbtide.log.change_bounds import ChangeBounds
from ebbtide.log.change_feed import read_change_feed

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = protocol(3, 7, ["deletionVectors"])
OLD, NEW = vector(offset=1), vector(offset=9, cardinality=2)
NO_ROWS = dict.fromkeys(("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"), "0")


def head(**configuration):
    return [VECTORS, metadata(configuration=FEED | configuration)]


def log_of(*commits, first=None):
    """Version 0 defines the table; each argument is one more commit. A minute is 100 ms here."""
    log = LogBuilder()
    for version, actions in enumerate([first or [*head(), add("a")], *commits]):
        log.store.times[log.commit(version, list(actions))] = 100 * (version + 1)
    return log


def told(log, start=1, end=None, **bounds):
    """(version, change type, path, id of the shown vector, id of the hidden one)."""
    given = bounds or {"start_version": start, "end_version": end}
    feed = read_change_feed(log.store, ChangeBounds(**given))
    return [
        (
            change.version,
            change.change_type,
            change.file.path,
            change.shown and change.shown.offset,
            change.hidden and change.hidden.offset,
        )
        for change in feed.changes
    ]


def cdc(path):
    return {"cdc": {"path": path, "partitionValues": {}, "size": 10, "dataChange": False}}


class TestCommits:
    def test_file_that_comes_or_leaves_is_told_without_its_marked_rows(self):
        log = log_of([add("b", dv=OLD)], [remove("b", dv=OLD, partitionValues={}, extendedFileMetadata=True)])
        assert told(log) == [(1, "insert", "b", None, 1), (2, "delete", "b", None, 1)]

    def test_first_vector_of_a_file_tells_its_rows_as_deleted(self):
        assert told(log_of([remove("a"), add("a", dv=NEW)])) == [(1, "delete", "a", 9, None)]

    def test_vector_that_vanishes_tells_its_rows_as_inserted(self):
        log = log_of([remove("a", dv=OLD), add("a")], first=[*head(), add("a", dv=OLD)])
        assert told(log) == [(1, "insert", "a", 1, None)]

    def test_two_vectors_tell_both_differences(self):
        log = log_of([remove("a", dv=OLD), add("a", dv=NEW)], first=[*head(), add("a", dv=OLD)])
        assert told(log) == [(1, "delete", "a", 9, 1), (1, "insert", "a", 1, 9)]

    def test_same_vector_again_is_no_change(self):
        again = [remove("a", dv=OLD), add("a", dv=OLD)]
        log = log_of(again, [remove("a", dv=OLD)], first=[*head(), add("a", dv=OLD)])
        assert told(log, 1, 1) == []

    def test_paths_are_compared_however_they_are_encoded(self):
        log = log_of([remove("a%20b"), add("%61%20b", dv=NEW)], first=[*head(), add("a%20b")])
        assert [change[:2] for change in told(log)] == [(1, "delete")]

    def test_file_that_leaves_and_comes_without_a_vector_cannot_be_told(self):
        with pytest.raises(CorruptTableError, match="which rows changed"):
            told(log_of([remove("a"), add("a")], [remove("a")]), 1, 1)

    def test_file_added_twice_is_refused(self):
        with pytest.raises(CorruptTableError) as caught:
            told(log_of([add("b"), add("b", dv=NEW)]))
        assert caught.value.error_class == "DELTA_DUPLICATE_ACTIONS_FOUND"

    def test_change_data_is_believed_alone(self):
        log = log_of([remove("a"), add("b"), cdc("_change_data/c"), cdc("_change_data/d")])
        assert [change[1:3] for change in told(log)] == [(None, "_change_data/c"), (None, "_change_data/d")]

    def test_rearranged_files_are_no_change(self):
        assert told(log_of([remove("a", dataChange=False), add("b", dataChange=False)])) == []

    @pytest.mark.parametrize(("operation", "metrics", "is_told"), [
        ("MERGE", NO_ROWS, False),
        ("MERGE", NO_ROWS | {"numTargetRowsUpdated": "1"}, True),
        ("MERGE", {}, True),
        ("WRITE", NO_ROWS, True),
    ])  # fmt: skip
    def test_merge_that_says_it_changed_nothing_is_believed(self, operation, metrics, is_told):
        info = commit_info(operation=operation, operationMetrics=metrics)
        assert bool(told(log_of([info, add("b")]))) is is_told

    def test_remove_without_partition_values_is_refused(self):
        with pytest.raises(RequestError) as caught:
            told(log_of([remove("a")]))
        assert caught.value.error_class == "DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA"

    def test_remove_that_says_it_is_complete_may_have_no_values_where_there_are_no_partitions(self):
        assert told(log_of([remove("a", extendedFileMetadata=True)])) == [(1, "delete", "a", None, None)]


class TestBounds:
    LOG = staticmethod(lambda: log_of([add("b")], [add("c")], [add("d")]))

    def versions(self, **bounds):
        return [change[0] for change in told(self.LOG(), **bounds)]

    def test_both_ends_belong_to_the_range(self):
        assert self.versions(start_version=1, end_version=2) == [1, 2]
        assert self.versions(start_version=1) == [1, 2, 3]
        assert self.versions(start_version=2, end_version=99) == [2, 3]

    def test_times_choose_versions(self):
        assert self.versions(start_timestamp_ms=200, end_timestamp_ms=300) == [1, 2]
        assert self.versions(start_timestamp_ms=201, end_timestamp_ms=399) == [2]
        assert self.versions(start_timestamp_ms=0, end_version=1) == [0, 1]
        assert self.versions(start_version=2, end_timestamp_ms=400) == [2, 3]

    def test_times_between_two_commits_are_an_empty_range(self):
        assert self.versions(start_timestamp_ms=201, end_timestamp_ms=299) == []

    @pytest.mark.parametrize(("bounds", "error_class"), [
        ({"end_version": 1}, "DELTA_NO_START_FOR_CDC_READ"),
        ({"start_version": 1, "start_timestamp_ms": 1}, "DELTA_MULTIPLE_CDC_BOUNDARY"),
        ({"start_version": 1, "end_version": 1, "end_timestamp_ms": 1}, "DELTA_MULTIPLE_CDC_BOUNDARY"),
        ({"start_version": 4}, "DELTA_CDC_START_VERSION_AFTER_LATEST"),
        ({"start_version": 2, "end_version": 1}, "DELTA_INVALID_CDC_RANGE"),
        ({"start_timestamp_ms": 299, "end_timestamp_ms": 201}, "DELTA_INVALID_CDC_RANGE"),
        ({"start_timestamp_ms": 401}, "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        ({"start_version": 0, "end_timestamp_ms": 401}, "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        ({"start_version": -1}, ""),
    ])  # fmt: skip
    def test_bounds_that_make_no_range_are_refused(self, bounds, error_class):
        with pytest.raises(RequestError) as caught:
            self.versions(**bounds)
        assert caught.value.error_class == error_class

    def test_bounds_beyond_the_newest_version_may_be_allowed(self):
        assert self.versions(start_version=4, allow_out_of_range=True) == []
        assert self.versions(start_timestamp_ms=401, allow_out_of_range=True) == []
        assert self.versions(start_version=3, end_timestamp_ms=999, allow_out_of_range=True) == [3]

    def test_versions_have_their_times(self):
        feed = read_change_feed(self.LOG().store, ChangeBounds(start_version=1, end_version=2))
        assert feed.times_ms == {1: 200, 2: 300}

    def test_commit_that_was_cleaned_up_is_named(self):
        log = self.LOG()
        log.checkpoint(2, [*head(), add("a"), add("b"), add("c")])
        log.delete(f"{0:020d}.json")
        log.delete(f"{1:020d}.json")
        assert [change[0] for change in told(log, 2)] == [2, 3]
        log.delete(f"{2:020d}.json")
        with pytest.raises(VersionNotFoundError, match="version 2"):
            told(log, 2)


class TestRecording:
    def refused(self, log, start, end=None):
        with pytest.raises(RequestError) as caught:
            told(log, start, end)
        return caught.value.error_class

    def test_changes_before_they_were_recorded_are_refused(self):
        log = log_of(head(), [add("b")], first=[*head(**{"delta.enableChangeDataFeed": "false"}), add("a")])
        assert self.refused(log, 0) == "DELTA_MISSING_CHANGE_DATA"
        assert [change[0] for change in told(log, 1)] == [2]

    def test_range_in_which_recording_was_switched_off_is_refused(self):
        log = log_of([add("b")], [metadata(configuration={})], [metadata(configuration=FEED)], [add("c")])
        assert self.refused(log, 0) == "DELTA_MISSING_CHANGE_DATA"
        assert [change[0] for change in told(log, 0, 1)] == [0, 1]
        assert [change[0] for change in told(log, 3)] == [4]


def struct(**fields):
    found = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": found}


class TestColumns:
    """Version 0 has the old columns, version 1 the new ones."""

    def error_class(self, before, after, start=0, **options):
        first = [VECTORS, metadata(before, configuration=FEED), add("a")]
        log = log_of([metadata(after, configuration=FEED, **options)], [add("b")], first=first)
        try:
            read_change_feed(log.store, ChangeBounds(start_version=start))
        except RequestError as error:
            return error.error_class
        return None

    def test_columns_and_fields_may_be_added(self):
        assert self.error_class({"id": "long"}, {"new": "string", "id": "long"}) is None
        assert self.error_class({"s": struct(a="long")}, {"s": struct(a="long", b="long")}) is None

    @pytest.mark.parametrize(("before", "after"), [
        ({"id": "long", "b": "long"}, {"id": "long"}),
        ({"id": "long"}, {"key": "long"}),
        ({"id": "integer"}, {"id": "long"}),
        ({"s": struct(a="long", b="long")}, {"s": struct(a="long")}),
        ({"s": {"type": "array", "elementType": "long", "containsNull": True}}, {"s": "long"}),
        (
            {"s": {"type": "map", "keyType": "long", "valueType": struct(a="long"), "valueContainsNull": True}},
            {"s": {"type": "map", "keyType": "long", "valueType": struct(a="string"), "valueContainsNull": True}},
        ),
    ])  # fmt: skip
    def test_columns_that_went_or_changed_are_refused_across_the_change(self, before, after):
        assert self.error_class(before, after) == "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"
        assert self.error_class(before, after, start=1) is None

    def test_other_partitioning_is_refused(self):
        refused = self.error_class({"id": "long", "p": "long"}, {"id": "long", "p": "long"}, partitions=["p"])
        assert refused == "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"

    def test_change_in_the_middle_that_was_taken_back_is_refused(self):
        both = [metadata({"other": "long"}, configuration=FEED)], [metadata(configuration=FEED)]
        with pytest.raises(RequestError) as caught:
            told(log_of(*both), 0)
        assert caught.value.error_class == "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"

    def test_table_with_a_column_of_the_feed_is_refused(self):
        columns = {"id": "long", "_Change_Type": "string"}
        assert self.error_class(columns, columns) == "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS"
