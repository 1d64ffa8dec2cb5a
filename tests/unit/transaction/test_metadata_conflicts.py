"""Which changes of the metadata leave a result standing that was made before them?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.log_builder import metadata, protocol
from tests.support.transactions import as_action

from ebbtide.protocol.actions import Protocol
from ebbtide.transaction.metadata_conflicts import intolerable_changes

BEFORE = as_action(metadata({"id": "long", "s": "string"}))
EVERYTHING = as_action(
    protocol(features=["deletionVectors", "rowTracking", "inCommitTimestamp", "v2Checkpoint", "columnMapping"])
)
OLD = Protocol(1, 2)


def changes(configuration, *, before=None, table_protocol=EVERYTHING):
    old = replace(BEFORE, configuration=before or {})
    return intolerable_changes(old, replace(BEFORE, configuration=configuration), table_protocol)


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableRowTracking": "true", "delta.rowTracking.materializedRowIdColumnName": "_row"},
        {"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "3"},
        {"delta.checkpointPolicy": "v2"},
        {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"},
        {"io.unitycatalog.tableId": "x"},
    ],
)
def test_switching_a_feature_on_is_tolerated(configuration):
    assert changes(configuration) == []


@pytest.mark.parametrize(
    "configuration",
    [
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableRowTracking": "true"},
        {"delta.enableInCommitTimestamps": "true"},
        {"delta.checkpointPolicy": "v2"},
        {"delta.columnMapping.mode": "name"},
    ],
)
def test_switching_a_feature_on_without_the_protocol_is_not(configuration):
    assert changes(configuration, table_protocol=OLD) != []


@pytest.mark.parametrize(
    "configuration",
    [
        {"delta.enableDeletionVectors": "false"},
        {"delta.enableRowTracking": "false"},
        {"delta.rowTracking.materializedRowIdColumnName": "_row"},
        {"delta.columnMapping.mode": "id"},
        {"delta.checkpointPolicy": "classic"},
        {"delta.appendOnly": "true"},
        {"delta.constraints.c": "id > 0"},
        {"delta.enableChangeDataFeed": "true"},
        {"my.property": "x"},
    ],
)
def test_any_other_property_is_not(configuration):
    assert changes(configuration) != []


def test_unsetting_a_property_is_not():
    assert changes({}, before={"delta.enableDeletionVectors": "true"}) == ["delta.enableDeletionVectors unset"]


def test_mapping_mode_may_only_go_from_none_to_name():
    assert changes({"delta.columnMapping.mode": "name"}, before={"delta.columnMapping.mode": "id"}) != []
    assert changes({"delta.columnMapping.mode": "none"}, before={"delta.columnMapping.mode": "name"}) != []


@pytest.mark.parametrize(
    "change",
    [
        {"id": "another"},
        {"name": "n"},
        {"description": "d"},
        {"partition_columns": ("s",)},
        {"format_provider": "orc"},
    ],
)
def test_everything_outside_of_the_properties_is_not(change):
    assert intolerable_changes(BEFORE, replace(BEFORE, **change), EVERYTHING) == list(change)


# --- the schema -------------------------------------------------------------------------------------------------------


def schema_of(*fields):
    return json.dumps({"type": "struct", "fields": list(fields)})


def field(name, type="long", *, nullable=True, **field_metadata):
    return {"name": name, "type": type, "nullable": nullable, "metadata": field_metadata}


def schema_changes(old, new, configuration=None):
    before = replace(BEFORE, schema_string=old)
    return intolerable_changes(
        before, replace(before, schema_string=new, configuration=configuration or {}), EVERYTHING
    )


def test_identity_column_may_count_on():
    old = field("id", **{"delta.identity.start": 1, "delta.identity.highWaterMark": 5})
    new = field("id", **{"delta.identity.start": 1, "delta.identity.highWaterMark": 9})
    assert schema_changes(schema_of(old), schema_of(new)) == []


def test_schema_written_differently_is_the_same_schema():
    compact = json.dumps(json.loads(schema_of(field("id"))), separators=(",", ":"))
    assert schema_changes(schema_of(field("id")), compact) == []


def test_ids_and_names_of_column_mapping_may_appear_when_it_is_switched_on_at_any_depth():
    inner = {"type": "struct", "fields": [field("x")]}
    mapped_inner = {"type": "struct", "fields": [field("x", **{"delta.columnMapping.id": 2})]}
    old = schema_of(field("s", inner))
    new = schema_of(field("s", mapped_inner, **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "s"}))
    assert schema_changes(old, new, {"delta.columnMapping.mode": "name"}) == []
    assert schema_changes(old, new) == ["the schema"]


@pytest.mark.parametrize(
    "new",
    [
        schema_of(field("id"), field("more")),
        schema_of(field("ID")),
        schema_of(field("id", "integer")),
        schema_of(field("id", nullable=False)),
        schema_of(field("id", comment="now with words")),
    ],
)
def test_any_other_change_of_the_schema_is_not_tolerated(new):
    assert schema_changes(schema_of(field("id")), new) == ["the schema"]
    assert schema_changes(schema_of(field("id")), new, {"delta.columnMapping.mode": "name"}) == ["the schema"]
