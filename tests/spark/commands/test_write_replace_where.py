"""Does `replace_where` replace exactly the rows it names, in one commit whose change data can be told?"""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import actions_of, commit_info, log_state, newest_version
from tests.support.races import RacingStore

import ebbtide
from ebbtide import DeltaTable
from ebbtide.commands.write.command import WriteCommand
from ebbtide.commands.write.request import WriteRequest
from ebbtide.errors import (
    ConcurrentAppendException,
    ConstraintViolationError,
    InvalidPredicateError,
    RequestError,
    UnknownColumnError,
)
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

VECTORS, CHANGES = "delta.enableDeletionVectors", "delta.enableChangeDataFeed"
FIRST = [(number, number % 3, f"n{number}") for number in range(12)]


def frame(spark, rows):
    return spark.createDataFrame(rows, "id int, p int, name string")


def rows(spark, path):
    return sorted(tuple(row) for row in ebbtide.read(spark, str(path)).collect())


def files_below(path):
    return sorted(str(item) for item in path.rglob("*") if item.is_file() and "_delta_log" not in item.parts)


def made(spark, path, *, vectors="false", changes="false", partition_by=()):
    properties = {VECTORS: vectors, CHANGES: changes}
    ebbtide.write(frame(spark, FIRST).repartition(2, "id"), str(path), partition_by=partition_by, properties=properties)
    return path


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("partition_by", [(), ("p",)], ids=["plain", "partitioned"])
@pytest.mark.parametrize("changes", ["true", "false"], ids=["cdf", "no-cdf"])
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewrites"])
def test_rows_that_match_are_replaced_and_all_others_stay(spark, tmp_path, vectors, changes, partition_by):
    path = made(spark, tmp_path / "t", vectors=vectors, changes=changes, partition_by=partition_by)
    new = [(5, 2, "new five"), (7, 0, "seven"), (5, 1, "five again")]
    result = ebbtide.write(frame(spark, new), str(path), mode="overwrite", replace_where="id >= 5 AND id < 8")
    kept = [row for row in FIRST if not 5 <= row[0] < 8]
    assert rows(spark, path) == sorted(kept + new)
    assert (result.version, result.num_affected_rows, result.metrics.num_deleted_rows) == (1, 3, 3)
    info = commit_info(path, 1)
    assert info["operationParameters"]["predicate"] == "id >= 5 AND id < 8"
    assert info["operationMetrics"]["numDeletedRows"] == "3"
    has_vectors = any("deletionVector" in add for add in log_state(path).live.values())
    assert has_vectors == (vectors == "true")
    if changes == "true":
        told = ebbtide.read_changes(spark, str(path), start_version=1).collect()
        gone = [row for row in FIRST if 5 <= row[0] < 8]
        assert Counter((row["_change_type"], row["id"], row["p"], row["name"]) for row in told) == Counter(
            [("delete", *row) for row in gone] + [("insert", *row) for row in new]
        )
    explicit = changes == "true" and vectors == "false"
    assert bool(actions_of(path, 1, "cdc")) == explicit


@pytest.mark.one_value("the change feed is read on both kinds in test_rows_that_match_are_replaced_and_all_others_stay")
@pytest.mark.parametrize("changes", ["true", "false"], ids=["cdf", "no-cdf"])
def test_a_condition_on_partitions_removes_their_files_and_reads_none(spark, tmp_path, changes):
    path = made(spark, tmp_path / "t", changes=changes, partition_by=["p"])
    ebbtide.write(frame(spark, [(100, 1, "x")]), str(path), mode="overwrite", replace_where="p = 1")
    assert rows(spark, path) == sorted([row for row in FIRST if row[1] != 1] + [(100, 1, "x")])
    assert actions_of(path, 1, "cdc") == []
    assert all(remove["partitionValues"] == {"p": "1"} for remove in actions_of(path, 1, "remove"))
    if changes == "true":
        told = ebbtide.read_changes(spark, str(path), start_version=1).collect()
        assert Counter(row["_change_type"] for row in told) == {"delete": 4, "insert": 1}


@pytest.mark.one_kind(
    "the calls of test_rows_that_match_are_replaced_and_all_others_stay, which runs on both kinds; this adds values"
)
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewrites"])
def test_rows_are_written_even_when_none_is_replaced(spark, tmp_path, vectors):
    path = made(spark, tmp_path / "t", vectors=vectors, changes="true")
    ebbtide.write(frame(spark, [(50, 0, "x")]), str(path), mode="overwrite", replace_where="id = 50")
    assert rows(spark, path) == sorted([*FIRST, (50, 0, "x")])
    told = ebbtide.read_changes(spark, str(path), start_version=1).collect()
    assert [(row["_change_type"], row["id"]) for row in told] == [("insert", 50)]


@pytest.mark.one_kind(
    "the calls of test_rows_that_match_are_replaced_and_all_others_stay, which runs on both kinds; this adds values"
)
def test_a_frame_without_rows_only_takes_rows_away(spark, tmp_path):
    path = made(spark, tmp_path / "t", vectors="true")
    ebbtide.write(frame(spark, []), str(path), mode="overwrite", replace_where="id < 6")
    assert rows(spark, path) == [row for row in FIRST if row[0] >= 6]
    assert ebbtide.write(frame(spark, []), str(path), mode="overwrite", replace_where="id < 6").version is None


def test_rows_can_be_replaced_by_a_query_over_the_table_itself(spark, tmp_path):
    path = made(spark, tmp_path / "t", vectors="true")
    own = ebbtide.read(spark, str(path)).where("p = 1").withColumn("name", F.upper("name"))
    ebbtide.write(own, str(path), mode="overwrite", replace_where="p = 1")
    assert rows(spark, path) == sorted((i, p, n.upper() if p == 1 else n) for i, p, n in FIRST)


def test_a_row_that_would_not_be_replaced_next_time_is_refused_with_its_values(spark, tmp_path):
    path = made(spark, tmp_path / "t", vectors="true")
    before = files_below(path)
    for bad in [(9, 0, "x"), (None, 0, "x")]:
        with pytest.raises(RequestError, match=f"id : {'null' if bad[0] is None else bad[0]}") as caught:
            ebbtide.write(frame(spark, [(1, 0, "y"), bad]), str(path), mode="overwrite", replace_where="id < 6")
        assert caught.value.error_class == "DELTA_REPLACE_WHERE_MISMATCH"
    assert (newest_version(path), files_below(path)) == (0, before)


@pytest.mark.one_kind("test_a_row_that_would_not_be_replaced_next_time_is_refused_with_its_values runs on both kinds")
def test_a_new_table_holds_only_rows_of_the_condition(spark, tmp_path):
    path = tmp_path / "t"
    with pytest.raises(RequestError, match="DELTA_REPLACE_WHERE_MISMATCH"):
        ebbtide.write(frame(spark, FIRST), str(path), mode="overwrite", replace_where="id < 6")
    assert not DeltaTable.isDeltaTable(spark, str(path))
    ebbtide.write(frame(spark, FIRST[:6]), str(path), mode="overwrite", replace_where="id < 6")
    assert rows(spark, path) == FIRST[:6]


@pytest.mark.one_kind(
    "the calls of test_rows_that_match_are_replaced_and_all_others_stay, which runs on both kinds; this adds a column"
)
def test_columns_may_be_added_while_rows_are_replaced(spark, tmp_path):
    path = made(spark, tmp_path / "t")
    more = frame(spark, [(3, 0, "x")]).withColumn("more", F.lit(1.5))
    ebbtide.write(more, str(path), mode="overwrite", replace_where="id = 3", merge_schema=True)
    assert rows(spark, path)[2:5] == [(2, 2, "n2", None), (3, 0, "x", 1.5), (4, 1, "n4", None)]


@pytest.mark.one_value("other refusals of conditions run on both kinds in test_delete.py")
@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("nowhere = 1", UnknownColumnError),
        ("id +", InvalidPredicateError),
        ("id", InvalidPredicateError),
        ("rand() < 0.5", InvalidPredicateError),
        ("", InvalidPredicateError),
        ("id IN (SELECT 1)", RequestError),
        (5, RequestError),
    ],
)
def test_a_condition_that_cannot_be_used_is_refused_before_anything_is_written(spark, tmp_path, condition, error):
    path = made(spark, tmp_path / "t")
    before = files_below(path)
    with pytest.raises(error):
        ebbtide.write(frame(spark, FIRST), str(path), mode="overwrite", replace_where=condition)
    assert (newest_version(path), files_below(path)) == (0, before)


@pytest.mark.one_kind(
    "test_constraints_hold_for_every_write_and_a_broken_one_leaves_nothing in test_write.py runs on both kinds"
)
def test_a_broken_constraint_leaves_the_old_rows_and_no_files(spark, tmp_path):
    path = tmp_path / "t"
    ebbtide.write(frame(spark, FIRST), str(path), properties={"delta.constraints.c": "p < 5", VECTORS: "true"})
    before = files_below(path)
    with pytest.raises(ConstraintViolationError, match="p : 9"):
        ebbtide.write(frame(spark, [(1, 9, "x")]), str(path), mode="overwrite", replace_where="id = 1")
    assert (newest_version(path), files_below(path)) == (0, before)


@pytest.mark.one_kind("the log decides, not Spark")
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewrites"])
def test_a_lost_race_leaves_no_file_behind(spark, tmp_path, vectors):
    path = made(spark, tmp_path / "t", vectors=vectors, changes="true")

    def rival():
        ebbtide.write(frame(spark, [(3, 0, "rival")]), str(path), mode="append")

    store = RacingStore(open_store(str(path)), rival, first=1)
    request = WriteRequest(store, frame(spark, [(3, 0, "x")]), mode="overwrite", replace_where="id = 3")
    before = len(files_below(path))
    with pytest.raises(ConcurrentAppendException):
        WriteCommand(spark, request).run()
    assert len(files_below(path)) == before + 1
    assert rows(spark, path) == sorted([*FIRST, (3, 0, "rival")])
