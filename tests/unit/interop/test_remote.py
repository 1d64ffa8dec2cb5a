"""Does an engine in a process of its own answer, raise and die without taking the run with it?"""

from __future__ import annotations

import pytest
from interop.engines import Place
from interop.remote import Remote
from interop.steps import Step
from tests.support.line_worker import EngineError


@pytest.fixture
def remote(tmp_path):
    made = Remote(Place("tests.unit.interop.small_engine:SmallEngine"), tmp_path, tmp_path / "log")
    yield made
    made.close()


def test_rows_come_back_and_prints_do_not_disturb(remote):
    remote.run("here", Step("append"))
    assert remote.read("here").to_pylist() == [{"path": "here", "kind": "append"}]


def test_error_comes_back_as_its_words_and_a_dead_engine_is_started_again(remote):
    with pytest.raises(EngineError, match=r"ValueError: no restore"):
        remote.run("here", Step("restore"))
    with pytest.raises(EngineError, match=r"ended with 3"):
        remote.run("here", Step("vacuum"))
    assert remote.version() == "1"
