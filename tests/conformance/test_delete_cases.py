"""Does DELETE do what the shared behaviour cases say, through every door, with and without deletion vectors?

A case runs once for each variant and each partitioning under which it is said to hold, as SQL; and where all its statements
are a plain DELETE, through `DeltaTable.delete` as well. A case with a statement that Ebbtide does not have yet is skipped
with the reason once the statement has been seen to be refused, and the summary counts it apart.

Cases of other areas are taken in when they consist of nothing but DELETEs and queries.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.case_running import (
    DELETE,
    Run,
    RunningCase,
    assert_every_expectation_is_asked,
    changes_no_row,
    deletes,
    is_query,
    verb,
)
from tests.support.shared_material import load_cases

AREAS = ("delete", "metrics", "cdf", "maintenance")
DOORS = ("sql", "python")


def deletes_the_target(step: str) -> bool:
    found = DELETE.fullmatch(step)
    return found is not None and found["table"] == "target"


def waits_for(case: dict[str, Any]) -> str | None:
    """The first statement that is neither a DELETE, nor a query, nor one that changes no row."""
    known = (deletes, is_query, changes_no_row)
    return next((step for step in case["steps"] if not any(kind(step) for kind in known)), None)


def is_about_delete(case: dict[str, Any]) -> bool:
    if case["area"] == "delete":
        return True
    if case["area"] == "metrics":
        return verb(case["steps"][-1]) == "DELETE"
    return waits_for(case) is None and any(map(deletes, case["steps"]))


def runs() -> list[Any]:
    cases = [case for area in AREAS for case in load_cases(area) if "steps" in case and is_about_delete(case)]
    return [pytest.param(run, id=run.id) for case in cases for run in runs_of(case)]


def runs_of(case: dict[str, Any]) -> list[Run]:
    target = case["tables"]["target"]
    partitionings = [target["partition_by"], *target.get("also_partition_by", [])]
    doors = DOORS if all(map(deletes_the_target, case["steps"])) else DOORS[:1]
    return [
        Run(case, variant, tuple(partition_by), door)
        for variant in case["variants"]
        for number, partition_by in enumerate(partitionings)
        # The doors lead to the same command; one of them is enough for further partitionings.
        for door in (doors if number == 0 else DOORS[:1])
    ]


@pytest.mark.spark
@pytest.mark.parametrize("run", runs())
def test_delete_case_ends_as_expected(run, tmp_path, request):
    RunningCase.play_or_wait(run, waits_for(run.case), request, tmp_path)


def test_every_expectation_of_the_cases_is_asked():
    assert_every_expectation_is_asked(runs())


def test_cases_are_told_apart_by_their_statements():
    assert deletes_the_target("DELETE FROM target t WHERE EXISTS (SELECT 1 FROM source WHERE t.c = source.c)")
    assert deletes_the_target("DELETE FROM target")
    assert not deletes_the_target("DELETE FROM v WHERE key = 1")
    assert deletes("DELETE FROM v WHERE key = 1")
    assert waits_for({"steps": ["EXPLAIN DELETE FROM target", "CREATE TEMP VIEW v AS SELECT * FROM target"]}) is None
    assert waits_for({"steps": ["DELETE FROM target", "UPDATE target SET a = 1"]}) == "UPDATE target SET a = 1"
