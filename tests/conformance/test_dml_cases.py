"""Do UPDATE, MERGE, INSERT and the change data feed do what the shared behaviour cases say?

Every case runs as SQL, once for each variant and partitioning under which it is said to hold. A case whose change feed is
optional runs once more with change data recorded, and a MERGE with schema evolution once more without it. A case with a
statement that Ebbtide does not have yet is skipped with the reason once the statement has been seen to be refused.

Cases of nothing but DELETEs are the business of `test_delete_cases.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.case_running import (
    CHANGING_VERBS,
    RunningCase,
    assert_every_expectation_is_asked,
    changes_no_row,
    deletes,
    is_query,
    runs_of,
    verb,
)
from tests.support.shared_material import load_cases

AREAS = ("update", "merge", "metrics", "cdf", "maintenance")
# Of maintenance only what needs no maintenance: marks and time travel under the statements that there are.
MAINTENANCE = ("dv", "time-travel")


def waits_for(case: dict[str, Any]) -> str | None:
    """The first statement that Ebbtide does not have."""
    return next((step for step in case["steps"] if not is_known(step)), None)


def is_known(step: str) -> bool:
    return deletes(step) or is_query(step) or changes_no_row(step) or verb(step) in CHANGING_VERBS


def is_ours(case: dict[str, Any]) -> bool:
    if "steps" not in case or all(deletes(step) for step in case["steps"]):
        return False
    if case["area"] in {"dv", "time-travel"}:
        return waits_for(case) is None and "commit_times" not in case
    return case["area"] in AREAS and case["area"] != "maintenance"


def runs() -> list[Any]:
    cases = [case for area in AREAS for case in load_cases(area) if is_ours(case)]
    return [pytest.param(run, id=run.id) for case in cases for run in runs_of(case)]


@pytest.mark.spark
@pytest.mark.parametrize("run", runs())
def test_case_ends_as_expected(run, tmp_path, request):
    RunningCase.play_or_wait(run, waits_for(run.case), request, tmp_path)


def test_every_expectation_of_the_cases_is_asked():
    assert_every_expectation_is_asked(runs())


def test_verbs_are_found_behind_common_tables():
    assert verb("WITH c AS (SELECT 1) MERGE INTO target USING c ON true WHEN MATCHED THEN DELETE") == "MERGE"
    assert verb("  select 1") == "SELECT"
    assert waits_for({"steps": ["UPDATE target SET a = 1", "CLONE target"]}) == "CLONE target"
