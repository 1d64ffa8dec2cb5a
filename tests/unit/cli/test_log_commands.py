"""Do history, detail and files say what the log says, to a person and to a program?"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.support.command_line import ebbtide, json_lines, on_terminal
from tests.support.sample_table import people_table
from tests.support.table_builder import TableBuilder

CONTROL = "\x1b[31mred\x1b[0m\nsecond line"


@pytest.fixture
def people(tmp_path):
    return people_table(tmp_path / "people").path


def commit_with_info(builder, info):
    """Commit with this provenance alone; the builder's own stands on the first line."""
    builder.raw({"commitInfo": info}).commit()
    commit = builder.log / f"{builder.version:020d}.json"
    commit.write_text("".join(commit.read_text().splitlines(keepends=True)[1:]))


def test_history_lists_commits_newest_first_with_times_that_can_be_given_back(people):
    result = ebbtide("history", people)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[1:] == [
        ["2", "2024-01-01", "00:02:00.000", "DELETE"],
        ["1", "2024-01-01", "00:01:00.000", "WRITE"],
        ["0", "2024-01-01", "00:00:00.000", "WRITE"],
    ]


def test_history_as_json_has_the_columns_of_describe_history(people):
    (newest,) = json_lines(ebbtide("history", people, "--limit", 1, "--json"))
    assert newest["version"] == 2
    assert newest["timestamp"] == "2024-01-01T00:02:00.000Z"
    assert newest["operation"] == "DELETE"
    assert {"operationParameters", "operationMetrics", "readVersion", "engineInfo", "userMetadata"} <= newest.keys()


def test_history_shows_parameters_that_are_no_text_as_json(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"a": pa.int64()}))
    info = {"operation": "WRITE", "operationParameters": {"mode": "Append", "n": 3, "cols": ["a"]}}
    commit_with_info(builder, info)
    assert 'mode=Append, n=3, cols=["a"]' in ebbtide("history", builder.path).stdout


def test_detail_counts_live_and_deleted_rows_from_the_log(people):
    lines = dict(line.split(None, 1) for line in ebbtide("detail", people).stdout.splitlines())
    assert lines["version"] == "2"
    assert lines["rows"].strip() == "4"
    assert lines["deleted"] == "rows   2 (33.3 % of all rows) in 1 deletion vector"
    assert lines["protocol"].strip() == "reader 3, writer 7"


def test_detail_as_json_is_one_object_with_the_columns_of_describe_detail(people):
    (detail,) = json_lines(ebbtide("detail", people, "--json"))
    assert detail["location"] == people.as_uri()
    assert detail["numFiles"] == 2
    assert detail["properties"] == {"delta.enableDeletionVectors": "true"}
    assert detail["tableFeatures"] == ["deletionVectors"]
    assert (detail["numRecords"], detail["numDeletedRecords"], detail["numDeletionVectors"]) == (4, 2, 1)


def test_files_are_listed_with_the_most_deleted_first_and_totals_of_all(people):
    output = ebbtide("files", people, "--limit", 1).stdout.splitlines()
    assert output[1].split()[0] == "part-0.parquet"
    assert output[1].endswith("███████░░░  66.7 %")
    assert output[2].startswith("... and 1 file with no larger deleted share")
    assert output[3].startswith("Version 2: 2 files, ")
    assert output[3].endswith("6 rows; 2 deleted (33.3 %) by 1 deletion vector.")


def test_files_as_json_carry_partition_values_and_cardinality(tmp_path):
    schema = pa.schema({"id": pa.int64(), "p": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("p").deletion_vectors()
    builder.file([{"id": n, "p": "x"} for n in range(8)], deleted=[1, 7], vector="i").commit()
    (file,) = json_lines(ebbtide("files", builder.path, "--json"))
    assert file["partitionValues"] == {"p": "x"}
    assert (file["numRecords"], file["numDeletedRecords"], file["deletedShare"]) == (8, 2, 0.25)
    assert file["hasDeletionVector"] is True


def test_file_without_statistics_makes_the_number_of_rows_unknown_and_is_listed_last(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    builder.file([{"id": 1}, {"id": 2}], deleted=[0], stats=False, name="unknown.parquet")
    builder.file([{"id": 3}], name="whole.parquet").commit()
    names = [file["path"] for file in json_lines(ebbtide("files", builder.path, "--json"))]
    assert names == ["whole.parquet", "unknown.parquet"]
    assert "an unknown number of rows; 1 deleted by" in ebbtide("files", builder.path).stdout
    (detail,) = json_lines(ebbtide("detail", builder.path, "--json"))
    assert detail["numRecords"] is None


def test_table_without_files_has_totals_of_zero(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).commit()
    assert ebbtide("files", builder.path).stdout == (
        "Version 0: 0 files, 0 B, 0 rows; 0 deleted (0.0 %) by 0 deletion vectors.\n"
    )
    assert json_lines(ebbtide("files", builder.path, "--json")) == []


def test_statistics_that_count_fewer_rows_than_are_deleted_show_a_full_bar_and_no_failure(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    builder.file([{"id": 1}, {"id": 2}], deleted=[0, 1], vector="i").commit()
    commit = builder.log / f"{0:020d}.json"
    commit.write_text(commit.read_text().replace('\\"numRecords\\": 2', '\\"numRecords\\": 1'))
    (file,) = json_lines(ebbtide("files", builder.path, "--json"))
    assert (file["numRecords"], file["numDeletedRecords"], file["deletedShare"]) == (1, 2, 1.0)


@pytest.mark.parametrize("command", ["history", "detail", "files"])
def test_piped_output_has_no_colour_and_no_padding(people, command):
    output = ebbtide(command, people).stdout
    assert "\x1b" not in output
    assert all(line == line.rstrip() for line in output.splitlines())


@pytest.mark.parametrize("command", ["history", "detail", "files"])
def test_terminal_output_is_coloured_and_fits_the_width(people, command, monkeypatch):
    result = on_terminal(monkeypatch, command, people, width=60)
    assert "\x1b[" in result.stdout
    table = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in result.stdout.splitlines() if "Version" not in line]
    assert max(len(line) for line in table) <= 60


@pytest.mark.parametrize("command", ["history", "detail", "files"])
def test_text_of_a_table_cannot_steer_the_terminal(tmp_path, command, monkeypatch):
    builder = TableBuilder(tmp_path / "t", pa.schema({"a": pa.int64()})).table_property("note", CONTROL)
    builder.file([{"a": 1}], name="a\x1b[2Jb.parquet")
    commit_with_info(builder, {"operation": CONTROL, "operationParameters": {"[bold]": CONTROL}})
    result = on_terminal(monkeypatch, command, builder.path, width=200)
    assert result.exit_code == 0
    assert "red" in result.stdout or command == "files"
    assert "\x1b[31mred" not in result.stdout
    assert "\x1b[2J" not in result.stdout
    assert "second line" not in [line.strip() for line in result.stdout.splitlines()]


def test_log_commands_work_where_no_java_is(people):
    """A JVM that was started would have to be found first."""
    environment = {"PATH": os.fspath(people), "JAVA_HOME": os.fspath(people)}
    for command in ("history", "detail", "files"):
        code = f"import sys; from ebbtide.cli import main; sys.argv = ['ebbtide', {command!r}, {str(people)!r}]; main()"
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
