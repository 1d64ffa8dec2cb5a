"""Does `ebbtide vacuum` delete what it says, say what it deletes, and tell a program when something stayed?"""

from __future__ import annotations

import os

import pytest
from tests.support.command_line import ebbtide, json_lines, on_terminal
from tests.support.vacuum_tables import at, builder, names_below, needed_by, put, settle

from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

ROWS = [{"id": number, "part": "a"} for number in range(3)]


@pytest.fixture
def table(tmp_path):
    """Version 1 replaces a vector; everything is years old."""
    table = builder(tmp_path / "t").file(ROWS, deleted=[0]).commit()
    settle(table)
    table.mark(table.files[0], [1]).commit()
    settle(table)
    put(table.path, "orphan.parquet", at(0), b"x" * 2048)
    return table


def test_dry_run_lists_what_would_go_and_names_the_risk_of_clones(table):
    before = names_below(table.path)
    result = ebbtide("vacuum", table.path, "--dry-run")
    assert result.exit_code == 0
    *paths, summary, risk = result.stdout.splitlines()
    assert set(paths) == {f"file:{table.path}/{name}" for name in before - needed_by(table)}
    assert summary.startswith("To delete: 2 paths, 2.0 KiB. What was needed after 20")
    assert "nothing was deleted" in risk
    assert "shallow clone" in risk
    assert names_below(table.path) == before


def test_vacuum_deletes_and_says_how_much(table):
    result = ebbtide("vacuum", table.path)
    assert result.exit_code == 0
    assert result.stdout.startswith("Deleted: 2 paths, 2.0 KiB.")
    assert names_below(table.path) == needed_by(table)


def test_json_has_one_object_per_path_and_a_summary(table):
    *paths, summary = json_lines(ebbtide("vacuum", table.path, "--dry-run", "--json"))
    assert len(paths) == 2
    assert all(path["path"].startswith("file:/") for path in paths)
    assert (summary["dryRun"], summary["numFilesToDelete"], summary["version"]) == (True, 2, None)
    (done,) = json_lines(ebbtide("vacuum", table.path, "--json"))
    assert (done["numDeletedFiles"], done["version"], done["numFailedFiles"]) == (2, 3, 0)


def test_kept_versions_keep_their_files(table):
    ebbtide("vacuum", table.path, "--keep-versions", "0, 1")
    assert names_below(table.path) - needed_by(table) == {
        name for name in names_below(table.path) if name.startswith("deletion_vector")
    } - needed_by(table)
    assert not (table.path / "orphan.parquet").exists()
    assert len([name for name in names_below(table.path) if name.startswith("deletion_vector")]) == 2


def test_lite_leaves_orphans(table):
    assert ebbtide("vacuum", table.path, "--lite").stdout.startswith("Deleted: 1 path,")
    assert (table.path / "orphan.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--retain-hours", "1"], "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"),
        (["--retain-hours", "-1", "--no-retention-check"], "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"),
        (["--keep-versions", "3,x"], "Write it like 3,4"),
        (["--keep-versions", "99"], "DELTA_VERSION_NOT_FOUND"),
    ],
)
def test_request_that_cannot_be_served_changes_nothing_and_exits_with_2(table, arguments, said):
    before = names_below(table.path)
    result = ebbtide("vacuum", table.path, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert names_below(table.path) == before


def test_check_can_be_switched_off(table):
    put(table.path, "young.parquet", at(10**9))
    os.utime(table.path / "young.parquet")
    assert ebbtide("vacuum", table.path, "--retain-hours", "0", "--no-retention-check").exit_code == 0
    assert names_below(table.path) == needed_by(table)


def test_file_that_cannot_be_deleted_is_named_and_the_exit_code_is_1(table, monkeypatch):
    unlink = os.unlink

    def refuse(name, **options):
        if name == "orphan.parquet":
            raise PermissionError(1, "Operation not permitted")
        unlink(name, **options)

    monkeypatch.setattr(os, "unlink", refuse)
    result = ebbtide("vacuum", table.path)
    assert result.exit_code == 1
    assert "orphan.parquet" in result.stderr
    assert "Operation not permitted" in result.stderr
    (summary,) = json_lines(ebbtide("vacuum", table.path, "--json"))
    assert summary["numFailedFiles"] == 1
    assert list(summary["failures"]) == ["orphan.parquet"]


def test_links_and_other_tables_that_were_left_alone_are_mentioned(table, tmp_path):
    builder(table.path / "inner").commit()
    (table.path / "link").symlink_to(tmp_path)
    said = ebbtide("vacuum", table.path).stdout
    assert "1 symbolic link left alone." in said
    assert "another table is there: inner" in said


def test_names_with_control_characters_do_not_reach_the_terminal(table):
    put(table.path, "\x1b[31mred", at(0))
    assert "\\x1b[31mred" in ebbtide("vacuum", table.path, "--dry-run").stdout


def test_progress_is_shown_on_a_terminal(table, monkeypatch):
    result = on_terminal(monkeypatch, "vacuum", table.path)
    assert result.exit_code == 0
    assert "Deleted" in result.stdout


# --- ebbtide log ------------------------------------------------------------------------------------------------------


def test_dry_run_of_a_checkpoint_writes_none_and_knows_one_that_is_there(table):
    before = names_below(table.log)
    assert ebbtide("log", "checkpoint", table.path, "--dry-run").stdout == (
        "Would write a checkpoint of version 1, with 1 live file.\n"
    )
    assert names_below(table.log) == before
    ebbtide("log", "checkpoint", table.path)
    assert "already" in ebbtide("log", "checkpoint", table.path, "--dry-run").stdout
    (said,) = json_lines(ebbtide("log", "checkpoint", table.path, "--dry-run", "--json"))
    assert said == {"dryRun": True, "version": 1, "isNew": False}


def test_dry_run_of_a_compaction_writes_none_and_knows_one_that_is_there(table):
    name = f"_delta_log/{0:020d}.{1:020d}.compacted.json"
    assert ebbtide("log", "compact", table.path, "--dry-run").stdout == f"Would write {name}: 4 actions.\n"
    assert not (table.path / name).exists()
    ebbtide("log", "compact", table.path)
    assert ebbtide("log", "compact", table.path, "--dry-run").stdout == f"There is already {name}: 4 actions.\n"


def test_checkpoint_is_written_now(table):
    assert ebbtide("log", "checkpoint", table.path).stdout.startswith("Wrote a checkpoint of version 1: 3 actions, ")
    assert load_snapshot(open_store(str(table.path))).segment.checkpoint.version == 1
    assert ebbtide("log", "checkpoint", table.path).stdout == "Version 1 has a checkpoint already.\n"
    (again,) = json_lines(ebbtide("log", "checkpoint", table.path, "--json"))
    assert (again["version"], again["isNew"]) == (1, False)


def test_commits_are_compacted(table):
    name = f"_delta_log/{0:020d}.{1:020d}.compacted.json"
    assert ebbtide("log", "compact", table.path).stdout == f"Wrote {name}: 4 actions.\n"
    assert (table.path / name).exists()
    (again,) = json_lines(ebbtide("log", "compact", table.path, "--start", 0, "--end", 1, "--json"))
    assert again == {
        "dryRun": False,
        "path": name,
        "startVersion": 0,
        "endVersion": 1,
        "numActions": 4,
        "sizeInBytes": (table.path / name).stat().st_size,
        "isNew": False,
    }
    assert ebbtide("log", "compact", table.path, "--start", 1).exit_code == 2


def test_expired_log_files_are_listed_and_then_deleted(tmp_path):
    table = builder(tmp_path / "t").file(ROWS).commit().file(ROWS).commit().checkpoint().commit()
    put(table.log, f"{1:020d}.checkpoint.parquet", at(1), (table.log / f"{1:020d}.checkpoint.parquet").read_bytes())
    name = f"_delta_log/{0:020d}.json"
    result = ebbtide("log", "cleanup", table.path, "--dry-run")
    assert result.stdout == f"{name}\n1 log file would be deleted.\n"
    assert json_lines(ebbtide("log", "cleanup", table.path, "--dry-run", "--json")) == [
        {"path": name},
        {"dryRun": True, "numFiles": 1},
    ]
    assert ebbtide("log", "cleanup", table.path).stdout == "1 log file deleted.\n"
    assert not (table.path / name).exists()
    assert load_snapshot(open_store(str(table.path))).num_files == 2


def test_table_that_keeps_its_history_is_not_cleaned_up(tmp_path):
    table = builder(tmp_path / "t").table_property("delta.enableExpiredLogCleanup", "false").commit()
    result = ebbtide("log", "cleanup", table.path)
    assert result.exit_code == 2
    assert "delta.enableExpiredLogCleanup" in result.stderr
