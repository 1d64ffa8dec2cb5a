"""Does a VACUUM beside running writers take nothing from them, and stop none of them?

Writers and VACUUMs are stopped at a storage call of their own (`PausingStore`) while the other one runs from beginning to
end. The DELETEs are the engine's own, without a JVM (`arrow_deletes`).
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from tests.support import races
from tests.support.arrow_copies import optimize_without_spark
from tests.support.arrow_deletes import Condition, delete_without_spark, forget_files, snapshot_ids
from tests.support.log_reading import commit_info, log_state, newest_version
from tests.support.races import ID_SCHEMA, ids_at
from tests.support.stores import HookedStore, PausingStore
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import files_of, names_below, vacuum

from ebbtide.commands.clone.command import CloneRequest, clone_table
from ebbtide.commands.restore.command import RestoreRequest, restore_table
from ebbtide.errors import DeltaConcurrentModificationException, DeltaError, InternalError
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

MARKED = Condition("in", (3, 13))


@pytest.fixture
def table(tmp_path):
    """Ids 0-9 and 10-19 in two files, and an orphan of two hours."""
    builder = TableBuilder(tmp_path / "t", ID_SCHEMA).deletion_vectors()
    builder.file([{"id": number} for number in range(10)]).file([{"id": number} for number in range(10, 20)]).commit()
    orphan = builder.path / "orphan.parquet"
    orphan.write_bytes(b"orphan")
    age(orphan)
    yield builder.path
    forget_files()


def age(path, hours=2):
    then = time.time() - hours * 3600
    os.utime(path, (then, then))


def store_of(table):
    return open_store(str(table))


def clean(table, **request):
    """A VACUUM by the clock on the wall: writers of the last hour are safe."""
    store = request.pop("store", None) or store_of(table)
    return vacuum(store, int(time.time() * 1000), **({"retention_hours": 1} | request))


def while_paused(paused, running, *meanwhile):
    """Run the paused one in a thread, the others when it stands still, and give the results of all."""
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(running)
        paused.wait_until_reached()
        try:
            others = [run() for run in meanwhile]
        finally:
            paused.resume()
        return [first.result(timeout=60), *others]


def assert_whole(table, ids):
    assert ids_at(table) == ids
    assert sorted(snapshot_ids(load_snapshot(store_of(table)))) == ids
    races.assert_each_delete_counts_its_own_rows(table)


def without(*gone):
    return [number for number in range(20) if number not in gone]


@pytest.mark.parametrize("lite", [False, True], ids=["full", "lite"])
def test_vectors_of_a_delete_that_has_not_committed_yet_stay(table, lite):
    paused = PausingStore(store_of(table), suffix="01.json")
    deleted, done = while_paused(paused, lambda: delete_without_spark(paused, MARKED), lambda: clean(table, lite=lite))
    assert deleted.num_affected_rows == 2
    assert deleted.version == done.version + 1 == 3, "the DELETE followed VACUUM's two commits"
    assert_whole(table, without(3, 13))
    assert ("orphan.parquet" in names_below(table)) is lite
    assert clean(table).status == "COMPLETED"
    assert_whole(table, without(3, 13))


def test_delete_that_aborts_on_conflicts_is_not_stopped_by_a_vacuum(table):
    paused = PausingStore(store_of(table), suffix="01.json")
    deleted, _ = while_paused(
        paused, lambda: delete_without_spark(paused, MARKED, conflicts="abort"), lambda: clean(table)
    )
    assert deleted.num_affected_rows == 2
    assert_whole(table, without(3, 13))


@pytest.mark.parametrize("call", [("list_directory", ""), ("put_if_absent", "01.json"), ("delete_all", "")])
def test_delete_while_a_vacuum_stands_still_keeps_its_files(table, call):
    operation, suffix = call
    paused = PausingStore(store_of(table), op=operation, suffix=suffix)
    done, deleted = while_paused(
        paused, lambda: clean(table, store=paused), lambda: delete_without_spark(store_of(table), MARKED)
    )
    assert (done.status, deleted.num_affected_rows) == ("COMPLETED", 2)
    assert_whole(table, without(3, 13))
    assert "orphan.parquet" not in names_below(table)


@pytest.mark.parametrize("call", [("put_if_absent", "01.json"), ("delete_all", "")])
def test_compaction_while_a_vacuum_stands_still_keeps_its_files_and_those_it_replaced(table, call):
    operation, suffix = call
    paused = PausingStore(store_of(table), op=operation, suffix=suffix)
    before = ids_at(table, 0)
    while_paused(paused, lambda: clean(table, store=paused), lambda: races.compact(store_of(table), table))
    assert_whole(table, without())
    assert ids_at(table, 0) == before, "its files were written within the retention"


def test_restore_of_what_is_just_being_vacuumed_wins(table):
    """All files are old, and those of version 0 would go; a RESTORE brings them back before VACUUM START."""
    store = store_of(table)
    races.overwrite(store, [100])
    for path in table.rglob("*.parquet"):
        age(path, hours=100)
    paused = PausingStore(store, suffix="02.json")
    done, _ = while_paused(paused, lambda: clean(table, store=paused), lambda: races.restore(store, 0))
    assert done.status == "COMPLETED"
    assert_whole(table, without())
    assert "orphan.parquet" not in names_below(table)


def test_two_vacuums_at_once_both_finish(table):
    paused = PausingStore(store_of(table), op="delete_all")
    first, second = while_paused(paused, lambda: clean(table, store=paused), lambda: clean(table))
    assert {first.status, second.status} == {"COMPLETED"}
    assert_whole(table, without())
    operations = [commit_info(table, version)["operation"] for version in range(1, newest_version(table) + 1)]
    assert operations == ["VACUUM START", "VACUUM START", "VACUUM END", "VACUUM END"]


def test_many_deletes_beside_many_vacuums_lose_no_row(table):
    """No pauses: whatever happens, happens."""

    def delete(number):
        while True:
            try:
                return delete_without_spark(store_of(table), Condition("in", (number, number + 10)))
            except DeltaConcurrentModificationException:
                continue

    with ThreadPoolExecutor(4) as pool:
        deletes = [pool.submit(delete, number) for number in range(6)]
        vacuums = [pool.submit(clean, table) for _ in range(4)]
        assert [each.result(timeout=120).num_affected_rows for each in deletes] == [2] * 6
        assert {each.result(timeout=120).status for each in vacuums} == {"COMPLETED"}
    assert_whole(table, [number for number in range(20) if number % 10 >= 6])


# --- at every storage call --------------------------------------------------------------------------------------------

IDS = list(range(20))
LEFT = [number for number in IDS if number not in MARKED.numbers]


class InterruptedStore(HookedStore):
    """Somebody else acts just before call number `at`."""

    def __init__(self, inner, at, act):
        super().__init__(inner)
        self.numbers = count()
        self.at = at
        self.act = act

    def before(self, op, path):
        if next(self.numbers) == self.at:
            self.act()


def make_old_table(path):
    """Ids 0-9 and 10-19, and a file that was removed long ago, beside an orphan: all of them nine days old."""
    builder = TableBuilder(path, ID_SCHEMA).deletion_vectors()
    for first in (0, 10, 20):
        builder.file([{"id": number} for number in range(first, first + 10)])
    builder.commit()
    builder.remove(builder.files[-1]).commit()
    (path / "orphan.parquet").write_bytes(b"orphan")
    for file in path.glob("*.parquet"):
        age(file, hours=9 * 24)
    return path


def clone_of(store):
    target = open_store(store.url + "-clone")
    return clone_table(CloneRequest(store, target))


COMMANDS = {
    "delete": (lambda store: delete_without_spark(store, MARKED), LEFT),
    "compaction": (optimize_without_spark, IDS),
    "compaction by groups": (
        lambda store: optimize_without_spark(store, commit_per_group=True, target_bytes=1200),
        IDS,
    ),
    "clone": (clone_of, IDS),
}


def runs_with_a_vacuum_between(tmp_path, command, hours, lite=False):
    """The table after a run with a VACUUM just before its first storage call, before its second, and so on."""
    for at in count():
        forget_files()
        table = make_old_table(tmp_path / f"t{at}")
        store = InterruptedStore(
            store_of(table), at, lambda table=table: clean(table, retention_hours=hours, lite=lite)
        )
        try:
            command(store)
            error = None
        except DeltaError as refusal:
            assert not isinstance(refusal, InternalError)
            error = refusal
        if len(store.calls) <= at:
            assert at > 3, "the run stopped making calls"
            return
        forget_files()
        yield table, error


@pytest.mark.parametrize("lite", [False, True], ids=["full", "lite"])
@pytest.mark.parametrize("name", COMMANDS)
def test_vacuum_at_any_storage_call_of_a_command_takes_nothing_from_it(name, lite, tmp_path):
    command, expected = COMMANDS[name]
    for table, error in runs_with_a_vacuum_between(tmp_path, command, None, lite):
        assert error is None
        assert_whole(table, expected)
        assert ids_at(table, 1) == IDS, "the version that was read"
        assert ("orphan.parquet" in names_below(table)) is lite, "VACUUM did its work"
        if name == "clone":
            assert ids_at(table.with_name(table.name + "-clone")) == IDS


@pytest.mark.parametrize("name", COMMANDS)
def test_vacuum_that_retains_nothing_takes_no_file_that_was_live(name, tmp_path):
    """Nothing is promised to a command that runs meanwhile: what it has written may be gone. What it read is not."""
    command, expected = COMMANDS[name]
    for table, _ in runs_with_a_vacuum_between(tmp_path, command, 0):
        version = next(number for number in range(newest_version(table), 0, -1) if is_whole(table, number))
        assert ids_at(table, version) in (IDS, expected)
        restore_table(RestoreRequest(store_of(table), version))
        assert ids_at(table) in (IDS, expected)


def is_whole(table, version):
    """Whether every file and vector of the version is there."""
    return all((table / name).exists() for add in log_state(table, version).adds for name in files_of(table, add))
