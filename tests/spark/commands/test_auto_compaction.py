"""Are small files put together after a command, when the table or the session asks for it?"""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from tests.support.log_reading import commit_info, log_state, newest_version
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.errors import RequestError, StorageError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})
AUTO = "spark.databricks.delta.autoCompact."
FOUR_FILES = {f"{AUTO}minNumFiles": "4"}


def build(tmp_path, *, wanted=None, files=3):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p").deletion_vectors()
    if wanted is not None:
        builder.table_property("delta.autoOptimize.autoCompact", wanted)
    for number in range(files):
        builder.file([{"id": 10 * number + row, "p": "a"} for row in range(10)])
    builder.file([{"id": 100, "p": "b"}]).file([{"id": 101, "p": "b"}])
    return builder.commit()


def append(spark, table, part="a"):
    ebbtide.write(spark.sql(f"SELECT 500L AS id, '{part}' AS p"), str(table.path), mode="append")


def operations(table):
    return [commit_info(table.path, version)["operation"] for version in range(1, newest_version(table.path) + 1)]


def test_partition_with_enough_small_files_is_compacted_after_a_write(spark, tmp_path):
    table = build(tmp_path, wanted="true")
    with session_settings(spark, FOUR_FILES):
        append(spark, table)
    assert operations(table) == ["WRITE", "OPTIMIZE"]
    parameters = commit_info(table.path, 2)["operationParameters"]
    assert parameters["auto"] is True
    assert parameters["predicate"] == "[\"(p = 'a')\"]"
    # The other partition has too few files, and was not written to.
    assert len(log_state(table.path).adds) == 3
    assert ebbtide.read(spark, str(table.path)).count() == 33


@pytest.mark.one_kind(
    "the calls of test_partition_with_enough_small_files_is_compacted_after_a_write, which runs on both kinds; this adds the choice of files, which the log decides"
)
def test_too_few_files_are_left_alone(spark, tmp_path):
    table = build(tmp_path, wanted="true", files=2)
    with session_settings(spark, FOUR_FILES):
        append(spark, table)
    assert operations(table) == ["WRITE"]


@pytest.mark.one_kind(
    "the calls of test_partition_with_enough_small_files_is_compacted_after_a_write, which runs on both kinds; this adds the choice of files, which the log decides"
)
def test_partition_that_the_command_did_not_write_to_is_left_alone(spark, tmp_path):
    table = build(tmp_path, wanted="true", files=5)
    with session_settings(spark, FOUR_FILES):
        append(spark, table, part="b")
        assert operations(table) == ["WRITE"]
    with session_settings(spark, {**FOUR_FILES, f"{AUTO}modifiedPartitionsOnly.enabled": "false"}):
        append(spark, table, part="c")
    assert operations(table) == ["WRITE", "WRITE", "OPTIMIZE"]


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize(
    ("of_session", "of_table", "expected"),
    [
        ("true", None, True),
        ("true", "false", True),
        ("false", "true", False),
        (None, None, False),
        (None, "auto", True),
    ],
)
def test_session_decides_before_the_table(spark, tmp_path, of_session, of_table, expected):
    table = build(tmp_path, wanted=of_table)
    wanted = {} if of_session is None else {f"{AUTO}enabled": of_session}
    with session_settings(spark, {**FOUR_FILES, **wanted}):
        append(spark, table)
    assert ("OPTIMIZE" in operations(table)) is expected


@pytest.mark.one_value(
    "the calls of test_partition_with_enough_small_files_is_compacted_after_a_write, which runs on both kinds; this adds another command"
)
@pytest.mark.parametrize("verb", ["delete", "update", "merge", "insert"])
def test_every_changing_command_is_followed_by_it(spark, tmp_path, verb):
    table = build(tmp_path, wanted="true", files=4)
    target = DeltaTable.forPath(spark, str(table.path))
    with session_settings(spark, FOUR_FILES):
        match verb:
            case "delete":
                target.delete("id = 3")
            case "update":
                target.update("id = 3", {"id": "303"})
            case "merge":
                source = spark.sql("SELECT 3L AS id, 'a' AS p")
                merge = target.alias("t").merge(source.alias("s"), "t.id = s.id AND t.p = s.p")
                merge.whenMatchedUpdate(set={"id": "s.id + 300"}).execute()
            case "insert":
                ebbtide.sql(spark, f"INSERT INTO delta.`{table.path}` VALUES (303, 'a')")
    assert operations(table)[-1] == "OPTIMIZE"
    assert target.history(1).collect()[0]["operationParameters"]["auto"] == "true"
    ids = {row["id"] for row in target.toDF().collect()}
    assert (303 in ids) is (verb != "delete")


@pytest.mark.one_kind(
    "the calls of test_partition_with_enough_small_files_is_compacted_after_a_write, which runs on both kinds; this adds a failure that is not Spark's"
)
def test_failure_is_logged_and_does_not_fail_the_write(spark, tmp_path, monkeypatch, caplog):
    table = build(tmp_path, wanted="true")

    def fail(self):
        raise StorageError("the disk is full")

    monkeypatch.setattr(OptimizeCommand, "run", fail)
    with session_settings(spark, FOUR_FILES), caplog.at_level(logging.WARNING):
        append(spark, table)
    assert operations(table) == ["WRITE"]
    assert any("could not be put together" in record.getMessage() for record in caplog.records)


@pytest.mark.one_kind("test_session_decides_before_the_table reads settings on both kinds")
def test_wrong_setting_is_refused_before_anything_is_written(spark, tmp_path):
    table = build(tmp_path)
    with session_settings(spark, {f"{AUTO}minNumFiles": "few"}), pytest.raises(RequestError, match="minNumFiles"):
        append(spark, table)
    assert newest_version(table.path) == 0
