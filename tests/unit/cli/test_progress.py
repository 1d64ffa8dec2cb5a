"""Does a terminal see what a maintenance command is doing, and a pipe nothing but the answer?

The commands that start Spark show their phases by the same spinner (`cli.session`).
"""

from __future__ import annotations

import re

import pytest
from tests.support.command_line import ebbtide, on_terminal
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import SCHEMA

PAINT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SPINNER = "[\u2800-\u28ff]"
VERBS = {
    "restore": ["restore", "t", "--version", "0"],
    "clone": ["clone", "t", "c"],
    "generate": ["generate", "t"],
    "fsck": ["fsck", "t"],
    "vacuum": ["vacuum", "t"],
    "maintain": ["maintain", "t", "--max-commits", "1"],
    "log checkpoint": ["log", "checkpoint", "t"],
    "log compact": ["log", "compact", "t"],
    "log cleanup": ["log", "cleanup", "t"],
}


@pytest.fixture
def _table(tmp_path, monkeypatch):
    table = TableBuilder(tmp_path / "t", SCHEMA)
    for number in range(2):
        table.file([{"id": number, "part": "a"}]).commit()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_terminal_sees_what_is_being_done(arguments, monkeypatch):
    result = on_terminal(monkeypatch, *arguments)
    assert result.exit_code == 0, result.output
    # Which of its phases is drawn depends on time; one always is.
    assert re.search(r"[A-Z]\w+", PAINT.sub("", result.stderr)), result.stderr
    assert not re.search(SPINNER, result.stdout)


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_pipe_sees_the_answer_alone(arguments):
    result = ebbtide(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout
    assert result.stderr == ""
