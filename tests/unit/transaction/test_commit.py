"""What does a commit write, and when is there none?"""

from __future__ import annotations

import json

import pytest
from tests.support.log_builder import MemoryStore, metadata, protocol
from tests.support.stores import FailingStore, HookedStore
from tests.support.transactions import (
    START_MS,
    FakeTime,
    add_file,
    append,
    as_action,
    begin,
    commit,
    live_paths,
    make_table,
    operation,
    remove_of,
)

from ebbtide.config import EngineConfig
from ebbtide.errors import (
    InternalError,
    ProtocolChangedException,
    RequestError,
    StorageError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from ebbtide.log import load_snapshot, read_commit
from ebbtide.protocol.actions import CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from ebbtide.transaction import Operation, ReadPredicate, Transaction, property_changes

TABLE = as_action(metadata())


def commit_lines(store, version):
    return [json.loads(line) for line in store.read(f"_delta_log/{version:020d}.json").splitlines()]


def info_of(store, version):
    return commit_lines(store, version)[0]["commitInfo"]


def test_commit_lands_as_the_next_version_with_its_provenance_first():
    store = make_table()
    what = Operation("WRITE", {"mode": "Append"}, {"numFiles": 1}, "ticket 12", {"k": "v"})
    transaction = begin(store)
    committed = transaction.commit([add_file("a.parquet")], what)
    lines = commit_lines(store, 1)
    assert [list(line) for line in lines] == [["commitInfo"], ["add"]]
    assert lines[0]["commitInfo"] == {
        "timestamp": START_MS,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1"},
        "userMetadata": "ticket 12",
        "tags": {"k": "v"},
        "engineInfo": "Ebbtide/0.1.0",
        "txnId": transaction.txn_id,
    }
    assert store.read(f"_delta_log/{1:020d}.json").endswith(b"}\n")
    assert (committed.version, committed.attempts, committed.rebases) == (1, 1, 0)
    assert committed.is_new_version
    assert isinstance(committed.actions[0], CommitInfo)
    assert list(committed.actions) == read_commit(store, 1)


def test_snapshot_after_the_commit_is_the_one_a_fresh_reader_sees():
    store = make_table()
    first = append(store, "a", "b")
    second = begin(store, hint=first.snapshot).commit([remove_of(add_file("a"))], operation("DELETE"))
    fresh = load_snapshot(store)
    assert second.snapshot.version == fresh.version == 2
    assert second.snapshot.files.to_pylist() == fresh.files.to_pylist()
    assert second.snapshot.tombstones().to_pylist() == fresh.tombstones().to_pylist()


def test_no_actions_make_no_commit():
    store = make_table()
    committed = begin(store).commit([], operation("DELETE"))
    assert not committed.is_new_version
    assert (committed.version, committed.actions, committed.attempts) == (0, (), 0)
    assert committed.snapshot.version == load_snapshot(store).version == 0


def test_empty_commit_is_possible_for_those_who_ask():
    store = make_table()
    committed = begin(store).commit([], operation("VACUUM START"), allow_empty=True)
    assert committed.version == load_snapshot(store).version == 1
    assert info_of(store, 1)["isolationLevel"] == "SnapshotIsolation"


def test_transaction_commits_only_once():
    transaction = begin(make_table())
    transaction.commit([add_file("a")], operation())
    with pytest.raises(InternalError, match="commits once"):
        transaction.commit([add_file("b")], operation())


@pytest.mark.parametrize(
    ("read", "is_blind"),
    [
        (lambda transaction: None, True),
        (lambda transaction: transaction.record_read_whole_table(), False),
        (lambda transaction: transaction.record_read(ReadPredicate("p = 1"), transaction.snapshot.files), False),
        (lambda transaction: transaction.has_been_executed("app", 1), True),
    ],
)
def test_blind_append_is_one_that_read_no_files(read, is_blind):
    store = make_table()
    transaction = begin(store)
    read(transaction)
    transaction.commit([add_file("a")], operation())
    assert info_of(store, 1)["isBlindAppend"] is is_blind


def test_commit_that_removes_is_never_a_blind_append():
    file = add_file("a")
    store = make_table(None, file)
    commit(store, remove_of(file), name="DELETE")
    assert info_of(store, 1)["isBlindAppend"] is False


def test_commit_that_only_moves_rows_runs_under_snapshot_isolation():
    file = add_file("a")
    store = make_table(None, file)
    moved = [remove_of(file, data_change=False), add_file("b", data_change=False)]
    commit(store, *moved, name="OPTIMIZE")
    assert info_of(store, 1)["isolationLevel"] == "SnapshotIsolation"


def test_table_that_asks_for_write_serializable_gets_it():
    store = make_table(configuration={"delta.isolationLevel": "WriteSerializable"})
    append(store, "a")
    assert info_of(store, 1)["isolationLevel"] == "WriteSerializable"


# --- application transactions -----------------------------------------------------------------------------------------


def test_application_transaction_stands_before_the_files_and_is_dated():
    store = make_table()
    begin(store).commit([add_file("a")], operation(), set_transaction=SetTransaction("app", 3))
    assert commit_lines(store, 1)[1] == {"txn": {"appId": "app", "version": 3, "lastUpdated": START_MS}}


def test_same_application_transaction_sent_twice_lands_once():
    store = make_table()
    sent = SetTransaction("app", 3)
    begin(store).commit([add_file("a")], operation(), set_transaction=sent)
    again = begin(store)
    assert again.has_been_executed("app", 3)
    assert again.has_been_executed("app", 2)
    assert not begin(store).has_been_executed("app", 4)
    assert not begin(store).has_been_executed("other", 1)
    repeated = again.commit([add_file("b")], operation(), set_transaction=sent)
    assert repeated.already_executed
    assert repeated.version == load_snapshot(store).version == 1
    assert live_paths(store) == {"a"}


def test_application_transaction_without_anything_to_do_is_not_recorded():
    store = make_table()
    committed = begin(store).commit([], operation("DELETE"), set_transaction=SetTransaction("app", 1))
    assert not committed.is_new_version
    assert not committed.already_executed
    assert load_snapshot(store).transactions == {}


# --- creating a table -------------------------------------------------------------------------------------------------


def test_create_makes_version_zero_with_the_protocol_its_properties_need():
    store = MemoryStore()
    wanted = as_action(metadata(configuration={"delta.enableDeletionVectors": "true"}))
    committed = Transaction.create(store, wanted).commit([add_file("a")], operation("CREATE TABLE"))
    assert committed.version == 0
    lines = commit_lines(store, 0)
    assert [next(iter(line)) for line in lines] == ["commitInfo", "protocol", "metaData", "add"]
    assert lines[1]["protocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "deletionVectors", "invariants"],
    }
    assert "readVersion" not in lines[0]["commitInfo"]
    assert committed.snapshot.num_files == 1


def test_create_with_a_protocol_uses_that_one():
    store = MemoryStore()
    chosen = as_action(protocol(features=["v2Checkpoint"]))
    committed = Transaction.create(store, TABLE, chosen).commit([], operation("CREATE TABLE"))
    assert committed.snapshot.protocol == chosen


def test_create_refuses_a_place_that_has_a_table():
    with pytest.raises(TableAlreadyExistsError):
        Transaction.create(make_table(), TABLE)


def test_create_that_loses_the_race_says_who_won():
    store = MemoryStore()
    late = Transaction.create(store, TABLE, clock=FakeTime().clock)
    first = Transaction.create(store, TABLE)
    first.commit([], operation("CREATE TABLE"))
    with pytest.raises(ProtocolChangedException, match=rf"version 0 \(CREATE TABLE by Ebbtide.*{first.txn_id}"):
        late.commit([add_file("a")], operation("CREATE TABLE"))
    assert load_snapshot(store).num_files == 0


def test_creating_transaction_has_no_snapshot_to_read():
    with pytest.raises(InternalError):
        _ = Transaction.create(MemoryStore(), TABLE).snapshot


def test_create_checks_protocol_against_properties():
    wanted = as_action(metadata(configuration={"delta.enableDeletionVectors": "true"}))
    transaction = Transaction.create(MemoryStore(), wanted, Protocol(1, 2))
    with pytest.raises(RequestError, match="DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH"):
        transaction.commit([], operation("CREATE TABLE"))


# --- in-commit timestamps ---------------------------------------------------------------------------------------------

TIMED = {"writer_features": ["inCommitTimestamp"], "configuration": {"delta.enableInCommitTimestamps": "true"}}


def test_in_commit_timestamp_is_now_when_the_clock_is_ahead():
    store = make_table(**TIMED)
    assert append(store, "a").snapshot.timestamp_ms == START_MS
    assert info_of(store, 1)["inCommitTimestamp"] == info_of(store, 1)["timestamp"] == START_MS


def test_in_commit_timestamps_increase_when_the_clock_stands_still_or_runs_back():
    store = make_table(**TIMED)
    time = FakeTime()
    for now in (START_MS, START_MS, START_MS - 5000):
        time.now = now
        begin(store, time=time).commit([add_file(str(load_snapshot(store).version))], operation())
    assert [info_of(store, version)["inCommitTimestamp"] - START_MS for version in (1, 2, 3)] == [0, 1, 2]


def test_commit_without_in_commit_timestamps_carries_none():
    store = make_table()
    append(store, "a")
    assert "inCommitTimestamp" not in info_of(store, 1)


def test_switching_in_commit_timestamps_on_notes_since_when():
    store = make_table()
    append(store, "a")
    transaction = begin(store)
    snapshot = transaction.snapshot
    changes = property_changes(snapshot.protocol, snapshot.metadata, set={"delta.enableInCommitTimestamps": "true"})
    switched = transaction.commit(changes, operation("SET TBLPROPERTIES"))
    assert switched.snapshot.properties.in_commit_timestamp_enablement_version == 2
    assert switched.snapshot.properties.in_commit_timestamp_enablement_timestamp == START_MS
    assert info_of(store, 2)["inCommitTimestamp"] == START_MS
    before = switched.snapshot.metadata
    append(store, "b")
    assert load_snapshot(store).metadata == before


# --- the gate and the borders -----------------------------------------------------------------------------------------


def test_table_that_cannot_be_written_is_refused_before_anything_is_put():
    store = HookedStore(make_table(features=[], writer_features=["collations"]))
    transaction = begin(store)
    with pytest.raises(UnsupportedFeatureError, match="collations"):
        transaction.commit([add_file("a")], operation())
    assert [call for call in store.calls if call[0].startswith("put")] == []


def test_commit_that_could_not_be_read_back_is_refused():
    store = make_table()
    config = EngineConfig(max_log_line_bytes=2000)
    append(store, "a")
    with pytest.raises(RequestError, match="max_log_line_bytes"):
        begin(store, config=config).commit([add_file("x" * 2000)], operation())
    assert load_snapshot(store).version == 1


def test_landed_commit_stays_a_success_when_reading_it_back_fails(caplog):
    inner = make_table()
    transaction = begin(FailingStore(inner, StorageError("gone"), op="list_directory", at=2))
    committed = transaction.commit([add_file("a")], operation())
    assert committed.version == load_snapshot(inner).version == 1
    assert "landed, but cannot be read back" in caplog.text
    assert committed.snapshot.num_files == 1


def test_landed_commit_stays_a_success_when_the_work_after_it_fails():
    inner = make_table(configuration={"delta.checkpointInterval": "1"})
    writes = []

    def refuse(op, path):
        if op.startswith("put") and not path.endswith(".json"):
            writes.append(path)
            raise StorageError("read-only by now")

    committed = begin(HookedStore(inner, before=refuse)).commit([add_file("a")], operation())
    assert committed.version == load_snapshot(inner).version == 1
    assert writes


def test_checkpoint_is_written_when_one_is_due():
    store = make_table(configuration={"delta.checkpointInterval": "2"})
    append(store, "a")
    append(store, "b")
    assert f"_delta_log/{2:020d}.checkpoint.parquet" in store.objects
    assert f"_delta_log/{1:020d}.checkpoint.parquet" not in store.objects


def test_hundred_commits_cost_the_same_number_of_storage_calls_each():
    store = HookedStore(make_table(configuration={"delta.checkpointInterval": "1000000"}))
    snapshot = load_snapshot(store)
    costs = []
    for number in range(100):
        store.calls.clear()
        snapshot = begin(store, hint=snapshot).commit([add_file(f"f{number}")], operation()).snapshot
        costs.append(len(store.calls))
    assert snapshot.num_files == 100
    assert len(set(costs)) == 1
    assert costs[0] <= 8


def test_domain_needs_its_feature():
    with pytest.raises(RequestError, match="DELTA_DOMAIN_METADATA_NOT_SUPPORTED"):
        commit(make_table(), DomainMetadata("d", "{}", removed=False))


def test_metadata_and_protocol_may_change_once_in_a_commit():
    store = make_table()
    other = Metadata("x", TABLE.schema_string, (), {})
    with pytest.raises(InternalError, match="metadata only once"):
        commit(store, TABLE, other)
    with pytest.raises(InternalError, match="protocol only once"):
        commit(store, Protocol(1, 2), Protocol(1, 3))
