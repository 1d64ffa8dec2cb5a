"""Does `ebbtide restore` restore, look first when asked, and say why it cannot?"""

from __future__ import annotations

import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.log_reading import commit_info, log_state, newest_version
from tests.support.sample_table import people_table


@pytest.fixture
def people(tmp_path):
    return people_table(tmp_path / "people").path


def test_version_is_shown_again_without_spark(people):
    result = ebbtide("restore", people, "--version", 1)
    lines = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert (lines["version"].strip(), lines["shows again"].strip()) == ("3", "version 1")
    assert log_state(people).live.keys() == log_state(people, 1).live.keys()


def test_time_is_in_utc_as_history_prints_it(people):
    ebbtide("restore", people, "--timestamp", "2024-01-01 00:01:30")
    assert commit_info(people, 3)["operationParameters"] == {"version": None, "timestamp": "2024-01-01 00:01:30.000"}
    assert log_state(people).live.keys() == log_state(people, 1).live.keys()


def test_dry_run_writes_nothing(people):
    result = ebbtide("restore", people, "--version", 1, "--dry-run")
    assert "would show" in result.stdout
    assert "A dry run: nothing was written." in result.stdout
    assert newest_version(people) == 2


def test_answer_for_programs_has_the_counters(people):
    [answer] = json_lines(ebbtide("restore", people, "--version", 0, "--json"))
    assert (answer["dryRun"], answer["version"], answer["restoredVersion"]) == (False, 3, 0)
    assert (answer["numRestoredFiles"], answer["numRemovedFiles"], answer["missingFiles"]) == (1, 2, [])


def test_newest_version_is_left_as_it_is(people):
    result = ebbtide("restore", people, "--version", 2)
    assert "is at version 2 already" in result.stdout
    assert newest_version(people) == 2


def test_missing_file_is_named_or_left_out(people):
    gone = next(path for path, _ in log_state(people, 0).live)
    ebbtide("restore", people, "--version", 2)
    (people / gone).unlink()
    refused = ebbtide("restore", people, "--version", 0)
    assert (refused.exit_code, gone in refused.stderr) == (1, True)
    left_out = ebbtide("restore", people, "--version", 0, "--ignore-missing-files")
    assert "1 file, no longer in storage" in left_out.stdout
    assert log_state(people).live == {}


@pytest.mark.parametrize("options", [(), ("--version", 1, "--timestamp", "2024-01-01")])
def test_version_or_time_must_be_given(people, options):
    result = ebbtide("restore", people, *options)
    assert (result.exit_code, newest_version(people)) == (2, 2)
    assert "Give either --version or --timestamp" in result.stderr
