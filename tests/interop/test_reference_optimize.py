"""What does delta-spark say about our OPTIMIZE and PURGE?

Each scenario is a table and a few statements. Both engines run them, each on a copy of its own; answers, the counters and
parameters that the commits record, the rows and the ids of tracked rows must come out the same, as delta-spark reads
them. Then delta-spark goes on with our table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.test_reference_engine import Plan
from tests.support.comparison import assert_same_rows
from tests.support.log_reading import actions_of, commit_info, newest_version
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import DeltaError

pytestmark = [pytest.mark.reference, pytest.mark.spark, pytest.mark.timeout(1800)]

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.string()})
# Sizes depend on the writer, and times on the clock; delta-spark alone knows how many tasks it scheduled.
NOT_COMPARED = {"min", "max", "avg", "totalSize", "size", "startTimeMs", "endTimeMs", "totalClusterParallelism"}
# We keep the order of rows, and say so.
OURS_TO_SAY = {"preserveInsertionOrder"}
IDS = ["*", "_metadata.row_id AS row_id", "_metadata.row_commit_version AS row_commit_version"]


@dataclass(frozen=True)
class Scenario:
    build: Callable[[TableBuilder], TableBuilder]
    steps: tuple[str, ...]
    is_tracked: bool = False
    settings: dict[str, str] = field(default_factory=dict)


@dataclass
class Pair:
    ours: Path
    theirs: Path
    scenario: Scenario
    answers: list[Any] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    reads: dict[str, int] = field(default_factory=dict)


def rows(start: int, stop: int, part: str | None = None) -> list[dict[str, Any]]:
    return [{"id": n, "name": None if n % 5 == 4 else f"n{n}", "part": part} for n in range(start, stop)]


def plain(builder: TableBuilder) -> TableBuilder:
    builder.file(rows(0, 50), deleted=[1, 49]).file(rows(50, 100)).file(rows(100, 110), deleted=[0])
    return builder.commit()


def parted(builder: TableBuilder) -> TableBuilder:
    builder.partitioned_by("part")
    for start, part in ((0, "a"), (10, "a"), (20, "b c"), (30, "b c"), (40, None)):
        builder.file(rows(start, start + 10, part), deleted=[2] if start in (10, 40) else [])
    return builder.commit()


def undeleted(builder: TableBuilder) -> TableBuilder:
    return builder.file(rows(0, 5)).file(rows(5, 10)).commit()


def clustered(builder: TableBuilder) -> TableBuilder:
    builder.feature("domainMetadata", reader=False).feature("clustering", reader=False)
    text = json.dumps({"clusteringColumns": [["id"], ["name"]], "domainName": "delta.clustering"})
    return undeleted(builder.domain("delta.clustering", text))


SCENARIOS = {
    "compaction": Scenario(plain, ("OPTIMIZE {t}", "OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 7", "OPTIMIZE {t}")),
    "partitioned": Scenario(parted, ("OPTIMIZE {t} WHERE part = 'a'", "OPTIMIZE {t} WHERE part IS NOT NULL")),
    "sorted": Scenario(plain, ("OPTIMIZE {t} ZORDER BY (id, name)", "OPTIMIZE {t} ZORDER BY (name)")),
    "sorted in partitions": Scenario(parted, ("OPTIMIZE {t} WHERE part = 'a' ZORDER BY (id)",)),
    "small target": Scenario(
        plain, ("OPTIMIZE {t}",), settings={"spark.databricks.delta.optimize.maxFileSize": "1000000000"}
    ),
    "purge": Scenario(
        plain,
        ("REORG TABLE {t} APPLY (PURGE)", "REORG TABLE {t} APPLY (PURGE)", "DELETE FROM {t} WHERE id = 70",
         "REORG TABLE {t} APPLY (PURGE)"),
    ),
    "purge of partitions": Scenario(parted, ("REORG TABLE {t} WHERE part = 'a' APPLY (PURGE)",)),
    "tracked": Scenario(
        lambda builder: undeleted(builder.row_tracking()),
        ("OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 3", "REORG TABLE {t} APPLY (PURGE)"),
        is_tracked=True,
    ),
    "mapped": Scenario(lambda builder: plain(builder.column_mapping("name")), ("OPTIMIZE {t}",)),
    "clustered": Scenario(clustered, ("OPTIMIZE {t}", "OPTIMIZE {t}")),
    "change feed": Scenario(lambda builder: plain(builder.change_data_feed()), ("OPTIMIZE {t}",)),
    "append only": Scenario(
        lambda builder: undeleted(builder.feature("appendOnly", reader=False).table_property("delta.appendOnly", "true")),
        ("OPTIMIZE {t}",),
    ),
    "condition on data": Scenario(parted, ("OPTIMIZE {t} WHERE id = 1",)),
    "condition on nothing": Scenario(plain, ("OPTIMIZE {t} WHERE id = 1",)),
    "sorted by nothing": Scenario(plain, ("OPTIMIZE {t} ZORDER BY (nope)",)),
    "sorted by a partition": Scenario(parted, ("OPTIMIZE {t} ZORDER BY (part)",)),
    "sorted without statistics": Scenario(
        lambda builder: plain(builder.table_property("delta.dataSkippingNumIndexedCols", "1")),
        ("OPTIMIZE {t} ZORDER BY (name)",),
    ),
    "clustered and sorted": Scenario(clustered, ("OPTIMIZE {t} ZORDER BY (id)",)),
    "clustered and chosen": Scenario(clustered, ("OPTIMIZE {t} WHERE id = 1",)),
}  # fmt: skip


@pytest.fixture(scope="module")
def judged(spark, tmp_path_factory):
    """All scenarios, done by us and asked of the engine in one run of it."""
    root = tmp_path_factory.mktemp("optimize")
    plan = Plan(root)
    pairs = {name: prepared(root / name.replace(" ", "-"), scenario) for name, scenario in SCENARIOS.items()}
    for pair in pairs.values():
        for step in pair.scenario.steps:
            pair.answers.append(answer(spark, step.format(t=f"delta.`{pair.ours}`")))
            text = step.format(t=f"delta.`{pair.theirs}`")
            pair.asked.append(plan.ask(sql=text, settings=pair.scenario.settings))
        columns = IDS if pair.scenario.is_tracked else None
        for side, path in (("ours", pair.ours), ("theirs", pair.theirs)):
            pair.reads[side] = plan.read(path, columns=columns)
        pair.reads["continued"] = plan.ask(sql=f"OPTIMIZE delta.`{pair.ours}`")
        pair.reads["after"] = plan.read(pair.ours, columns=columns)
    plan.run()
    return pairs, plan


def answer(spark, statement: str) -> Any:
    try:
        return [row.asDict(recursive=True) for row in ebbtide.sql(spark, statement).collect()]
    except DeltaError as error:
        return error


def prepared(root: Path, scenario: Scenario) -> Pair:
    root.mkdir()
    scenario.build(TableBuilder(root / "ours", SCHEMA).deletion_vectors())
    shutil.copytree(root / "ours", root / "theirs")
    return Pair(root / "ours", root / "theirs", scenario)


def comparable(value: Any, *, leave_out: frozenset[str] = frozenset()) -> Any:
    if isinstance(value, dict):
        return {
            key: comparable(inner, leave_out=leave_out)
            for key, inner in value.items()
            if key not in NOT_COMPARED | OURS_TO_SAY | leave_out
        }
    return value


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_engines_give_the_same_answers(judged, name):
    pairs, plan = judged
    pair = pairs[name]
    for ours, number in zip(pair.answers, pair.asked, strict=True):
        theirs = plan.answers[number]
        if "error" in theirs:
            assert isinstance(ours, DeltaError), f"delta-spark refused it: {theirs}"
            assert ours.error_class == theirs["error"]
            continue
        assert not isinstance(ours, DeltaError), str(ours)
        if "metrics" in theirs["rows"][0]:
            mine, other = ours[0]["metrics"], theirs["rows"][0]["metrics"]
            assert comparable(mine) == comparable(other)
            assert mine.keys() == other.keys()


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_engines_record_the_same_commits(judged, name):
    pairs, _ = judged
    pair = pairs[name]
    last = newest_version(pair.theirs)
    for version in range(1, last + 1):
        ours, theirs = (commit_info(path, version) for path in (pair.ours, pair.theirs))
        assert ours["operation"] == theirs["operation"]
        if ours["operation"] == "DELETE":
            continue
        for key in ("isolationLevel", "isBlindAppend", "tags"):
            assert ours.get(key) == theirs.get(key), key
        ours["operationParameters"].pop("predicate"), theirs["operationParameters"].pop("predicate")
        assert ours["operationParameters"] == theirs["operationParameters"]
        assert ours["operationMetrics"].keys() == theirs["operationMetrics"].keys()
        for metric in ("numAddedFiles", "numRemovedFiles", "numDeletionVectorsRemoved"):
            assert ours["operationMetrics"][metric] == theirs["operationMetrics"][metric], metric
        for kind in ("add", "remove"):
            mine, other = (actions_of(path, version, kind) for path in (pair.ours, pair.theirs))
            assert len(mine) == len(other)
            assert {action["dataChange"] for action in (*mine, *other)} <= {False}


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_engines_leave_the_same_rows(judged, name):
    pairs, plan = judged
    pair = pairs[name]
    assert_same_rows(plan.table(pair.reads["ours"]), plan.table(pair.reads["theirs"]))


@pytest.mark.parametrize("name", SCENARIOS)
def test_reference_goes_on_with_our_table(judged, name):
    pairs, plan = judged
    pair = pairs[name]
    plan.rows(pair.reads["continued"])
    assert_same_rows(plan.table(pair.reads["after"]), plan.table(pair.reads["theirs"]))
