"""Does every version that must be readable stay readable, wherever a checkpoint, a log compaction or a cleanup is interrupted?

Each is run once for every storage call it makes. At that call storage refuses, its answer is lost, the request is sent
twice, or the process is gone. Then the table must open and show its rows, and running the command again must leave the
log as one run without a fault leaves it.
"""

from __future__ import annotations

import re
from itertools import count

import pytest
from tests.support.faulty_store import FAULTS, FaultyStore
from tests.support.races import ID_SCHEMA
from tests.support.stores import SimulatedCrash
from tests.support.table_builder import TableBuilder

from ebbtide.config import DEFAULT_CONFIG
from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot, write_checkpoint
from ebbtide.log.cleanup import clean_expired_log
from ebbtide.log.compaction import compact_log
from ebbtide.storage import open_store

NEWEST = 5
CHECKPOINTED = 3
# The names that are made up anew each time.
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def make_table(path, *, v2):
    """Six versions of 2024, each with one more file, with a checkpoint of version 3; every other one marks a row, too."""
    table = TableBuilder(path, ID_SCHEMA).deletion_vectors()
    if v2:
        table.feature("v2Checkpoint").table_property("delta.checkpointPolicy", "v2")
    for version in range(NEWEST + 1):
        table.file([{"id": 10 * version + number} for number in range(3)])
        if version % 2:
            table.mark(table.files[0], [version // 2])
        table.commit()
        if version == CHECKPOINTED:
            table.checkpoint("v2-json" if v2 else "classic", sidecars=2 if v2 else 0)
    return table.path


COMMANDS = {
    "checkpoint": (lambda store: write_checkpoint(load_snapshot(store)), 0),
    "log compaction": (lambda store: compact_log(load_snapshot(store), 1, NEWEST), 0),
    # All of it is older than thirty days.
    "log cleanup": (lambda store: clean_expired_log(load_snapshot(store), config=DEFAULT_CONFIG), CHECKPOINTED),
}


def names(path):
    return {UUID.sub("?", file.relative_to(path).as_posix()) for file in path.rglob("*") if file.is_file()}


def keys(path, version=None):
    return {add.key for add in load_snapshot(open_store(str(path)), version=version).add_files()}


def run_and_survive(command, store):
    try:
        command(store)
    except (SimulatedCrash, DeltaError) as error:
        return type(error)
    return None


CASES = [
    *[(name, fault, False) for name in COMMANDS for fault in FAULTS],
    *[(name, fault, True) for name in ("checkpoint", "log cleanup") for fault in ("lost after", "crash after")],
]


@pytest.mark.parametrize(("name", "fault", "v2"), CASES)
def test_fault_at_any_call_loses_no_version_and_the_next_run_finishes(name, fault, v2, tmp_path):
    command, first_kept = COMMANDS[name]
    untouched = make_table(tmp_path / "untouched", v2=v2)
    finished = make_table(tmp_path / "finished", v2=v2)
    command(open_store(str(finished)))
    expected = {version: keys(untouched, version) for version in range(first_kept, NEWEST + 1)}
    for at in count():
        table = make_table(tmp_path / str(at), v2=v2)
        store = FaultyStore(open_store(str(table)), fault, at)
        stopped = run_and_survive(command, store)
        if len(store.calls) <= at:
            assert stopped is None
            break
        assert {version: len(keys(table, version)) for version in expected} == {
            version: len(files) for version, files in expected.items()
        }
        assert load_snapshot(open_store(str(table))).version == NEWEST
        command(open_store(str(table)))
        left = names(table) - names(finished)
        assert names(finished) <= names(table)
        assert all("_sidecars/" in file or ".tmp" in file for file in left), left
    assert at > 2, "the run stopped making calls"
