"""Do delta-spark and Ebbtide take the same table to the same rows, statement for statement?

Random histories of MERGE, UPDATE, DELETE and INSERT over small tables: every statement is given in the same words to both
engines, each on a copy of its own. After every statement both must have the same rows, the same row counters, the same
change feed, or the same refusal. Keys repeat and are null, sources hold a key twice, types have to be cast.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.interop.test_reference_engine import Plan
from tests.support.comparison import assert_same_rows
from tests.support.log_reading import commit_info, newest_version
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import DeltaError

pytestmark = [pytest.mark.reference, pytest.mark.spark, pytest.mark.timeout(3600)]

HISTORIES = 16
STATEMENTS = 8
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.int32(), "part": pa.string()})
SOURCE = pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.int64(), "part": pa.string()})
SETTINGS = [f"spark.databricks.delta.{verb}.deletionVectors.persistent" for verb in ("delete", "update", "merge")]
# Only what counts rows: each engine divides them into files in its own way.
ROW_COUNTERS = (
    "numSourceRows",
    "numTargetRowsInserted",
    "numTargetRowsMatchedUpdated",
    "numTargetRowsNotMatchedBySourceUpdated",
    "numTargetRowsMatchedDeleted",
    "numTargetRowsNotMatchedBySourceDeleted",
    "numUpdatedRows",
    "numDeletedRows",
)

ON = ("t.k = s.k", "t.k = s.k AND t.part = s.part", "t.k <=> s.k", "t.k = s.k AND s.n > 3", "false", "t.k = s.k + 1")
MATCHED = (
    "THEN UPDATE SET *",
    "THEN UPDATE SET v = s.v, n = t.n + s.n",
    "THEN UPDATE SET t.part = s.part",
    "THEN DELETE",
)
NOT_MATCHED = (
    "THEN INSERT *",
    "THEN INSERT (k, v) VALUES (s.k, upper(s.v))",
    "THEN INSERT (part, k) VALUES ('i', s.k)",
)
MISSING = ("THEN UPDATE SET v = concat(t.v, '!')", "THEN UPDATE SET n = 0, part = 'gone'", "THEN DELETE")
PAIR_CONDITIONS = ("s.n > 5", "t.v IS NULL", "t.n < s.n", "s.v = 'b' OR t.part = 'a'")
SOURCE_CONDITIONS = ("s.n % 2 = 0", "s.v IS NOT NULL", "s.k > 4")
TARGET_CONDITIONS = ("t.n > 4", "t.part = 'a'", "t.v LIKE 'a%'", "t.k IS NULL")
PLAIN_CONDITIONS = (
    "n > 4",
    "part = 'a'",
    "k IN (1, 2, 3)",
    "v IS NULL AND k > 2",
    "part IS NULL OR n = 0",
    "k % 3 = 1",
)
ASSIGNMENTS = ("v = upper(v)", "n = n * 2", "part = 'u', n = k", "v = NULL", "k = k + 1", "n = '7'", "n = length(v)")


@dataclass
class History:
    ours: Path
    theirs: Path
    vectors: bool
    statements: list[str]
    # For each statement: our refusal (None: it went through) and its number in the plan.
    refusals: list[DeltaError | None] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    versions: list[tuple[int, int]] = field(default_factory=list)
    changes: tuple[int, int] | None = None


def rows(chance: random.Random, count: int, *, unique: bool) -> list[dict[str, Any]]:
    keys = chance.sample(range(12), count) if unique else [chance.randrange(10) for _ in range(count)]
    return [
        {
            "k": None if chance.random() < 0.1 else key,
            "v": chance.choice(["a", "b", "abc", "", None]),
            "n": chance.choice([*range(10), None]),
            "part": chance.choice(["a", "b", None]),
        }
        for key in keys
    ]


def clauses(chance: random.Random, kind: str, actions: tuple[str, ...], conditions: tuple[str, ...]) -> Iterator[str]:
    """Up to two clauses of a kind; all but the last need a condition."""
    count = chance.choice([0, 1, 1, 2])
    for place in range(count):
        has_condition = place < count - 1 or chance.random() < 0.5
        yield f"WHEN {kind} {f'AND {chance.choice(conditions)} ' if has_condition else ''}{chance.choice(actions)}"


def merge(chance: random.Random, directory: Path) -> str:
    source = directory / f"source-{chance.randrange(10**9)}.parquet"
    unique = chance.random() < 0.8
    pq.write_table(pa.Table.from_pylist(rows(chance, chance.randrange(9), unique=unique), SOURCE), source)
    parts: list[str] = []
    while not parts:
        parts = [
            *clauses(chance, "MATCHED", MATCHED, PAIR_CONDITIONS),
            *clauses(chance, "NOT MATCHED", NOT_MATCHED, SOURCE_CONDITIONS),
            *clauses(chance, "NOT MATCHED BY SOURCE", MISSING, TARGET_CONDITIONS),
        ]
    return f"MERGE INTO {{}} t USING parquet.`{source}` s ON {chance.choice(ON)} {' '.join(parts)}"


def statement(chance: random.Random, directory: Path) -> str:
    where = f" WHERE {chance.choice(PLAIN_CONDITIONS)}" if chance.random() < 0.9 else ""
    match chance.choice(["merge", "merge", "merge", "update", "update", "delete", "insert"]):
        case "merge":
            return merge(chance, directory)
        case "update":
            return f"UPDATE {{}} SET {chance.choice(ASSIGNMENTS)}{where}"
        case "delete":
            return f"DELETE FROM {{}}{where}"
    values = ", ".join(
        f"({n}, 'x{n}', {n}, {chance.choice(['NULL', repr('a')])})" for n in range(chance.randrange(1, 4))
    )
    return f"INSERT INTO {{}} VALUES {values}"


def built(root: Path, number: int) -> History:
    chance = random.Random(number)
    root.mkdir()
    builder = TableBuilder(root / "ours", SCHEMA).deletion_vectors()
    if number % 2:
        builder.change_data_feed()
    if number % 3 == 0:
        builder.partitioned_by("part")
    if number % 4 == 1:
        builder.column_mapping("name")
    for _ in range(3):
        part = chance.choice(["a", "b", None])
        content = rows(chance, 6, unique=False)
        builder.file([row | {"part": part} for row in content] if number % 3 == 0 else content)
    builder.commit()
    shutil.copytree(root / "ours", root / "theirs")
    statements = [statement(chance, root) for _ in range(STATEMENTS)]
    return History(root / "ours", root / "theirs", vectors=number % 5 != 4, statements=statements)


def play(spark: Any, history: History, plan: Plan) -> None:
    chosen = dict.fromkeys(SETTINGS, str(history.vectors).lower())
    for words in history.statements:
        ours, theirs = (words.format(f"delta.`{path}`") for path in (history.ours, history.theirs))
        history.refusals.append(None)
        try:
            with session_settings(spark, chosen):
                ebbtide.sql(spark, ours)
        except DeltaError as refusal:
            history.refusals[-1] = refusal
        history.asked.append(plan.ask(sql=theirs, settings=chosen))
    # Version 0 was built with times so old that the reference does not travel there.
    for version in range(1, newest_version(history.ours) + 1):
        history.versions.append((plan.read(history.ours, version), plan.read(history.theirs, version)))
    history.changes = (plan.changes(history.ours, 1), plan.changes(history.theirs, 1))


@pytest.fixture(scope="module")
def played(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("histories")
    plan = Plan(root)
    histories = [built(root / str(number), number) for number in range(HISTORIES)]
    for history in histories:
        play(spark, history, plan)
    plan.run()
    return histories, plan


@pytest.mark.parametrize("number", range(HISTORIES))
def test_both_refuse_the_same_statements(played, number):
    histories, plan = played
    history = histories[number]
    for words, refusal, asked in zip(history.statements, history.refusals, history.asked, strict=True):
        answer = plan.answers[asked]
        assert (refusal is not None) == ("error" in answer), f"{words}: we {refusal!r}, delta-spark {answer}"
        if refusal is not None:
            assert (refusal.error_class or "").split(".")[0] == (answer["error"] or "").split(".")[0], (words, refusal)


@pytest.mark.parametrize("number", range(HISTORIES))
def test_both_have_the_same_rows_after_every_statement(played, number):
    histories, plan = played
    history = histories[number]
    assert newest_version(history.ours) == newest_version(history.theirs), history.statements
    for version, (ours, theirs) in enumerate(history.versions, 1):
        assert_same_rows(plan.table(ours), plan.table(theirs), label=f"version {version}")


@pytest.mark.parametrize("number", range(HISTORIES))
def test_both_count_the_same_rows(played, number):
    histories, _ = played
    history = histories[number]
    for version in range(1, newest_version(history.ours) + 1):
        ours, theirs = (commit_info(path, version) for path in (history.ours, history.theirs))
        assert ours["operation"] == theirs["operation"]
        for name in ROW_COUNTERS:
            counted = (ours["operationMetrics"].get(name), theirs["operationMetrics"].get(name))
            assert counted[0] == counted[1], f"version {version}, {name}: {ours['operationParameters']}"


@pytest.mark.parametrize("number", [number for number in range(HISTORIES) if number % 2])
def test_both_tell_the_same_changes(played, number):
    histories, plan = played
    ours, theirs = (plan.table(each).drop_columns(["_commit_timestamp"]) for each in histories[number].changes)
    assert_same_rows(ours, theirs)
