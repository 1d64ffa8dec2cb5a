"""What does delta-spark say about our DELETEs?

The reference engine itself is the judge (`make reference` fetches its JAR and runs this module). It reads every kind of
table that our DELETE leaves, in every version; runs the same statements on a copy, so that rows, metrics, commits,
statistics and protocol can be compared with ours; and goes on working on tables that we deleted from. All its work is
done by one run of `tests/interop/reference/engine.py`, in a process and a JVM of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.reference.commits import differences, shape
from tests.support.comparison import assert_same_rows
from tests.support.delete_scenarios import SCENARIOS, WIDE, Scenario, Step, rows_of_versions, wide
from tests.support.log_reading import log_state, newest_version
from tests.support.reference_session import jars
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import open_store

# The first test waits for the whole run of the engine.
pytestmark = [pytest.mark.reference, pytest.mark.spark, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
ENGINE = "tests.interop.reference.engine"
RUN_SECONDS = 3600
VECTORS = "spark.databricks.delta.delete.deletionVectors.persistent"
NO_RETENTION_CHECK = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}


# --- asking the engine ------------------------------------------------------------------------------------------------


@dataclass
class Plan:
    """What the engine is asked, in order; `answers` are there once it ran."""

    directory: Path
    tasks: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, **task: Any) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def read(self, path: Path, version: int | None = None, columns: list[str] | None = None) -> int:
        to = str(self.directory / f"{len(self.tasks)}.arrow")
        return self.ask(read=str(path), version=version, to=to, columns=columns)

    def changes(self, path: Path, first: int) -> int:
        return self.ask(changes=str(path), to=str(self.directory / f"{len(self.tasks)}.arrow"), **{"from": first})

    def delete(self, path: Path, step: Step) -> int:
        where = "" if step.sql is None else f" WHERE {step.sql}"
        return self.ask(
            sql=f"DELETE FROM delta.`{path}`{where}", settings={VECTORS: str(step.vectors != "off").lower()}
        )

    def run(self) -> None:
        plan, answers = self.directory / "plan.json", self.directory / "answers.json"
        plan.write_text(json.dumps(self.tasks), encoding="utf-8")
        log = self.directory / "engine.log"
        with log.open("wb") as out:
            command = [sys.executable, "-m", ENGINE, str(plan), str(answers)]
            done = subprocess.run(command, stdout=out, stderr=out, cwd=ROOT, timeout=RUN_SECONDS, check=False)
        assert done.returncode == 0, log.read_text(errors="replace")[-4000:]
        self.answers = json.loads(answers.read_text(encoding="utf-8"))

    def rows(self, number: int) -> Any:
        answer = self.answers[number]
        assert "rows" in answer, f"{self.tasks[number]} gave {answer}"
        return answer["rows"]

    def table(self, number: int) -> pa.Table:
        self.rows(number)
        with pa.OSFile(self.tasks[number]["to"], "rb") as source:
            return pa.ipc.open_file(source).read_all()


# --- one table, two engines -------------------------------------------------------------------------------------------


class Judged:
    """A scenario that both engines delete from, each in a copy of its own, and a third copy of ours that they go on with."""

    def __init__(self, spark, scenario: Scenario, parent: Path, plan: Plan) -> None:
        self.spark, self.scenario, self.plan = spark, scenario, plan
        builder = scenario.table(parent / "ours")
        self.ours, self.theirs = builder.path, parent / "theirs" / scenario.directory
        self.continued = parent / "continued" / scenario.directory
        shutil.copytree(self.ours, self.theirs)
        self.versions = rows_of_versions(builder, scenario.steps)
        self.our_counts = [self._delete(step) for step in scenario.steps]
        shutil.copytree(self.ours, self.continued)
        self.read_ours = [plan.read(self.ours, version) for version in range(len(self.versions))]
        self.their_deletes = [self._their_delete(step) for step in scenario.steps]
        self.read_theirs = plan.read(self.theirs)
        self.checkpoint = plan.ask(checkpoint=str(self.continued))

    def _delete(self, step: Step) -> int:
        result = DeltaTable.forPath(self.spark, str(self.ours)).delete(step.sql, deletion_vectors=step.vectors)
        if step.checkpoint:
            write_checkpoint(load_snapshot(open_store(str(self.ours))))
        return result.num_affected_rows

    def _their_delete(self, step: Step) -> int:
        number = self.plan.delete(self.theirs, step)
        if step.checkpoint:
            self.plan.ask(checkpoint=str(self.theirs))
        return number

    def go_on(self) -> None:
        path, plan = self.continued, self.plan
        self.deleted_on = plan.delete(path, Step("id % 7 = 1"))
        self.read_on = plan.read(path)
        self.purge = plan.ask(sql=f"REORG TABLE delta.`{path}` APPLY (PURGE)")
        self.vacuum = plan.ask(sql=f"VACUUM delta.`{path}` RETAIN 0 HOURS", settings=NO_RETENTION_CHECK)
        self.read_swept = plan.read(path)


# Scenarios that the reference goes on with: everything about vectors, and one of a kind else.
CONTINUED = [
    "unpartitioned",
    "partitioned",
    "mapped by name",
    "many vectors in one file",
    "vectors below a prefix",
    "borders of containers",
    "V2 checkpoint",
    "marked and then rewritten",
    "change data feed",
    "row tracking",
    "path with odd characters",
]
# `auto` is a choice that the reference does not have.
COMPARED = [name for name, scenario in SCENARIOS.items() if all(step.vectors != "auto" for step in scenario.steps)]

CONDITIONS = {
    "every row, as a constant": "true",
    "no row, as a constant": "false",
    "unknown": "CAST(NULL AS BOOLEAN)",
    "a partition": "p = 'a'",
    "the null partition": "p IS NULL",
    "partition and constant": "p = 'a' AND 1 = 1",
    "partition and rows": "p = 'a' AND id % 2 = 0",
    "partition or rows": "p = 'a' OR id = 12",
    "one row": "id = 12",
    "rows of several files": "id IN (1, 12, 23)",
    "all rows of a file": "id BETWEEN 10 AND 19",
    "all rows": "id >= 0",
    "nulls": "text IS NULL",
    "null-safe": "ratio <=> NULL",
    "not in with null": "small NOT IN (1, NULL)",
    "prefix": "text LIKE 'text 1%'",
    "field": "nested.x = 13",
    "date": "day < current_date() AND id < 3",
    "timestamp": "moment <= TIMESTAMP '2024-01-01 04:00:00'",
    "decimal": "price = 5.00",
    "case-insensitive name": "ID = 3",
    "a file without statistics": "id BETWEEN 30 AND 34",
    "part of a file without statistics": "id IN (31, 33)",
    "partition without statistics": "p = 'no statistics'",
    "already deleted": "id IN (21, 22)",
    "rest of a marked file": "id IN (20, 23, 24)",
}
LOSES_ALL_ROWS_OF_AN_UNCOUNTED_FILE = ("all rows", "a file without statistics")


def build_small(path: Path, *, vectors: bool) -> TableBuilder:
    """Files in two partitions and the null one; one of them without statistics, one with two rows marked already."""
    builder = TableBuilder(path, WIDE).partitioned_by("p")
    if vectors:
        builder.deletion_vectors()
    builder.file([wide(number, "a") for number in range(10)])
    builder.file([wide(number, "b") for number in range(10, 20)])
    builder.file([wide(number, None) for number in range(20, 25)], deleted=[1, 2] if vectors else [])
    return builder.file([wide(number, "no statistics") for number in range(30, 35)], stats=False).commit()


class Statement:
    """One condition, on two copies of the same small table."""

    def __init__(self, spark, condition: str, parent: Path, plan: Plan, *, vectors: bool) -> None:
        self.ours, self.theirs = parent / "ours", parent / "theirs"
        build_small(self.ours, vectors=vectors)
        shutil.copytree(self.ours, self.theirs)
        self.our_count = DeltaTable.forPath(spark, str(self.ours)).delete(condition).num_affected_rows
        self.their_delete = plan.delete(self.theirs, Step(condition))
        self.read_ours = plan.read(self.ours)
        self.plan = plan


PROTOCOLS: dict[str, dict[str, Any]] = {
    "1/1": {"minReaderVersion": 1, "minWriterVersion": 1},
    "1/2": {"minReaderVersion": 1, "minWriterVersion": 2},
    "1/3": {"minReaderVersion": 1, "minWriterVersion": 3},
    "1/4": {"minReaderVersion": 1, "minWriterVersion": 4},
    "2/5": {"minReaderVersion": 2, "minWriterVersion": 5},
    "2/6": {"minReaderVersion": 2, "minWriterVersion": 6},
    "1/7": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]},
    "3/7 without vectors": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["invariants"]},
    "3/7 with vectors": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]},
}  # fmt: skip
PROPERTIES = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "vectors supported": {"delta.feature.deletionVectors": "supported"},
    "vectors off": {"delta.enableDeletionVectors": "false"},
    "append only": {"delta.appendOnly": "true"},
    "change data feed": {"delta.enableChangeDataFeed": "true"},
    "vectors and change data feed": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "timestamps in commits": {"delta.enableInCommitTimestamps": "true"},
    "V2 checkpoints": {"delta.checkpointPolicy": "v2"},
    "own property": {"team": "tide"},
    "retention": {"delta.deletedFileRetentionDuration": "interval 2 days"},
}
ALTERED = [("vectors", protocol) for protocol in PROTOCOLS] + [
    (name, protocol) for name in PROPERTIES if name != "vectors" for protocol in ("1/2", "2/5", "3/7 with vectors")
]


class Altered:
    """One ALTER TABLE SET TBLPROPERTIES, on two copies of a table with a protocol of some age."""

    def __init__(self, spark, properties: dict[str, str], protocol: dict[str, Any], parent: Path, plan: Plan) -> None:
        self.ours, self.theirs = parent / "ours", parent / "theirs"
        TableBuilder(self.ours, WIDE).file([wide(number) for number in range(5)]).commit()
        with_protocol(self.ours, protocol)
        shutil.copytree(self.ours, self.theirs)
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.our_error = None
        try:
            ebbtide.sql(spark, f"ALTER TABLE delta.`{self.ours}` SET TBLPROPERTIES ({listed})")
        except DeltaError as error:
            self.our_error = error
        self.alter = plan.ask(sql=f"ALTER TABLE delta.`{self.theirs}` SET TBLPROPERTIES ({listed})")
        self.read = None if self.our_error else plan.read(self.ours)
        self.plan = plan


def with_protocol(path: Path, protocol: dict[str, Any]) -> None:
    commit = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
    actions = [{"protocol": protocol} if "protocol" in action else action for action in actions]
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")


REFUSED = {
    "unknown column": "nowhere = 1",
    "not boolean": "id",
    "random": "rand() < 0.5",
    "aggregate": "max(id) = 1",
    "window": "row_number() OVER (ORDER BY id) = 1",
    "generator": "explode(array(true))",
    "subquery": "id IN (SELECT 1)",
    "syntax": "id ==== 1",
    "ambiguous cast": "id = 'x'",
    "division by zero": "id / 0 = 1",
}


class Refused:
    """A condition that is no good, on one small table; nothing may change in it."""

    def __init__(self, spark, condition: str, path: Path, plan: Plan) -> None:
        self.path = path
        build_small(path, vectors=True)
        self.our_error = None
        try:
            DeltaTable.forPath(spark, str(path)).delete(condition)
        except DeltaError as error:
            self.our_error = error
        self.version = newest_version(path)
        self.their_delete = plan.delete(path, Step(condition))
        self.plan = plan


@dataclass
class Session:
    """Everything that both engines were asked."""

    scenarios: dict[str, Judged] = field(default_factory=dict)
    statements: dict[tuple[str, bool], Statement] = field(default_factory=dict)
    altered: dict[tuple[str, str], Altered] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    row_ids: list[int] = field(default_factory=list)
    changes: int = 0


@pytest.fixture(scope="module")
def session(spark, spark_kind, tmp_path_factory):
    if not jars():
        pytest.skip("the reference engine is not here: run `make reference`")
    plan = Plan(tmp_path_factory.mktemp("answers"))
    made = Session()
    for name, scenario in SCENARIOS.items():
        made.scenarios[name] = Judged(spark, scenario, tmp_path_factory.mktemp("scenario"), plan)
        if name in CONTINUED:
            made.scenarios[name].go_on()
    for name, condition in CONDITIONS.items():
        for vectors in (True, False):
            parent = tmp_path_factory.mktemp("statement")
            made.statements[name, vectors] = Statement(spark, condition, parent, plan, vectors=vectors)
    for name, protocol in ALTERED:
        parent = tmp_path_factory.mktemp("altered")
        made.altered[name, protocol] = Altered(spark, PROPERTIES[name], PROTOCOLS[protocol], parent, plan)
    for name, condition in REFUSED.items():
        made.refused[name] = Refused(spark, condition, tmp_path_factory.mktemp("refused") / "t", plan)
    tracked = made.scenarios["row tracking"]
    columns = ["id", "_metadata.row_id AS row_id", "_metadata.row_commit_version AS row_version"]
    made.row_ids = [plan.read(tracked.ours, version, columns) for version in range(len(tracked.versions))]
    made.changes = plan.changes(made.scenarios["change data feed"].ours, 1)
    plan.run()
    return made


@pytest.mark.parametrize("name", SCENARIOS)
def test_reference_reads_our_tables_in_every_version(session, name):
    judged = session.scenarios[name]
    for version, number in enumerate(judged.read_ours):
        assert_same_rows(judged.plan.table(number), judged.versions[version], label=f"version {version}")


@pytest.mark.parametrize("name", SCENARIOS)
def test_we_read_tables_that_the_reference_deleted_from(spark, session, name):
    judged = session.scenarios[name]
    assert_same_rows(judged.plan.table(judged.read_theirs), judged.versions[-1], label="newest, by the reference")
    for version, expected in enumerate(judged.versions):
        found = ebbtide.read(spark, str(judged.theirs), version=version)
        assert_same_rows(found, expected, label=f"version {version}, by us")


def shape_differences(ours: Path, theirs: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if newest_version(ours) != newest_version(theirs):
        found["newest version"] = (newest_version(ours), newest_version(theirs))
    for version in range(1, min(newest_version(ours), newest_version(theirs)) + 1):
        pairs = differences(shape(ours, version), shape(theirs, version))
        found |= {f"{version}: {name}": pair for name, pair in pairs.items()}
    return found


@pytest.mark.parametrize("name", COMPARED)
def test_commits_of_scenario_are_those_of_the_reference(session, name):
    judged = session.scenarios[name]
    counts = [judged.plan.rows(number)[0]["num_affected_rows"] for number in judged.their_deletes]
    assert judged.our_counts == counts
    assert shape_differences(judged.ours, judged.theirs) == {}


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rewriting"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_statement_does_what_it_does_in_the_reference(spark, session, name, vectors):
    """Each engine reads what the other one left."""
    statement = session.statements[name, vectors]
    plan = statement.plan
    assert_same_rows(plan.table(statement.read_ours), ebbtide.read(spark, str(statement.theirs)))
    assert statement.our_count == plan.rows(statement.their_delete)[0]["num_affected_rows"]
    found = shape_differences(statement.ours, statement.theirs)
    if vectors and name in LOSES_ALL_ROWS_OF_AN_UNCOUNTED_FILE:
        # We look into the footer and remove the file; the reference keeps it, with a vector that marks every row.
        removed, added = found.pop("1: metrics.numRemovedFiles"), found.pop("1: metrics.numDeletionVectorsAdded")
        assert (removed[0] - removed[1], added) == (1, (0, 1))
        assert found.keys() == {"1: marked", "1: order"}
    else:
        assert found == {}


@pytest.mark.parametrize("name", SCENARIOS)
def test_reference_finds_our_checksum_right(session, name):
    judged = session.scenarios[name]
    assert judged.plan.rows(judged.checkpoint) == {"has checksum": True, "checksum is valid": True}


@pytest.mark.parametrize("name", CONTINUED)
def test_reference_goes_on_with_our_tables(spark, session, name):
    """A checkpoint, a DELETE, REORG PURGE and VACUUM: none of it loses or revives a row."""
    judged = session.scenarios[name]
    plan = judged.plan
    for number in (judged.deleted_on, judged.purge, judged.vacuum):
        plan.rows(number)
    rows = [row for row in judged.versions[-1].to_pylist() if row["id"] % 7 != 1]
    expected = pa.Table.from_pylist(rows, schema=judged.versions[-1].schema)
    assert_same_rows(plan.table(judged.read_on), expected, label="after their DELETE")
    assert_same_rows(plan.table(judged.read_swept), expected, label="after VACUUM")
    assert_same_rows(ebbtide.read(spark, str(judged.continued)), expected, label="by us, after VACUUM")
    again = DeltaTable.forPath(spark, str(judged.continued)).delete("id % 7 = 2")
    assert again.num_affected_rows == sum(row["id"] % 7 == 2 for row in rows)


def test_change_data_feed_of_our_deletes_is_the_deleted_rows(session):
    judged = session.scenarios["change data feed"]
    found = judged.plan.table(session.changes)
    assert set(found["_change_type"].to_pylist()) == {"delete"}
    by_version = {
        version: {row["id"] for row in judged.versions[version].to_pylist()} for version in range(len(judged.versions))
    }
    expected = [(version, gone) for version in (1, 2) for gone in sorted(by_version[version - 1] - by_version[version])]
    assert sorted(zip(found["_commit_version"].to_pylist(), found["id"].to_pylist(), strict=True)) == expected


def test_rows_keep_their_ids_through_our_deletes(session):
    plan = session.scenarios["row tracking"].plan
    first, *later = [{row["id"]: row for row in plan.table(number).to_pylist()} for number in session.row_ids]
    assert all(row["row_id"] is not None for row in first.values())
    for rows in later:
        assert rows == {number: first[number] for number in rows}


@pytest.mark.parametrize(("name", "protocol"), ALTERED)
def test_properties_change_the_protocol_as_in_the_reference(session, name, protocol):
    altered = session.altered[name, protocol]
    answer = altered.plan.answers[altered.alter]
    if altered.our_error is not None or "error" in answer:
        assert (altered.our_error and altered.our_error.error_class) == answer.get("error")
        return
    ours, theirs = log_state(altered.ours), log_state(altered.theirs)
    assert as_sets(ours.protocol) == as_sets(theirs.protocol)
    assert ours.configuration.keys() == theirs.configuration.keys()
    [ours_wrote], [theirs_wrote] = kinds(altered.ours), kinds(altered.theirs)
    if name == "vectors supported":
        # The reference writes the metadata again, unchanged, beside a protocol that gained a feature.
        theirs_wrote.remove("metaData") if "metaData" not in ours_wrote else None
    assert sorted(ours_wrote) == sorted(theirs_wrote)
    altered.plan.rows(altered.read)


def as_sets(protocol: dict[str, Any]) -> dict[str, Any]:
    return {name: set(value) if isinstance(value, list) else value for name, value in protocol.items()}


def kinds(path: Path) -> list[list[str]]:
    """The kinds of actions of each version after the first."""
    found = []
    for version in range(1, newest_version(path) + 1):
        lines = (path / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8").splitlines()
        found.append([next(iter(json.loads(line))) for line in lines])
    return found


# Refused by both; we say it in the words that Spark has for a filter, the reference in those for a command.
OTHER_WORDS = {"aggregate": "INVALID_WHERE_CONDITION", "window": "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE"}


@pytest.mark.parametrize("name", REFUSED)
def test_condition_that_is_no_good_is_refused_as_in_the_reference(session, name):
    refused = session.refused[name]
    theirs = refused.plan.answers[refused.their_delete]["error"]
    if name in OTHER_WORDS:
        assert (refused.our_error.error_class, theirs) == (OTHER_WORDS[name], "UNSUPPORTED_EXPR_FOR_OPERATOR")
    elif name == "subquery":
        assert (refused.our_error, theirs) == (None, "DELTA_UNSUPPORTED_SUBQUERY")
    else:
        assert refused.our_error.error_class == theirs
    assert newest_version(refused.path) == refused.version == (1 if name == "subquery" else 0)
