"""Does `ebbtide drop` ask, say what goes, and delete only then?"""

from __future__ import annotations

import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.races import ID_SCHEMA
from tests.support.table_builder import TableBuilder

from ebbtide.cli import drop


@pytest.fixture
def table(tmp_path):
    builder = TableBuilder(tmp_path / "t", ID_SCHEMA).file([{"id": 1}]).commit()
    return builder.file([{"id": 2}]).commit().path


@pytest.fixture
def at_terminal(monkeypatch):
    monkeypatch.setattr(drop, "_is_terminal", lambda: True)


def test_dry_run_counts_and_deletes_nothing(table):
    result = ebbtide("drop", table, "--dry-run")
    assert result.exit_code == 0 and "To delete: 2 data files, 2 log files, " in result.stdout
    assert ", 2 versions." in result.stdout and "nothing was deleted" in result.stdout
    assert len(list(table.rglob("*.parquet"))) == 2


def test_without_a_terminal_it_takes_a_yes(table):
    result = ebbtide("drop", table)
    assert result.exit_code == 2 and "--yes" in result.stderr
    assert table.exists()
    result = ebbtide("drop", table, "--yes")
    assert result.exit_code == 0 and result.stdout.startswith("Deleted: 2 data files")
    assert not table.exists()


@pytest.mark.usefixtures("at_terminal")
def test_person_who_says_no_keeps_the_table(table):
    result = ebbtide("drop", table, typed="n\n")
    assert result.exit_code == 1 and "2 data files" in result.stderr and "Delete all of it?" in result.stderr
    assert table.exists() and not (table / "_delta_log" / "_ebbtide_drop").exists()
    assert ebbtide("drop", table, typed="y\n").exit_code == 0
    assert not table.exists()


def test_what_is_not_the_tables_is_named(table):
    (table / "notes.txt").write_text("mine")
    result = ebbtide("drop", table, "--yes")
    assert result.exit_code == 2 and "notes.txt" in result.stderr and table.exists()


def test_no_table_is_an_error_unless_that_is_fine(tmp_path):
    assert ebbtide("drop", tmp_path / "no", "--yes").exit_code == 1
    result = ebbtide("drop", tmp_path / "no", "--yes", "--if-exists")
    assert result.exit_code == 0 and "There is no table" in result.stdout


def test_json_is_one_object(table):
    (looked,) = json_lines(ebbtide("drop", table, "--dry-run", "--json"))
    (done,) = json_lines(ebbtide("drop", table, "--yes", "--json"))
    assert looked == {**done, "dryRun": True}
    assert (done["found"], done["numFiles"], done["numLogFiles"], done["numVersions"]) == (True, 2, 2, 2)
