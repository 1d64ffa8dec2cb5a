"""What does delta-spark say about our RESTORE, CLONE, CONVERT and GENERATE?

Both engines do the same to copies of one table (or folder). What the commits record, which files are live with which
vectors, and the rows and changes that delta-spark reads must be the same; and where one refuses, so must the other, under
the same name.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.interop.test_reference_engine import Plan
from tests.support.comparison import assert_same_rows
from tests.support.log_reading import actions_of, commit_info, log_state, newest_version, stats_of
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import DeltaError

pytestmark = [pytest.mark.reference, pytest.mark.spark, pytest.mark.timeout(1800)]

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})
# The versions are from 2024, and delta-spark refuses to go back further than files are kept.
OLD = {"spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false"}


def rows_of(ids: range, part: str | None) -> list[dict[str, Any]]:
    return [{"id": number, "p": part} for number in ids]


def history(builder: TableBuilder) -> TableBuilder:
    """0: two files | 1: marks | 2: more marks | 3: a new file and a property | 4: a file is gone | 5: another column."""
    # A RESTORE of delta-spark's writes a checkpoint and cleans up the log, and the commits are from 2024.
    builder.partitioned_by("p").deletion_vectors().table_property("delta.logRetentionDuration", "interval 9999 days")
    builder.file(rows_of(range(5), "a b")).file(rows_of(range(5, 9), None)).commit()
    builder.mark(builder.files[0], [0, 1]).commit(operation="DELETE")
    builder.mark(builder.files[1], [2]).commit(operation="DELETE")
    builder.file(rows_of(range(9, 12), "c")).table_property("owner", "me").commit()
    builder.remove(builder.files[0]).commit(operation="DELETE")
    return builder.schema(SCHEMA.append(pa.field("x", pa.string()))).commit()


SHAPES = {
    "plain": lambda builder: builder,
    "feed": lambda builder: builder.change_data_feed(),
    "tracked": lambda builder: builder.row_tracking(),
    "mapped by name": lambda builder: builder.column_mapping("name"),
    "mapped by id": lambda builder: builder.column_mapping("id"),
    "in-commit timestamps": lambda builder: builder.in_commit_timestamps(),
}
VERSIONS = (0, 1, 2, 4)
CASES = [
    (shape, version) for shape in SHAPES for version in (VERSIONS if shape in {"plain", "feed"} else VERSIONS[::2])
]


@dataclass
class Pair:
    ours: Path
    theirs: Path
    answer: list[dict[str, Any]]
    asked: dict[str, int]


def copies(root: Path, shape: str) -> tuple[Path, Path]:
    builder = history(SHAPES[shape](TableBuilder(root / "ours", SCHEMA)))
    shutil.copytree(builder.path, root / "theirs")
    return builder.path, root / "theirs"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return Plan(tmp_path_factory.mktemp("restores"))


@pytest.fixture(scope="module")
def restores(spark, plan) -> dict[Any, Pair]:
    pairs = {}
    for shape, version in CASES:
        root = plan.directory / f"{shape} {version}".replace(" ", "-")
        ours, theirs = copies(root, shape)
        statement = f"RESTORE TABLE delta.`{{}}` TO VERSION AS OF {version}"
        answer = [row.asDict() for row in ebbtide.sql(spark, statement.format(ours)).collect()]
        asked = {"restore": plan.ask(sql=statement.format(theirs), settings=OLD)}
        asked |= {"ours": plan.read(ours), "theirs": plan.read(theirs)}
        if shape == "feed":
            asked |= {"our changes": plan.changes(ours, 6), "their changes": plan.changes(theirs, 6)}
        pairs[shape, version] = Pair(ours, theirs, answer, asked)
    return pairs


@pytest.fixture(scope="module")
def clones(spark, plan) -> dict[Any, Pair]:
    pairs = {}
    for shape in SHAPES:
        root = plan.directory / f"clone {shape}".replace(" ", "-")
        source, _ = copies(root, shape)
        ours, theirs = root / "our clone", root / "their clone"
        statement = f"CREATE TABLE delta.`{{}}` SHALLOW CLONE delta.`{source}` TBLPROPERTIES ('k' = 'v')"
        answer = [row.asDict() for row in ebbtide.sql(spark, statement.format(ours)).collect()]
        asked = {"clone": plan.ask(sql=statement.format(theirs))}
        asked |= {"ours": plan.read(ours), "theirs": plan.read(theirs)}
        asked["delete"] = plan.ask(sql=f"DELETE FROM delta.`{ours}` WHERE id = 9")
        asked["after"] = plan.read(ours)
        pairs[shape] = Pair(ours, theirs, answer, asked)
    return pairs


def parquet_folder(root: Path) -> Path:
    for name, table in {
        "p=1/q=a%2Fb": pa.table({"id": [1, 2], "s": ["x", None]}),
        "p=2/q=__HIVE_DEFAULT_PARTITION__": pa.table({"s": ["é"], "id": [3], "more": [{"n": 1}]}),
    }.items():
        (root / name).mkdir(parents=True)
        pq.write_table(table, root / name / "f.parquet")
    (root / "_SUCCESS").touch()
    return root


@pytest.fixture(scope="module")
def conversion(spark, plan) -> Pair:
    ours, theirs = (parquet_folder(plan.directory / name) for name in ("our folder", "their folder"))
    statement = "CONVERT TO DELTA parquet.`{}` PARTITIONED BY (p INT, q STRING)"
    ebbtide.sql(spark, statement.format(ours))
    asked = {"convert": plan.ask(sql=statement.format(theirs))}
    asked |= {"ours": plan.read(ours), "theirs": plan.read(theirs)}
    generate = "GENERATE symlink_format_manifest FOR TABLE delta.`{}`"
    ebbtide.sql(spark, generate.format(ours))
    asked["generate"] = plan.ask(sql=generate.format(theirs))
    return Pair(ours, theirs, [], asked)


REFUSALS = [
    "RESTORE TABLE {table} TO VERSION AS OF 9",
    "RESTORE TABLE {table} TO TIMESTAMP AS OF '2001-01-01'",
    "RESTORE TABLE {table} TO TIMESTAMP AS OF '2101-01-01'",
    "RESTORE TABLE {table} TO TIMESTAMP AS OF 'soon'",
    "CREATE OR REPLACE TABLE {table} SHALLOW CLONE {other}",
    "REPLACE TABLE delta.`{root}/none` SHALLOW CLONE {table}",
    "CREATE TABLE delta.`{root}/mode` SHALLOW CLONE {table} TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "GENERATE symlink_format_manifest FOR TABLE {table}",
    "GENERATE something FOR TABLE {table}",
    "CONVERT TO DELTA parquet.`{root}/folder`",
    "CONVERT TO DELTA parquet.`{root}/folder` PARTITIONED BY (q STRING, p INT)",
    "CONVERT TO DELTA parquet.`{root}/folder` PARTITIONED BY (p INT, q INT)",
]


@pytest.fixture(scope="module")
def refusals(spark, plan) -> list[tuple[str, DeltaError | None, int]]:
    root = plan.directory / "refusals"
    parquet_folder(root / "folder")
    table, other = (history(TableBuilder(root / name, SCHEMA)).path for name in ("table", "other"))
    asked = []
    for text in REFUSALS:
        statement = text.format(table=f"delta.`{table}`", other=f"delta.`{other}`", root=root)
        error = None
        try:
            ebbtide.sql(spark, statement)
        except DeltaError as raised:
            error = raised
        asked.append((statement, error, plan.ask(sql=statement, settings=OLD)))
    return asked


@pytest.fixture(scope="module")
def judged(plan, restores, clones, conversion, refusals):
    """Everything, asked of the engine in one run of it."""
    del restores, clones, conversion, refusals
    plan.run()
    return plan


def live(path: Path) -> set[Any]:
    return {(unspelled(file), vector) for file, vector in log_state(path).live}


def unspelled(path: str) -> str:
    return path.replace("file:///", "file:/")


# --- RESTORE ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "version"), CASES)
def test_both_engines_restore_the_same_files_rows_and_counters(judged, restores, shape, version):
    pair = restores[shape, version]
    assert judged.rows(pair.asked["restore"]) == pair.answer
    assert live(pair.ours) == live(pair.theirs) == live_at(pair.ours, version)
    assert_same_rows(judged.table(pair.asked["ours"]), judged.table(pair.asked["theirs"]))
    ours, theirs = (commit_info(path, newest_version(path)) for path in (pair.ours, pair.theirs))
    for name in (
        "operation",
        "operationParameters",
        "operationMetrics",
        "isolationLevel",
        "isBlindAppend",
        "readVersion",
    ):
        assert ours[name] == theirs[name], name
    assert definition(pair.ours) == definition(pair.theirs)
    assert features(log_state(pair.ours).protocol) == features(log_state(pair.theirs).protocol)


def definition(path: Path) -> dict[str, Any]:
    metadata = log_state(path).metadata
    return metadata | {"schemaString": json.loads(metadata["schemaString"])}


def live_at(path: Path, version: int) -> set[Any]:
    return {(unspelled(file), vector) for file, vector in log_state(path, version).live}


def features(protocol: dict[str, Any]) -> set[str]:
    # The tables of the test do not list what older protocols imply; merging protocols makes that explicit.
    return {*protocol.get("writerFeatures", ()), *protocol.get("readerFeatures", ())} - {"appendOnly", "invariants"}


@pytest.mark.parametrize(("shape", "version"), CASES)
def test_both_engines_write_the_same_adds_and_removes(judged, restores, shape, version):
    pair = restores[shape, version]
    del judged
    for kind, left_out in (("add", ()), ("remove", ("deletionTimestamp", "stats", "partitionValues"))):
        ours, theirs = (
            sorted(
                json.dumps({key: value for key, value in action.items() if key not in left_out}, sort_keys=True)
                for action in actions_of(path, newest_version(path), kind)
            )
            for path in (pair.ours, pair.theirs)
        )
        assert ours == theirs, kind


@pytest.mark.parametrize("version", VERSIONS)
def test_both_engines_tell_the_same_changes(judged, restores, version):
    asked = restores["feed", version].asked
    ours, theirs = (judged.table(asked[name]) for name in ("our changes", "their changes"))
    assert_same_rows(ours.drop_columns(["_commit_timestamp"]), theirs.drop_columns(["_commit_timestamp"]))


# --- CLONE ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_both_engines_clone_the_same_files_rows_and_counters(judged, clones, shape):
    pair = clones[shape]
    assert judged.rows(pair.asked["clone"]) == pair.answer
    # delta-spark has gone on with ours since.
    assert live_at(pair.ours, 0) == live_at(pair.theirs, 0)
    assert_same_rows(judged.table(pair.asked["ours"]), judged.table(pair.asked["theirs"]))
    ours, theirs = (commit_info(path, 0) for path in (pair.ours, pair.theirs))
    for name in ("operation", "operationParameters", "operationMetrics", "isolationLevel", "isBlindAppend"):
        assert ours[name] == theirs[name], name
    assert features(log_state(pair.ours).protocol) == features(log_state(pair.theirs).protocol)
    assert configuration(pair.ours) == configuration(pair.theirs)
    for key in ("schemaString", "partitionColumns", "createdTime"):
        assert definition(pair.ours)[key] == definition(pair.theirs)[key]


def configuration(path: Path) -> dict[str, str]:
    """Without the names that each table makes up for itself."""
    found = log_state(path).configuration
    return {key: "" if "materialized" in key else value for key, value in found.items()}


@pytest.mark.parametrize("shape", SHAPES)
def test_reference_goes_on_with_our_clone(judged, clones, shape):
    asked = clones[shape].asked
    assert judged.rows(asked["delete"]) == [{"num_affected_rows": 1}]
    before, after = judged.table(asked["ours"]), judged.table(asked["after"])
    assert sorted(after["id"].to_pylist()) == sorted(number for number in before["id"].to_pylist() if number != 9)


# --- CONVERT and GENERATE ---------------------------------------------------------------------------------------------


def test_both_engines_convert_alike(judged, conversion):
    judged.rows(conversion.asked["convert"])
    ours, theirs = (judged.table(conversion.asked[side]) for side in ("ours", "theirs"))
    assert_same_rows(ours, theirs.select(ours.column_names))
    ours, theirs = (commit_info(path, 0) for path in (conversion.ours, conversion.theirs))
    for name in ("operation", "operationParameters", "operationMetrics", "isBlindAppend"):
        assert ours[name] == theirs[name], name
    states = [log_state(path) for path in (conversion.ours, conversion.theirs)]
    # Which file comes first, and so the order of the columns, is up to the listing.
    schemas = [json.loads(state.metadata["schemaString"])["fields"] for state in states]
    assert sorted(schemas[0], key=str) == sorted(schemas[1], key=str)
    files = [
        {add["path"]: (add["partitionValues"], stats_of(add)["numRecords"]) for add in state.adds} for state in states
    ]
    assert files[0] == files[1]


def test_bounds_of_converted_files_are_those_of_the_reference(conversion, judged):
    del judged
    theirs = {add["path"]: stats_of(add) for add in log_state(conversion.theirs).adds}
    for add in log_state(conversion.ours).adds:
        for kind in ("minValues", "maxValues"):
            found = stats_of(add)[kind]
            assert {name: theirs[add["path"]][kind].get(name) for name in found} == found
            assert set(found) >= {"id", "s"}


def test_both_engines_generate_the_same_manifests(judged, conversion):
    judged.rows(conversion.asked["generate"])
    found = []
    for path in (conversion.ours, conversion.theirs):
        root = path / "_symlink_format_manifest"
        files = [file for file in root.rglob("manifest") if file.is_file()]
        found.append({str(file.relative_to(root)): file.read_text().replace(str(path), "") for file in files})
    assert found[0] == found[1]


@pytest.mark.parametrize("number", range(len(REFUSALS)), ids=lambda number: REFUSALS[number])
def test_both_engines_refuse_under_the_same_name(judged, refusals, number):
    statement, error, asked = refusals[number]
    answer = judged.answers[asked]
    assert "error" in answer, f"{statement}: {answer}"
    assert error is not None, statement
    assert error.error_class == (answer["error"] or "").split(" ")[0] or answer["error"] is None
