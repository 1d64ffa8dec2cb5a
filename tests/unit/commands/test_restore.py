"""Does RESTORE bring back exactly the files of a version, with their vectors, and refuse what cannot come back?

No Spark: RESTORE is all log. Rows are read back by hand (`races.ids_at`).
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support import races
from tests.support.log_reading import actions_of, commit_info, log_state, newest_version, vector_file
from tests.support.table_builder import FIRST_COMMIT_MS, TableBuilder

from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.restore.command import Moment, RestoreRequest, restore_table
from ebbtide.commands.restore.difference import find_difference
from ebbtide.errors import (
    ConcurrentAppendException,
    CorruptTableError,
    MissingDataFileError,
    RequestError,
    VersionNotFoundError,
)
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

MINUTE_MS = 60_000


def rows_of(ids):
    return [{"id": number} for number in ids]


def history_of_marks(path):
    """0: ids 0-9 | 1: 0 and 1 marked | 2: 5 marked too | 3: ids 10-19 | 4: the first file is removed."""
    builder = TableBuilder(path, races.ID_SCHEMA).deletion_vectors()
    builder.file(rows_of(range(10))).commit()
    builder.mark(builder.files[0], [0, 1]).commit(operation="DELETE")
    builder.mark(builder.files[0], [5]).commit(operation="DELETE")
    builder.file(rows_of(range(10, 20))).commit()
    return builder.remove(builder.files[0]).commit(operation="DELETE")


@pytest.fixture
def table(tmp_path):
    return history_of_marks(tmp_path / "t")


def restore(path, version=None, *, store=None, **options):
    return restore_table(RestoreRequest(store or open_store(str(path)), version, **options))


# --- the difference ---------------------------------------------------------------------------------------------------


def test_difference_knows_a_file_by_its_path_and_its_vector(table):
    store = open_store(str(table.path))
    then, now = load_snapshot(store, version=1), load_snapshot(store, version=3)
    difference = find_difference(then, now)
    [add], [first, second] = list(difference.adds()), list(difference.removes(7))
    assert (add.path, add.num_marked_rows, add.data_change) == (table_path(then), 2, True)
    assert {first.num_marked_rows, second.num_marked_rows} == {3, 0}
    assert {first.deletion_timestamp, second.deletion_timestamp} == {7}


def table_path(snapshot):
    return snapshot.files["path"][0].as_py()


def test_difference_of_a_version_with_itself_is_empty(table):
    snapshot = load_snapshot(open_store(str(table.path)))
    difference = find_difference(snapshot, snapshot)
    assert (difference.restored.num_rows, difference.removed.num_rows) == (0, 0)


def test_difference_takes_two_spellings_of_a_path_for_one_file(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA)
    builder.file(rows_of([1]), name="a b.parquet").commit()
    [file] = builder.files
    builder.remove(file).commit()
    spelled = file.add | {"path": f"file://{tmp_path}/t/a%20b.parquet"}
    builder.raw({"add": spelled}).commit()
    store = open_store(str(builder.path))
    difference = find_difference(load_snapshot(store, version=0), load_snapshot(store))
    assert (difference.restored.num_rows, difference.removed.num_rows) == (0, 0)


# --- versions and times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_table_shows_exactly_the_rows_and_vectors_of_the_version(table, version):
    result = restore(table.path, version)
    assert result.version == 5
    assert races.ids_at(table.path) == races.ids_at(table.path, version)
    assert log_state(table.path).live.keys() == log_state(table.path, version).live.keys()
    assert all(add["dataChange"] for add in actions_of(table.path, 5, "add"))


def test_commit_records_what_delta_spark_records(table):
    result = restore(table.path, 1)
    info = commit_info(table.path, 5)
    [back] = actions_of(table.path, 5, "add")
    [gone] = actions_of(table.path, 5, "remove")
    assert info["operation"] == "RESTORE"
    assert info["operationParameters"] == {"version": 1, "timestamp": None}
    assert info["operationMetrics"] == {
        "tableSizeAfterRestore": str(back["size"]),
        "numOfFilesAfterRestore": "1",
        "numRemovedFiles": "1",
        "numRestoredFiles": "1",
        "removedFilesSize": str(gone["size"]),
        "restoredFilesSize": str(back["size"]),
    }
    assert {name: str(value) for name, value in result.metrics.operation_metrics.items()} == info["operationMetrics"]
    assert (info["isolationLevel"], info["isBlindAppend"], info["readVersion"]) == ("Serializable", False, 4)
    # Nothing about the table itself changed, so that writers who read nothing are not disturbed.
    assert not actions_of(table.path, 5, "metaData") + actions_of(table.path, 5, "protocol")


def test_time_means_the_newest_version_until_then(table):
    at = Moment(FIRST_COMMIT_MS + 2 * MINUTE_MS + 5, "shown")
    assert restore(table.path, moment=at).restored_version == 2
    assert commit_info(table.path, 5)["operationParameters"] == {"version": None, "timestamp": "shown"}
    assert races.ids_at(table.path) == races.ids_at(table.path, 2)


def test_newest_version_is_there_already_and_nothing_is_committed(table):
    result = restore(table.path, 4)
    assert (result.version, result.restored_version) == (None, 4)
    assert result.metrics.num_of_files_after_restore == 1
    assert newest_version(table.path) == 4


def test_versions_with_the_same_files_are_restored_by_a_commit_without_files(table):
    builder = table.transaction("app", 1).commit()
    assert restore(builder.path, 4).version == 6
    assert not actions_of(builder.path, 6, "add") + actions_of(builder.path, 6, "remove")


def test_restore_of_a_restore_leads_back(table):
    restore(table.path, 1)
    restore(table.path, 4)
    restore(table.path, 5)
    assert races.ids_at(table.path) == races.ids_at(table.path, 1)


@pytest.mark.parametrize(
    ("asked", "error_class"),
    [
        ({"version": 5}, "DELTA_CANNOT_RESTORE_TABLE_VERSION"),
        ({"version": -1}, "DELTA_CANNOT_RESTORE_TABLE_VERSION"),
        ({"moment": Moment(FIRST_COMMIT_MS - 1, "")}, "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER"),
        ({"moment": Moment(FIRST_COMMIT_MS + 5 * MINUTE_MS, "")}, "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER"),
    ],
)
def test_version_that_does_not_exist_is_refused(table, asked, error_class):
    with pytest.raises(VersionNotFoundError) as refused:
        restore(table.path, **asked)
    assert refused.value.error_class == error_class
    assert refused.value.getSqlState() == "22003"
    assert newest_version(table.path) == 4


def test_version_whose_log_was_cleaned_up_is_refused(table):
    table.checkpoint().clean_commits(before=4)
    with pytest.raises(VersionNotFoundError, match=r"version 1 .*was cleaned up") as refused:
        restore(table.path, 1)
    assert refused.value.error_class == "DELTA_CANNOT_RESTORE_TABLE_VERSION"


@pytest.mark.parametrize("asked", [{}, {"version": 1, "moment": Moment(0, "")}])
def test_request_names_a_version_or_a_time(table, asked):
    with pytest.raises(RequestError, match="a version or to a timestamp"):
        restore(table.path, **asked)


def test_dry_run_counts_and_writes_nothing(table):
    before = sorted(file.name for file in table.path.rglob("*"))
    result = restore(table.path, 1, dry_run=True)
    assert result.version is None
    assert (result.metrics.num_restored_files, result.metrics.num_removed_files) == (1, 1)
    assert sorted(file.name for file in table.path.rglob("*")) == before


# --- files that are gone ----------------------------------------------------------------------------------------------


def vacuum_data(table):
    [add] = log_state(table.path, 1).adds
    (table.path / add["path"]).unlink()
    return add["path"]


def test_vacuumed_data_file_is_named_and_nothing_is_changed(table):
    path = vacuum_data(table)
    with pytest.raises(MissingDataFileError, match=f"Version 1 .*1 data file \\({path}\\).*ignoreMissingFiles"):
        restore(table.path, 1)
    assert newest_version(table.path) == 4


def test_missing_data_files_are_left_out_where_they_are_ignored(table):
    path = vacuum_data(table)
    result = restore(table.path, 3, ignores_missing_files=True)
    assert result.missing == (path,)
    assert (result.metrics.num_restored_files, result.metrics.num_of_files_after_restore) == (0, 1)
    assert races.ids_at(table.path) == list(range(10, 20))


def test_vacuumed_vector_is_refused_even_where_missing_files_are_ignored(table):
    [add] = log_state(table.path, 1).adds
    vector = vector_file(table.path, add["deletionVector"])
    vector.unlink()
    with pytest.raises(MissingDataFileError, match=f"1 deletion-vector file \\({vector.name}\\)"):
        restore(table.path, 1, ignores_missing_files=True)
    assert newest_version(table.path) == 4
    # The version before it does not need that vector.
    assert restore(table.path, 0).version == 5


def test_data_file_of_another_size_is_refused(table):
    [add] = log_state(table.path, 1).adds
    (table.path / add["path"]).write_bytes(b"PAR1")
    with pytest.raises(CorruptTableError, match="has 4 bytes, the log says"):
        restore(table.path, 1)
    assert newest_version(table.path) == 4


def test_files_that_stay_are_not_looked_at(table):
    table.file(rows_of([7])).commit()
    for add in log_state(table.path, 4).adds:
        (table.path / add["path"]).unlink()
    assert restore(table.path, 4).version == 6


def test_files_elsewhere_come_back_with_absolute_paths(tmp_path):
    source = history_of_marks(tmp_path / "a b")
    clone = TableBuilder(tmp_path / "clone", races.ID_SCHEMA).deletion_vectors()
    [add] = log_state(source.path, 2).adds
    place = f"file://{tmp_path}/a%20b".replace("file:///", "file:/")
    vector = vector_file(source.path, add["deletionVector"])
    far = add | {
        "path": f"{place}/{add['path']}",
        "deletionVector": add["deletionVector"] | {"storageType": "p", "pathOrInlineDv": f"{place}/{vector.name}"},
    }
    clone.raw({"add": far}).commit()
    clone.raw({"remove": {key: far[key] for key in ("path", "deletionVector")} | {"dataChange": True}}).commit()
    assert restore(clone.path, 0).metrics.num_restored_files == 1
    [back] = log_state(clone.path).adds
    assert back["deletionVector"] == far["deletionVector"]
    vector.unlink()
    restore(clone.path, 1)
    with pytest.raises(MissingDataFileError, match=vector.name):
        restore(clone.path, 0)


# --- other writers ----------------------------------------------------------------------------------------------------


def test_difference_is_taken_anew_when_another_writer_commits_first(table):
    inner = open_store(str(table.path))
    racing = races.RacingStore(inner, lambda: races.append(inner, [77, 78]), first=5)
    result = restore(table.path, 1, store=racing)
    assert result.version == 6
    assert result.metrics.num_removed_files == 2
    assert races.ids_at(table.path) == races.ids_at(table.path, 1)
    assert commit_info(table.path, 6)["operationMetrics"]["numRemovedFiles"] == "2"
    assert commit_info(table.path, 6)["readVersion"] == 5


def test_files_are_looked_at_again_when_another_writer_vacuumed_meanwhile(table):
    inner = open_store(str(table.path))

    def vacuum():
        vacuum_data(table)
        races.commit(inner, [races.new_data_file(inner, [1])])

    racing = races.RacingStore(inner, vacuum, first=5)
    with pytest.raises(MissingDataFileError):
        restore(table.path, 1, store=racing)
    assert newest_version(table.path) == 5


def test_two_restores_at_once_both_land_and_the_second_one_counts(table):
    inner = open_store(str(table.path))
    racing = races.RacingStore(inner, lambda: restore(table.path, 0), first=5)
    assert restore(table.path, 2, store=racing).version == 6
    assert races.ids_at(table.path) == races.ids_at(table.path, 2)


def test_restore_that_may_not_follow_raises_as_delta_spark(table):
    inner = open_store(str(table.path))
    racing = races.RacingStore(inner, lambda: races.append(inner, [77]), first=5)
    with pytest.raises(ConcurrentAppendException):
        restore(table.path, 1, store=racing, options=WriteOptions(conflicts="abort"))
    assert newest_version(table.path) == 5


def test_append_only_table_is_not_restored_over_its_appends(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).feature("appendOnly")
    builder.table_property("delta.appendOnly", "true").file(rows_of([1])).commit()
    builder.file(rows_of([2])).commit()
    with pytest.raises(RequestError) as refused:
        restore(builder.path, 0, dry_run=True)
    assert refused.value.error_class == "DELTA_CANNOT_MODIFY_APPEND_ONLY"


# --- the definition of the table --------------------------------------------------------------------------------------


def test_schema_and_properties_go_back_and_the_protocol_stays(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).table_property("owner", "a").file(rows_of([1])).commit()
    builder.schema(pa.schema({"id": pa.int64(), "x": pa.string()})).table_property("owner", "b").deletion_vectors()
    builder.file([{"id": 2, "x": "two"}]).commit()
    restore(builder.path, 0)
    state, then, now = log_state(builder.path), log_state(builder.path, 0), log_state(builder.path, 1)
    assert state.metadata == then.metadata
    assert set(now.protocol["writerFeatures"]) <= set(state.protocol["writerFeatures"])
    assert state.protocol["readerFeatures"] == ["deletionVectors"]


def test_protocol_goes_back_where_the_session_allows_it(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).file(rows_of([1])).commit()
    builder.deletion_vectors().file(rows_of([2, 3]), deleted=[0]).commit()
    restore(builder.path, 0, may_downgrade=True)
    assert log_state(builder.path).protocol == log_state(builder.path, 0).protocol
    assert races.ids_at(builder.path) == [1]


def test_dropped_feature_that_the_version_needs_comes_back(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).deletion_vectors()
    builder.file(rows_of([1, 2]), deleted=[0]).commit()
    builder.remove(builder.files[0]).file(rows_of([2]))
    builder.raw({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    builder.raw({"metaData": log_state(builder.path).metadata | {"configuration": {}}}).commit()
    restore(builder.path, 0)
    state = log_state(builder.path)
    assert state.protocol["readerFeatures"] == ["deletionVectors"]
    assert state.configuration == {"delta.enableDeletionVectors": "true"}
    assert races.ids_at(builder.path) == [2]


def test_vectors_come_back_although_no_new_ones_are_written_any_more(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).deletion_vectors()
    builder.file(rows_of([1, 2, 3]), deleted=[0]).commit()
    builder.table_property("delta.enableDeletionVectors", "false").commit()
    builder.remove(builder.files[0]).commit()
    assert restore(builder.path, 1).version == 3
    assert races.ids_at(builder.path) == [2, 3]


def test_identity_columns_go_on_where_they_stopped(tmp_path):
    def identity(name, mark, step):
        metadata = {"delta.identity.start": 1, "delta.identity.step": step, "delta.identity.allowExplicitInsert": True}
        if mark is not None:
            metadata["delta.identity.highWaterMark"] = mark
        return {"name": name, "type": "long", "nullable": True, "metadata": metadata}

    def schema(*marks):
        fields = [identity(name, mark, step) for (name, step), mark in zip(columns, marks, strict=True)]
        return json.dumps({"type": "struct", "fields": fields})

    columns = (("up", 1), ("down", -1), ("new", 1), ("idle", 1))
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).feature("identityColumns").commit()
    first = log_state(builder.path).metadata
    builder.raw({"metaData": first | {"schemaString": schema(5, -5, None, None)}}).commit()
    builder.raw({"metaData": first | {"schemaString": schema(9, -9, 3, None)}}).commit()
    restore(builder.path, 1)
    fields = json.loads(log_state(builder.path).metadata["schemaString"])["fields"]
    assert [field["metadata"].get("delta.identity.highWaterMark") for field in fields] == [9, -9, 3, None]


def test_column_ids_and_protected_checkpoints_never_go_back(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).column_mapping("name").feature("checkpointProtection")
    builder.file(rows_of([1])).commit()
    builder.schema(pa.schema({"id": pa.int64(), "x": pa.string()}))
    builder.table_property("delta.requireCheckpointProtectionBeforeVersion", "1").commit()
    restore(builder.path, 0)
    configuration = log_state(builder.path).configuration
    assert configuration["delta.columnMapping.maxColumnId"] == "2"
    assert configuration["delta.requireCheckpointProtectionBeforeVersion"] == "1"
    assert len(json.loads(log_state(builder.path).metadata["schemaString"])["fields"]) == 1


def test_record_of_in_commit_timestamps_is_the_newest_one(tmp_path):
    """A version in between has none: delta-spark takes the old record, and asks that version for its timestamp."""
    record = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).in_commit_timestamps().file(rows_of([1])).commit()
    builder.table_property("delta.enableInCommitTimestamps", "false").commit()
    builder.table_property("delta.enableInCommitTimestamps", "true")
    builder.table_property(record[0], "2").table_property(record[1], str(FIRST_COMMIT_MS + 2 * MINUTE_MS)).commit()
    restore(builder.path, 0)
    configuration = log_state(builder.path).configuration
    assert [configuration[name] for name in record] == ["2", str(FIRST_COMMIT_MS + 2 * MINUTE_MS)]
    assert commit_info(builder.path, 3)["inCommitTimestamp"] > FIRST_COMMIT_MS


def test_restored_files_keep_their_row_ids_and_the_mark_never_goes_back(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).row_tracking().file(rows_of(range(4))).commit()
    builder.remove(builder.files[0]).file(rows_of(range(4, 10))).commit()
    restore(builder.path, 0)
    [back] = actions_of(builder.path, 2, "add")
    assert (back["baseRowId"], back["defaultRowCommitVersion"]) == (0, 0)
    store = open_store(str(builder.path))
    mark = load_snapshot(store).domain_metadata["delta.rowTracking"]
    assert json.loads(mark.configuration) == {"rowIdHighWaterMark": 9}
    races.append(store, [100])
    [new] = actions_of(builder.path, 3, "add")
    assert new["baseRowId"] == 10


def test_restored_files_without_row_ids_get_new_ones(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).file(rows_of(range(4))).commit()
    builder.row_tracking().remove(builder.files[0]).file(rows_of(range(4, 10))).commit()
    restore(builder.path, 0)
    [back] = actions_of(builder.path, 2, "add")
    assert (back["baseRowId"], back["defaultRowCommitVersion"]) == (6, 2)


def clustering(*columns):
    return json.dumps({"clusteringColumns": [[name] for name in columns]})


def test_clustering_goes_back_and_other_domains_stay(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).feature("domainMetadata").feature("clustering")
    builder.domain("delta.clustering", clustering("id")).domain("mine", "old").file(rows_of([1])).commit()
    builder.domain("delta.clustering", clustering()).domain("mine", "new").commit()
    restore(builder.path, 0)
    domains = load_snapshot(open_store(str(builder.path))).domain_metadata
    assert domains["delta.clustering"].configuration == clustering("id")
    assert domains["mine"].configuration == "new"


def test_table_that_was_not_clustered_then_is_clustered_by_nothing_now(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).file(rows_of([1])).commit()
    builder.feature("domainMetadata").feature("clustering").domain("delta.clustering", clustering("id")).commit()
    restore(builder.path, 0)
    [domain] = actions_of(builder.path, 2, "domainMetadata")
    assert json.loads(domain["configuration"]) == {"clusteringColumns": []}
    restore(builder.path, 0)
    assert not actions_of(builder.path, 3, "domainMetadata")
