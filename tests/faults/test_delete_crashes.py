"""Is the table old or new, and never anything else, wherever a DELETE is interrupted?

The DELETE is run once for every storage call it makes, alone and while it loses against another DELETE of the same file.
At that call storage refuses, its answer is lost before or after it took effect, the request is sent twice, or the
process is gone: by SIGKILL in processes of their own (`killed_deletes.py`), and by an exception that nothing catches. Then
the table must open and show the old rows or the new ones, the next writer must get through, and whatever was left
behind must be a file that no version names. Rows are found without a JVM (`arrow_deletes`), except where files are
rewritten.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from tests.faults.killed_deletes import CONDITION, RIVAL_CONDITION
from tests.support import races
from tests.support.arrow_deletes import delete_without_spark, forget_files, snapshot_ids
from tests.support.faulty_store import FAULTS, FaultyStore, outcome_of
from tests.support.races import RacingStore, ids_at, unnamed_files
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.errors import DeltaError, StorageError
from ebbtide.log import load_snapshot
from ebbtide.storage import PutOutcomeUnknownError, open_store
from ebbtide.transaction import SYSTEM_CLOCK

ROOT = Path(__file__).parents[2]
OLD = list(range(20))
NEW = [number for number in OLD if number not in CONDITION.numbers]
RIVAL = [number for number in OLD if number not in RIVAL_CONDITION.numbers]
BOTH = [number for number in NEW if number not in RIVAL_CONDITION.numbers]
LITTER = re.compile(r"deletion_vector_[0-9a-f-]+\.bin|(.*/)?\.[^/]+\.tmp|part-[^/]+\.parquet|[0-9a-f]+-ebbtide/.*")


def make_table(path):
    """Ids 0-9 and 10-19 in two files, version 1. Version 2 makes a checkpoint, so the work after it is part of the run."""
    builder = TableBuilder(path, races.ID_SCHEMA).deletion_vectors().table_property("delta.checkpointInterval", "2")
    builder.file([{"id": number} for number in range(10)]).commit()
    return builder.file([{"id": number} for number in range(10, 20)]).commit().path


@pytest.fixture(autouse=True)
def _without_waiting():
    """Losers wait a little before they try again; here nobody else is busy."""
    sleep = SYSTEM_CLOCK.sleep
    object.__setattr__(SYSTEM_CLOCK, "sleep", lambda seconds: None)
    yield
    object.__setattr__(SYSTEM_CLOCK, "sleep", sleep)
    forget_files()


def assert_old_or_new(table, outcome, *, old=OLD, new=NEW):
    shown = ids_at(table)
    assert shown in (old, new)
    assert sorted(snapshot_ids(load_snapshot(open_store(str(table))))) == shown
    if outcome == "landed":
        assert shown == new
    if outcome == "refused":
        assert shown == old
    races.assert_each_delete_counts_its_own_rows(table)


def assert_next_writers_work(table, *, new=NEW):
    """Somebody appends, and the interrupted DELETE is sent again: its rows are gone exactly once."""
    store = open_store(str(table))
    version = load_snapshot(store).version
    assert races.append(store, [100]).version == version + 1
    delete_without_spark(store, CONDITION)
    assert ids_at(table) == [*new, 100]
    assert delete_without_spark(store, CONDITION).version is None
    races.assert_each_delete_counts_its_own_rows(table)


def assert_only_litter_is_left(table):
    """Whatever no version names is something that a writer left behind, so that a cleanup may take it."""
    left = unnamed_files(table)
    assert [name for name in left if not LITTER.fullmatch(name)] == []
    for name in left:
        (table / name).unlink()
    assert sorted(snapshot_ids(load_snapshot(open_store(str(table))))) == ids_at(table)
    return left


# --- storage that fails -----------------------------------------------------------------------------------------------


def lost_race(store, table):
    """The store of a DELETE that loses its first attempt at a commit."""
    return RacingStore(store, lambda: delete_without_spark(open_store(str(table)), RIVAL_CONDITION), first=2)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_at_any_call_leaves_the_table_old_or_new(fault, tmp_path):
    outcomes = set()
    for at in count():
        table = make_table(tmp_path / str(at))
        store = FaultyStore(open_store(str(table)), fault, at)
        outcome = outcome_of(lambda store=store: delete_without_spark(store, CONDITION))
        if len(store.calls) <= at:
            break
        outcomes.add(outcome)
        assert_old_or_new(table, outcome)
        # Where storage answered, it is known what is not needed.
        assert fault != "refused" or outcome != "refused" or not unnamed_files(table)
        assert_next_writers_work(table)
        assert_only_litter_is_left(table)
    assert at > 10, "the run stopped making calls"
    assert outcomes == (
        {"crashed"} if fault.startswith("crash") else {"landed"} if fault == "sent twice" else {"landed", "refused"}
    )


@pytest.mark.parametrize("fault", ["refused", "lost after", "sent twice", "crash before", "crash after"])
def test_fault_at_any_call_of_a_loser_loses_neither_delete(fault, tmp_path):
    for at in count():
        table = make_table(tmp_path / str(at))
        inner = open_store(str(table))
        store = FaultyStore(lost_race(inner, table), fault, at)
        outcome = outcome_of(lambda store=store: delete_without_spark(store, CONDITION))
        if len(store.calls) <= at:
            break
        # A fault before the commit ends the run before the rival comes.
        has_rival = 3 not in ids_at(table)
        assert_old_or_new(table, outcome, old=RIVAL if has_rival else OLD, new=BOTH if has_rival else NEW)
        assert fault != "refused" or outcome != "refused" or not unnamed_files(table)
        assert_next_writers_work(table, new=BOTH if has_rival else NEW)
        assert_only_litter_is_left(table)
    assert has_rival
    assert at > 15, "the run stopped making calls"


def test_refused_commit_leaves_nothing_behind(tmp_path):
    table = make_table(tmp_path / "t")

    def refuse(op, path):
        if op == "put_if_absent" and path.endswith("2.json"):
            raise StorageError("refused")

    store = HookedStore(open_store(str(table)), before=refuse)
    assert outcome_of(lambda: delete_without_spark(store, CONDITION)) == "refused"
    assert any(op == "put_if_absent" and "deletion_vector_" in path for op, path in store.calls)
    assert unnamed_files(table) == set()


@pytest.mark.parametrize("lands", [True, False])
def test_nothing_is_deleted_while_the_outcome_of_the_commit_is_unknown(tmp_path, lands):
    """The answer to the put is lost, and so is every look: if it landed, the table names the vectors."""
    table = make_table(tmp_path / "t")

    def lose(op, path):
        if op in {"put_if_absent", "read_range"} and path.endswith("2.json"):
            raise PutOutcomeUnknownError("the answer was lost")

    hooks = {"after": lose} if lands else {"before": lose}
    store = HookedStore(open_store(str(table)), **hooks)
    assert outcome_of(lambda: delete_without_spark(store, CONDITION)) == "unknown"
    assert [path for op, path in store.calls if op == "delete"] == []
    assert bool(unnamed_files(table)) is not lands
    assert_old_or_new(table, "landed" if lands else "refused")
    assert_next_writers_work(table)


def test_vector_whose_put_went_unanswered_is_written_under_another_name(tmp_path):
    """Nobody knows whether the first one is whole, so no commit may name it."""
    table = make_table(tmp_path / "t")
    lost = []

    def lose_answer(op, path):
        if path.endswith(".bin") and op == "put_if_absent" and not lost:
            lost.append(path)
            raise PutOutcomeUnknownError("no answer")

    store = HookedStore(open_store(str(table)), after=lose_answer)
    assert delete_without_spark(store, CONDITION).version == 2
    assert ids_at(table) == NEW
    assert unnamed_files(table) == set(lost)


# --- processes that die -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("race", ["alone", "rival"])
def test_process_killed_at_any_point_leaves_the_table_old_or_new(race, tmp_path):
    template, tables = make_table(tmp_path / "template"), tmp_path / "tables"
    tables.mkdir()
    command = [sys.executable, "-m", "tests.faults.killed_deletes", str(template), str(tables), race]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    points = run.stdout.splitlines()
    assert any(point.startswith("before put_if_absent deletion_vector_") for point in points)
    assert any(point.startswith("after put_if_absent _delta_log/") for point in points)
    assert points.count("os.link") >= 3
    shown, orphans = [], 0
    for at, point in enumerate(points):
        table = tables / f"{at:03d}"
        has_rival = 3 not in ids_at(table)
        try:
            assert_old_or_new(table, "crashed", old=RIVAL if has_rival else OLD, new=BOTH if has_rival else NEW)
            shown.append(ids_at(table))
            assert_next_writers_work(table, new=BOTH if has_rival else NEW)
            orphans += bool(assert_only_litter_is_left(table))
        except (AssertionError, DeltaError) as error:
            raise AssertionError(f"killed at point {at}, {point}: {error}") from error
    assert shown[0] == OLD
    assert shown[-1] == (NEW if race == "alone" else BOTH)
    assert orphans > 0, "nobody was killed between a vector and its commit"


# --- rewriting files --------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_crash_at_any_call_of_a_delete_that_rewrites_leaves_the_table_old_or_new(spark, tmp_path):
    left = []
    for at in count():
        table = make_table(tmp_path / str(at))
        store = FaultyStore(open_store(str(table)), "crash before", at)
        options = WriteOptions(deletion_vectors="off")
        request = DeleteRequest(store, CONDITION.text, options=options)
        outcome = outcome_of(lambda request=request: DeleteCommand(spark, request).run())
        assert_old_or_new(table, outcome)
        if len(store.calls) <= at:
            break
        assert_next_writers_work(table)
        left.append(assert_only_litter_is_left(table))
    assert outcome == "landed"
    assert at > 10
    assert any(name.startswith("part-") for names in left for name in names), "no crash between files and commit"
