"""Do properties and protocol change together, and what does a new table need?"""

from __future__ import annotations

import json

import pytest
from tests.support.log_builder import metadata, protocol
from tests.support.transactions import as_action, begin, make_table, operation

from ebbtide.errors import RequestError
from ebbtide.protocol.actions import Metadata, Protocol
from ebbtide.transaction import property_changes, protocol_for, required_features

OLD = Protocol(1, 2)
PLAIN = as_action(metadata())


def table(*fields, **configuration):
    schema = json.dumps({"type": "struct", "fields": list(fields)})
    return Metadata("id", schema, (), configuration)


def field(name, type="long", **field_metadata):
    return {"name": name, "type": type, "nullable": True, "metadata": field_metadata}


@pytest.mark.parametrize(
    ("configuration", "feature"),
    [
        ({"delta.appendOnly": "true"}, "appendOnly"),
        ({"delta.enableDeletionVectors": "true"}, "deletionVectors"),
        ({"delta.enableChangeDataFeed": "true"}, "changeDataFeed"),
        ({"delta.columnMapping.mode": "name"}, "columnMapping"),
        ({"delta.enableRowTracking": "true"}, "rowTracking"),
        ({"delta.enableInCommitTimestamps": "true"}, "inCommitTimestamp"),
        ({"delta.checkpointPolicy": "v2"}, "v2Checkpoint"),
        ({"delta.enableTypeWidening": "true"}, "typeWidening"),
        ({"delta.constraints.positive": "id > 0"}, "checkConstraints"),
    ],
)
def test_property_calls_for_its_feature(configuration, feature):
    assert required_features(table(field("id"), **configuration)) == {feature}


@pytest.mark.parametrize(
    ("column", "feature"),
    [
        (field("t", "timestamp_ntz"), "timestampNtz"),
        (field("a", {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}), "timestampNtz"),
        (
            field("m", {"type": "map", "keyType": "long", "valueType": "variant", "valueContainsNull": True}),
            "variantType",
        ),
        (field("g", **{"delta.generationExpression": "id + 1"}), "generatedColumns"),
        (field("i", **{"delta.identity.start": 1}), "identityColumns"),
        (field("d", CURRENT_DEFAULT="7"), "allowColumnDefaults"),
        (
            field("s", {"type": "struct", "fields": [field("n", **{"delta.invariants": "{}"})]}),
            "invariants",
        ),
    ],
)
def test_column_calls_for_its_feature(column, feature):
    assert required_features(table(field("id"), column)) == {feature}


def test_plain_table_needs_nothing_and_gets_the_oldest_protocol():
    assert required_features(PLAIN) == frozenset()
    assert protocol_for(PLAIN) == OLD
    assert protocol_for(PLAIN, ["rowTracking"]).min_writer_version == 7


def test_setting_a_property_raises_the_protocol_in_the_same_commit():
    changes = property_changes(OLD, PLAIN, set={"delta.enableDeletionVectors": "true", "my.own": "x"})
    assert [type(change) for change in changes] == [Protocol, Metadata]
    assert changes[0].reader_features == {"deletionVectors"}
    assert changes[0].writer_features == {"deletionVectors", "appendOnly", "invariants"}
    assert changes[1].configuration == {"delta.enableDeletionVectors": "true", "my.own": "x"}


def test_property_changes_can_be_committed():
    store = make_table()
    transaction = begin(store)
    snapshot = transaction.snapshot
    changes = property_changes(snapshot.protocol, snapshot.metadata, set={"delta.enableDeletionVectors": "true"})
    committed = transaction.commit(changes, operation("SET TBLPROPERTIES"))
    assert committed.snapshot.properties.enable_deletion_vectors


def test_property_keeps_the_spelling_the_table_has_and_is_unset_in_any():
    before = table(field("id"), **{"DELTA.appendonly": "false", "a": "1"})
    changes = property_changes(OLD, before, set={"delta.appendOnly": "true"}, unset=["A"])
    assert changes[-1].configuration == {"DELTA.appendonly": "true"}


def test_feature_mark_adds_support_and_is_not_stored():
    (change,) = property_changes(OLD, PLAIN, set={"delta.feature.deletionVectors": "supported"})
    assert isinstance(change, Protocol)
    assert "deletionVectors" in (change.writer_features or ())


def test_nothing_to_change_gives_no_actions():
    before = table(field("id"), a="1")
    assert property_changes(OLD, before, set={"a": "1", "delta.minReaderVersion": "1"}, unset=["b"]) == []


def test_preview_of_a_feature_serves_as_the_feature():
    preview = as_action(protocol(features=["typeWidening-preview"]))
    (change,) = property_changes(preview, PLAIN, set={"delta.enableTypeWidening": "true"})
    assert isinstance(change, Metadata)


@pytest.mark.parametrize(
    ("properties", "match"),
    [
        ({"delta.enableDeletionVectors": "maybe"}, "enableDeletionVectors"),
        ({"delta.feature.deletionVectors": "yes"}, "DELTA_UNSUPPORTED_FEATURE_STATUS"),
        ({"delta.feature.teleport": "supported"}, "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"),
    ],
)
def test_property_that_makes_no_sense_is_refused(properties, match):
    with pytest.raises(RequestError, match=match):
        property_changes(OLD, PLAIN, set=properties)
