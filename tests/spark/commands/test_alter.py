"""Do properties and features change together, in one commit, and is what would break the table refused?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.define.alter import add_feature_support, set_properties, unset_properties
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import DeltaError, MetadataChangedException, RequestError, UnsupportedFeatureError
from ebbtide.log import load_snapshot, read_commit
from ebbtide.protocol.actions import CommitInfo, Metadata, Protocol
from ebbtide.protocol.schema import all_fields, field_id, physical_name
from ebbtide.storage import open_store

SCHEMA = pa.schema({"id": pa.int64()})
ENABLE = "delta.enableDeletionVectors"
VIOLATION = "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED"


@pytest.fixture
def builder(tmp_path):
    return TableBuilder(tmp_path / "t", SCHEMA).file([{"id": number} for number in range(4)])


def store_of(builder):
    return open_store(str(builder.path))


def set_on(builder, properties):
    return set_properties(store_of(builder), properties, options=WriteOptions())


def unset_on(builder, *keys, if_exists=False):
    return unset_properties(store_of(builder), keys, if_exists=if_exists, options=WriteOptions())


def newest(builder):
    return load_snapshot(store_of(builder))


def actions_of(builder, version):
    return read_commit(store_of(builder), version)


# --- turning deletion vectors on --------------------------------------------------------------------------------------


def test_enabling_vectors_upgrades_the_protocol_in_the_same_commit(builder):
    builder.commit()
    result = set_on(builder, {ENABLE: "true"})
    assert result.version == 1
    kinds = [type(action) for action in actions_of(builder, 1)]
    assert kinds == [CommitInfo, Protocol, Metadata]
    protocol = newest(builder).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == {"deletionVectors"}
    assert protocol.writer_features == {"appendOnly", "invariants", "deletionVectors"}
    assert newest(builder).metadata.configuration == {ENABLE: "true"}


def test_commit_records_the_properties_as_the_reference_does(builder):
    builder.commit()
    set_on(builder, {"DELTA.enabledeletionvectors": "true", "mine": "1"})
    info = actions_of(builder, 1)[0].fields
    assert info["operation"] == "SET TBLPROPERTIES"
    assert json.loads(info["operationParameters"]["properties"]) == {ENABLE: "true", "mine": "1"}
    assert newest(builder).metadata.configuration == {ENABLE: "true", "mine": "1"}


def test_feature_support_changes_the_protocol_and_nothing_else(builder):
    builder.commit()
    add_feature_support(store_of(builder), "DeletionVectors", options=WriteOptions())
    assert [type(action) for action in actions_of(builder, 1)] == [CommitInfo, Protocol]
    assert newest(builder).metadata.configuration == {}
    assert newest(builder).protocol.reader_features == {"deletionVectors"}
    assert add_feature_support(store_of(builder), "deletionVectors", options=WriteOptions()).version is None


def test_feature_mark_is_not_stored(builder):
    builder.commit()
    set_on(builder, {"delta.feature.deletionVectors": "supported", "mine": "1"})
    assert newest(builder).metadata.configuration == {"mine": "1"}
    assert "deletionVectors" in newest(builder).protocol.writer_features


def test_same_value_again_is_a_commit_as_in_the_reference(builder):
    builder.commit()
    assert [set_on(builder, {ENABLE: "true"}).version for _ in range(2)] == [1, 2]
    assert [type(action) for action in actions_of(builder, 2)] == [CommitInfo, Metadata]


def test_switching_vectors_off_keeps_the_feature_and_the_deleted_rows(builder):
    builder.deletion_vectors().commit().mark(builder.files[0], [1]).commit()
    unset_on(builder, ENABLE)
    assert "deletionVectors" in newest(builder).protocol.writer_features
    assert newest(builder).files.column("deletion_vector").null_count == 0


# --- what other properties bring along --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "feature", "reader_version"),
    [
        ("delta.enableChangeDataFeed", "true", "changeDataFeed", 1),
        ("delta.appendOnly", "true", "appendOnly", 1),
        ("delta.enableInCommitTimestamps", "true", "inCommitTimestamp", 1),
        ("delta.enableTypeWidening", "true", "typeWidening", 3),
        ("delta.checkpointPolicy", "v2", "v2Checkpoint", 3),
    ],
)
def test_property_brings_the_feature_it_needs(builder, name, value, feature, reader_version):
    builder.commit()
    set_on(builder, {name: value})
    snapshot = newest(builder)
    assert feature in ebbtide_features(snapshot)
    assert snapshot.protocol.min_reader_version == reader_version
    assert snapshot.metadata.configuration[name] == value


def ebbtide_features(snapshot):
    from ebbtide.protocol.features import supported_features

    return supported_features(snapshot.protocol)


def test_in_commit_timestamps_note_when_they_began_and_forget_it_when_they_end(builder):
    builder.commit()
    set_on(builder, {"delta.enableInCommitTimestamps": "true"})
    began = newest(builder)
    assert began.metadata.configuration["delta.inCommitTimestampEnablementVersion"] == "1"
    assert actions_of(builder, 1)[0].in_commit_timestamp == began.timestamp_ms
    set_on(builder, {"delta.enableInCommitTimestamps": "false"})
    assert newest(builder).metadata.configuration == {"delta.enableInCommitTimestamps": "false"}


def test_comment_becomes_the_description_of_the_table(builder):
    builder.commit()
    set_on(builder, {"comment": "all of them"})
    assert (newest(builder).metadata.description, newest(builder).metadata.configuration) == ("all of them", {})
    unset_on(builder, "comment")
    assert newest(builder).metadata.description is None


def test_column_mapping_gives_every_field_an_id_and_the_name_that_files_have(tmp_path):
    schema = pa.schema({"id": pa.int64(), "s": pa.struct({"a": pa.list_(pa.struct({"x": pa.int32()}))})})
    builder = TableBuilder(tmp_path / "t", schema).file([{"id": 1, "s": {"a": [{"x": 2}]}}])
    builder.commit()
    set_on(builder, {"delta.columnMapping.mode": "name", "mine": "1"})
    after = newest(builder)
    assert [(field_id(field), physical_name(field)) for field in all_fields(after.schema)] == [
        (1, "id"),
        (2, "s"),
        (3, "a"),
        (4, "x"),
    ]
    assert after.metadata.configuration["delta.columnMapping.maxColumnId"] == "4"
    assert after.protocol.min_reader_version == 2 and "columnMapping" in after.protocol.writer_features
    assert set_on(builder, {"delta.columnMapping.mode": "name"}).version == 2
    assert newest(builder).metadata.schema_string == after.metadata.schema_string


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "error", "error_class"),
    [
        ({"delta.noSuchThing": "1"}, RequestError, "DELTA_UNKNOWN_CONFIGURATION"),
        ({ENABLE: "perhaps"}, RequestError, ""),
        ({"delta.checkpointInterval": "0"}, RequestError, ""),
        ({"delta.deletedFileRetentionDuration": "interval 1 month"}, RequestError, ""),
        ({"delta.deletedFileRetentionDuration": "interval 60 days"}, RequestError, ""),
        ({"delta.constraints.positive": "id > 0"}, RequestError, "DELTA_ADD_CONSTRAINTS"),
        ({"delta.feature.deletionVectors": "on"}, RequestError, "DELTA_UNSUPPORTED_FEATURE_STATUS"),
        ({"delta.feature.timeMachine": "supported"}, RequestError, "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"),
        (
            {"delta.feature.icebergCompatV1": "supported"},
            UnsupportedFeatureError,
            "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        ),
        (
            {"delta.columnMapping.mode": "id"},
            UnsupportedFeatureError,
            "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        ),
        ({"delta.enableRowTracking": "true"}, UnsupportedFeatureError, ""),
        ({"delta.enableIcebergCompatV2": "true"}, UnsupportedFeatureError, ""),
        ({"delta.columnMapping.maxColumnId": "5"}, RequestError, "DELTA_CANNOT_MODIFY_TABLE_PROPERTY"),
        ({"delta.minReaderVersion": "3"}, RequestError, "DELTA_CANNOT_MODIFY_TABLE_PROPERTY"),
        ({"location": "/elsewhere"}, RequestError, "DELTA_CANNOT_MODIFY_TABLE_PROPERTY"),
        ({"owner": "me"}, RequestError, "DELTA_CANNOT_MODIFY_TABLE_PROPERTY"),
        ({}, RequestError, ""),
    ],
    ids=lambda value: next(iter(value), "nothing") if isinstance(value, dict) else None,
)
def test_property_that_may_not_be_set_is_refused_and_nothing_is_committed(builder, properties, error, error_class):
    builder.commit()
    with pytest.raises(error) as refused:
        set_on(builder, properties)
    assert refused.value.error_class == error_class
    assert newest(builder).version == 0


@pytest.mark.parametrize("mode", ["none", "NONE"])
def test_value_that_changes_nothing_is_allowed_even_for_a_fixed_property(builder, mode):
    builder.commit()
    assert set_on(builder, {"delta.columnMapping.mode": mode}).version == 1


@pytest.mark.parametrize(
    ("present", "wanted", "error_class"),
    [
        (
            "delta.compatibility.symlinkFormatManifest.enabled",
            ENABLE,
            f"{VIOLATION}.PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION",
        ),
        (
            ENABLE,
            "delta.compatibility.symlinkFormatManifest.enabled",
            f"{VIOLATION}.PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION",
        ),
    ],
)
def test_manifests_and_vectors_exclude_each_other(builder, present, wanted, error_class):
    builder.commit()
    set_on(builder, {present: "true"})
    with pytest.raises(RequestError) as refused:
        set_on(builder, {wanted: "true"})
    assert refused.value.error_class == error_class


def test_manifests_cannot_start_while_live_files_have_vectors(builder):
    builder.feature("deletionVectors").file([{"id": 7}, {"id": 8}], deleted=[0]).commit()
    with pytest.raises(RequestError) as refused:
        set_on(builder, {"delta.compatibility.symlinkFormatManifest.enabled": "true"})
    assert refused.value.error_class == (f"{VIOLATION}.EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION")


def test_change_feed_is_refused_for_a_table_with_one_of_its_columns(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"_Change_Type": pa.string()})).commit()
    with pytest.raises(RequestError, match="_Change_Type"):
        set_on(builder, {"delta.enableChangeDataFeed": "true"})


def test_table_that_cannot_be_written_is_not_altered(builder):
    builder.feature("collations", reader=False).commit()
    with pytest.raises(DeltaError) as refused:
        set_on(builder, {"mine": "1"})
    assert refused.value.error_class == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"


# --- taking away ------------------------------------------------------------------------------------------------------


def test_unset_takes_properties_away_whatever_their_case(builder):
    builder.table_property("delta.checkpointInterval", "3").table_property("mine", "1").commit()
    unset_on(builder, "DELTA.CheckpointInterval", "mine")
    assert newest(builder).metadata.configuration == {}
    info = actions_of(builder, 1)[0].fields
    assert info["operation"] == "UNSET TBLPROPERTIES"
    assert json.loads(info["operationParameters"]["properties"]) == ["delta.checkpointInterval", "mine"]
    assert info["operationParameters"]["ifExists"] is False


def test_unset_of_a_missing_property_is_refused_unless_if_exists(builder):
    builder.commit()
    with pytest.raises(RequestError) as refused:
        unset_on(builder, "mine")
    assert refused.value.error_class == "DELTA_UNSET_NON_EXISTENT_PROPERTY"
    assert unset_on(builder, "mine", if_exists=True).version == 1


@pytest.mark.parametrize("key", ["delta.feature.deletionVectors", "delta.constraints.c", "delta.columnMapping.mode"])
def test_what_is_more_than_a_property_cannot_be_unset(builder, key):
    builder.column_mapping("name").deletion_vectors().commit()
    with pytest.raises(DeltaError):
        unset_on(builder, key)
    assert newest(builder).version == 0


# --- with other writers -----------------------------------------------------------------------------------------------


def before_our_commit(builder, rival):
    """A store on which `rival` runs once, just before the first commit is put."""
    waiting = [rival]

    def before(op, path):
        if op == "put_if_absent" and path.endswith(".json") and waiting:
            waiting.pop()()

    return HookedStore(store_of(builder), before=before)


def test_enabling_vectors_follows_an_append_that_came_first(builder):
    builder.commit()
    store = before_our_commit(builder, lambda: builder.file([{"id": 9}]).commit())
    assert set_properties(store, {ENABLE: "true"}, options=WriteOptions()).version == 2
    assert (newest(builder).num_files, newest(builder).properties.enable_deletion_vectors) == (2, True)


def test_manifests_are_refused_when_a_deletion_that_came_first_made_vectors(builder):
    builder.feature("deletionVectors").commit()
    store = before_our_commit(builder, lambda: builder.mark(builder.files[0], [1]).commit())
    with pytest.raises(RequestError) as refused:
        set_properties(store, {"delta.compatibility.symlinkFormatManifest.enabled": "true"}, options=WriteOptions())
    assert refused.value.error_class.endswith("EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION")


def test_two_changes_of_properties_at_once_are_a_conflict(builder):
    builder.commit()
    store = before_our_commit(builder, lambda: set_on(builder, {"mine": "2"}))
    with pytest.raises(MetadataChangedException):
        set_properties(store, {"mine": "1"}, options=WriteOptions())
    assert newest(builder).metadata.configuration == {"mine": "2"}


# --- through the doors ------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_sql_enables_vectors_and_the_next_delete_marks_rows(spark, builder):
    builder.commit()
    path = str(builder.path)
    assert ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{ENABLE}' = true)").collect() == []
    assert ebbtide.DeltaTable.forPath(spark, path).delete("id = 2").metrics.num_deletion_vectors_added == 1
    ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ({ENABLE})")
    rewritten = ebbtide.DeltaTable.forPath(spark, path).delete("id = 3")
    assert (rewritten.version, rewritten.metrics.num_added_files) == (4, 1)
    assert sorted(row.id for row in ebbtide.read(spark, path).collect()) == [0, 1]


@pytest.mark.spark
def test_feature_support_is_added_from_python(spark, builder):
    builder.commit()
    table = ebbtide.DeltaTable.forPath(spark, str(builder.path))
    assert table.addFeatureSupport("deletionVectors") is None
    assert table.detail().first().tableFeatures == ["appendOnly", "deletionVectors", "invariants"]
    with pytest.raises(RequestError, match="timeMachine"):
        table.addFeatureSupport("timeMachine")
