"""Is an argument of the wrong type refused at the door, in one typed sentence, and nothing written?

Every public call, every parameter, every wrong value, on one table and without a Spark job per case.
"""

from __future__ import annotations

import datetime as dt
import inspect
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import types as T

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import ArgumentTypeError, RequestError
from ebbtide.merge_builder import DeltaMergeBuilder
from ebbtide.table_builder import DeltaTableBuilder
from ebbtide.table_maintenance import DeltaOptimizeBuilder

pytestmark = pytest.mark.spark

WRONG = {
    "None": None,
    "number": 1,
    "text": "x",
    "list": [],
    "object": object(),
    "bytes": b"x",
    "frame": pd.DataFrame({"id": [1]}),
    "list of a number": [1],
    "dict of a number": {"x": 1},
    "dict by a number": {1: "x"},
}
# Which of these are of the right type, by the name of the parameter. Everything else must be refused.
RIGHT = {
    **dict.fromkeys(["spark", "df", "source", "config"], ()),
    **dict.fromkeys(["sparkSession", "generatedByDefaultAs"], ("None",)),
    **dict.fromkeys(["path", "identifier", "location", "statement", "mode", "aliasName", "featureName"], ("text",)),
    **dict.fromkeys(["colName", "dataType", "key", "value", "conflicts"], ("text",)),
    **dict.fromkeys(["version", "limit", "start_version", "end_version", "txn_version"], ("None", "number")),
    **dict.fromkeys(["timestamp", "start_timestamp", "end_timestamp", "where", "replace_where"], ("None", "text")),
    **dict.fromkeys(["deletion_vectors", "txn_app_id", "user_metadata", "generatedAlwaysAs"], ("None", "text")),
    **dict.fromkeys(["merge_schema", "overwrite_schema", "nullable"], ()),
    **dict.fromkeys(["storage_options", "hadoopConf", "properties", "set", "values", "txn"], ("None",)),
    **dict.fromkeys(["on", "partition_by", "cols"], ("text", "list")),
    **dict.fromkeys(["target_size", "min_size", "threads", "start", "end"], ("None", "number")),
    **dict.fromkeys(["max_deleted_share", "retentionHours", "retention_hours", "max_commits"], ("None", "number")),
    **dict.fromkeys(["lite", "retention_check", "truncateHistory"], ("None",)),
    **dict.fromkeys(["commit_per_group", "confirm", "dry_run", "repair", "purge"], ()),
    **dict.fromkeys(["readerVersion", "writerVersion"], ("number",)),
    **dict.fromkeys(["isShallow", "replace"], ()),
    "target": ("text",),
    "partitionSchema": ("None", "text"),
    "mode of generate": ("text",),
    "start of IdentityGenerator": ("number",),
    "step of IdentityGenerator": ("number",),
    "version of restoreToVersion": ("number",),
    "version of cloneAtVersion": ("number",),
    "timestamp of restoreToTimestamp": ("text",),
    "timestamp of cloneAtTimestamp": ("text",),
    "sparkSession of convertToDelta": (),
    "min_small_files": ("number",),
    "skip": ("list",),
    "keep_versions": ("list", "list of a number"),
    "partitionFilter": ("text",),
    "condition": ("None", "text"),
    "condition of merge": ("text",),
    "comment": ("None", "text"),
    "comment of comment": ("text",),
    "cols of addColumns": ("list",),
    "sparkSession of forPath": (),
    "sparkSession of isDeltaTable": (),
}
COMMIT_OPTIONS = ["deletion_vectors", "conflicts", "txn_app_id", "txn_version", "user_metadata"]
FUNCTIONS = [ebbtide.read, ebbtide.read_changes, ebbtide.sql, ebbtide.write, ebbtide.IdentityGenerator]


def public_calls():
    yield from FUNCTIONS
    for owner in (DeltaTable, DeltaMergeBuilder, DeltaTableBuilder, DeltaOptimizeBuilder):
        yield from (
            member for name, member in inspect.getmembers(owner) if not name.startswith("_") and callable(member)
        )


def parameters_of(call):
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            yield from COMMIT_OPTIONS
        elif parameter.name != "self":
            yield parameter.name


CASES = [(call, name) for call in public_calls() for name in parameters_of(call)]


def right_values(call, name):
    own = f"{name} of {call.__name__}"
    return RIGHT[own] if own in RIGHT else RIGHT[name]


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("arguments") / "t"
    ebbtide.write(spark.range(3), path)
    return path


@pytest.fixture(scope="module")
def owners(spark, place):
    """What each method is called on."""
    table = DeltaTable.forPath(spark, place)
    return {
        "DeltaTable": table,
        "TableMaintenance": table,
        "TableCopies": table,
        "DeltaOptimizeBuilder": table.optimize(),
        "DeltaMergeBuilder": table.alias("t").merge(spark.range(1).alias("s"), "t.id = s.id"),
        "DeltaTableBuilder": DeltaTable.create(spark).location(place.parent / "new"),
    }


def good_arguments(spark, place, call):
    """Arguments with which the call would work, so that the wrong one is all that is wrong."""
    good = {
        "spark": spark,
        "sparkSession": spark,
        "path": str(place),
        "identifier": f"parquet.`{place}`" if call.__name__ == "convertToDelta" else str(place),
        "location": str(place.parent / "new"),
        "df": spark.range(1),
        "mode": "append",
        "source": spark.range(1),
        "on": "id",
        "condition": "t.id = s.id" if call.__name__ == "merge" else "id < 0",
        "statement": "SELECT 1",
        "aliasName": "t",
        "featureName": "deletionVectors",
        "colName": "a",
        "dataType": "INT",
        "key": "a",
        "value": "b",
        "comment": "c",
        "set": {"id": "id"},
        "values": {"id": "s.id"},
        "partitionFilter": "id < 0",
        "target": str(place.parent / "clone"),
        "version": 0,
        "timestamp": "2026-01-01",
        "readerVersion": 1,
        "writerVersion": 1,
    }
    return {name: good[name] for name in parameters_of(call) if name in good}


def state(place):
    return sorted(str(path.relative_to(place.parent)) for path in place.parent.rglob("*"))


@pytest.mark.parametrize(("call", "name"), CASES, ids=[f"{call.__qualname__}-{name}" for call, name in CASES])
def test_wrong_type_is_one_typed_sentence_and_writes_nothing(spark, place, owners, call, name):
    before = state(place)
    arguments = good_arguments(spark, place, call)
    owner = call.__qualname__.partition(".")[0]
    bound = getattr(owners[owner], call.__name__) if owner in owners else call
    is_collecting = name == "cols" and call.__name__ in {"clusterBy", "partitionedBy", "executeZOrderBy"}
    for label, value in WRONG.items():
        if label in right_values(call, name):
            continue
        with pytest.raises(ArgumentTypeError, match=rf"^(\[\w+\] )?{name} must be ") as caught:
            bound(value) if is_collecting else bound(**arguments | {name: value})
        assert isinstance(caught.value, TypeError), label
        assert isinstance(caught.value, ValueError), label
        assert "\n" not in str(caught.value), label
    assert state(place) == before


def test_every_public_name_is_looked_at():
    others = {"DeltaError", "EngineConfig", "DeltaTable"}
    assert set(ebbtide.__all__) == others | {function.__name__ for function in FUNCTIONS}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda t: t.history("x"), "limit must be an int, or None, not the str 'x'."),
        (
            lambda t: t.update(set=1),
            "set must be a dict that gives columns SQL text or Columns, or None, not the int 1.",
        ),
        (lambda t: t.update(set={"id": 1}), "but the value of 'id' is the int 1. Write it like {'price': 'price * 2'}"),
        (lambda t: t.merge(1, "x"), "source must be a Spark DataFrame, not the int 1. Use spark.createDataFrame"),
        (
            lambda t: t.merge(pd.DataFrame(), "x"),
            "not a pandas.DataFrame. Use spark.createDataFrame(data) to make one.",
        ),
        (lambda t: t.delete(user_metadata={"x": 1}), "user_metadata must be a str, or None, not a dict."),
        (lambda t: t.delete("id = 1", vectors="on"), "There is no option 'vectors' here. The options are conflicts, "),
    ],
    ids=["limit", "set", "value in set", "source", "pandas", "user metadata", "unknown option"],
)
def test_sentence_names_the_argument_and_the_fix(owners, wrong, sentence):
    with pytest.raises(ArgumentTypeError) as caught:
        wrong(owners["DeltaTable"])
    assert sentence in str(caught.value)


def test_wrong_call_is_pythons_own_error(owners):
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        owners["DeltaTable"].merge()


def test_path_objects_are_accepted_everywhere(spark, tmp_path):
    path = tmp_path / "t"
    ebbtide.write(spark.range(3), path)
    assert ebbtide.read(spark, path).count() == 3
    assert DeltaTable.forPath(spark, path).count() == 3
    assert DeltaTable.isDeltaTable(spark, path)
    DeltaTable.createOrReplace(spark).location(path).addColumn("a", "INT").execute()
    assert ebbtide.read(spark, path).columns == ["a"]
    with pytest.raises(RequestError, match="enableChangeDataFeed"):
        ebbtide.read_changes(spark, path, 1)
    with pytest.raises(ArgumentTypeError):
        ebbtide.read(spark, BytesPath())


class BytesPath:
    def __fspath__(self):
        return b"/tmp"


@pytest.mark.parametrize("mode", ["ERROR", "errorIfExists", "Default"])
def test_save_modes_are_sparks_own_in_any_case(spark, place, mode):
    with pytest.raises(ebbtide.DeltaError, match="DELTA_PATH_EXISTS"):
        ebbtide.write(spark.range(1), place, mode)
    assert ebbtide.write(spark.range(1), place, "IGNORE").version is None


def test_save_mode_that_spark_does_not_have_is_refused(spark, place):
    with pytest.raises(RequestError, match="expected one of append, overwrite, ignore, error, errorifexists, default"):
        ebbtide.write(spark.range(1), place, "apend")


def test_fourth_argument_of_add_column_is_the_generation_expression(spark, tmp_path):
    table = (
        DeltaTable.create(spark)
        .location(tmp_path / "t")
        .addColumn("a", "int")
        .addColumn("b", "int", True, "a + 1", None, "a, and one more")
        .execute()
    )
    ebbtide.write(spark.sql("SELECT 1 AS a"), tmp_path / "t", "append")
    assert [tuple(row) for row in table.toDF().collect()] == [(1, 2)]
    assert table.toDF().schema["b"].metadata["comment"] == "a, and one more"


def test_hadoop_settings_are_refused_with_what_to_use_instead(spark, place):
    assert DeltaTable.forPath(spark, str(place), {}).version() == 0
    with pytest.raises(RequestError, match="storage_options") as caught:
        DeltaTable.forPath(spark, str(place), {"fs.s3a.secret.key": "hush"})
    assert "hush" not in str(caught.value)


def test_builder_without_a_session_uses_the_active_one(spark, tmp_path):
    created = DeltaTable.create().location(tmp_path / "t").addColumns(T.StructType().add("id", "long")).execute()
    assert created.version() == 0


def test_moment_may_be_any_datetime(spark, place):
    with pytest.raises(
        ArgumentTypeError, match=r"timestamp must be a str or a datetime, or None, not a datetime\.date"
    ):
        ebbtide.read(spark, place, timestamp=dt.date(2026, 1, 31))
    newest = pd.Timestamp.now(tz="UTC")
    with pytest.raises(ebbtide.DeltaError, match="after the newest commit"):
        ebbtide.read(spark, Path(place), timestamp=newest)
