"""Does anything get committed that Ebbtide itself would refuse to read?

These tests go past the doors on purpose: they stage actions that no argument check has seen.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.log_builder import MemoryStore
from tests.support.log_builder import metadata as metadata_line
from tests.support.transactions import DV_TABLE, add_file, begin, make_table, operation, remove_of, vector_of

from ebbtide.errors import DeltaError, InternalError, RequestError
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import AddCDCFile, DomainMetadata, Metadata, Protocol, SetTransaction, parse_action
from ebbtide.transaction import Operation, Transaction

FILE = add_file("a.parquet")


def metadata(**changes):
    action = parse_action(metadata_line())
    assert isinstance(action, Metadata)
    return replace(action, **changes)


def schema_with(field_metadata, *, nested=False):
    field = {"name": "id", "type": "long", "nullable": True, "metadata": field_metadata}
    if nested:
        inner = {"type": "array", "elementType": {"type": "struct", "fields": [field]}, "containsNull": True}
        field = {"name": "s", "type": inner, "nullable": True, "metadata": {}}
    return json.dumps({"type": "struct", "fields": [field]})


def refused(store, *actions, how: Operation | None = None, kind=InternalError, match="could not be read again"):
    before = load_snapshot(store).version
    with pytest.raises(kind, match=match):
        begin(store).commit(actions, how or operation())
    assert load_snapshot(store).version == before


@pytest.mark.parametrize(
    "changes",
    [
        {"description": 1},
        {"name": True},
        {"description": ["a"]},
        {"configuration": {"owner": 1}},
        {"configuration": {"owner": True}},
        {"configuration": {"owner": None}},
        {"configuration": {"owner": {"a": "b"}}},
        {"created_time": "yesterday"},
        {"created_time": 1.0},
        {"id": 5},
        {"format_provider": 5},
        {"format_options": {"a": 1}},
        {"partition_columns": (1,)},
        {"schema_string": 7},
        {"schema_string": "{"},
        {"schema_string": '{"type":"struct","fields":[{"name":"id","type":"long","nullable":"no","metadata":{}}]}'},
    ],
)
def test_wrongly_typed_table_metadata_is_not_committed(changes):
    store = make_table()
    refused(store, metadata(**changes), kind=(DeltaError, TypeError, AttributeError), match=None)
    assert load_snapshot(store).schema.names


@pytest.mark.parametrize("changes", [{"description": 1}, {"name": True}, {"configuration": {"owner": 1}}])
def test_wrongly_typed_table_metadata_makes_no_table(changes):
    store = MemoryStore()
    with pytest.raises(InternalError, match="could not be read again"):
        Transaction.create(store, metadata(**changes)).commit((), operation("CREATE TABLE"))
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    "field_metadata",
    [
        {"comment": 1},
        {"comment": {"a": 1}},
        {"CURRENT_DEFAULT": 5},
        {"EXISTS_DEFAULT": None},
        {"delta.generationExpression": ["id"]},
        {"delta.invariants": {"expression": {"expression": "id > 0"}}},
        {"__CHAR_VARCHAR_TYPE_STRING": 5},
        {"own": [1, "a"]},
        {"own": [None]},
        {"own": 2**63},
        {"own": {"deep": [1, 2.5]}},
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_column_metadata_that_spark_cannot_hold_is_not_committed(field_metadata, nested):
    refused(
        make_table(), metadata(schema_string=schema_with(field_metadata, nested=nested)), kind=DeltaError, match=None
    )


def test_strange_column_metadata_of_another_writer_does_not_stop_a_later_change():
    store = make_table()
    log = {"metaData": metadata(schema_string=schema_with({"comment": 1})).to_json()}
    store.put_if_absent("_delta_log/00000000000000000001.json", json.dumps(log).encode())
    theirs = load_snapshot(store).metadata
    assert begin(store).commit([replace(theirs, description="ours")], operation()).version == 2


@pytest.mark.parametrize(
    "file",
    [
        replace(FILE, size="12"),
        replace(FILE, size=12.0),
        replace(FILE, size=True),
        replace(FILE, size=-1),
        replace(FILE, modification_time=1.5),
        replace(FILE, data_change="yes"),
        replace(FILE, data_change=1),
        replace(FILE, tags={"a": 1}),
        replace(FILE, base_row_id="5"),
        replace(FILE, clustering_provider=1),
        replace(FILE, path=""),
        remove_of(replace(FILE, size="12")),
        AddCDCFile("_change_data/c", {}, "12"),
        AddCDCFile("_change_data/c", {}, -1),
        AddCDCFile("_change_data/c", {}, 1, {"a": 1}),
    ],
    ids=str,
)
def test_wrongly_typed_file_action_is_not_committed(file):
    refused(make_table(None, FILE), file, kind=DeltaError, match=None)


def test_partition_value_that_is_no_string_is_not_committed():
    store = make_table(columns={"id": "long", "p": "long"}, partitions=["p"])
    refused(store, add_file("a", partition={"p": 1}), match="partition value 'p'")
    refused(store, AddCDCFile("_change_data/c", {"p": 1}, 1), match="partition value 'p'")


@pytest.mark.parametrize(
    "how",
    [
        Operation("WRITE", user_metadata={"x": 1}),
        Operation("WRITE", user_metadata=1),
        Operation("WRITE", tags={"a": 1}),
        Operation(1),
    ],
    ids=str,
)
def test_wrongly_typed_provenance_is_not_committed(how):
    refused(make_table(), add_file("b"), how=how)


def test_wrongly_typed_small_actions_are_not_committed():
    store = make_table(features=[], writer_features=["domainMetadata"])
    refused(store, SetTransaction("app", "5"), FILE)
    refused(store, SetTransaction("app", 5, "now"), FILE)
    refused(store, SetTransaction(5, 5), FILE)
    refused(store, DomainMetadata("d", 1, False), FILE)
    refused(store, DomainMetadata("d", "{}", "no"), FILE)


def test_wrongly_typed_protocol_is_not_committed():
    refused(make_table(), Protocol(1, "2"), kind=(DeltaError, TypeError), match=None)
    refused(make_table(), Protocol(1.0, 2), kind=DeltaError, match=None)


def test_text_that_is_no_unicode_is_not_committed():
    refused(make_table(), metadata(description="\ud800"), kind=RequestError, match="JSON")


def test_ordinary_actions_pass_the_wall():
    store = make_table(None, FILE, **DV_TABLE)
    marked = replace(add_file(FILE.path, vector=vector_of(1)), tags={"a": "b"})
    changes = [marked, remove_of(FILE), AddCDCFile("_change_data/c", {}, 1, {"t": "x"})]
    how = Operation("DELETE", {"predicate": "[]", "n": None}, {"numDeletedRows": 1}, "words", {"a": "b"})
    assert begin(store).commit(changes, how, set_transaction=SetTransaction("app", 5)).version == 1
