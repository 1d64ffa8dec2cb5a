"""Does a table show the same rows, wherever a DROP FEATURE is interrupted, and does the next one finish it?

The command is run once for every storage call it makes, with the history kept and with the history truncated. At that call
storage refuses, its answer is lost, or the process is gone. Rows are copied without a JVM.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from tests.faults.test_delete_crashes import FaultyStore
from tests.support.arrow_copies import drop_feature_without_spark
from tests.support.arrow_deletes import forget_files, snapshot_ids
from tests.support.races import ID_SCHEMA
from tests.support.stores import SimulatedCrash
from tests.support.table_builder import TableBuilder

from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot
from ebbtide.protocol.features import supported_features
from ebbtide.storage import open_store
from ebbtide.transaction import SYSTEM_CLOCK

ROWS = [0, 2, 3, 4]
DAY = 86_400


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch):
    """Neither for other writers nor for the disk: thousands of files are put here, and no power is cut."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    sleep = SYSTEM_CLOCK.sleep
    object.__setattr__(SYSTEM_CLOCK, "sleep", lambda seconds: None)
    yield
    object.__setattr__(SYSTEM_CLOCK, "sleep", sleep)
    forget_files()


def make_table(path):
    builder = TableBuilder(path, ID_SCHEMA).deletion_vectors().file([{"id": number} for number in range(4)]).commit()
    return builder.mark(builder.files[0], [1]).file([{"id": 4}]).commit().path


def make_waiting_table(path):
    """A table after the first run of a DROP FEATURE ... TRUNCATE HISTORY, two days ago."""
    make_table(path)
    with suppress(DeltaError):
        drop_feature_without_spark(open_store(str(path)), "deletionVectors", truncate_history=True)
    for file in (path / "_delta_log").iterdir():
        then = file.stat().st_mtime - 2 * DAY
        os.utime(file, (then, then))
    return path


def drop(store, *, truncates):
    with suppress(SimulatedCrash, DeltaError):
        drop_feature_without_spark(store, "deletionVectors", truncate_history=truncates)


def interrupted_runs(tmp_path, make, fault, *, truncates):
    """The table after a run that goes wrong at its first storage call, at its second, and so on to its last."""
    at, made = 0, make(tmp_path / "made")
    while True:
        # With the times of its files.
        table = Path(shutil.copytree(made, tmp_path / str(at)))
        faulty = FaultyStore(open_store(str(table)), fault, at)
        drop(faulty, truncates=truncates)
        if len(faulty.calls) <= at:
            assert at > 15, "the run stopped making calls"
            return
        yield table
        at += 1


def features(store):
    return supported_features(load_snapshot(store).protocol)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["refused", "lost after", "crash after"])
def test_kept_history_and_all_rows_are_there_and_the_next_run_finishes(tmp_path, fault):
    for number, table in enumerate(interrupted_runs(tmp_path, make_table, fault, truncates=False)):
        forget_files()
        store = open_store(str(table))
        assert sorted(snapshot_ids(load_snapshot(store))) == ROWS
        assert sorted(snapshot_ids(load_snapshot(store, version=0))) == [0, 1, 2, 3]
        if number % 4:
            continue
        drop(store, truncates=False)
        assert features(store) == {"checkpointProtection"}
        assert sorted(snapshot_ids(load_snapshot(store))) == ROWS


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["refused", "crash after"])
def test_truncated_history_keeps_all_rows_and_the_next_run_finishes(tmp_path, fault):
    for number, table in enumerate(interrupted_runs(tmp_path, make_waiting_table, fault, truncates=True)):
        forget_files()
        store = open_store(str(table))
        snapshot = load_snapshot(store)
        assert sorted(snapshot_ids(snapshot)) == ROWS
        # The feature stays as long as a version that can be read needs it.
        assert "deletionVectors" in supported_features(snapshot.protocol) or 0 not in readable(store)
        if number % 4:
            continue
        drop(store, truncates=True)
        assert features(store) == frozenset()
        assert sorted(snapshot_ids(load_snapshot(store))) == ROWS


@pytest.mark.timeout(900)
def test_first_run_that_dies_is_repeated_and_still_waits(tmp_path):
    for number, table in enumerate(interrupted_runs(tmp_path, make_table, "crash after", truncates=True)):
        if number % 4:
            continue
        forget_files()
        store = open_store(str(table))
        assert sorted(snapshot_ids(load_snapshot(store))) == ROWS
        drop(store, truncates=True)
        assert "deletionVectors" in features(store)
        assert sorted(snapshot_ids(load_snapshot(store, version=1))) == ROWS


def readable(store):
    found = set()
    for version in (0, 1):
        with suppress(DeltaError):
            load_snapshot(store, version=version)
            found.add(version)
    return found
