"""Does DELETE do what the shared behaviour cases say, through every door, with and without deletion vectors?

A case is a table, statements and what must come out. It runs once for each variant and each partitioning under which it is
said to hold, as SQL; and where all its statements are a plain DELETE, through `DeltaTable.delete` as well. After every
DELETE the table itself is checked (`tests/support/invariants.py`). A case with a statement that Ebbtide does not have yet is
skipped with the reason once the statement has been seen to be refused, and the summary counts it apart.

Cases of other areas are taken in when they consist of nothing but DELETEs and plain queries. What a case says about the
change data feed is other modules' question.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.case_tables import build_table, parse_ddl, rows_as_table
from tests.support.comparison import difference
from tests.support.invariants import checked
from tests.support.log_reading import (
    LogState,
    actions_of,
    commit_info,
    files_with_vectors,
    log_state,
    newest_version,
    physical_rows,
    stats_of,
    vector_rows,
)
from tests.support.shared_material import load_cases

import ebbtide
from ebbtide.errors import DeltaError, InternalError, RequestError

AREAS = ("delete", "metrics", "cdf", "maintenance")
VERB = re.compile(r"\s*(\w+)")
DELETE = re.compile(r"DELETE\s+FROM\s+(?P<table>\w+)(?:\s+(?:AS\s+)?(?!WHERE\b)(?P<alias>\w+))?(?:\s+WHERE\s+(?P<condition>.*))?", re.IGNORECASE | re.DOTALL)  # fmt: skip
TABLE_POSITION = re.compile(r"\b(FROM|JOIN|INTO|UPDATE|TABLE)(\s+)target\b", re.IGNORECASE)
# Queries that a plain view of the table cannot answer.
BEYOND_A_VIEW = re.compile(r"\b(VERSION|TIMESTAMP)\s+AS\s+OF\b|table_changes\(", re.IGNORECASE)
VIEW = re.compile(r"\bVIEW\s+(\w+)", re.IGNORECASE)
DOORS = ("sql", "python")
# Said by cases, and answered elsewhere: the change data feed has its own reader.
NOT_ASKED_HERE = frozenset({"cdf", "cdf_range"})
KNOWN_SETTINGS = frozenset({"parquet_row_group_rows"})


@dataclass(frozen=True)
class Run:
    """One case under one variant, partitioning and door."""

    case: dict[str, Any]
    variant: str
    partition_by: tuple[str, ...]
    door: str

    @property
    def id(self) -> str:
        by = "by-" + "-".join(self.partition_by) if self.partition_by else "flat"
        return "-".join((self.case["id"], self.variant, by, self.door))

    @property
    def target(self) -> dict[str, Any]:
        return self.case["tables"]["target"]


def verb(step: str) -> str:
    found = VERB.match(step)
    return found[1].upper() if found else step


def deletes_the_target(step: str) -> bool:
    found = DELETE.fullmatch(step)
    return found is not None and found["table"] == "target"


def deletes(step: str) -> bool:
    """From the target itself, or through a view."""
    return DELETE.fullmatch(step) is not None


def changes_no_row(step: str) -> bool:
    return re.match(r"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\b|EXPLAIN\s", step, re.IGNORECASE) is not None


def is_plain_query(step: str) -> bool:
    return verb(step) == "SELECT" and BEYOND_A_VIEW.search(step) is None


def waits_for(case: dict[str, Any]) -> str | None:
    """The first statement that is neither a DELETE, nor a plain query, nor one that changes no row."""
    known = (deletes, is_plain_query, changes_no_row)
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
    missing = waits_for(run.case)
    if missing is not None:
        with pytest.raises(RequestError):
            ebbtide.sql(None, missing)
        pytest.skip(f"waits for another command: {verb(missing)}")
    assert run.case.get("session", {}).keys() <= KNOWN_SETTINGS
    case = RunningCase(run, request.getfixturevalue("spark"), tmp_path / run.target.get("path_suffix", "target"))
    case.set_up()
    try:
        case.play()
    finally:
        case.drop_views()


@dataclass
class RunningCase:
    """A case in progress: its table, and what the last step gave."""

    run: Run
    spark: Any
    path: Path
    result_rows: list[tuple[Any, ...]] = field(default_factory=list)
    num_affected_rows: int | None = None
    metrics: dict[str, int] | None = None
    before: LogState | None = None
    views: list[str] = field(default_factory=list)

    def set_up(self) -> None:
        session = self.run.case.get("session", {})
        size = session.get("parquet_row_group_rows")
        build_table(
            self.path,
            self.run.target,
            partition_by=self.run.partition_by,
            vectors=self.run.variant == "dv_on",
            row_group_size=int(size) if size else None,
        )
        for name, spec in self.others.items():
            table = rows_as_table(spec["rows"], parse_ddl(spec["schema"]))
            # On Connect an Arrow table without rows has no schema.
            frame = (
                self.spark.createDataFrame(table) if spec["rows"] else self.spark.createDataFrame([], spec["schema"])
            )
            frame.createOrReplaceTempView(name)

    @property
    def others(self) -> dict[str, Any]:
        return {name: spec for name, spec in self.run.case["tables"].items() if name != "target"}

    def drop_views(self) -> None:
        for name in (*self.others, *self.views, "target"):
            self.spark.catalog.dropTempView(name)

    def play(self) -> None:
        steps, expect = self.run.case["steps"], self.run.case["expect"]
        later = {checkpoint["after_step"]: checkpoint for checkpoint in expect.get("checkpoints", ())}
        for number, step in enumerate(steps):
            if number == len(steps) - 1 and "error" in expect:
                self.expect_refusal(step, expect)
                return
            self.perform(step, again=number == len(steps) - 1)
            if number in later:
                self.check({key: value for key, value in later[number].items() if key != "after_step"})
        self.check({key: value for key, value in expect.items() if key != "checkpoints"})

    def expect_refusal(self, step: str, expect: dict[str, Any]) -> None:
        """The reference's error, or, where the reference could do better, what plain SQL would have done."""
        wanted = expect["error"]
        try:
            self.perform(step, again=True)
        except DeltaError as error:
            assert not isinstance(error, InternalError)
            assert error.error_class in wanted["class"].split("|"), str(error)
            assert wanted.get("contains", "").lower() in str(error).lower()
            self.check({"rows": expect["rows"]})
            return
        assert "if_supported" in expect, f"the statement must fail with {wanted['class']}"
        self.check(expect["if_supported"])

    # --- steps --------------------------------------------------------------------------------------------------------

    def perform(self, step: str, *, again: bool) -> None:
        if is_plain_query(step):
            ebbtide.read(self.spark, str(self.path)).createOrReplaceTempView("target")
            self.result_rows = [tuple(row) for row in self.spark.sql(step).collect()]
            return
        self.before = log_state(self.path)
        if changes_no_row(step):
            ebbtide.sql(self.spark, self.with_path(step)).collect()
            self.views += VIEW.findall(step)
            assert log_state(self.path).version == self.before.version
            return
        delete = self.through_sql if self.run.door == "sql" else self.through_python
        checked(self.spark, self.path, lambda: delete(step), again=False)
        if again:
            affected, metrics, version = self.num_affected_rows, self.metrics, newest_version(self.path)
            delete(step)
            assert self.num_affected_rows == 0
            assert newest_version(self.path) == version
            self.num_affected_rows, self.metrics = affected, metrics

    def with_path(self, step: str) -> str:
        place = str(self.path).replace("`", "``")
        return TABLE_POSITION.sub(lambda found: f"{found[1]}{found[2]}delta.`{place}`", step)

    def through_sql(self, step: str) -> None:
        version = newest_version(self.path)
        [row] = ebbtide.sql(self.spark, self.with_path(step)).collect()
        assert row.asDict().keys() == {"num_affected_rows"}
        self.num_affected_rows = row[0]
        self.metrics = None
        if newest_version(self.path) > version:
            info = commit_info(self.path, version + 1)
            self.metrics = {name: int(value) for name, value in info["operationMetrics"].items()}

    def through_python(self, step: str) -> Any:
        found = DELETE.fullmatch(step)
        assert found is not None
        table = ebbtide.DeltaTable.forPath(self.spark, str(self.path))
        result = (table.alias(found["alias"]) if found["alias"] else table).delete(found["condition"])
        self.num_affected_rows = result.num_affected_rows
        self.metrics = dict(result.operation_metrics)
        return result

    # --- expectations -------------------------------------------------------------------------------------------------

    def check(self, expect: dict[str, Any]) -> None:
        expected = self.with_variants(expect)
        for key in NOT_ASKED_HERE | self.unanswerable(expected):
            expected.pop(key, None)
        for key, value in expected.items():
            CHECKS[key](self, value)

    def unanswerable(self, expected: dict[str, Any]) -> set[str]:
        """Where nothing changes nothing is committed, and the history has nothing to say about it."""
        if self.last_step_committed() or expected.get("num_affected_rows") != 0:
            return set()
        return {"history_operation"} if self.metrics is not None else {"history_operation", "metrics"}

    def with_variants(self, expect: dict[str, Any]) -> dict[str, Any]:
        """The expectation with what holds for this variant and partitioning laid over it."""
        merged = {key: value for key, value in expect.items() if key not in {"by_variant", "by_partitioning"}}
        more = [expect.get("by_variant", {}).get(self.run.variant, {})]
        for column, by_variant in expect.get("by_partitioning", {}).items():
            if self.run.partition_by == (column,):
                more.append(by_variant.get(self.run.variant, {}))
        for layer in more:
            for key, value in layer.items():
                merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
        return merged

    def last_step_committed(self) -> bool:
        return self.before is not None and newest_version(self.path) > self.before.version

    @property
    def state(self) -> LogState:
        return log_state(self.path)

    def check_rows(self, expected: list[Any]) -> None:
        schema = parse_ddl(self.run.target["schema"])
        assert not difference(ebbtide.read(self.spark, str(self.path)), rows_as_table(expected, schema))

    def check_row_count(self, expected: int) -> None:
        assert ebbtide.DeltaTable.forPath(self.spark, str(self.path)).count() == expected
        assert ebbtide.read(self.spark, str(self.path)).count() == expected

    def check_result_rows(self, expected: list[Any]) -> None:
        assert Counter(self.result_rows) == Counter(tuple(row) for row in expected)

    def check_num_affected_rows(self, expected: int) -> None:
        assert self.num_affected_rows == expected

    def check_metrics(self, expected: dict[str, int]) -> None:
        assert self.metrics is not None
        assert {name: self.metrics.get(name) for name in expected} == expected

    def check_history_operation(self, expected: str) -> None:
        [newest] = ebbtide.DeltaTable.forPath(self.spark, str(self.path)).history(1).collect()
        assert newest["operation"] == expected

    def check_version(self, expected: int) -> None:
        assert newest_version(self.path) == expected

    def check_properties_after(self, expected: dict[str, str]) -> None:
        assert expected.items() <= self.state.configuration.items()

    def check_live_files(self, expected: int) -> None:
        assert len(self.state.live) == expected

    def check_live_files_with_dv(self, expected: int) -> None:
        assert len(list(files_with_vectors(self.state))) == expected

    def check_dv_cardinality(self, expected: int) -> None:
        assert sum(len(vector_rows(self.path, add)) for add in self.state.adds) == expected

    def check_dv_files(self, expected: int) -> None:
        assert len(list(self.path.rglob("deletion_vector_*.bin"))) == expected

    def check_data_files(self, expected: int) -> None:
        assert len(list(self.path.rglob("*.parquet"))) == expected

    def check_same_data_files(self, expected: bool) -> None:
        assert self.before is not None
        assert ({path for path, _ in self.before.live} == {path for path, _ in self.state.live}) is expected

    def check_tight_bounds_of_files_with_dv(self, expected: bool) -> None:
        assert {stats_of(add).get("tightBounds", True) for add in files_with_vectors(self.state)} == {expected}

    def check_commit_actions(self, expected: dict[str, int]) -> None:
        found = commit_counts(self.path, newest_version(self.path))
        at_least = expected.get("cdc_at_least", 0)
        assert found.pop("cdc") >= at_least
        wanted = {name: count for name, count in expected.items() if name != "cdc_at_least"}
        assert {name: found[name] for name in wanted} == wanted


def commit_counts(table: Path, version: int) -> dict[str, int]:
    """What a commit adds and removes, under the names that cases use."""
    counts = {"cdc": len(actions_of(table, version, "cdc"))}
    for kind in ("add", "remove"):
        actions = actions_of(table, version, kind)
        marked = [action for action in actions if action.get("deletionVector")]
        plain = [action for action in actions if not action.get("deletionVector")]
        counts[kind] = len(actions)
        counts[f"{kind}_with_dv"] = len(marked)
        counts[f"{kind}_rows"] = sum(physical_rows(table, action) for action in actions)
        counts[f"{kind}_with_dv_physical_rows"] = sum(physical_rows(table, action) for action in marked)
        counts[f"{kind}_dv_cardinality"] = sum(len(vector_rows(table, action)) for action in marked)
        counts[f"{kind}_without_dv_rows"] = sum(physical_rows(table, action) for action in plain)
    return counts


CHECKS = {
    name.removeprefix("check_"): method for name, method in vars(RunningCase).items() if name.startswith("check_")
}


def test_every_expectation_of_the_cases_is_asked():
    known = CHECKS.keys() | NOT_ASKED_HERE | {"by_variant", "by_partitioning", "checkpoints", "error", "if_supported"}
    asked = {key for parameter in runs() for key in keys_of(parameter.values[0].case["expect"])}
    assert asked <= known, f"no check for {sorted(asked - known)}"


def keys_of(expect: dict[str, Any]) -> set[str]:
    inner = [keys_of(checkpoint) - {"after_step"} for checkpoint in expect.get("checkpoints", ())]
    return set(expect).union(*inner)


def test_cases_are_told_apart_by_their_statements():
    assert deletes_the_target("DELETE FROM target t WHERE EXISTS (SELECT 1 FROM source WHERE t.c = source.c)")
    assert deletes_the_target("DELETE FROM target")
    assert not deletes_the_target("DELETE FROM v WHERE key = 1")
    assert not is_plain_query("SELECT * FROM target VERSION AS OF 0")
    assert deletes("DELETE FROM v WHERE key = 1")
    assert waits_for({"steps": ["EXPLAIN DELETE FROM target", "CREATE TEMP VIEW v AS SELECT * FROM target"]}) is None
    assert waits_for({"steps": ["DELETE FROM target", "UPDATE target SET a = 1"]}) == "UPDATE target SET a = 1"
