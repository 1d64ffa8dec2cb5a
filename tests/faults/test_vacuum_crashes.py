"""Is anything lost that a version needs, wherever a VACUUM is interrupted?

The VACUUM is run once for every storage call it makes, full and lite, alone and while another writer commits. At that call
storage refuses, its answer is lost, the request is sent twice, or the process is gone. Afterwards every version in retention
must have all its files, the history must be readable, and the next VACUUM must find and delete what is left.
"""

from __future__ import annotations

from itertools import count

import pytest
from tests.faults.test_delete_crashes import FAULTS, FaultyStore
from tests.support.log_reading import commit_info, newest_version
from tests.support.races import ID_SCHEMA, append, ids_at
from tests.support.stores import HookedStore, SimulatedCrash
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import at, names_below, needed_by, put, settle, vacuum

from ebbtide.commands.vacuum import deletion
from ebbtide.errors import CommitOutcomeUnknownError, DeltaError, PermissionDeniedError
from ebbtide.log import load_snapshot, read_history
from ebbtide.storage import open_store

NOW = at(3, hours=500)
START = "_delta_log/00000000000000000004.json"
ORPHANS = {"orphan-1.parquet", "orphan-2.parquet", "deep/orphan-3.parquet"}


@pytest.fixture(autouse=True)
def _one_file_at_a_time(monkeypatch):
    """Each file is a call of its own, and they come one after the other."""
    monkeypatch.setattr(deletion, "BATCH", 1)
    monkeypatch.setattr(deletion, "_THREADS", 1)


def make_table(path):
    """Version 0 has two files; 1 marks rows of one, 2 marks more, 3 removes the other. VACUUM's commits make a checkpoint."""
    table = TableBuilder(path, ID_SCHEMA).deletion_vectors().table_property("delta.checkpointInterval", "5")
    table.file([{"id": number} for number in range(10)]).file([{"id": number} for number in range(10, 20)]).commit()
    settle(table)
    for row in (0, 1):
        table.mark(table.files[0 if row == 0 else -1], [row]).commit()
        settle(table)
    table.remove(table.files[0]).commit()
    settle(table)
    for name in ORPHANS:
        put(path, name, at(0))
    return table


def outcome_of(run):
    try:
        return run().status
    except SimulatedCrash:
        return "crashed"
    except CommitOutcomeUnknownError:
        return "unknown"
    except DeltaError:
        return "refused"


def assert_nothing_is_lost(table, ids):
    """The newest version has its files, every recorded VACUUM is whole, and what is gone could go."""
    left = names_below(table.path)
    assert needed_by(table) <= left
    assert ids_at(table.path) == ids
    store = open_store(str(table.path))
    assert load_snapshot(store).version == newest_version(table.path)
    assert all(record.operation for record in read_history(store))


def assert_next_one_finishes(table):
    newest = newest_version(table.path)
    done = vacuum(table.path, NOW)
    assert (done.status, done.version) == ("COMPLETED", newest + 2)
    assert names_below(table.path) == needed_by(table)
    assert commit_info(table.path, newest + 2)["operationParameters"] == {"status": "COMPLETED"}


@pytest.mark.parametrize(
    ("fault", "lite"), [*((fault, False) for fault in FAULTS), ("refused", True), ("crash after", True)]
)
def test_fault_at_any_call_loses_nothing_that_is_live(fault, lite, tmp_path):
    outcomes = set()
    for number in count():
        table = make_table(tmp_path / str(number))
        ids = ids_at(table.path)
        store = FaultyStore(open_store(str(table.path)), fault, number)
        outcome = outcome_of(lambda store=store: vacuum(store, NOW, lite=lite))
        if len(store.calls) <= number:
            break
        outcomes.add(outcome)
        assert_nothing_is_lost(table, ids)
        # The next one is a full one: an interrupted LITE may have left what the log no longer leads to.
        assert_next_one_finishes(table)
    assert number > 15, "the run stopped making calls"
    assert outcomes >= ({"crashed"} if fault.startswith("crash") else {"COMPLETED"})
    assert fault != "refused" or "refused" in outcomes


@pytest.mark.parametrize("fault", ["refused", "crash after"])
def test_versions_in_retention_keep_their_files_through_any_fault(fault, tmp_path):
    """Version 2 removed a vector half an hour before the retention ends, version 1 before it."""
    for number in count():
        table = make_table(tmp_path / str(number))
        now_ms = at(2, hours=1)
        retained = {version: ids_at(table.path, version) for version in (2, 3)}
        store = FaultyStore(open_store(str(table.path)), fault, number)
        outcome_of(lambda store=store: vacuum(store, now_ms, retention_hours=1))
        if len(store.calls) <= number:
            break
        assert {version: ids_at(table.path, version) for version in retained} == retained
    assert number > 15, "the run stopped making calls"


@pytest.mark.parametrize("fault", ["refused", "crash after"])
def test_fault_beside_another_writer_loses_neither_its_rows_nor_its_files(fault, tmp_path):
    for number in count():
        table = make_table(tmp_path / str(number))
        ids = ids_at(table.path)
        rival = []

        class Raced(FaultyStore):
            """Somebody appends just before VACUUM START is put."""

            def put_if_absent(self, path, data, rival=rival, inner=open_store(str(table.path))):
                if not rival:
                    rival.append(append(inner, [99]))
                super().put_if_absent(path, data)

        store = Raced(open_store(str(table.path)), fault, number)
        outcome_of(lambda store=store: vacuum(store, NOW))
        if len(store.calls) <= number:
            break
        assert ids_at(table.path) == [*ids, *([99] if rival else [])]
    assert number > 15, "the run stopped making calls"


@pytest.mark.parametrize("fault", ["refused", "crash before", "crash after"])
def test_nothing_is_deleted_before_the_start_is_recorded(fault, tmp_path):
    table = make_table(tmp_path / "t")
    before = names_below(table.path)
    watched = HookedStore(open_store(str(table.path)))
    vacuum(watched, NOW, dry_run=True)
    calls = len(watched.calls)
    store = FaultyStore(open_store(str(table.path)), fault, calls)
    while not (calls < len(store.calls) and store.calls[calls] == ("put_if_absent", START)):
        calls += 1
        store = FaultyStore(open_store(str(table.path)), fault, calls)
        outcome_of(lambda store=store: vacuum(store, NOW))
        assert names_below(table.path) == before
    assert calls < 60


def test_storage_that_refuses_every_delete_fails_the_vacuum_and_says_so_in_the_history(tmp_path):
    table = make_table(tmp_path / "t")
    before = names_below(table.path)

    class Refusing(HookedStore):
        def delete_all(self, paths):
            raise PermissionDeniedError("no permission to delete")

    assert outcome_of(lambda: vacuum(Refusing(open_store(str(table.path))), NOW)) == "refused"
    assert names_below(table.path) == before
    assert commit_info(table.path, newest_version(table.path))["operationParameters"] == {"status": "FAILED"}
    assert_next_one_finishes(table)
