"""How does a behaviour case become a table, statements and a verdict?

A case is a table, statements and what must come out. A `Run` is a case under one variant (deletion vectors on or off), one
partitioning and one door; `RunningCase` builds the table, plays the statements and checks every expectation the case has.
After every DELETE the table itself is checked (`tests/support/invariants.py`).
"""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.case_tables import build_table, file_rows, parse_ddl, rows_as_table
from tests.support.comparison import difference
from tests.support.invariants import check_invariants
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
from tests.support.session_settings import session_settings

import ebbtide
from ebbtide.errors import DeltaError, InternalError, RequestError
from ebbtide.session_settings import FILE_RETENTION

__all__ = [
    "CHECKS",
    "DELETE",
    "VIEW",
    "Run",
    "RunningCase",
    "changes_no_row",
    "deletes",
    "is_query",
    "keys_of",
    "runs_of",
    "verb",
]

VERB = re.compile(r"\s*(?:WITH\s+\w+\s+AS\s+\(.*\)\s*(?=MERGE|INSERT))?(@?\w+)", re.IGNORECASE | re.DOTALL)
DELETE = re.compile(r"DELETE\s+FROM\s+(?P<table>\w+)(?:\s+(?:AS\s+)?(?!WHERE\b)(?P<alias>\w+))?(?:\s+WHERE\s+(?P<condition>.*))?", re.IGNORECASE | re.DOTALL)  # fmt: skip
# A table's place, and the words behind it that are no alias.
TABLE_POSITION = re.compile(
    r"\b(?P<word>FROM|JOIN|INTO|UPDATE|TABLE|USING|OPTIMIZE|VACUUM)(?P<space>\s+)target\b(?P<rest>\s+(?:AS\s+)?"
    r"(?!SET\b|WHERE\b|USING\b|ON\b|WHEN\b|VALUES\b|SELECT\b|VERSION\b|TIMESTAMP\b|REPLACE\b|JOIN\b"
    r"|APPLY\b|ZORDER\b|RETAIN\b|LITE\b|FULL\b|DRY\b|TO\b)\w+)?",
    re.IGNORECASE,
)
CHANGES_POSITION = re.compile(r"table_changes\('target'", re.IGNORECASE)
MOMENT = re.compile(r"\{t:(-?\d+)\}")
NAMES_THE_TARGET = re.compile(r"\btarget`?\s*\.", re.IGNORECASE)
VIEW = re.compile(r"\bVIEW\s+(\w+)", re.IGNORECASE)
CREATE_FILE = re.compile(r"@create_file target (?P<name>\S+) age_hours=(?P<hours>[\d.]+)")
DELETE_VECTORS = "@delete_dv_files target"
CHANGING_VERBS = frozenset({"UPDATE", "MERGE", "INSERT", "ALTER", "TRUNCATE", "OPTIMIZE", "REORG", "VACUUM", "RESTORE"})
# Verbs that answer with metrics.
LAYOUT_VERBS = frozenset({"OPTIMIZE", "REORG"})
SESSION_SETTINGS = {
    "store_assignment": "spark.sql.storeAssignmentPolicy",
    "case_sensitive": "spark.sql.caseSensitive",
    "retention_check": "spark.databricks.delta.retentionDurationCheck.enabled",
    "optimize_max_file_size": "spark.databricks.delta.optimize.maxFileSize",
    "dv_per_file": "spark.databricks.delta.deletionVectors.packing.targetSize",
}
# What a setting of a case means as a value of the session's, where that is another.
SESSION_VALUES = {("dv_per_file", "true"): "1"}
# What the statement says itself, or the table was built with.
OTHER_SETTINGS = frozenset({"parquet_row_group_rows", "schema_evolution"})


@dataclass(frozen=True)
class Run:
    """One case under one variant, partitioning and door.

    `with_feed` records change data although the case does not ask for it; `evolves` is False for the outcome of the same
    MERGE with schema evolution off.
    """

    case: dict[str, Any]
    variant: str
    partition_by: tuple[str, ...]
    door: str = "sql"
    with_feed: bool = False
    evolves: bool = True

    @property
    def id(self) -> str:
        by = "by-" + "-".join(self.partition_by) if self.partition_by else "flat"
        more = [name for name, on in (("feed", self.with_feed), ("fixed", not self.evolves)) if on]
        return "-".join((self.case["id"], self.variant, by, self.door, *more))

    @property
    def target(self) -> dict[str, Any]:
        return self.case["tables"]["target"]

    @property
    def expect(self) -> dict[str, Any]:
        return self.case["expect"] if self.evolves else self.case["expect"]["without_evolution"]

    @property
    def steps(self) -> list[str]:
        steps = self.case["steps"]
        return steps if self.evolves else [step.replace("WITH SCHEMA EVOLUTION ", "") for step in steps]


def runs_of(case: dict[str, Any]) -> list[Run]:
    """Once for each variant and partitioning; once more with the change data feed where that is optional, and without
    schema evolution where the case says what happens then."""
    target = case["tables"]["target"]
    partitionings = [tuple(by) for by in (target["partition_by"], *target.get("also_partition_by", []))]
    found = []
    for variant in case["variants"]:
        found += [Run(case, variant, partition_by) for partition_by in partitionings]
        if "cdf_optional" in case.get("tags", ()):
            found.append(Run(case, variant, partitionings[0], with_feed=True))
        if "without_evolution" in case["expect"]:
            found.append(Run(case, variant, partitionings[0], evolves=False))
    return found


def verb(step: str) -> str:
    found = VERB.match(step)
    return found[1].upper() if found else step


def deletes(step: str) -> bool:
    """From the target itself, or through a view."""
    return DELETE.fullmatch(step) is not None


def changes_no_row(step: str) -> bool:
    return re.match(r"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\b|EXPLAIN\s", step, re.IGNORECASE) is not None


def is_query(step: str) -> bool:
    return verb(step) == "SELECT"


@dataclass
class RunningCase:
    """A case in progress: its table, and what the last step gave."""

    run: Run
    spark: Any
    path: Path
    result_rows: list[tuple[Any, ...]] = field(default_factory=list)
    num_affected_rows: int | None = None
    # Of an OPTIMIZE or a REORG.
    result_metrics: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, int] | None = None
    before: LogState | None = None
    views: list[str] = field(default_factory=list)
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    changed_versions: tuple[int, int | None] | None = None
    # Files that lost their last row since the last VACUUM that retained nothing.
    num_emptied_files: int = 0
    # Whole seconds: file systems and clocks agree on those.
    started: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.timezone.utc).replace(microsecond=0))

    @classmethod
    def run_whole(cls, run: Run, spark: Any, directory: Path) -> None:
        """Run the case from beginning to end; every way in which it ends otherwise is an AssertionError."""
        case = cls(run, spark, directory / run.target.get("path_suffix", "target"))
        case.set_up()
        try:
            case.play()
        finally:
            case.drop_views()

    @classmethod
    def play_or_wait(cls, run: Run, missing: str | None, request: Any, directory: Path) -> None:
        """Run the case, unless it needs the statement `missing`: then see that it is refused, and say so in a skip."""
        if missing is not None:
            with pytest.raises(RequestError):
                ebbtide.sql(None, missing)
            pytest.skip(f"waits for another command: {verb(missing)}")
        cls.run_whole(run, request.getfixturevalue("spark"), directory)

    def set_up(self) -> None:
        size = self.session.get("parquet_row_group_rows")
        if self.run.target.get("format", "delta") != "delta":
            self.write_parquet()
            return
        spec = self.run.target
        if self.run.with_feed:
            spec = spec | {"properties": spec["properties"] | {"delta.enableChangeDataFeed": "true"}}
        build_table(
            self.path,
            spec,
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

    def write_parquet(self) -> None:
        """A target that is no Delta table."""
        self.path.mkdir()
        rows = [row for rows in file_rows(self.run.target) for row in rows]
        pq.write_table(rows_as_table(rows, parse_ddl(self.run.target["schema"])), self.path / "part-0.parquet")

    @property
    def session(self) -> dict[str, str]:
        return self.run.case.get("session", {})

    @property
    def others(self) -> dict[str, Any]:
        return {name: spec for name, spec in self.run.case["tables"].items() if name != "target"}

    def drop_views(self) -> None:
        for name in (*self.others, *self.views, "target"):
            self.spark.catalog.dropTempView(name)

    def play(self) -> None:
        unknown = self.session.keys() - SESSION_SETTINGS.keys() - OTHER_SETTINGS
        assert not unknown, f"the case needs the settings {unknown}"
        settings = {
            SESSION_SETTINGS[name]: SESSION_VALUES.get((name, value), value)
            for name, value in self.session.items()
            if name in SESSION_SETTINGS
        }
        if "commit_times" in self.run.case:
            settings[FILE_RETENTION] = "true"
        with session_settings(self.spark, settings):
            self.play_steps()

    def play_steps(self) -> None:
        steps, expect = self.run.steps, self.run.expect
        later = {checkpoint["after_step"]: checkpoint for checkpoint in expect.get("checkpoints", ())}
        for number, step in enumerate(steps):
            if number == len(steps) - 1:
                self.date_commits()
            if number == len(steps) - 1 and "error" in expect:
                self.expect_refusal(step, expect)
                return
            self.perform(step, again=number == len(steps) - 1)
            if number in later:
                self.check({key: value for key, value in later[number].items() if key != "after_step"})
        self.check({key: value for key, value in expect.items() if key != "checkpoints"})

    def date_commits(self) -> None:
        """Give the commits the times that the case asks for, in minutes from the start of the run."""
        for version, minutes in self.run.case.get("commit_times", {}).items():
            moment = self.moment(minutes).timestamp()
            os.utime(self.path / "_delta_log" / f"{int(version):020d}.json", (moment, moment))

    def moment(self, minutes: int) -> dt.datetime:
        return self.started + dt.timedelta(minutes=minutes)

    def expect_refusal(self, step: str, expect: dict[str, Any]) -> None:
        """The reference's error, or, where the reference could do better, what plain SQL would have done."""
        wanted = expect["error"]
        try:
            self.perform(step, again=True)
        except DeltaError as error:
            assert not isinstance(error, InternalError)
            assert is_wanted(error.error_class, wanted["class"]), str(error)
            assert wanted.get("contains", "").lower() in str(error).lower(), str(error)
            if "rows" in expect:
                self.check({key: expect[key] for key in ("rows", "schema_after") if key in expect})
            return
        assert "if_supported" in expect, f"the statement must fail with {wanted['class']}"
        self.check(expect["if_supported"])

    # --- steps --------------------------------------------------------------------------------------------------------

    def perform(self, step: str, *, again: bool) -> None:
        if is_query(step):
            self.result_rows = [tuple(row) for row in ebbtide.sql(self.spark, self.with_path(step)).collect()]
            return
        self.before = log_state(self.path) if (self.path / "_delta_log").exists() else None
        if created := CREATE_FILE.fullmatch(step):
            self.create_file(created["name"], float(created["hours"]))
        elif step == DELETE_VECTORS:
            for file in self.path.rglob("deletion_vector_*.bin"):
                file.unlink()
        elif changes_no_row(step):
            ebbtide.sql(self.spark, self.with_path(step)).collect()
            self.views += VIEW.findall(step)
            assert self.before is None or log_state(self.path).version == self.before.version
        elif deletes(step):
            self.perform_delete(step, again=again)
        else:
            assert verb(step) in CHANGING_VERBS, f"no way to perform {step!r}"
            self.through_sql(step)
        if "RETAIN 0 HOURS" in step:
            self.num_emptied_files = 0

    def perform_delete(self, step: str, *, again: bool) -> None:
        delete = self.through_sql if self.run.door == "sql" else self.through_python
        check_invariants(self.spark, self.path, lambda: delete(step), again=False)
        counts = commit_counts(self.path, newest_version(self.path))
        self.num_emptied_files += counts["remove"] - counts["add"]
        if again:
            affected, metrics, version = self.num_affected_rows, self.metrics, newest_version(self.path)
            delete(step)
            assert self.num_affected_rows == 0
            assert newest_version(self.path) == version
            self.num_affected_rows, self.metrics = affected, metrics

    def create_file(self, name: str, age_hours: float) -> None:
        """A file that no commit names, as old as a case wants it."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        modified = time.time() - age_hours * 3600
        os.utime(file, (modified, modified))

    def with_path(self, step: str) -> str:
        """The statement with delta.`path` for the target, under its old name where columns are called by it."""
        place = "delta.`" + str(self.path).replace("`", "``") + "`"
        names_it = NAMES_THE_TARGET.search(step) is not None

        def put_in_place(found: re.Match[str]) -> str:
            alias = found["rest"] or (" AS target" if names_it else "")
            return f"{found['word']}{found['space']}{place}{alias}"

        changed = CHANGES_POSITION.sub(lambda _: f"table_changes('{self.path}'", step)
        placed_step = TABLE_POSITION.sub(put_in_place, changed).replace("{target.path}", str(self.path))
        # The sessions of the tests are in UTC.
        return MOMENT.sub(lambda found: self.moment(int(found[1])).strftime("%Y-%m-%d %H:%M:%S.000"), placed_step)

    def through_sql(self, step: str) -> None:
        version = newest_version(self.path) if self.before is not None else None
        answer = ebbtide.sql(self.spark, self.with_path(step)).collect()
        if verb(step) == "ALTER":
            return
        if verb(step) in LAYOUT_VERBS:
            self.result_metrics = answer[0]["metrics"].asDict()
        if verb(step) in COUNTS:
            [row] = answer
            self.num_affected_rows = row["num_affected_rows"]
            assert set(row.asDict()) == COUNTS[verb(step)]
        self.metrics = None
        if version is not None and newest_version(self.path) > version:
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
        for key in NOT_CHECKS | self.unanswerable(expected):
            expected.pop(key, None)
        self.schema = parse_ddl(expected.pop("schema_after", self.run.target["schema"]))
        self.changed_versions = expected.pop("cdf_range", None)
        if not self.records_changes():
            expected.pop("cdf", None)
        for key, value in expected.items():
            CHECKS[key](self, value)
        if "rows" in expected:
            assert ebbtide.read(self.spark, str(self.path)).columns == self.schema.names

    def records_changes(self) -> bool:
        configuration = self.state.configuration
        return self.changed_versions is not None or configuration.get("delta.enableChangeDataFeed") == "true"

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
        assert not difference(ebbtide.read(self.spark, str(self.path)), rows_as_table(expected, self.schema))

    def check_cdf(self, expected: list[Any]) -> None:
        """The changes of the last step; of a range of versions, with the version as one more column."""
        if self.changed_versions is None and not self.last_step_committed():
            assert expected == []
            return
        start, end = self.changed_versions or (newest_version(self.path), None)
        schema = self.schema.append(pa.field("_change_type", pa.string()))
        if self.changed_versions is not None:
            schema = schema.append(pa.field("_commit_version", pa.int64()))
        frame = ebbtide.read_changes(self.spark, str(self.path), start, end_version=end).select(*schema.names)
        assert not difference(frame, rows_as_table(expected, schema))

    def check_row_count(self, expected: int) -> None:
        assert ebbtide.DeltaTable.forPath(self.spark, str(self.path)).count() == expected
        assert ebbtide.read(self.spark, str(self.path)).count() == expected

    def check_result_rows(self, expected: list[Any]) -> None:
        assert Counter(self.result_rows) == Counter(tuple(row) for row in expected)

    def check_result_metrics(self, expected: dict[str, int]) -> None:
        assert {name: self.result_metrics.get(name) for name in expected} == expected

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
        """The reference leaves a vector that no commit names for a file that lost its last row. We write none."""
        found = len(list(self.path.rglob("deletion_vector_*.bin")))
        assert found == expected - self.num_emptied_files

    def check_files_present(self, expected: list[str]) -> None:
        assert [name for name in expected if not (self.path / name).exists()] == []

    def check_files_absent(self, expected: list[str]) -> None:
        assert [name for name in expected if (self.path / name).exists()] == []

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


def is_wanted(error_class: str, wanted: str) -> bool:
    """A name in small letters is no error class but a kind of mistake."""
    return any(error_class == name or name.islower() for name in wanted.split("|"))


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


COUNTS = {
    "DELETE": {"num_affected_rows"},
    "UPDATE": {"num_affected_rows"},
    "INSERT": {"num_affected_rows", "num_inserted_rows"},
    "MERGE": {"num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"},
}
# What an expectation holds beside the checks themselves.
NOT_CHECKS = frozenset({"without_evolution", "checkpoints"})


def keys_of(expect: dict[str, Any]) -> set[str]:
    """Everything that a case expects."""
    inner = [keys_of(checkpoint) - {"after_step"} for checkpoint in expect.get("checkpoints", ())]
    return set(expect).union(*inner)


KNOWN_EXPECTATIONS = CHECKS.keys() | NOT_CHECKS
KNOWN_EXPECTATIONS |= {"by_variant", "by_partitioning", "error", "if_supported", "schema_after", "cdf_range"}


def assert_every_expectation_is_asked(parameters: Sequence[Any]) -> None:
    asked = {key for parameter in parameters for key in keys_of(parameter.values[0].case["expect"])}
    assert asked <= KNOWN_EXPECTATIONS, f"no check for {sorted(asked - KNOWN_EXPECTATIONS)}"
