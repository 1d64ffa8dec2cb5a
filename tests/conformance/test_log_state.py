"""Does the log of every golden table replay to the state that the manifest states?

No JVM: versions, live files, vectors, transactions, domains and times come from the log alone. Rows are compared
elsewhere.
"""

from __future__ import annotations

import json

import pytest
from tests.support.log_builder import live_keys
from tests.support.shared_material import golden_tables

from ebbtide.errors import DeltaError, InternalError
from ebbtide.log import load_snapshot, read_history, table_detail
from ebbtide.storage import open_store

TABLES = golden_tables()
# The manifest lists what the log mentions, removed domains included.
REMOVED_DOMAINS = {"corpus.gone"}


def named(tables):
    return pytest.mark.parametrize("table", tables, ids=lambda table: table.name)


def with_entry(field):
    return named([table for table in TABLES if table.entry.get(field) and not table.must_fail])


def load(table, tmp_path, **options):
    return load_snapshot(open_store(str(table.copy_to(tmp_path))), **options)


@named([table for table in TABLES if not table.must_fail])
def test_newest_version_has_the_files_of_the_manifest(table, tmp_path):
    snapshot = load(table, tmp_path)
    vectors = [file.deletion_vector for file in snapshot.add_files() if file.deletion_vector is not None]
    entry = table.entry
    assert snapshot.version == entry["latest_version"]
    assert snapshot.num_files == entry["num_active_files"]
    assert len(vectors) == entry["num_files_with_dv"]
    assert sum(vector.cardinality for vector in vectors) == entry["rows_deleted_by_dv"]
    assert list(snapshot.metadata.partition_columns) == entry["partition_columns"]
    assert snapshot.protocol.min_reader_version == entry["min_reader_version"]
    assert sorted(snapshot.protocol.writer_features or ()) == sorted(entry["writer_features"])
    assert table_detail(snapshot).num_files == snapshot.num_files


@named([table for table in TABLES if table.must_fail and table.entry.get("ref_open_error")])
def test_log_that_must_not_open_is_refused(table, tmp_path):
    with pytest.raises(DeltaError) as caught:
        load(table, tmp_path)
    assert not isinstance(caught.value, InternalError)


@named([table for table in TABLES if table.expected_kind == "files"])
def test_live_files_are_those_expected(table, tmp_path):
    expected = {(file["path"], file["dv"]) for file in table.expected_files()}
    assert live_keys(load(table, tmp_path)) == expected


@named([table for table in TABLES if table.versions and not table.must_fail])
def test_every_version_opens_and_leads_to_the_newest(table, tmp_path):
    store = open_store(str(table.copy_to(tmp_path)))
    newest = load_snapshot(store)
    tombstones = newest.tombstones().num_rows
    for version in table.versions:
        snapshot = load_snapshot(store, version=version)
        assert snapshot.version == version
        assert logical_rows(snapshot) in {None, table.entry["versions"][str(version)]["rows"]} or table.may_refuse
        forward = load_snapshot(store, hint=snapshot)
        assert live_keys(forward) == live_keys(newest)
        assert forward.tombstones().num_rows == tombstones


def logical_rows(snapshot):
    """Rows by statistics and cardinalities; None where a file does not say how many it has."""
    total = 0
    for file in snapshot.add_files():
        count = json.loads(file.stats or "{}").get("numRecords")
        if count is None:
            return None
        total += count - (file.deletion_vector.cardinality if file.deletion_vector else 0)
    return total


@with_entry("txn")
def test_transactions_are_those_of_the_manifest(table, tmp_path):
    transactions = load(table, tmp_path).transactions
    assert {app: action.version for app, action in transactions.items()} == table.entry["txn"]


@with_entry("domain_metadata")
def test_domains_are_those_of_the_manifest(table, tmp_path):
    assert set(load(table, tmp_path).domain_metadata) == set(table.entry["domain_metadata"]) - REMOVED_DOMAINS


@with_entry("in_commit_timestamps")
def test_history_and_snapshot_have_the_times_inside_the_commits(table, tmp_path):
    store = open_store(str(table.copy_to(tmp_path)))
    expected = {int(version): time for version, time in table.entry["in_commit_timestamps"].items()}
    assert {record.version: record.timestamp_ms for record in read_history(store)} == expected
    assert load_snapshot(store).timestamp_ms == expected[max(expected)]
