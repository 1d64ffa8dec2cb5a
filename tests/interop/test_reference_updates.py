"""What does delta-spark say about our UPDATEs?

Each scenario is a table and a few statements. Both engines run them, each on a copy of its own; rows, the counters that
the commits record, the change feed and the ids of tracked rows must come out the same, as delta-spark reads them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.test_reference_engine import Plan
from tests.support.comparison import assert_same_rows
from tests.support.log_reading import commit_info, newest_version
from tests.support.table_builder import TableBuilder

from ebbtide import DeltaTable

pytestmark = [pytest.mark.reference, pytest.mark.spark, pytest.mark.timeout(1800)]

VECTORS = "spark.databricks.delta.{}.deletionVectors.persistent"
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "s": pa.struct({"x": pa.int32(), "in": pa.struct({"c": pa.string(), "d": pa.int64()})}),
        "part": pa.string(),
    }
)
# Bytes and times differ, and how many files Spark makes of the rows does too.
NOT_COMPARED = ("Bytes", "TimeMs", "numAddedFiles", "numAddedChangeFiles")


@dataclass(frozen=True)
class Scenario:
    build: Callable[[TableBuilder], TableBuilder]
    # (condition, assignments); assignments None: a DELETE.
    steps: tuple[tuple[str | None, dict[str, str] | None], ...]
    has_feed: bool = False
    is_tracked: bool = False


@dataclass
class Pair:
    ours: Path
    theirs: Path
    scenario: Scenario
    # Places in the plan: what each statement answered, and what was read.
    asked: dict[str, Any] = field(default_factory=dict)


def row(number: int, part: str | None = None) -> dict[str, Any]:
    struct = None if number % 4 == 3 else {"x": number, "in": None if number % 4 == 2 else {"c": "c", "d": 1}}
    return {"id": number, "name": None if number % 5 == 4 else f"n{number}", "s": struct, "part": part}


def plain(builder: TableBuilder) -> TableBuilder:
    builder.file([row(n) for n in range(5)], deleted=[4]).file([row(n) for n in range(5, 10)])
    return builder.commit()


def undeleted(builder: TableBuilder) -> TableBuilder:
    return builder.file([row(n) for n in range(5)]).file([row(n) for n in range(5, 10)]).commit()


def parted(builder: TableBuilder) -> TableBuilder:
    builder.partitioned_by("part")
    for first, part in ((0, "a"), (3, "b c"), (6, None)):
        builder.file([row(first + n, part) for n in range(3)])
    return builder.commit()


STEPS = (
    ("id IN (1, 2, 7)", {"name": "upper(name)", "s.x": "id * 10"}),
    ("id = 2 OR name IS NULL", {"s.in.c": "name", "part": "'new'"}),
    (None, {"id": "id + 100"}),
    ("id > 1000", {"name": "'never'"}),
    ("id = 101", None),
    ("id < 105", {"s": "NULL", "name": "CAST(id AS STRING)"}),
)
SCENARIOS = {
    "marked before": Scenario(plain, STEPS),
    "partitioned": Scenario(parted, (("part = 'a'", {"name": "'x'"}), ("part IS NULL AND id > 6", {"part": "'a'"}), *STEPS)),
    "every row of a file": Scenario(undeleted, (("id < 6", {"name": "'x'"}), ("id < 2 OR id = 9", {"name": "'y'"}))),
    "change feed": Scenario(lambda builder: plain(builder.change_data_feed()), STEPS, has_feed=True),
    "partitioned feed": Scenario(lambda builder: parted(builder.change_data_feed()), STEPS, has_feed=True),
    "tracked": Scenario(lambda builder: undeleted(builder.row_tracking()), STEPS, is_tracked=True),
    "mapped by name": Scenario(lambda builder: plain(builder.column_mapping("name")), STEPS),
    "mapped by id": Scenario(lambda builder: plain(builder.column_mapping("id")), STEPS),
    "mapped and tracked": Scenario(
        lambda builder: undeleted(builder.column_mapping("name").row_tracking()), STEPS, is_tracked=True
    ),
}  # fmt: skip
CASES = [(name, vectors) for name in SCENARIOS for vectors in (True, False)]


def statement(path: Path, condition: str | None, assignments: dict[str, str] | None) -> str:
    where = "" if condition is None else f" WHERE {condition}"
    if assignments is None:
        return f"DELETE FROM delta.`{path}`{where}"
    return f"UPDATE delta.`{path}` SET {', '.join(f'{name} = {value}' for name, value in assignments.items())}{where}"


def columns_of(scenario: Scenario) -> list[str] | None:
    ids = ["_metadata.row_id AS row_id", "_metadata.row_commit_version AS row_commit_version"]
    return ["*", *ids] if scenario.is_tracked else None


@pytest.fixture(scope="module")
def judged(spark, tmp_path_factory):
    """All scenarios, done by us and asked of the engine in one run of it."""
    root = tmp_path_factory.mktemp("updates")
    plan = Plan(root)
    pairs = {}
    for name, vectors in CASES:
        pair = pairs[name, vectors] = prepared(root / f"{name} {vectors}".replace(" ", "-"), SCENARIOS[name])
        settings = {VECTORS.format(verb): str(vectors).lower() for verb in ("update", "delete")}
        table = DeltaTable.forPath(spark, str(pair.ours))
        for condition, assignments in pair.scenario.steps:
            mode = "on" if vectors else "off"
            if assignments is None:
                table.delete(condition, deletion_vectors=mode)
            else:
                table.update(condition, assignments, deletion_vectors=mode)
            plan.ask(sql=statement(pair.theirs, condition, assignments), settings=settings)
        for side, path in (("ours", pair.ours), ("theirs", pair.theirs)):
            pair.asked[side] = plan.read(path, columns=columns_of(pair.scenario))
            if pair.scenario.has_feed:
                pair.asked[f"{side} changes"] = plan.changes(path, 1)
    plan.run()
    for answer, task in zip(plan.answers, plan.tasks, strict=True):
        assert "rows" in answer, f"{task}: {answer}"
    return pairs, root


def prepared(root: Path, scenario: Scenario) -> Pair:
    root.mkdir()
    scenario.build(TableBuilder(root / "ours", SCHEMA).deletion_vectors())
    shutil.copytree(root / "ours", root / "theirs")
    return Pair(root / "ours", root / "theirs", scenario)


def read_back(root: Path, place: int) -> pa.Table:
    with pa.OSFile(str(root / f"{place}.arrow")) as source:
        return pa.ipc.open_file(source).read_all()


@pytest.mark.parametrize(("name", "vectors"), CASES)
def test_both_engines_leave_the_same_rows(judged, name, vectors):
    pairs, root = judged
    asked = pairs[name, vectors].asked
    assert_same_rows(read_back(root, asked["ours"]), read_back(root, asked["theirs"]))


@pytest.mark.parametrize(("name", "vectors"), CASES)
def test_both_engines_count_alike(judged, name, vectors):
    """All counters of the first statement; of later ones those of rows, since each engine has its own files by then."""
    pairs, _ = judged
    pair = pairs[name, vectors]
    assert newest_version(pair.ours) == newest_version(pair.theirs)
    for version in range(1, newest_version(pair.ours) + 1):
        ours, theirs = (commit_info(path, version) for path in (pair.ours, pair.theirs))
        assert ours["operation"] == theirs["operation"]
        names = None if version == 1 else ("numUpdatedRows", "numDeletedRows")
        assert counters(ours, names) == counters(theirs, names), f"version {version}"
        assert ours["operationMetrics"].keys() >= theirs["operationMetrics"].keys()


def counters(info: dict[str, Any], names: tuple[str, ...] | None) -> dict[str, int]:
    metrics = {name: int(value) for name, value in info["operationMetrics"].items()}
    return {
        name: value for name, value in metrics.items() if (name in names if names else not name.endswith(NOT_COMPARED))
    }


@pytest.mark.parametrize(("name", "vectors"), [case for case in CASES if SCENARIOS[case[0]].has_feed])
def test_both_engines_tell_the_same_changes(judged, name, vectors):
    pairs, root = judged
    ours, theirs = (read_back(root, pairs[name, vectors].asked[f"{side} changes"]) for side in ("ours", "theirs"))
    assert_same_rows(ours.drop_columns(["_commit_timestamp"]), theirs.drop_columns(["_commit_timestamp"]))
