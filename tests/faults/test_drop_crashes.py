"""Is a table whole or gone, wherever a DROP TABLE is interrupted?

The command is run once for every storage call it makes. At that call storage refuses, its answer is lost, the request is
sent twice, or the process is gone. Then the newest version must show all its rows, or no version may be readable; what
lies beside the table must be there; and another DROP TABLE must finish.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest
from tests.faults.test_delete_crashes import FAULTS, FaultyStore
from tests.support.arrow_deletes import forget_files, snapshot_ids
from tests.support.races import ID_SCHEMA, commit, new_data_file
from tests.support.stores import SimulatedCrash
from tests.support.table_builder import TableBuilder

from ebbtide.commands.drop import log_deletion
from ebbtide.commands.drop.command import DropCommand, DropRequest
from ebbtide.commands.vacuum import deletion
from ebbtide.errors import CorruptTableError, DeltaError, TableNotFoundError, VersionNotFoundError
from ebbtide.log import load_snapshot, write_checkpoint
from ebbtide.storage import open_store


@pytest.fixture(autouse=True)
def _one_file_at_a_time(monkeypatch):
    """Each file is a call of its own, and they come one after the other: every order of a batch is among these."""
    monkeypatch.setattr(deletion, "BATCH", 1)
    monkeypatch.setattr(deletion, "_THREADS", 1)
    monkeypatch.setattr(log_deletion, "_BATCH", 1)
    # No power is cut.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    yield
    forget_files()


def make_table(path, *, checkpoints):
    """Ids 1 to 5, with an odd name among the files. Version 1 and 3 may have checkpoints."""
    builder = TableBuilder(path, ID_SCHEMA).deletion_vectors().file([{"id": 0}, {"id": 1}], deleted=[0]).commit()
    store = open_store(str(builder.path))
    for version in range(1, 5):
        add = new_data_file(store, [version + 1])
        if version == 4:
            (builder.path / add.path).rename(builder.path / "rows")
            add = replace(add, path="rows")
        commit(store, [add])
        if version in checkpoints:
            write_checkpoint(load_snapshot(store))
    return builder.path


def readable_versions(store):
    """The ids of every version that can be read."""
    found = {}
    for version in (None, 2, 3):
        with suppress(TableNotFoundError, CorruptTableError, VersionNotFoundError):
            found[version] = sorted(snapshot_ids(load_snapshot(store, version=version)))
    return found


@pytest.mark.parametrize(("fault", "checkpoints"), [*((fault, (1, 3)) for fault in FAULTS), ("crash after", ())])
def test_table_is_whole_or_cannot_be_read_and_another_run_finishes(fault, checkpoints, tmp_path):
    seen = set()
    made = make_table(tmp_path / "made", checkpoints=checkpoints)
    for at in count():
        forget_files()
        store = open_store(str(shutil.copytree(made, tmp_path / str(at) / "t")))
        (tmp_path / str(at) / "beside").write_bytes(b"x")
        faulty = FaultyStore(store, fault, at)
        with suppress(SimulatedCrash, DeltaError):
            DropCommand(DropRequest(faulty)).run()
        if len(faulty.calls) <= at:
            break
        forget_files()
        found = readable_versions(store)
        seen.add(None in found)
        # No older version passes for the newest, and what can be read at all is right.
        assert found.get(None, [1, 2, 3, 4, 5]) == [1, 2, 3, 4, 5]
        assert all(ids == list(range(1, version + 2)) for version, ids in found.items() if version is not None)
        DropCommand(DropRequest(store, if_exists=True)).run()
        left = sorted(file.name for file in (tmp_path / str(at)).rglob("*") if file.is_file())
        assert left == ["beside"]
    assert at > 15, "the run stopped making calls"
    # A request that is sent twice fails nobody: the table is gone every time.
    assert seen == ({False} if fault == "sent twice" else {True, False})
