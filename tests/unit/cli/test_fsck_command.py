"""Does `ebbtide fsck` tell a person and a program the same, ask before rows go, and end with the right code?"""

from __future__ import annotations

import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.sample_table import people_table

from ebbtide.cli import fsck as fsck_command
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store


@pytest.fixture
def people(tmp_path):
    return people_table(tmp_path / "people").path


def version(path):
    return load_snapshot(open_store(str(path))).version


def test_healthy_table_is_one_line_and_exit_code_0(people):
    result = ebbtide("fsck", people)
    assert result.exit_code == 0
    assert result.stdout == (
        "Version 2: 3 commits, 0 checkpoints, 2 files, 1 deletion vector checked; no damage found.\n"
    )


def test_damage_is_told_with_its_meaning_and_its_repair(people):
    (people / "part-1.parquet").unlink()
    result = ebbtide("fsck", people)
    assert result.exit_code == 1
    first, meaning, repair, summary = result.stdout.splitlines()
    assert first == "error  missing-data-file  part-1.parquet"
    assert meaning.endswith("its 3 rows cannot be read.")
    assert repair.startswith("    repair: Removes the file from the log")
    assert summary.endswith("1 finding; --repair puts 1 of them right.")
    assert version(people) == 2


def test_repair_that_loses_rows_needs_a_yes(people):
    (people / "part-1.parquet").unlink()
    result = ebbtide("fsck", people, "--repair")
    assert result.exit_code == 2
    assert "would remove 1 file with 3 rows" in result.stderr
    assert version(people) == 2


def test_person_at_the_terminal_is_asked_how_many_rows_may_go(people, monkeypatch):
    (people / "part-1.parquet").unlink()
    monkeypatch.setattr(fsck_command, "_is_terminal", lambda: True)
    refused = ebbtide("fsck", people, "--repair", typed="n\n")
    assert "Remove 1 file with 3 rows from the table?" in refused.stderr
    assert refused.exit_code == 1
    assert version(people) == 2
    assert ebbtide("fsck", people, "--repair", typed="y\n").exit_code == 0
    assert version(people) == 3


def test_repair_with_yes_ends_with_exit_code_0(people):
    (people / "part-1.parquet").unlink()
    result = ebbtide("fsck", people, "--repair", "--yes")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith("1 finding, 1 repaired in version 3.")
    assert ebbtide("fsck", people).exit_code == 0


def test_repair_that_loses_nothing_does_not_ask(people):
    (people / "_delta_log" / "_last_checkpoint").write_text("{")
    result = ebbtide("fsck", people, "--repair")
    assert result.exit_code == 0
    assert version(people) == 3


def test_damage_that_cannot_be_repaired_keeps_exit_code_1(people):
    next(people.glob("deletion_vector_*.bin")).unlink()
    result = ebbtide("fsck", people, "--repair", "--yes")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].endswith("1 finding, nothing repaired.")
    assert ebbtide("fsck", people).stdout.splitlines()[-1].endswith("1 finding; none can be repaired.")


def test_part_of_the_damage_repaired_says_what_is_left(people):
    next(people.glob("deletion_vector_*.bin")).unlink()
    (people / "part-1.parquet").unlink()
    result = ebbtide("fsck", people, "--repair", "--yes")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].endswith("2 findings, 1 repaired in version 3; 1 left.")


def test_json_holds_every_finding(people):
    (people / "part-1.parquet").unlink()
    (before,) = json_lines(ebbtide("fsck", people, "--json"))
    assert (before["healthy"], before["checkedVersion"], before["version"]) == (False, 2, None)
    (found,) = before["findings"]
    assert (found["kind"], found["path"], found["repairable"], found["repaired"]) == (
        "missing-data-file", "part-1.parquet", True, False,
    )  # fmt: skip
    (after,) = json_lines(ebbtide("fsck", people, "--json", "--repair", "--yes"))
    assert (after["healthy"], after["version"], after["numLostRows"]) == (True, 3, 3)
    assert after["findings"][0]["repaired"]


def test_table_that_cannot_be_read_is_told_so(people):
    (people / "_delta_log" / f"{1:020d}.json").unlink()
    result = ebbtide("fsck", people)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("No version can be read: ")


def test_link_out_of_an_untrusted_table_is_refused(people, tmp_path):
    (people / "part-1.parquet").rename(tmp_path / "elsewhere.parquet")
    (people / "part-1.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    assert ebbtide("fsck", people).exit_code == 0
    assert ebbtide("fsck", people, "--untrusted").exit_code == 1


def test_missing_table_is_exit_code_1(tmp_path):
    assert ebbtide("fsck", tmp_path / "nowhere").exit_code == 1


def test_control_characters_of_a_table_do_not_reach_the_terminal(people):
    log = people / "_delta_log" / f"{3:020d}.json"
    log.write_text(
        '{"add":{"path":"a%1B%5B31mb","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'
    )
    result = ebbtide("fsck", people)
    assert "\x1b" not in result.stdout
    assert "a\\x1b[31mb" in result.stdout
