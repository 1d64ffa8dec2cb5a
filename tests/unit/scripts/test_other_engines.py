"""Does a run beside the other engines make its environment, fetch the JARs, and ask all the same when there are none? Nothing is started here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import environment
import other_engines
import reference_jars


@pytest.fixture
def calls(monkeypatch, tmp_path):
    made = SimpleNamespace(environment=0, jars=0, run=0, log=[])
    monkeypatch.chdir(tmp_path)

    def run(command, **_):
        made.log.append(command)
        return SimpleNamespace(returncode=made.run)

    monkeypatch.setattr(environment, "main", lambda arguments: made.log.append(arguments) or made.environment)
    monkeypatch.setattr(reference_jars, "main", lambda arguments: made.log.append(arguments) or made.jars)
    monkeypatch.setattr(other_engines.subprocess, "run", run)
    return made


def test_arguments_reach_the_run_and_its_code_comes_back(calls):
    calls.run = 3
    assert other_engines.main(["interop", "--short"]) == 3
    assert calls.log[0][1:] == ["--editable", ".[dev,interop]", *environment.over_this()]
    assert calls.log[-1][-3:] == ["-m", "interop", "--short"]


def test_missing_jars_do_not_keep_the_other_engines_from_being_asked(calls):
    calls.jars = reference_jars.NOT_NOW
    assert other_engines.main(["interop"]) == 0
    assert calls.log[-1][-1] == "interop"


def test_nothing_is_asked_without_an_environment(calls):
    calls.environment = 1
    assert other_engines.main(["interop"]) == 1
    assert len(calls.log) == 1
