"""Does a MERGE do the same whatever the size of its source and its table?

All are tiny here, so each test is told from where on they count as large.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.merge_checks import checked_merge
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.strategy import MergeThresholds
from ebbtide.errors import RequestError
from ebbtide.scan import dataframe
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})
# As tiny tables see them: everything is large.
THRESHOLDS = {
    "large source": MergeThresholds(broadcast_bytes=-1, listed_partners=0),
    "large table": MergeThresholds(one_writer_rows=0, one_task_source_rows=0, listed_partners=0),
    "more partners than can be looked up": MergeThresholds(broadcast_bytes=-1, listed_partners=0, partner_blocks=0),
    "many keys": MergeThresholds(broadcast_bytes=-1, listed_partners=0, looked_up_keys=0),
}


@pytest.fixture(params=THRESHOLDS, autouse=True)
def thresholds(request, monkeypatch):
    monkeypatch.setattr(dataframe, "has_few_marks", lambda _: False)
    return THRESHOLDS[request.param]


@pytest.fixture
def run(spark, table, thresholds):
    def merged(builder):
        command = MergeCommand(spark, builder.to_request(), thresholds=thresholds)
        result = checked_merge(spark, table.path, command.run)
        return result, {(row["id"], row["v"]) for row in ebbtide.read(spark, str(table.path)).collect()}

    return merged


@pytest.fixture
def refused(spark, thresholds):
    def tried(builder):
        with pytest.raises(RequestError, match="more than one row of the source"):
            MergeCommand(spark, builder.to_request(), thresholds=thresholds).run()

    return tried


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


@pytest.mark.one_kind("every strategy runs on both kinds in test_all_kinds_of_clauses")
def test_upsert(spark, table, run):
    rows = [(number, "new") for number in (2, 3, 5, 8, 9)]
    result, left = run(merge(spark, table, *rows).whenMatchedUpdateAll().whenNotMatchedInsertAll())
    assert (result.num_updated_rows, result.num_inserted_rows) == (3, 2)
    assert left == {(1, "old1"), (4, "old4"), (6, "old6"), *rows}


@pytest.mark.one_value(
    "each strategy runs on both kinds; rewriting and change data run on both in test_merge.py", "table"
)
def test_all_kinds_of_clauses(spark, table, run):
    builder = merge(spark, table, (1, "x"), (4, None), (9, "i"))
    builder = builder.whenMatchedDelete("s.v IS NULL").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    builder = builder.whenNotMatchedBySourceUpdate("t.id < 4", {"v": "'kept'"}).whenNotMatchedBySourceDelete()
    result, left = run(builder)
    assert left == {(1, "x"), (2, "kept"), (3, "kept"), (9, "i")}
    assert (result.num_updated_rows, result.num_deleted_rows, result.num_inserted_rows) == (3, 3, 1)


@pytest.mark.one_kind("every strategy runs on both kinds in test_all_kinds_of_clauses")
def test_insert_only_and_delete_only(spark, table, run):
    result, left = run(merge(spark, table, (1, "x"), (9, "i"), (9, "i")).whenNotMatchedInsertAll())
    assert result.num_inserted_rows == 2
    result, left = run(merge(spark, table, (2, None), (2, None), (9, None)).whenMatchedDelete())
    assert result.num_deleted_rows == 3
    assert left == {(number, f"old{number}") for number in (1, 3, 4, 5, 6)}


@pytest.mark.one_kind("every strategy runs on both kinds in test_all_kinds_of_clauses")
def test_row_with_two_partners_is_refused(spark, table, refused):
    refused(merge(spark, table, (1, "a"), (1, "b")).whenMatchedUpdateAll())


@pytest.mark.one_kind("every strategy runs on both kinds in test_all_kinds_of_clauses")
def test_rows_to_which_no_clause_can_apply_may_have_two_partners_in_any_file(spark, table, run, refused):
    rows = [(1, "a"), (1, "b"), (4, "x")]
    result, left = run(merge(spark, table, *rows).whenMatchedUpdate("t.id > 3", {"v": "s.v"}))
    assert result.num_updated_rows == 1
    assert (1, "old1") in left
    refused(merge(spark, table, *rows).whenMatchedUpdate("t.id < 2", {"v": "s.v"}))


@pytest.mark.one_value("the text of the condition is the same on both kinds")
@pytest.mark.parametrize("condition", ["s.v -- the name\n = t.v", "t.v = s.v -- the name", "t.v /* a */ = /* b */ s.v"])
def test_comments_of_the_user_swallow_nothing(spark, table, run, condition):
    source = spark.createDataFrame([(9, "old2")], "id long, v string").alias("s")
    builder = DeltaTable.forPath(spark, str(table.path)).alias("t").merge(source, condition)
    result, left = run(builder.whenMatchedUpdate("t.id > 0 -- all", {"id": "s.id"}))
    assert result.num_updated_rows == 1
    assert (9, "old2") in left
