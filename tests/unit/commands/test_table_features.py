"""Does a table get and lose features as delta-spark's does, and never one that something in it still uses?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.arrow_copies import drop_feature_without_spark
from tests.support.log_reading import newest_version
from tests.support.races import ids_at
from tests.support.table_builder import TableBuilder

from ebbtide.commands.define.features import upgrade_table_protocol
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot, read_commit
from ebbtide.protocol.actions import Protocol, RemoveFile
from ebbtide.protocol.features import supported_features, weakest_protocol
from ebbtide.storage import open_store

SCHEMA = pa.schema({"id": pa.int64()})
RETENTION = "delta.deletedFileRetentionDuration"


@pytest.fixture
def builder(tmp_path):
    return TableBuilder(tmp_path / "t", SCHEMA).file([{"id": number} for number in range(4)])


def store_of(builder):
    return open_store(str(builder.path))


def newest(builder):
    return load_snapshot(store_of(builder))


def drop(builder, name, **options):
    return drop_feature_without_spark(store_of(builder), name, **options)


def operations(builder, first):
    last = newest(builder).version
    return [read_commit(store_of(builder), version)[0].fields["operation"] for version in range(first, last + 1)]


def refused(builder, name, **options):
    before = newest_version(builder.path)
    with pytest.raises(DeltaError) as caught:
        drop(builder, name, **options)
    assert newest_version(builder.path) == before
    return caught.value


# --- protocols --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ((), Protocol(1, 1)),
        (("appendOnly", "invariants"), Protocol(1, 2)),
        (("appendOnly", "invariants", "checkConstraints"), Protocol(1, 3)),
        (("appendOnly",), Protocol(1, 7, None, frozenset({"appendOnly"}))),
        (
            ("appendOnly", "invariants", "columnMapping"),
            Protocol(2, 7, None, frozenset({"appendOnly", "invariants", "columnMapping"})),
        ),
        (("deletionVectors",), Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))),
    ],
)
def test_weakest_protocol_supports_exactly_the_features(features, expected):
    assert weakest_protocol(features) == expected
    assert supported_features(expected) == set(features)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ((1, 1), (1, 2)),
        ((1, 4), (1, 4)),
        ((1, 5), (1, 4)),
        ((2, 5), (2, 5)),
        ((1, 7), (1, 2)),
        ((3, 7), (1, 2)),
    ],
)
def test_upgrade_adds_what_the_versions_stand_for(builder, versions, expected):
    builder.commit()
    result = upgrade_table_protocol(store_of(builder), *versions, options=WriteOptions())
    assert result.version == 1
    assert (result.protocol.min_reader_version, result.protocol.min_writer_version) == expected
    assert operations(builder, 1) == ["SET TBLPROPERTIES"]


def test_upgrade_of_a_table_with_feature_lists_adds_to_them(builder):
    builder.deletion_vectors().commit()
    after = upgrade_table_protocol(store_of(builder), 1, 4, options=WriteOptions()).protocol
    assert after.reader_features == {"deletionVectors"}
    assert {"deletionVectors", "changeDataFeed", "generatedColumns", "checkConstraints"} <= after.writer_features


@pytest.mark.parametrize("versions", [(0, 2), (4, 7), (1, 8), (3, 6)])
def test_versions_that_do_not_exist_are_refused(builder, versions):
    builder.commit()
    with pytest.raises(DeltaError):
        upgrade_table_protocol(store_of(builder), *versions, options=WriteOptions())
    assert newest(builder).version == 0


# --- dropping ---------------------------------------------------------------------------------------------------------


def test_dropped_vectors_leave_protected_checkpoints_and_no_trace_in_the_protocol(builder):
    # Files that were removed long ago need no protection, so nothing is that long ago here.
    builder.table_property(RETENTION, "interval 100000 days")
    builder.deletion_vectors().commit().mark(builder.files[0], [1]).commit()
    builder.remove(builder.files[0]).file([{"id": 7}]).commit()
    drop(builder, "DeletionVectors")
    after = newest(builder)
    assert operations(builder, 3) == [
        "UNSET TBLPROPERTIES",
        "Deletion Vector Tombstones",
        *["Empty Commit"] * 3,
        "DROP FEATURE",
    ]
    assert (after.protocol.min_reader_version, after.protocol.reader_features) == (1, None)
    assert after.protocol.writer_features == {"checkpointProtection"}
    assert after.metadata.configuration == {
        RETENTION: "interval 100000 days",
        "delta.requireCheckpointProtectionBeforeVersion": str(after.version),
    }
    names = {file.name for file in (builder.path / "_delta_log").iterdir()}
    for version in (*range(5, 8), after.version):
        assert f"{version:020}.checkpoint.parquet" in names
    tombstones = [action for action in read_commit(store_of(builder), 4) if isinstance(action, RemoveFile)]
    assert len(tombstones) == 1 and tombstones[0].path.endswith(".bin") and tombstones[0].deletion_vector is None


def test_marked_rows_are_purged_after_the_switch_is_off_and_before_the_barriers(builder):
    builder.deletion_vectors().commit().mark(builder.files[0], [1]).commit()
    drop(builder, "deletionVectors")
    assert operations(builder, 2) == [
        "UNSET TBLPROPERTIES",
        "REORG",
        "Deletion Vector Tombstones",
        *["Empty Commit"] * 3,
        "DROP FEATURE",
    ]
    assert newest(builder).files.column("deletion_vector").null_count == newest(builder).num_files == 1
    assert ids_at(builder.path) == [0, 2, 3]
    assert ids_at(builder.path, 1) == [0, 2, 3] and ids_at(builder.path, 0) == [0, 1, 2, 3]


def test_property_that_is_false_already_stays_where_nothing_uses_the_feature(builder):
    builder.feature("deletionVectors").table_property("delta.enableDeletionVectors", "false").commit()
    assert drop(builder, "deletionVectors").configuration["delta.enableDeletionVectors"] == "false"


def test_feature_that_only_writers_need_goes_in_one_commit(builder):
    builder.feature("checkConstraints").commit()
    result = drop(builder, "checkConstraints")
    assert result.version == 1
    assert (result.protocol.min_reader_version, result.protocol.min_writer_version) == (1, 1)
    info = read_commit(store_of(builder), 1)[0].fields
    assert info["operationParameters"] == {"featureName": "checkConstraints", "truncateHistory": False}


@pytest.mark.parametrize(
    ("feature", "error_class"),
    [
        ("nope", "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"),
        ("appendOnly", "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"),
        ("deletionVectors", "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"),
        ("domainMetadata", "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"),
    ],
)
def test_feature_that_cannot_go_is_refused(builder, feature, error_class):
    builder.feature("rowTracking").feature("domainMetadata").feature("appendOnly").commit()
    assert refused(builder, feature).error_class == error_class


def test_constraints_are_dropped_before_their_feature(builder):
    builder.feature("checkConstraints").table_property("delta.constraints.c", "id > 0").commit()
    error = refused(builder, "checkConstraints")
    assert error.error_class == "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE" and "c" in str(error)


def test_property_is_not_taken_for_a_feature(builder):
    builder.commit()
    error = refused(builder, "delta.enableDeletionVectors")
    assert error.error_class == "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY"
