"""What does the run on the second kind of session leave out?"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.conftest import check_marks

ROOT = Path(__file__).parents[3]
MODULE = """
import pytest

def test_without_a_mark(spark):
    pass

def test_without_a_session():
    pass

@pytest.mark.one_kind("the log decides")
def test_of_one_kind(spark):
    pass

@pytest.mark.one_value("other texts")
@pytest.mark.parametrize("text", ["a", "b", "c"])
def test_of_many_values(spark, text):
    pass

@pytest.mark.one_value("other texts", "text")
@pytest.mark.parametrize("text", ["a", "b"])
@pytest.mark.parametrize("mode", ["on", "off"])
def test_of_every_mode(spark_kind, mode, text):
    pass

@pytest.mark.parametrize("text", ["a", "b"])
def test_of_values_without_a_mark(spark, text):
    pass
"""
IN_THE_SECOND_RUN = ["test_without_a_mark", "test_of_many_values[a]", "test_of_every_mode[on-a]"]
IN_THE_SECOND_RUN += [
    "test_of_every_mode[off-a]",
    "test_of_values_without_a_mark[a]",
    "test_of_values_without_a_mark[b]",
]


def collected(tmp_path, text, *options):
    module = tmp_path / "test_marks.py"
    module.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest"]
    command += ["--collect-only", "--quiet", *options, str(module)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def names(answer):
    return [line.partition("::")[2] for line in answer.stdout.splitlines() if "::" in line]


def test_only_what_is_marked_or_meets_no_session_is_left_out_of_the_second_run(tmp_path):
    assert names(collected(tmp_path, MODULE, "--spark=connect", "--second-kind")) == IN_THE_SECOND_RUN


def test_nothing_is_left_out_of_a_run_that_does_not_say_it_is_the_second(tmp_path):
    assert len(names(collected(tmp_path, MODULE, "--spark=connect"))) == 12


class MarkedTest:
    """As much of a collected test as its marks are checked with."""

    nodeid = "tests/test_it.py::test_it"
    callspec = SimpleNamespace(params={"text": "a"})

    def __init__(self, mark):
        self.mark = mark.mark

    def iter_markers(self, name):
        return [self.mark] if name == self.mark.name else []


@pytest.mark.parametrize(
    ("mark", "refusal"),
    [
        (pytest.mark.one_kind, "the mark `one_kind` has no reason"),
        (pytest.mark.one_value, "the mark `one_value` has no reason"),
        (pytest.mark.one_kind("reason", "text"), "more than one"),
        (pytest.mark.one_value("reason", "txt"), "names {'txt'}, which are no parameters"),
    ],
)
def test_mark_without_a_reason_or_with_unknown_parameters_is_refused(mark, refusal):
    with pytest.raises(pytest.UsageError, match=re.escape(refusal)):
        check_marks(MarkedTest(mark))


def test_marks_with_a_reason_and_known_parameters_pass():
    check_marks(MarkedTest(pytest.mark.one_kind("reason")))
    check_marks(MarkedTest(pytest.mark.one_value("reason", "text")))


def is_constant(statement):
    """`REASON = "a text"`"""
    is_named = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    return is_named and isinstance(statement.value, ast.Constant)


def marks_of_spark_tests():
    """(name of the test, name of the mark, its reason) of every function below `tests/spark`; the mark may be None."""
    for module in sorted((ROOT / "tests" / "spark").rglob("test_*.py")):
        body = ast.parse(module.read_text(encoding="utf-8")).body
        constants = {each.targets[0].id: each.value for each in body if is_constant(each)}
        for function in body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                calls = [mark for mark in function.decorator_list if isinstance(mark, ast.Call)]
                found = [
                    (call.func.attr, constants.get(getattr(call.args[0], "id", ""), call.args[0]).value)
                    for call in calls
                    if isinstance(call.func, ast.Attribute) and call.func.attr in {"one_kind", "one_value"}
                ]
                yield from ((function.name, *each) for each in found or [(None, "")])


def test_reason_that_names_another_test_names_one_that_runs_on_both_kinds():
    marks = list(marks_of_spark_tests())
    on_both_kinds = {name for name, mark, _ in marks if mark != "one_kind"}
    named = {(name, other) for name, _, reason in marks for other in re.findall(r"\btest_\w+\b(?!\.py)", reason)}
    assert len(named) > 100
    assert {(name, other) for name, other in named if other not in on_both_kinds} == set()
