"""Does a failure leave as one line with the right exit code, and without a secret?"""

from __future__ import annotations

import pytest
from tests.support.command_line import ebbtide, json_lines, on_terminal
from tests.support.s3_endpoint import SECRET_KEY, s3_endpoint
from tests.support.sample_table import people_table

from ebbtide.errors import TableNotFoundError, UnsupportedFeatureError

LOG_COMMANDS = ["history", "detail", "files"]
COMMANDS = [*LOG_COMMANDS, "show"]


@pytest.fixture
def people(tmp_path):
    return people_table(tmp_path / "people").path


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_table_is_one_line_on_stderr_and_exit_code_1(tmp_path, command):
    result = ebbtide(command, tmp_path / "nowhere")
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: [DELTA_MISSING_DELTA_TABLE] There is no Delta table at ")


@pytest.mark.parametrize("command", COMMANDS)
def test_request_that_cannot_be_served_is_exit_code_2(command):
    result = ebbtide(command, "ftp://host/table")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "'ftp'" in line


def test_failure_is_red_on_a_terminal_and_still_one_line(tmp_path, monkeypatch):
    result = on_terminal(monkeypatch, "history", tmp_path / "nowhere", width=30)
    assert result.stderr.count("\n") == 1
    assert "\x1b[31m" in result.stderr


def test_broken_table_is_exit_code_1_and_its_text_cannot_steer_the_terminal(people):
    log = people / "_delta_log" / f"{3:020d}.json"
    log.write_text(
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["\\u001b[2J\\nx"],"writerFeatures":[]}}\n'
    )
    result = ebbtide("files", people)
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback_wherever_it_stands(tmp_path, place):
    arguments = ["history", tmp_path / "nowhere"]
    result = ebbtide("--debug", *arguments) if place == "before" else ebbtide(*arguments, "--debug")
    assert isinstance(result.exception, TableNotFoundError)


def test_word_debug_after_two_dashes_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = ebbtide("history", "--", "--debug")
    assert result.exit_code == 1
    assert "/--debug" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["hunter2", "=hunter2", "aws_key=hunter2", "aws_secret_access_key=hunter2"])
def test_value_of_a_storage_option_is_never_printed(people, command, option):
    result = ebbtide(command, people, "--storage-option", option)
    assert result.exit_code == 2
    assert "hunter2" not in result.output


def test_storage_options_reach_the_object_store_and_stay_secret(people):
    with s3_endpoint() as endpoint:
        bucket = endpoint.create_bucket("people")
        for file in people.rglob("*"):
            if file.is_file():
                endpoint.client.upload_file(str(file), bucket, f"t/{file.relative_to(people)}")
        given = [
            part for key, value in endpoint.storage_options.items() for part in ("--storage-option", f"{key}={value}")
        ]
        (detail,) = json_lines(ebbtide("detail", f"s3://{bucket}/t", *given, "--json"))
        assert (detail["location"], detail["numRecords"]) == ("s3://people/t", 4)
        for command in LOG_COMMANDS:
            refused = ebbtide(command, "s3://absent/t", *given)
            assert refused.exit_code == 1
            assert SECRET_KEY not in refused.output


@pytest.mark.parametrize(
    "arguments",
    [["--limit", "0"], ["--limit", "many"], ["--limit", str(2**63)], ["--nonsense"]],
)
@pytest.mark.parametrize("command", ["files", "show"])
def test_wrong_option_is_exit_code_2(people, command, arguments):
    assert ebbtide(command, people, *arguments).exit_code == 2


@pytest.mark.parametrize("version", [-1, 3, 2**63, 10**30])
def test_version_that_is_not_there_is_exit_code_2_before_spark_is_started(people, version):
    result = ebbtide("show", people, "--version", version)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_unsupported_table_says_so_before_spark_is_started(people):
    log = people / "_delta_log" / f"{3:020d}.json"
    log.write_text('{"protocol":{"minReaderVersion":4,"minWriterVersion":7}}\n')
    assert isinstance(ebbtide("--debug", "show", people).exception, UnsupportedFeatureError)


def test_version_and_timestamp_together_are_refused(people):
    result = ebbtide("show", people, "--version", 1, "--timestamp", "2024-01-01")
    assert (result.exit_code, "not both" in result.stderr) == (2, True)


@pytest.mark.parametrize("text", ["yesterday", "", "2024-13-01", "9999-12-31T23:59:59.999999-23:59"])
def test_text_that_is_no_time_is_refused(people, text):
    result = ebbtide("show", people, "--timestamp", text)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")


def test_version_of_the_program_is_printed():
    result = ebbtide("--version")
    assert (result.exit_code, result.stdout.split()[0]) == (0, "ebbtide")


def test_help_lists_every_command():
    text = ebbtide("--help").stdout
    assert all(command in text for command in COMMANDS)
