"""Does `ebbtide maintain` say what a table needs, do it, and tell a program when something is left?"""

from __future__ import annotations

import pytest
from tests.support.command_line import ebbtide, json_lines, on_terminal
from tests.support.log_reading import newest_version
from tests.support.sample_table import people_table
from tests.support.vacuum_tables import at, builder, names_below, needed_by, put, settle

from ebbtide.commands.maintain import steps
from ebbtide.errors import StorageError

ROWS = [{"id": number, "part": "a"} for number in range(3)]


@pytest.fixture
def table(tmp_path):
    """Years old, without a checkpoint, with an orphan beside it."""
    table = builder(tmp_path / "t").table_property("delta.checkpointInterval", "2").file(ROWS).commit()
    for number in range(2):
        table.transaction("app", number).commit()
    settle(table)
    put(table.path, "orphan.parquet", at(0), b"x" * 2048)
    return table


def test_dry_run_says_what_would_be_done_and_why_and_does_nothing(table):
    result = ebbtide("maintain", table.path, "--dry-run")
    assert result.exit_code == 0
    first, checkpoint, vacuum, risk, last = result.stdout.splitlines()
    assert first.startswith("version 2: 1 file (")
    assert checkpoint == (
        "  CHECKPOINT   No checkpoint: every reader replays 3 commits. There should be one every 2 commits."
    )
    assert vacuum.startswith("  VACUUM       1 path (2.0 KiB) in storage that no version since 20")
    assert "shallow clone" in risk
    assert last == "A dry run: nothing was written."
    assert newest_version(table.path) == 2
    assert (table.path / "orphan.parquet").exists()


def test_dry_run_of_files_to_rewrite_starts_no_spark(tmp_path, monkeypatch):
    monkeypatch.setattr("ebbtide.cli.maintain.session_with_phases", None)
    result = ebbtide("maintain", people_table(tmp_path / "people").path, "--dry-run")
    assert result.exit_code == 0
    assert "OPTIMIZE     2 deleted rows in 1 file" in result.stdout


def test_steps_are_done_without_spark_where_none_is_needed(table, monkeypatch):
    monkeypatch.setattr("ebbtide.cli.maintain.session_with_phases", None)
    result = ebbtide("maintain", table.path)
    assert result.exit_code == 0
    checkpoint, vacuum, *others = result.stdout.splitlines()[3:]
    assert checkpoint.startswith("done  CHECKPOINT  checkpoint of version 2, ")
    assert vacuum == "done  VACUUM      1 path deleted"
    assert len(others) == 0
    assert names_below(table.path) == needed_by(table)
    again = ebbtide("maintain", table.path)
    assert again.exit_code == 0
    assert again.stdout.splitlines()[1:] == ["  nothing to do"]


def test_failed_step_is_one_line_and_an_exit_code_and_the_others_are_done(table, monkeypatch):
    def fail(*arguments, **options):
        raise StorageError("the disk is\nfull")

    monkeypatch.setattr(steps, "write_checkpoint", fail)
    result = ebbtide("maintain", table.path)
    assert result.exit_code == 1
    assert result.stderr.strip() == "Error: CHECKPOINT: the disk is full"
    assert "done  VACUUM" in result.stdout
    assert result.stdout.endswith("Run it again: it goes on with what is left.\n")
    assert names_below(table.path) == needed_by(table)


def test_json_is_one_object_with_findings_and_steps(table, monkeypatch):
    (plan,) = json_lines(ebbtide("maintain", table.path, "--dry-run", "--json"))
    assert (plan["dryRun"], plan["version"], plan["complete"]) == (True, 2, True)
    assert [found["kind"] for found in plan["findings"]] == ["missingCheckpoint", "unneededFiles"]
    assert [(step["step"], step["status"]) for step in plan["steps"]] == [
        ("checkpoint", "planned"),
        ("vacuum", "planned"),
    ]
    monkeypatch.setattr(steps, "write_checkpoint", lambda *_, **__: 1 / 0)
    result = ebbtide("maintain", table.path, "--json")
    assert result.exit_code == 1
    (done,) = json_lines(result)
    assert [(step["status"], step["versions"]) for step in done["steps"]] == [("failed", []), ("done", [4])]


def test_terminal_gets_colour_and_the_same_words(table, monkeypatch):
    result = on_terminal(monkeypatch, "maintain", table.path, "--skip", "vacuum")
    assert "\x1b[" in result.stdout
    assert "CHECKPOINT" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--skip", "everything"], "'everything' is no step to skip"),
        (["--target-size", "big"], "--target-size big"),
        (["--max-commits", "0"], "--max-commits"),
        (["--min-small-files", "1"], "--min-small-files"),
        (["--max-deleted-share", "2"], "--max-deleted-share"),
        (["--retain-hours", "1"], "shorter than the table's"),
    ],
)
def test_bad_input_is_refused_before_anything_is_done(table, arguments, said):
    result = ebbtide("maintain", table.path, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert newest_version(table.path) == 2


def test_place_without_a_table_is_one_line(tmp_path):
    result = ebbtide("maintain", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: [DELTA_MISSING_DELTA_TABLE]")
    assert result.stderr.count("\n") == 1
