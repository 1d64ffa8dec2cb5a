"""Does DROP FEATURE ... TRUNCATE HISTORY wait until nothing of the past uses the feature, and not longer?"""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
from tests.support.arrow_copies import drop_feature_without_spark
from tests.support.arrow_deletes import snapshot_ids
from tests.support.log_reading import newest_version
from tests.support.races import ID_SCHEMA, RacingStore, append, commit, ids_at
from tests.support.table_builder import TableBuilder

from ebbtide.commands.define.alter import set_properties
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot, read_commit, write_checkpoint
from ebbtide.log.listing import list_log
from ebbtide.protocol.features import supported_features
from ebbtide.storage import open_store

HOUR = 3600
WAIT = "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"
STILL_USED = "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"


@pytest.fixture
def table(tmp_path):
    """Version 1 marks a row."""
    builder = TableBuilder(tmp_path / "t", ID_SCHEMA).deletion_vectors()
    builder.file([{"id": number} for number in range(4)]).commit()
    return builder.mark(builder.files[0], [1]).commit().path


def drop(path, name="deletionVectors", *, store=None, **given):
    return drop_feature_without_spark(store or open_store(str(path)), name, truncate_history=True, **given)


def refusal(path, name="deletionVectors", **given):
    with pytest.raises(DeltaError) as caught:
        drop(path, name, **given)
    return caught.value


def age(path, hours):
    """Let the log be older than it is."""
    for file in (path / "_delta_log").iterdir():
        then = file.stat().st_mtime - hours * HOUR
        os.utime(file, (then, then))


def rows(path):
    return sorted(snapshot_ids(load_snapshot(open_store(str(path)))))


def features(path):
    return supported_features(load_snapshot(open_store(str(path))).protocol)


def test_first_run_ends_the_use_and_says_when_to_come_back(table):
    error = refusal(table)
    assert error.error_class == WAIT
    tomorrow = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 24 * HOUR + 60))
    assert f"after {tomorrow}" in str(error) and "TRUNCATE HISTORY" in str(error)
    assert features(table) == {"deletionVectors"}
    snapshot = load_snapshot(open_store(str(table)))
    assert snapshot.files.column("deletion_vector").null_count == snapshot.num_files
    assert list_log(snapshot.store).checkpoints[0].version == snapshot.version
    assert ids_at(table, 1) == rows(table) == [0, 2, 3]


def test_second_run_that_comes_too_early_changes_no_row_and_names_the_version(table):
    refusal(table)
    error = refusal(table)
    # The REORG, version 3, removed a file with a vector.
    assert error.error_class == STILL_USED and "version 3 " in str(error)
    assert features(table) == {"deletionVectors"} and ids_at(table, 1) == [0, 2, 3]


def test_run_after_the_retention_cuts_the_log_off_and_leaves_no_protection(table):
    refusal(table)
    cleaned = newest_version(table)
    age(table, 25)
    done = drop(table)
    assert done.protocol.min_reader_version == 1 and supported_features(done.protocol) == frozenset()
    assert not any("Protection" in key for key in done.configuration)
    assert min(list_log(open_store(str(table))).commits) == cleaned
    info = read_commit(open_store(str(table)), done.version)[0].fields
    assert info["operation"] == "DROP FEATURE"
    assert info["operationParameters"] == {"featureName": "deletionVectors", "truncateHistory": True}
    assert rows(table) == [0, 2, 3]


def test_retention_is_a_property_of_the_table(table):
    set_properties(
        open_store(str(table)),
        {"delta.dropFeatureTruncateHistory.retentionDuration": "interval 2 hours"},
        options=WriteOptions(),
    )
    refusal(table)
    age(table, 3)
    assert drop(table).version is not None


def test_table_that_never_used_the_feature_loses_it_at_once(tmp_path):
    path = TableBuilder(tmp_path / "t", ID_SCHEMA).feature("deletionVectors").file([{"id": 1}]).commit().path
    assert drop(path).version == newest_version(path)
    assert features(path) == frozenset()


def test_state_that_a_checkpoint_shows_counts_as_history(table):
    """The log begins with a checkpoint of a version with vectors, and no commit that is left has any."""
    store = open_store(str(table))
    append(store, [9])
    write_checkpoint(load_snapshot(store))
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020}.json").unlink()
    refusal(table)
    reorg = next(v for v in range(3, 10) if read_commit(store, v)[0].fields["operation"] == "REORG")
    assert f"version {reorg} " in str(refusal(table))
    # Only the REORG is old enough to be left out of sight.
    for version in range(3, newest_version(table) + 1):
        (table / "_delta_log" / f"{version:020}.json").touch()
    assert refusal(table).error_class == STILL_USED


@pytest.mark.parametrize("truncates", [False, True])
def test_vector_that_a_writer_brings_back_is_found_before_the_protocol_goes(table, truncates):
    store = open_store(str(table))
    marked = next(iter(load_snapshot(store, version=1).add_files()))
    if truncates:
        refusal(table)
        age(table, 25)

    def bring_back():
        present = [add.remove(1_704_067_200_000) for add in load_snapshot(store).add_files()]
        commit(store, [*present, replace(marked, data_change=True)], "RESTORE")

    # The commits are those of the vectors' tombstones, the barriers, and the one that drops the feature.
    last = newest_version(table) + (3 if truncates else 7)
    racing = RacingStore(store, bring_back, first=last)
    with pytest.raises(DeltaError) as caught:
        drop_feature_without_spark(racing, "deletionVectors", truncate_history=truncates)
    assert caught.value.error_class == (STILL_USED if truncates else "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL")
    assert not racing.rivals and "deletionVectors" in features(table) and rows(table) == [0, 2, 3]


def test_writer_that_only_appends_meanwhile_is_followed(table):
    refusal(table)
    age(table, 25)
    store = open_store(str(table))
    racing = RacingStore(store, lambda: append(store, [7]), first=newest_version(table) + 3)
    assert drop(table, store=racing).version == newest_version(table)
    assert not racing.rivals and features(table) == frozenset() and rows(table) == [0, 2, 3, 7]


def test_protection_goes_when_the_versions_that_it_guards_are_gone(table):
    drop_feature_without_spark(open_store(str(table)), "deletionVectors")
    assert features(table) == {"checkpointProtection"}
    with pytest.raises(DeltaError) as caught:
        drop_feature_without_spark(open_store(str(table)), "checkpointProtection")
    assert caught.value.error_class.endswith("CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION")
    error = refusal(table, "checkpointProtection")
    assert error.error_class == "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD"
    assert features(table) == {"checkpointProtection"} and ids_at(table, 1) == [0, 2, 3]
    age(table, 25)
    done = drop(table, "checkpointProtection")
    assert features(table) == frozenset() and done.configuration == {}
    assert rows(table) == [0, 2, 3]


def test_feature_of_writers_has_no_history_to_truncate(tmp_path):
    path = TableBuilder(tmp_path / "t", ID_SCHEMA).feature("checkConstraints").file([{"id": 1}]).commit().path
    assert refusal(path, "checkConstraints").error_class == "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"
    assert newest_version(path) == 0


def test_v2_checkpoints_go_with_the_history(tmp_path):
    builder = TableBuilder(tmp_path / "t", ID_SCHEMA).feature("v2Checkpoint")
    path = builder.table_property("delta.checkpointPolicy", "v2").file([{"id": 1}]).commit().path
    write_checkpoint(load_snapshot(open_store(str(path))))
    assert refusal(path, "v2Checkpoint").error_class == WAIT
    assert refusal(path, "v2Checkpoint").error_class == STILL_USED
    age(path, 25)
    assert drop(path, "v2Checkpoint").version is not None
    assert not list((path / "_delta_log").glob("*.checkpoint.*-*"))
    assert rows(path) == [1]
