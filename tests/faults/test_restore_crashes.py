"""Is the table old or new, and never anything else, wherever a RESTORE is interrupted?

As in `test_delete_crashes.py`: once for every storage call, alone and while it loses against an append. RESTORE writes
nothing but its commit, so nothing may be left behind either.
"""

from __future__ import annotations

from itertools import count

import pytest
from tests.support import races
from tests.support.faulty_store import FAULTS, FaultyStore, outcome_of
from tests.support.races import RacingStore, ids_at, unnamed_files
from tests.support.table_builder import TableBuilder

from ebbtide.commands.restore.command import RestoreRequest, restore_table
from ebbtide.storage import open_store
from ebbtide.transaction import SYSTEM_CLOCK

THEN = [3, 4, 5, 6, 7, 8, 9]
NOW = [4, 6, 7, 8, 9, 20, 21]


@pytest.fixture(autouse=True)
def _without_waiting():
    sleep = SYSTEM_CLOCK.sleep
    object.__setattr__(SYSTEM_CLOCK, "sleep", lambda seconds: None)
    yield
    object.__setattr__(SYSTEM_CLOCK, "sleep", sleep)


def make_table(path):
    """Version 0 is to come back; version 3 makes a checkpoint, so the work after it is part of the run."""
    builder = TableBuilder(path, races.ID_SCHEMA).deletion_vectors().table_property("delta.checkpointInterval", "3")
    builder.file([{"id": number} for number in range(10)], deleted=[0, 1, 2]).commit()
    builder.mark(builder.files[0], [3, 5]).commit()
    return builder.file([{"id": 20}, {"id": 21}]).commit().path


def restore(store):
    return restore_table(RestoreRequest(store, 0))


@pytest.mark.parametrize("loses", [False, True], ids=["alone", "loses a race"])
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_at_any_call_leaves_the_table_old_or_new(fault, loses, tmp_path):
    outcomes = set()
    for at in count():
        table = make_table(tmp_path / str(at))
        inner = open_store(str(table))
        rival = RacingStore(inner, lambda inner=inner: races.append(inner, [99]), first=3) if loses else inner
        store = FaultyStore(rival, fault, at)
        outcome = outcome_of(lambda store=store: restore(store))
        if len(store.calls) <= at:
            break
        outcomes.add(outcome)
        # A fault before the commit ends the run before the rival comes.
        assert ids_at(table) in (THEN, NOW, [*NOW, 99])
        assert (ids_at(table) == THEN) == (outcome == "landed") or outcome in {"crashed", "unknown"}
        assert unnamed_files(table) <= set()
        restore(open_store(str(table)))
        assert ids_at(table) == THEN
    assert at > 8, "the run stopped making calls"
    assert outcomes == (
        {"crashed"} if fault.startswith("crash") else {"landed"} if fault == "sent twice" else {"landed", "refused"}
    )
