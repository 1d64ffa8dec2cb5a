"""Does a MERGE do the same whatever the size of its source and its table?

All are tiny here, so what they are taken for is set; the bound itself is tested as a number.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.merge_checks import checked_merge
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.merge import keys as merge_keys
from ebbtide.commands.merge import partners as merge_partners
from ebbtide.commands.merge import source as merge_source
from ebbtide.commands.merge import writing as merge_writing
from ebbtide.commands.merge.source import is_small
from ebbtide.errors import RequestError
from ebbtide.scan import dataframe
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})
MIB = 1 << 20


@pytest.mark.parametrize(("num_bytes", "small"), [(0, True), (32 * MIB, True), (32 * MIB + 1, False), (None, False)])
def test_source_is_sent_to_all_tasks_when_it_is_known_to_be_small(num_bytes, small):
    assert is_small(num_bytes) is small


@pytest.fixture(
    autouse=True, params=["large source", "large table", "more partners than can be looked up", "many keys"]
)
def sizes(request, monkeypatch):
    if request.param == "many keys":
        monkeypatch.setattr(merge_keys, "_MANY", 0)
    if request.param != "large table":
        monkeypatch.setattr(merge_source, "is_small", lambda _: False)
    if request.param == "large table":
        monkeypatch.setattr(merge_writing, "_ONE_WRITER_ROWS", 0)
        monkeypatch.setattr(merge_source, "_TINY_ROWS", 0)
    monkeypatch.setattr(dataframe, "has_few_marks", lambda _: False)
    monkeypatch.setattr(merge_partners, "_FEW", 0)
    if request.param.startswith("more"):
        monkeypatch.setattr(merge_partners, "mark_lookup", lambda *_: None)


@pytest.fixture(params=["vectors", "vectors and a change feed", "rewrites"])
def table(request, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA)
    if request.param != "vectors":
        builder.change_data_feed()
    if request.param.startswith("vectors"):
        builder.deletion_vectors()
    for group in ((1, 2, 3), (4, 5, 6)):
        builder.file([{"id": number, "v": f"old{number}"} for number in group])
    return builder.commit()


def merge(spark, table, *rows):
    source = spark.createDataFrame(list(rows), "id long, v string").alias("s")
    return DeltaTable.forPath(spark, str(table.path)).alias("t").merge(source, "t.id = s.id")


def run(spark, table, builder):
    result = checked_merge(spark, table.path, builder.execute)
    return result, {(row["id"], row["v"]) for row in ebbtide.read(spark, str(table.path)).collect()}


def test_upsert(spark, table):
    rows = [(number, "new") for number in (2, 3, 5, 8, 9)]
    result, left = run(spark, table, merge(spark, table, *rows).whenMatchedUpdateAll().whenNotMatchedInsertAll())
    assert (result.num_updated_rows, result.num_inserted_rows) == (3, 2)
    assert left == {(1, "old1"), (4, "old4"), (6, "old6"), *rows}


def test_all_kinds_of_clauses(spark, table):
    builder = merge(spark, table, (1, "x"), (4, None), (9, "i"))
    builder = builder.whenMatchedDelete("s.v IS NULL").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    builder = builder.whenNotMatchedBySourceUpdate("t.id < 4", {"v": "'kept'"}).whenNotMatchedBySourceDelete()
    result, left = run(spark, table, builder)
    assert left == {(1, "x"), (2, "kept"), (3, "kept"), (9, "i")}
    assert (result.num_updated_rows, result.num_deleted_rows, result.num_inserted_rows) == (3, 3, 1)


def test_insert_only_and_delete_only(spark, table):
    result, left = run(spark, table, merge(spark, table, (1, "x"), (9, "i"), (9, "i")).whenNotMatchedInsertAll())
    assert result.num_inserted_rows == 2
    result, left = run(spark, table, merge(spark, table, (2, None), (2, None), (9, None)).whenMatchedDelete())
    assert result.num_deleted_rows == 3
    assert left == {(number, f"old{number}") for number in (1, 3, 4, 5, 6)}


def test_row_with_two_partners_is_refused(spark, table):
    with pytest.raises(RequestError, match="more than one row of the source"):
        merge(spark, table, (1, "a"), (1, "b")).whenMatchedUpdateAll().execute()


def test_rows_to_which_no_clause_can_apply_may_have_two_partners_in_any_file(spark, table):
    rows = [(1, "a"), (1, "b"), (4, "x")]
    result, left = run(spark, table, merge(spark, table, *rows).whenMatchedUpdate("t.id > 3", {"v": "s.v"}))
    assert result.num_updated_rows == 1
    assert (1, "old1") in left
    with pytest.raises(RequestError, match="more than one row of the source"):
        merge(spark, table, *rows).whenMatchedUpdate("t.id < 2", {"v": "s.v"}).execute()


@pytest.mark.parametrize("condition", ["s.v -- the name\n = t.v", "t.v = s.v -- the name", "t.v /* a */ = /* b */ s.v"])
def test_comments_of_the_user_swallow_nothing(spark, table, condition):
    source = spark.createDataFrame([(9, "old2")], "id long, v string").alias("s")
    builder = DeltaTable.forPath(spark, str(table.path)).alias("t").merge(source, condition)
    result, left = run(spark, table, builder.whenMatchedUpdate("t.id > 0 -- all", {"id": "s.id"}))
    assert result.num_updated_rows == 1
    assert (9, "old2") in left
