"""Does `ebbtide delete` ask first, say what it would do, and do it?"""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.sample_table import people_table
from tests.support.table_builder import TableBuilder

from ebbtide.log import load_snapshot
from ebbtide.storage import open_store


@pytest.fixture
def people(tmp_path):
    return people_table(tmp_path / "people").path


def version_of(path):
    return load_snapshot(open_store(str(path))).version


def files_below(path):
    return sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())


# --- before Spark is started ------------------------------------------------------------------------------------------


def test_deletion_that_nobody_can_confirm_is_refused(people):
    result = ebbtide("delete", people, "--where", "id = 3")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert version_of(people) == 2


def test_no_at_the_prompt_changes_nothing(people, monkeypatch):
    monkeypatch.setattr("ebbtide.cli.delete._is_terminal", lambda: True)
    result = ebbtide("delete", people, "--where", "id = 3", typed="n\n")
    assert result.exit_code == 1
    assert "Delete the rows where id = 3?" in result.stderr
    assert version_of(people) == 2


def test_deletion_without_condition_is_refused(people):
    assert ebbtide("delete", people, "--yes").exit_code == 2


def test_append_only_table_is_refused_before_spark_is_started(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "py4j", None)
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).table_property("delta.appendOnly", "true")
    result = ebbtide("delete", builder.commit().path, "--where", "true", "--yes")
    assert result.exit_code == 2
    assert "DELTA_CANNOT_MODIFY_APPEND_ONLY" in result.stderr


# --- with Spark -------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_rows_are_deleted_and_counted(spark, people):
    result = ebbtide("delete", people, "--where", "id IN (3, 4)", "--yes")
    assert result.exit_code == 0, result.output
    lines = dict(line.split(None, 1) for line in result.stdout.splitlines())
    assert lines["version"] == "3"
    assert lines["numDeletedRows"] == "2"
    assert version_of(people) == 3


@pytest.mark.one_kind(
    "the calls of test_rows_are_deleted_and_counted, which runs on both kinds; this adds the words of the shell"
)
@pytest.mark.spark
def test_yes_at_the_prompt_deletes(spark, people, monkeypatch):
    monkeypatch.setattr("ebbtide.cli.delete._is_terminal", lambda: True)
    result = ebbtide("delete", people, "--where", "id = 4", "--json", typed="y\n")
    # The first line is the answer itself, which a terminal would show as it is typed.
    answer = json.loads(result.stdout.splitlines()[-1])
    assert (answer["version"], answer["numAffectedRows"], answer["numDeletionVectorsAdded"]) == (3, 1, 1)


@pytest.mark.one_kind(
    "the calls of test_rows_are_deleted_and_counted, which runs on both kinds; this adds the words of the shell"
)
@pytest.mark.spark
def test_deletion_vectors_can_be_switched_off_for_one_deletion(spark, people):
    (answer,) = json_lines(
        ebbtide("delete", people, "--where", "id = 4", "--yes", "--json", "--deletion-vectors", "off")
    )
    assert (answer["numAddedFiles"], answer["numCopiedRows"], answer["numDeletionVectorsAdded"]) == (1, 2, 0)


@pytest.mark.one_kind(
    "the calls of test_rows_are_deleted_and_counted, which runs on both kinds; this adds the words of the shell"
)
@pytest.mark.spark
def test_nothing_that_matches_is_said_in_a_sentence(spark, people):
    assert ebbtide("delete", people, "--where", "id = 99", "--yes").stdout == "Nothing matched; no new version.\n"


@pytest.mark.one_kind(
    "test_condition_that_spark_refuses_is_one_line_and_exit_code_2 in test_show.py runs on both kinds"
)
@pytest.mark.spark
def test_bad_condition_is_one_line_and_exit_code_2(spark, people):
    result = ebbtide("delete", people, "--where", "rand() < 0.5", "--yes")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert version_of(people) == 2


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.spark
@pytest.mark.parametrize(
    ("where", "options", "expected"),
    [
        # id 3 is the last live row of the first file, so that file goes; 4 is one of three in the second.
        (
            "id IN (3, 4)",
            [],
            {
                "numDeletedRows": 2,
                "numScannedFiles": 2,
                "numRemovedFiles": 1,
                "numMarkedFiles": 1,
                "markedShareAfter": 1 / 3,
            },
        ),
        ("id = 4", [], {"numScannedFiles": 1, "numMarkedFiles": 1, "markedShareAfter": 3 / 6}),
        (
            "id = 4",
            ["--deletion-vectors", "off"],
            {"numRewrittenFiles": 1, "numDeletionVectorBytes": 0, "markedShareAfter": 2 / 5},
        ),
        ("id IN (4, 5)", ["--deletion-vectors", "auto"], {"numDeletedRows": 2, "numRewrittenFiles": 1}),
        ("true", [], {"numDeletedRows": 4, "numScannedFiles": 0, "numRemovedFiles": 2, "markedShareAfter": 0.0}),
        ("id > 99", [], {"numDeletedRows": 0, "numScannedFiles": 0, "markedShareAfter": 2 / 6}),
    ],
)
def test_dry_run_says_what_would_happen_and_writes_nothing(spark, people, where, options, expected):
    before = files_below(people)
    (forecast,) = json_lines(ebbtide("delete", people, "--where", where, "--dry-run", "--json", *options))
    assert {name: forecast[name] for name in expected} == expected
    assert forecast["markedShareBefore"] == 2 / 6
    assert files_below(people) == before


@pytest.mark.one_kind(
    "the calls of test_rows_are_deleted_and_counted, which runs on both kinds; this adds the words of the shell"
)
@pytest.mark.spark
def test_forecast_of_vector_bytes_is_what_is_then_written(spark, people):
    (forecast,) = json_lines(ebbtide("delete", people, "--where", "id = 4", "--dry-run", "--json"))
    before = set(people.glob("*.bin"))
    ebbtide("delete", people, "--where", "id = 4", "--yes")
    (written,) = set(people.glob("*.bin")) - before
    # One byte of the file is its version.
    assert written.stat().st_size == forecast["numDeletionVectorBytes"] + 1


@pytest.mark.one_kind(
    "the calls of test_rows_are_deleted_and_counted, which runs on both kinds; this adds the words of the shell"
)
@pytest.mark.spark
def test_dry_run_is_readable(spark, people):
    text = ebbtide("delete", people, "--where", "id IN (3, 4)", "--dry-run").stdout
    assert "2 rows in 2 files, of version 2" in text
    assert "33.3 % of all rows before, 33.3 % after" in text
    assert text.endswith("A dry run: nothing was written.\n")
