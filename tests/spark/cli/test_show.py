"""Does `ebbtide show` print the rows of the version asked for, to a person and to a program?"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.support.command_line import ebbtide, json_lines, on_terminal
from tests.support.sample_table import people_table
from tests.support.table_builder import TableBuilder

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def people(tmp_path):
    return people_table(tmp_path / "people").path


def names(result):
    assert result.exit_code == 0, result.output
    return sorted(row["name"] for row in json_lines(result))


def test_rows_marked_as_deleted_are_not_shown(people):
    assert names(ebbtide("show", people, "--json")) == ["Barbara", "Donald", "Edsger", "Frances"]


def test_older_version_and_time_show_the_rows_of_then(people):
    everyone = ["Ada", "Barbara", "Donald", "Edsger", "Frances", "Grace"]
    assert names(ebbtide("show", people, "--version", 0, "--json")) == ["Ada", "Edsger", "Grace"]
    assert names(ebbtide("show", people, "--timestamp", "2024-01-01 00:01:00.000", "--json")) == everyone
    assert names(ebbtide("show", people, "--timestamp", "2024-01-01T01:01:59.999+01:00", "--json")) == everyone


@pytest.mark.one_kind(
    "the calls of test_rows_marked_as_deleted_are_not_shown and test_values_of_every_kind_are_shown_and_are_json, which run on both kinds"
)
def test_condition_that_is_null_for_a_row_leaves_it_out(people):
    assert names(ebbtide("show", people, "--where", "city <> 'Boston'", "--json")) == ["Edsger", "Frances"]


@pytest.mark.one_kind(
    "the calls of test_rows_marked_as_deleted_are_not_shown and test_values_of_every_kind_are_shown_and_are_json, which run on both kinds"
)
def test_table_for_people_has_a_line_a_row_and_a_note_on_stderr(people):
    result = ebbtide("show", people, "--where", "id = 5")
    assert result.stdout.splitlines() == ["id  name    city", "5   Donald  NULL"]
    assert result.stderr == "Version 2, 1 row.\n"


@pytest.mark.one_kind(
    "the calls of test_rows_marked_as_deleted_are_not_shown and test_values_of_every_kind_are_shown_and_are_json, which run on both kinds"
)
def test_limit_says_when_there_is_more(people):
    result = ebbtide("show", people, "--limit", 3)
    assert len(result.stdout.splitlines()) == 4
    assert result.stderr == "Version 2, the first 3 rows; --limit shows more.\n"
    assert ebbtide("show", people, "--limit", 4).stderr == "Version 2, 4 rows.\n"


@pytest.mark.one_value("conditions that Spark refuses run on both kinds in test_delete.py")
@pytest.mark.parametrize(
    ("condition", "named"), [("nosuch = 1", "nosuch"), ("id = = 1", "PARSE_SYNTAX_ERROR"), ("id + 1", "DATATYPE")]
)
def test_condition_that_spark_refuses_is_one_line_and_exit_code_2(people, condition, named):
    result = ebbtide("show", people, "--where", condition)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert named in line


@pytest.mark.one_kind("refused before Spark is asked")
def test_missing_data_file_is_one_line_and_exit_code_1(people):
    (people / "part-1.parquet").unlink()
    result = ebbtide("show", people)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "part-1.parquet" in result.stderr
    assert result.stderr.count("\n") == 1


def test_values_of_every_kind_are_shown_and_are_json(tmp_path):
    schema = pa.schema(
        {
            "a.b`c": pa.decimal128(20, 2),
            "bytes": pa.binary(),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "list": pa.list_(pa.int32()),
            "struct": pa.struct({"x": pa.float64(), "y": pa.string()}),
            "none": pa.string(),
        }
    )
    row = {
        "a.b`c": Decimal("12345678901234567.25"),
        "bytes": b"\x00\xff",
        "at": dt.datetime(2024, 1, 2, 3, 4, 5, 678000, dt.timezone.utc),
        "day": dt.date(2024, 1, 2),
        "list": [1, None],
        "struct": {"x": 1.5, "y": "\x1b[31mé"},
        "none": None,
    }
    path = TableBuilder(tmp_path / "t", schema).file([row]).commit().path
    (line,) = json_lines(ebbtide("show", path, "--json"))
    assert line["at"] == "2024-01-02T03:04:05.678Z"
    assert line["struct"] == {"x": 1.5, "y": "\x1b[31mé"}
    assert (line["list"], line["none"], line["bytes"]) == ([1, None], None, "AP8=")
    shown = ebbtide("show", path).stdout
    assert "12345678901234567.25  0x00FF  2024-01-02 03:04:05.678  2024-01-02  [1, null]" in shown
    assert "\\x1b[31mé" in shown
    assert "\x1b" not in shown


@pytest.mark.one_kind(
    "the calls of test_rows_marked_as_deleted_are_not_shown and test_values_of_every_kind_are_shown_and_are_json, which run on both kinds"
)
def test_columns_that_do_not_fit_the_terminal_are_named(tmp_path, monkeypatch):
    columns = {f"column_{n}": "x" * 30 for n in range(4)}
    path = TableBuilder(tmp_path / "t", pa.schema(dict.fromkeys(columns, pa.string()))).file([columns]).commit().path
    result = on_terminal(monkeypatch, "show", path, width=70)
    assert "column_1" in result.stdout
    assert "column_2" not in result.stdout
    assert "column_2, column_3" in result.stderr
    assert "column_3" in ebbtide("show", path, "--json").stdout


@pytest.mark.one_kind(
    "the calls of test_rows_marked_as_deleted_are_not_shown and test_values_of_every_kind_are_shown_and_are_json, which run on both kinds"
)
def test_empty_table_shows_its_columns(tmp_path):
    path = TableBuilder(tmp_path / "t", pa.schema({"a": pa.int64(), "b": pa.string()})).commit().path
    result = ebbtide("show", path)
    assert (result.stdout, result.stderr) == ("a  b\n", "Version 0, 0 rows.\n")
    assert ebbtide("show", path, "--json").stdout == ""


def test_session_of_the_caller_is_left_running(people, spark):
    ebbtide("show", people)
    assert spark.range(1).count() == 1
