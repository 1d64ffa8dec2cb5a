"""What does the run on the second kind of session leave out?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MODULE = """
import pytest

def test_without_a_mark():
    pass

@pytest.mark.one_kind("the log decides")
def test_of_one_kind():
    pass

@pytest.mark.one_value("other texts")
@pytest.mark.parametrize("text", ["a", "b", "c"])
def test_of_many_values(text):
    pass

@pytest.mark.parametrize("text", ["a", "b"])
def test_of_values_without_a_mark(text):
    pass
"""
IN_THE_SECOND_RUN = ["test_without_a_mark", "test_of_many_values[a]"]
IN_THE_SECOND_RUN += ["test_of_values_without_a_mark[a]", "test_of_values_without_a_mark[b]"]


def collected(tmp_path, text, *options):
    module = tmp_path / "test_marks.py"
    module.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest"]
    command += ["--collect-only", "--quiet", *options, str(module)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def names(answer):
    return [line.partition("::")[2] for line in answer.stdout.splitlines() if "::" in line]


def test_only_what_is_marked_is_left_out_of_the_second_run(tmp_path):
    assert names(collected(tmp_path, MODULE, "--spark=connect", "--second-kind")) == IN_THE_SECOND_RUN


def test_nothing_is_left_out_of_a_run_that_does_not_say_it_is_the_second(tmp_path):
    assert len(names(collected(tmp_path, MODULE, "--spark=connect"))) == 7


def test_mark_without_a_reason_is_refused(tmp_path):
    answer = collected(tmp_path, MODULE.replace('one_kind("the log decides")', "one_kind"))
    assert answer.returncode != 0
    assert "the mark `one_kind` has no reason" in answer.stdout + answer.stderr
