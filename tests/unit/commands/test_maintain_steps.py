"""Are the steps of a maintenance done in order, each by itself, and again until nothing is left to do?

The steps that rewrite files need Spark and have their own tests; here their place is taken by one that fails.
"""

from __future__ import annotations

import pytest
from tests.support.faulty_store import FaultyStore
from tests.support.log_reading import newest_version
from tests.support.races import ID_SCHEMA
from tests.support.stores import HookedStore, SimulatedCrash
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import at, names_below, needed_by, put, settle

from ebbtide.commands.maintain.command import MaintainCommand
from ebbtide.commands.maintain.request import MaintainRequest
from ebbtide.commands.vacuum import deletion
from ebbtide.errors import DeltaError, StorageError
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store
from ebbtide.transaction import Clock

NOW = at(6, hours=500)
NO_LAYOUT = frozenset({"optimize"})


def make_table(path):
    """Due for a checkpoint, a VACUUM, and, below the checkpoint of version 2, for a cleanup."""
    table = TableBuilder(path, ID_SCHEMA).deletion_vectors()
    table.table_property("delta.checkpointInterval", "4").table_property(
        "delta.logRetentionDuration", "interval 1 hours"
    )
    table.file([{"id": number} for number in range(10)]).file([{"id": number} for number in range(10, 20)]).commit()
    settle(table)
    table.mark(table.files[0], [0, 1, 2]).commit()
    settle(table)
    table.remove(table.files[0]).commit().checkpoint()
    settle(table)
    for number in range(4):
        table.transaction("app", number).commit()
    put(path, "orphan.parquet", at(0))
    return table


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path / "t")


def maintain(store, *, phases=None, **request):
    clock = Clock(now_ms=lambda: NOW, sleep=lambda _: None)
    command = MaintainCommand(MaintainRequest(store, **request), clock=clock)
    if phases is not None:
        command.on_phase = phases.append
    return command.run(None)


def store_of(table):
    return open_store(str(table.path))


def live_files(table):
    """What the newest version is made of, with its vectors; cleaned logs have no version 0 to start from."""
    return {file.key for file in load_snapshot(store_of(table)).add_files()}


def statuses(result):
    return {step.step: step.status for step in result.steps}


def test_steps_are_done_in_order_and_nothing_is_left(table):
    live = live_files(table)
    phases = []
    result = maintain(store_of(table), skip=NO_LAYOUT, phases=phases)
    assert statuses(result) == {"checkpoint": "done", "vacuum": "done", "cleanup": "done"}
    assert [step.outcome.partition(",")[0] for step in result.steps][:2] == [
        "checkpoint of version 6",
        "2 paths deleted",
    ]
    assert result.is_complete
    assert (result.version, newest_version(table.path)) == (8, 8)
    assert names_below(table.path) == needed_by(table)
    assert live_files(table) == live
    assert [phase for phase in phases if phase.startswith("VACUUM (2 of 3): Listing")]
    again = maintain(store_of(table), skip=NO_LAYOUT)
    assert (again.steps, again.version, newest_version(table.path)) == ((), None, 8)
    assert repr(again).endswith("nothing to do>")


def test_picture_shows_what_was_done(table):
    lines = repr(maintain(store_of(table), skip=NO_LAYOUT)).splitlines()
    assert lines[0].startswith(f"<MaintainResult of file://{table.path}, version 6: 1 file")
    assert [line.strip() for line in lines if "done:" in line][1] == "done: 2 paths deleted"


def test_dry_run_does_nothing(table):
    before, newest = names_below(table.path), newest_version(table.path)
    result = maintain(store_of(table), dry_run=True)
    assert set(statuses(result).values()) == {"planned"}
    assert (names_below(table.path), newest_version(table.path)) == (before, newest)


def test_step_that_fails_does_not_stop_the_later_ones(table):
    """Files cannot be rewritten without Spark."""
    table.mark(table.files[0], [0]).commit()
    settle(table)
    result = maintain(store_of(table))
    assert statuses(result) == {"optimize": "failed", "checkpoint": "done", "vacuum": "done", "cleanup": "done"}
    assert not result.is_complete
    assert [step.step for step in result.unfinished] == ["optimize"]
    assert isinstance(result.steps[0].error, DeltaError)
    assert "failed: " in repr(result)
    assert [step.step for step in maintain(store_of(table), dry_run=True).steps] == ["optimize"]


def test_file_that_cannot_be_deleted_fails_the_vacuum_alone(table):
    class Stubborn(HookedStore):
        def delete_all(self, paths):
            return {path: StorageError(f"no right to delete {path}") for path in paths}

    result = maintain(Stubborn(store_of(table)), skip=NO_LAYOUT)
    assert statuses(result) == {"checkpoint": "done", "vacuum": "failed", "cleanup": "done"}
    vacuumed = result.steps[1]
    assert vacuumed.outcome.startswith("0 paths deleted; 2 paths could not be: no right to delete")
    assert vacuumed.result.num_failed == 2


def outcome_of(store):
    try:
        return maintain(store, skip=NO_LAYOUT)
    except (SimulatedCrash, DeltaError):
        return None


@pytest.mark.parametrize("fault", ["refused", "crash after"])
def test_nothing_is_lost_wherever_storage_goes_wrong_and_the_next_run_goes_on(fault, tmp_path, monkeypatch):
    """At a few calls, so that each step is hit; the tests of each command try them all."""
    monkeypatch.setattr(deletion, "BATCH", 1)
    monkeypatch.setattr(deletion, "_THREADS", 1)
    counting = FaultyStore(store_of(make_table(tmp_path / "counted")), fault, -1 if fault == "refused" else 10_000)
    assert outcome_of(counting).is_complete
    # The look makes most of the calls; steps begin with the checkpoint.
    first = next(number for number, (op, _) in enumerate(counting.calls) if op.startswith("put"))
    total, hit = len(counting.calls), set()
    for at_call in range(first, total, max(1, (total - first) // 5)):
        table = make_table(tmp_path / str(at_call))
        live = live_files(table)
        outcome = outcome_of(FaultyStore(store_of(table), fault, at_call))
        hit |= set() if outcome is None else {step.step for step in outcome.unfinished}
        assert needed_by(table) <= names_below(table.path)
        assert live_files(table) == live
        maintain(store_of(table), skip=NO_LAYOUT)
        assert maintain(store_of(table), skip=NO_LAYOUT).steps == ()
        assert names_below(table.path) == needed_by(table)
        assert live_files(table) == live
    assert hit or fault != "refused"
