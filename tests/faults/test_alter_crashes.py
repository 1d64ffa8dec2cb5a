"""Is a change of the table's definition made whole or not at all, wherever it is interrupted?"""

from __future__ import annotations

import os
from itertools import count

import pytest
from tests.faults.test_delete_crashes import FAULTS, FaultyStore, outcome_of
from tests.support.races import ID_SCHEMA
from tests.support.table_builder import TableBuilder

from ebbtide.commands.define.alter import set_properties, unset_properties
from ebbtide.commands.define.clustering import cluster_by
from ebbtide.commands.define.columns import NewColumn, add_columns, drop_columns, rename_column
from ebbtide.commands.define.features import upgrade_table_protocol
from ebbtide.commands.define.replaced_columns import replace_columns
from ebbtide.commands.requests import WriteOptions
from ebbtide.log import load_snapshot
from ebbtide.protocol.schema import PrimitiveType, StructField
from ebbtide.storage import open_store

LONG = PrimitiveType("long")
OPTIONS = WriteOptions()
CHANGES = {
    "set": lambda store: set_properties(store, {"mine": "1", "delta.enableDeletionVectors": "true"}, options=OPTIONS),
    "unset": lambda store: unset_properties(store, ["theirs"], options=OPTIONS),
    "add": lambda store: add_columns(store, [NewColumn(StructField("new", LONG))], options=OPTIONS),
    "drop": lambda store: drop_columns(store, [("other",)], options=OPTIONS),
    "rename": lambda store: rename_column(store, ("other",), "another", options=OPTIONS),
    "replace": lambda store: replace_columns(
        store, [StructField("other", LONG), StructField("id", LONG)], options=OPTIONS
    ),
    "cluster": lambda store: cluster_by(store, [("id",)], options=OPTIONS),
    "upgrade": lambda store: upgrade_table_protocol(store, 1, 4, options=OPTIONS),
}


def make_table(path):
    schema = ID_SCHEMA.append(ID_SCHEMA.field("id").with_name("other"))
    builder = TableBuilder(path, schema).column_mapping("name").table_property("theirs", "1")
    return builder.file([{"id": 1, "other": 2}]).commit().path


def definition(store):
    """All that ALTER TABLE can change, without names that are made at random."""
    snapshot = load_snapshot(store)
    domains = [domain.configuration for domain in snapshot.domain_metadata.values()]
    configuration = dict(snapshot.metadata.configuration)
    return snapshot.schema.names, configuration, snapshot.protocol, len(domains)


@pytest.mark.parametrize("name", CHANGES)
def test_fault_at_any_call_leaves_the_old_table_or_the_new_one(name, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    change = CHANGES[name]
    before = definition(open_store(str(make_table(tmp_path / "before"))))
    wanted = open_store(str(make_table(tmp_path / "after")))
    change(wanted)
    after = definition(wanted)
    for fault in FAULTS:
        for at in count():
            path = make_table(tmp_path / f"{fault} {at}")
            store = FaultyStore(open_store(str(path)), fault, at)
            outcome = outcome_of(lambda store=store: change(store))
            if len(store.calls) <= at:
                break
            found = definition(open_store(str(path)))
            assert found in (
                (after,) if outcome == "landed" else (before,) if outcome == "refused" else (before, after)
            )
        assert at > 1, "the run stopped making calls"
