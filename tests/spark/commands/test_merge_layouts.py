"""Does MERGE do the same on every kind of table: partitions, old vectors, mapped columns, nested columns, tracked rows?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import actions_of, log_state
from tests.support.merge_checks import checked_merge, told_changes
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import ConstraintViolationError
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string(), "p": pa.string()})


@pytest.fixture(params=["vectors", "rewrites"])
def mode(request):
    return request.param


def builder(path, mode, schema=SCHEMA):
    table = TableBuilder(path / "t", schema)
    return table.deletion_vectors() if mode == "vectors" else table


def rows(*numbers, p="a"):
    return [{"id": number, "v": f"old{number}", "p": p} for number in numbers]


def source(spark, *values):
    return spark.createDataFrame(list(values), "id long, v string, p string").alias("s")


def merge(spark, table, frame, condition="t.id = s.id"):
    return DeltaTable.forPath(spark, str(table.path)).alias("t").merge(frame, condition)


def rows_of(spark, table):
    return {tuple(row) for row in ebbtide.read(spark, str(table.path)).collect()}


@pytest.mark.one_value("the same calls for other values")
def test_rows_move_between_partitions(spark, tmp_path, mode):
    table = builder(tmp_path, mode).partitioned_by("p").change_data_feed()
    table.file(rows(1, 2, p="a")).file(rows(3, p="b%c d")).file(rows(4, p=None)).commit()
    frame = source(spark, (1, "n1", "b%c d"), (3, "n3", None), (4, "n4", "new"), (9, "n9", "a"))
    builder_ = merge(spark, table, frame).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    result = checked_merge(spark, table.path, builder_.execute)
    assert result.num_affected_rows == 4
    expected = {(1, "n1", "b%c d"), (2, "old2", "a"), (3, "n3", None), (4, "n4", "new"), (9, "n9", "a")}
    assert rows_of(spark, table) == expected


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_marked_rows_are_not_there(spark, tmp_path, mode):
    table = builder(tmp_path, "vectors").file(rows(1, 2, 3, 4), deleted=[1]).file(rows(5, 6), deleted=[0]).commit()
    frame = source(spark, (1, "n1", "x"), (2, "n2", "x"), (6, "n6", "x"))
    vectors = "on" if mode == "vectors" else "off"
    target = DeltaTable.forPath(spark, str(table.path)).alias("t")
    upsert = target.merge(frame, "t.id = s.id", deletion_vectors=vectors)
    upsert = upsert.whenMatchedUpdateAll().whenNotMatchedInsertAll()
    result = checked_merge(spark, table.path, upsert.execute)
    assert (result.num_updated_rows, result.num_inserted_rows) == (2, 1)
    expected = {(1, "n1", "x"), (2, "n2", "x"), (6, "n6", "x"), (3, "old3", "a"), (4, "old4", "a")}
    assert rows_of(spark, table) == expected
    if mode == "vectors":
        assert result.operation_metrics["numTargetDeletionVectorsUpdated"] == 1
        assert result.operation_metrics["numTargetFilesRemoved"] == 1


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("mapping", ["name", "id"])
def test_mapped_columns(spark, tmp_path, mode, mapping):
    table = builder(tmp_path, mode).column_mapping(mapping).change_data_feed().file(rows(1, 2, 3)).commit()
    frame = source(spark, (1, "n1", "x"), (9, "n9", "x"))
    upsert = merge(spark, table, frame).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    result = upsert.execute()
    assert result.num_affected_rows == 2
    assert rows_of(spark, table) == {(1, "n1", "x"), (2, "old2", "a"), (3, "old3", "a"), (9, "n9", "x")}
    assert len(told_changes(table.path, 1)) == 3


@pytest.mark.one_value("both modes merge on both kinds in test_merge.py")
def test_nested_fields_are_updated_one_by_one(spark, tmp_path, mode):
    schema = pa.schema({"id": pa.int64(), "s": pa.struct({"a": pa.int32(), "n": pa.struct({"x": pa.string()})})})
    table = builder(tmp_path, mode, schema)
    table.file([{"id": 1, "s": {"a": 1, "n": {"x": "p"}}}, {"id": 2, "s": None}]).commit()
    frame = spark.createDataFrame([(1,), (2,)], "id long").alias("s")
    update = merge(spark, table, frame).whenMatchedUpdate(set={"s.n.x": "concat('k', t.id)"})
    checked_merge(spark, table.path, update.execute)
    found = {row["id"]: row["s"].asDict(recursive=True) for row in ebbtide.read(spark, str(table.path)).collect()}
    assert found == {1: {"a": 1, "n": {"x": "k1"}}, 2: {"a": None, "n": {"x": "k2"}}}


@pytest.mark.one_value("the same calls for other values")
def test_tracked_rows_keep_their_ids(spark, tmp_path, mode):
    table = builder(tmp_path, mode).row_tracking().file(rows(1, 2, 3)).commit()
    upsert = merge(spark, table, source(spark, (2, "n2", "x"), (9, "n9", "x")))
    result = upsert.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert result.num_affected_rows == 2
    assert rows_of(spark, table) == {(1, "old1", "a"), (2, "n2", "x"), (3, "old3", "a"), (9, "n9", "x")}
    assert all("baseRowId" in add for add in log_state(table.path).adds)
    [info] = actions_of(table.path, 1, "commitInfo")
    assert info["tags"]["delta.rowTracking.preserved"] == "true"


@pytest.mark.one_kind("pruning reads the log and the text of the condition")
@pytest.mark.parametrize("form", ["text", "column"])
def test_files_outside_the_range_of_the_keys_are_not_looked_at(spark, tmp_path, mode, form):
    table = builder(tmp_path, mode).file(rows(1, 2)).file(rows(11, 12)).file(rows(21, 22)).commit()
    frame = source(spark, (11, "n", "x"), (13, "n", "x"))
    condition = "t.id = s.id" if form == "text" else F.col("t.id") == F.col("s.id")
    result = merge(spark, table, frame, condition).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert result.metrics.num_target_files_after_skipping == 1
    assert (result.num_updated_rows, result.num_inserted_rows) == (1, 1)


@pytest.mark.one_kind("pruning reads the log and the text of the condition")
@pytest.mark.parametrize(
    ("condition", "after"),
    [
        ("t.id = s.id AND t.id > 20", 1),
        ("t.p = s.p", 3),
        ("t.id = s.id + 10", 1),
        ("t.id <=> s.id", 3),
        ("t.id = s.id OR t.id = 1", 3),
        ("t.v = concat('old', s.id)", 3),
    ],
)
def test_pruning_never_loses_a_match(spark, tmp_path, condition, after):
    table = builder(tmp_path, "vectors").file(rows(1, 2)).file(rows(11, 12)).file(rows(21, 22)).commit()
    frame = source(spark, (11, "n", "x"), (21, "n", "a"))
    frame = frame if condition != "t.id = s.id + 10" else frame.where("s.id = 11")
    joined = ebbtide.read(spark, str(table.path)).alias("t").crossJoin(frame).where(condition)
    expected = joined.select("t.id").distinct().count()
    result = merge(spark, table, frame, condition).whenMatchedDelete().execute()
    assert result.num_deleted_rows == expected
    assert result.metrics.num_target_files_after_skipping <= after


@pytest.mark.one_kind("pruning reads the log and the text of the condition")
def test_null_keys_alone_match_nothing_and_read_nothing(spark, tmp_path, mode):
    table = builder(tmp_path, mode).file(rows(1, 2)).commit()
    result = (
        merge(spark, table, source(spark, (None, "n", "x"))).whenMatchedDelete().whenNotMatchedInsertAll().execute()
    )
    assert result.metrics.num_target_files_after_skipping == 0
    assert result.num_inserted_rows == 1


@pytest.mark.one_kind("test_columns_may_be_used_in_place_of_text in test_merge.py leaves a column out on both kinds")
def test_columns_that_an_insert_leaves_out_are_null(spark, tmp_path, mode):
    table = builder(tmp_path, mode).file(rows(1)).commit()
    insert = merge(spark, table, source(spark, (2, "b", "x"))).whenNotMatchedInsert(values={"id": "s.id"})
    checked_merge(spark, table.path, insert.execute)
    assert rows_of(spark, table) == {(1, "old1", "a"), (2, None, None)}


@pytest.mark.one_value("the same calls for other values")
def test_generated_columns_follow_what_they_are_made_of(spark, tmp_path, mode):
    path = str(tmp_path / "g")
    created = DeltaTable.create(spark).location(path).addColumn("id", "bigint").addColumn("v", "int")
    created = created.addColumn("twice", "int", generatedAlwaysAs="v * 2")
    if mode == "vectors":
        created = created.property("delta.enableDeletionVectors", "true")
    table = created.execute().alias("t")
    first = spark.createDataFrame([(1, 10), (2, 20)], "id long, v int").alias("s")
    table.merge(first, "t.id = s.id").whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute()
    more = spark.createDataFrame([(1, 11), (2, 22), (3, 33)], "id long, v int").alias("s")
    upsert = (
        table.merge(more, "t.id = s.id")
        .whenMatchedUpdate("s.id = 1", {"v": "s.v"})
        .whenMatchedUpdate(set={"v": "s.v", "twice": "s.v + s.v"})
        .whenNotMatchedInsertAll()
    )
    upsert.execute()
    assert {tuple(row) for row in ebbtide.read(spark, path).collect()} == {(1, 11, 22), (2, 22, 44), (3, 33, 66)}
    with pytest.raises(ConstraintViolationError):
        table.merge(more, "t.id = s.id").whenMatchedUpdate(set={"twice": "0"}).execute()
