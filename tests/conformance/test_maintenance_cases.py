"""Do the maintenance commands do what the shared behaviour cases say?

Every case runs as SQL, once for each variant under which it is said to hold. A case with a statement that Ebbtide does not
have yet is skipped with the reason once the statement has been seen to be refused. Cases about marks and time travel that
need no maintenance are the business of `test_dml_cases.py`, unless commits must have certain times.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance import test_delete_cases, test_dml_cases
from tests.support.case_running import (
    CHANGING_VERBS,
    CREATE_FILE,
    DELETE_VECTORS,
    RunningCase,
    assert_every_expectation_is_asked,
    deletes,
    is_query,
    runs_of,
    verb,
)
from tests.support.shared_material import load_cases

AREAS = ("optimize", "purge", "restore", "vacuum")


def is_known(step: str) -> bool:
    is_for_harness = step == DELETE_VECTORS or CREATE_FILE.fullmatch(step) is not None
    return deletes(step) or is_query(step) or verb(step) in CHANGING_VERBS or is_for_harness


def waits_for(case: dict[str, Any]) -> str | None:
    """The first statement that Ebbtide does not have."""
    return next((step for step in case["steps"] if not is_known(step)), None)


def is_ours(case: dict[str, Any]) -> bool:
    return case["area"] in AREAS or (case["area"] == "time-travel" and "commit_times" in case)


def runs() -> list[Any]:
    cases = [case for case in load_cases("maintenance") if is_ours(case)]
    return [pytest.param(run, id=run.id) for case in cases for run in runs_of(case)]


@pytest.mark.spark
@pytest.mark.parametrize("run", runs())
def test_maintenance_case_ends_as_expected(run, tmp_path, request):
    RunningCase.play_or_wait(run, waits_for(run.case), request, tmp_path)


def test_every_maintenance_case_is_run_by_one_of_the_modules():
    modules = (runs(), test_dml_cases.runs(), test_delete_cases.runs())
    run = {parameter.values[0].case["id"] for module in modules for parameter in module}
    assert {case["id"] for case in load_cases("maintenance")} <= run


def test_every_expectation_of_the_cases_is_asked():
    assert_every_expectation_is_asked(runs())
