"""Does `ebbtide clone` make a clone, look first when asked, and say why it cannot?"""

from __future__ import annotations

import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.log_reading import log_state, newest_version
from tests.support.sample_table import people_table


@pytest.fixture
def people(tmp_path):
    return people_table(tmp_path / "people").path


def test_clone_is_made_without_spark_and_names_the_risk(people, tmp_path):
    result = ebbtide("clone", people, tmp_path / "c", "--property", "mine=a=b")
    assert "shares   2 files" in result.stdout
    assert "VACUUM of the source" in result.stdout
    state = log_state(tmp_path / "c")
    assert (len(state.live), state.configuration["mine"]) == (2, "a=b")


@pytest.mark.parametrize("options", [("--version", 0), ("--timestamp", "2024-01-01 00:00:30")])
def test_older_version_can_be_cloned(people, tmp_path, options):
    [answer] = json_lines(ebbtide("clone", people, tmp_path / "c", *options, "--json"))
    assert (answer["version"], answer["sourceVersion"], answer["sourceNumOfFiles"]) == (0, 0, 1)


def test_dry_run_writes_nothing(people, tmp_path):
    result = ebbtide("clone", people, tmp_path / "c", "--dry-run")
    assert "A dry run: nothing was written." in result.stdout
    assert not (tmp_path / "c").exists()


def test_existing_table_is_left_as_it_is(people, tmp_path):
    ebbtide("clone", people, tmp_path / "c")
    again = ebbtide("clone", people, tmp_path / "c")
    assert (again.exit_code, "already" in again.stderr) == (1, True)
    assert ebbtide("clone", people, tmp_path / "c", "--replace").exit_code == 2
    assert newest_version(tmp_path / "c") == 0


@pytest.mark.parametrize(
    "options", [("--version", 1, "--timestamp", "2024-01-01"), ("--property", "novalue"), ("--property", "=x")]
)
def test_wrong_options_are_refused(people, tmp_path, options):
    result = ebbtide("clone", people, tmp_path / "c", *options)
    assert result.exit_code == 2
    assert not (tmp_path / "c").exists()
