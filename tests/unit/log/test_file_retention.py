"""Is a version refused exactly when it is older than the table, as it is now, keeps files?"""

from __future__ import annotations

import pytest
from tests.support.races import ID_SCHEMA
from tests.support.table_builder import COMMIT_INTERVAL_MS, FIRST_COMMIT_MS, TableBuilder

from ebbtide.commands.clone.command import CloneRequest, clone_table
from ebbtide.commands.restore.command import RestoreRequest, restore_table
from ebbtide.errors import VersionNotFoundError
from ebbtide.log import load_snapshot
from ebbtide.log.change_bounds import ChangeBounds
from ebbtide.log.change_feed import read_change_feed
from ebbtide.log.file_retention import ensure_files_retained
from ebbtide.storage import open_store

HOUR_MS = 3_600_000
BEYOND = "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"


@pytest.fixture
def table(tmp_path):
    """Three versions a minute apart, of 2024; the last one keeps files for two hours."""
    builder = TableBuilder(tmp_path / "t", ID_SCHEMA).change_data_feed().file([{"id": 1}]).commit()
    builder.file([{"id": 2}]).commit()
    return builder.table_property("delta.deletedFileRetentionDuration", "interval 2 hours").file([{"id": 3}]).commit()


def snapshot_of(table, version):
    return load_snapshot(open_store(str(table.path)), version=version)


def age(version, **parts):
    return FIRST_COMMIT_MS + version * COMMIT_INTERVAL_MS + parts.get("hours", 0) * HOUR_MS + parts.get("ms", 0)


def test_the_newest_definition_decides_and_the_last_millisecond_counts(table):
    ensure_files_retained(snapshot_of(table, 1), now_ms=age(1, hours=2))
    with pytest.raises(VersionNotFoundError, match="keeps the files of older versions for 2 hours") as caught:
        ensure_files_retained(snapshot_of(table, 1), now_ms=age(1, hours=2, ms=1))
    assert caught.value.getCondition() == BEYOND
    assert "enforceTimeTravelWithinDeletedFileRetentionDuration = true" in str(caught.value)


def test_newest_version_is_never_too_old(table):
    ensure_files_retained(snapshot_of(table, 2), now_ms=age(2, hours=10_000))
    ensure_files_retained(snapshot_of(table, 2), newest=snapshot_of(table, None))


@pytest.mark.parametrize("command", ["restore", "clone", "changes"])
def test_commands_refuse_only_when_asked_to(table, command, tmp_path):
    store = open_store(str(table.path))

    def run(enforces):
        match command:
            case "restore":
                return restore_table(RestoreRequest(store, 0, enforces_retention=enforces))
            case "clone":
                target = open_store(str(tmp_path / "c"))
                return clone_table(CloneRequest(store, target, 0, enforces_retention=enforces))
        return read_change_feed(store, ChangeBounds(start_version=1, enforces_retention=enforces))

    with pytest.raises(VersionNotFoundError) as caught:
        run(True)
    assert caught.value.getCondition() == BEYOND
    run(False)


def test_newest_version_can_be_restored_and_its_changes_read(table):
    store = open_store(str(table.path))
    assert restore_table(RestoreRequest(store, 2, enforces_retention=True)).version is None
    assert read_change_feed(store, ChangeBounds(start_version=2, enforces_retention=True)).changes
