"""Does a table show the same rows, wherever an OPTIMIZE, a Z-ORDER, a PURGE or an automatic compaction is interrupted?

The command is run once for every storage call it makes, alone and while it loses against a DELETE. At that call storage
refuses, its answer is lost, the request is sent twice, or the process is gone. Then the table must open and show the
rows that it must show, the next OPTIMIZE and the next DELETE must get through, and whatever was left behind must be a
file that no version names. Rows are copied and found without a JVM.
"""

from __future__ import annotations

import re

import pytest
from tests.faults.test_delete_crashes import FAULTS, FaultyStore, outcome_of
from tests.support import races
from tests.support.arrow_copies import (
    auto_compact_without_spark,
    optimize_without_spark,
    purge_without_spark,
    sort_without_spark,
)
from tests.support.arrow_deletes import Condition, delete_without_spark, forget_files, snapshot_ids
from tests.support.races import RacingStore, ids_at, unnamed_files
from tests.support.table_builder import TableBuilder

from ebbtide.log import load_snapshot
from ebbtide.storage import open_store
from ebbtide.transaction import SYSTEM_CLOCK

ROWS = [number for number in range(30) if number not in (3, 12)]
RIVAL = Condition("in", (0, 13, 29))
LEFT = [number for number in ROWS if number not in RIVAL.numbers]
LITTER = re.compile(r"deletion_vector_[0-9a-f-]+\.bin|(.*/)?\.[^/]+\.tmp|part-[^/]+\.parquet")
COMMANDS = {
    "optimize": optimize_without_spark,
    "each group": lambda store: optimize_without_spark(store, commit_per_group=True, target_bytes=2000),
    "purge": purge_without_spark,
    "sorted": sort_without_spark,
    "after a commit": auto_compact_without_spark,
}


def make_table(path):
    """Ids 0 to 29 in three files, two of them with a marked row. Version 2 makes a checkpoint."""
    builder = TableBuilder(path, races.ID_SCHEMA).deletion_vectors().table_property("delta.checkpointInterval", "2")
    builder.file([{"id": number} for number in range(10)], deleted=[3]).commit()
    builder.file([{"id": number} for number in range(10, 20)], deleted=[2])
    return builder.file([{"id": number} for number in range(20, 30)]).commit().path


@pytest.fixture(autouse=True)
def _without_waiting():
    """Losers wait a little before they try again; here nobody else is busy."""
    sleep = SYSTEM_CLOCK.sleep
    object.__setattr__(SYSTEM_CLOCK, "sleep", lambda seconds: None)
    yield
    object.__setattr__(SYSTEM_CLOCK, "sleep", sleep)
    forget_files()


def interrupted_runs(tmp_path, command, fault, *, loses):
    """The table after a run that goes wrong at its first storage call, at its second, and so on to its last."""
    at = 0
    while True:
        table = make_table(tmp_path / f"t{at}")
        store = open_store(str(table))
        rival = (lambda here=store: delete_without_spark(here, RIVAL),) if loses else ()
        faulty = FaultyStore(store, fault, at)
        racing = RacingStore(faulty, *rival, first=2)
        outcome = outcome_of(lambda racing=racing: command(racing))
        yield table
        if len(faulty.calls) <= at:
            assert outcome == "landed"
            return
        at += 1


CASES = [
    *[("optimize", fault, True) for fault in FAULTS],
    *[("optimize", fault, False) for fault in ("refused", "crash after")],
    *[("each group", fault, True) for fault in ("lost after", "crash after")],
    *[("purge", fault, True) for fault in ("lost after", "crash after")],
    *[("sorted", fault, True) for fault in ("lost after", "crash after")],
    *[("after a commit", fault, False) for fault in ("lost after", "crash after")],
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "fault", "loses"), CASES)
def test_no_row_is_lost_wherever_the_command_is_interrupted(tmp_path, name, fault, loses):
    for number, table in enumerate(interrupted_runs(tmp_path, COMMANDS[name], fault, loses=loses)):
        forget_files()
        store = open_store(str(table))
        shown = ids_at(table)
        assert shown in ((LEFT, ROWS) if loses else (ROWS,))
        assert sorted(snapshot_ids(load_snapshot(store))) == shown
        races.assert_each_delete_counts_its_own_rows(table)
        left = unnamed_files(table)
        assert [file for file in left if not LITTER.fullmatch(file)] == []
        if number % 5:
            continue
        for file in left:
            (table / file).unlink()
        delete_without_spark(store, RIVAL)
        optimize_without_spark(store)
        assert ids_at(table) == LEFT
        assert sorted(snapshot_ids(load_snapshot(store))) == LEFT
