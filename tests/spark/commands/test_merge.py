"""Does every clause of a MERGE do what it says, with deletion vectors and without?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import actions_of, commit_info, newest_version
from tests.support.merge_checks import checked_merge
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})


@pytest.fixture(params=["vectors", "rewrites"])
def mode(request):
    return request.param


def built(path, mode, *, feed=False, groups=((1, 2, 3), (4, 5, 6))):
    builder = TableBuilder(path / "t", SCHEMA)
    if mode == "vectors":
        builder.deletion_vectors()
    if feed:
        builder.change_data_feed()
    for group in groups:
        builder.file([{"id": number, "v": f"old{number}"} for number in group])
    return builder.commit()


def source(spark, *rows, name="s"):
    return spark.createDataFrame(list(rows), "id long, v string").alias(name)


def merge(spark, table, frame, condition="t.id = s.id", **options):
    return DeltaTable.forPath(spark, str(table.path)).alias("t").merge(frame, condition, **options)


def run(spark, table, builder):
    return checked_merge(spark, table.path, builder.execute)


def rows_of(spark, table):
    return {(row["id"], row["v"]) for row in ebbtide.read(spark, str(table.path)).collect()}


OLD = {(number, f"old{number}") for number in range(1, 7)}


def test_upsert_updates_matches_and_inserts_the_rest(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    builder = merge(spark, table, source(spark, (2, "b"), (9, "i"))).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    result = run(spark, table, builder)
    assert (result.num_affected_rows, result.num_updated_rows, result.num_inserted_rows) == (2, 1, 1)
    assert rows_of(spark, table) == OLD - {(2, "old2")} | {(2, "b"), (9, "i")}
    assert result.operation_metrics["numTargetRowsCopied"] == (0 if mode == "vectors" else 2)
    assert result.operation_metrics["numTargetFilesRemoved"] == (0 if mode == "vectors" else 1)


@pytest.mark.one_value(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_first_clause_that_holds_is_taken_and_a_null_condition_does_not_hold(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    builder = (
        merge(spark, table, source(spark, (1, None), (2, "x"), (3, "y"), (8, None), (9, "z")))
        .whenMatchedUpdate("s.v = 'x'", {"v": "concat(t.v, '+', s.v)"})
        .whenMatchedDelete("s.v = 'y'")
        .whenMatchedUpdate(set={"v": F.lit("last")})
        .whenNotMatchedInsert("s.v <> 'none'", {"id": "id * 10", "v": "s.v"})
    )
    result = run(spark, table, builder)
    assert rows_of(spark, table) == {(1, "last"), (2, "old2+x"), (4, "old4"), (5, "old5"), (6, "old6"), (90, "z")}
    assert (result.num_updated_rows, result.num_deleted_rows, result.num_inserted_rows) == (2, 1, 1)


@pytest.mark.one_value(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_rows_without_a_partner_in_the_source_are_updated_and_deleted(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    builder = (
        merge(spark, table, source(spark, (1, "a")))
        .whenNotMatchedBySourceDelete("id > 4")
        .whenNotMatchedBySourceUpdate("v <> 'old2'", {"v": "upper(v)"})
    )
    result = run(spark, table, builder)
    assert rows_of(spark, table) == {(1, "old1"), (2, "old2"), (3, "OLD3"), (4, "OLD4")}
    metrics = result.operation_metrics
    assert metrics["numTargetRowsNotMatchedBySourceUpdated"] == metrics["numTargetRowsNotMatchedBySourceDeleted"] == 2
    assert metrics["numTargetRowsMatchedUpdated"] == metrics["numTargetRowsMatchedDeleted"] == 0


def test_all_kinds_of_clauses_together_make_the_target_the_source(spark, tmp_path, mode):
    table = built(tmp_path, mode, feed=True)
    builder = (
        merge(spark, table, source(spark, (1, "a"), (5, "e"), (7, "g")))
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceDelete()
    )
    result = run(spark, table, builder)
    assert rows_of(spark, table) == {(1, "a"), (5, "e"), (7, "g")}
    assert result.num_affected_rows == 7
    assert actions_of(table.path, 1, "cdc")


@pytest.mark.one_kind("the same plan for other rows")
def test_insert_only_merge_adds_files_and_nothing_else(spark, tmp_path, mode):
    table = built(tmp_path, mode, feed=True)
    builder = merge(spark, table, source(spark, (1, "a"), (9, "i"), (9, "i"), (None, "n"))).whenNotMatchedInsertAll()
    result = run(spark, table, builder)
    assert result.num_inserted_rows == 3, "equal rows of the source are all inserted"
    assert not actions_of(table.path, 1, "remove")
    assert not actions_of(table.path, 1, "cdc")
    assert len(ebbtide.read(spark, str(table.path)).collect()) == 9


def never_matching(spark, table, *rows):
    builder = merge(spark, table, source(spark, *rows)).whenMatchedUpdate("s.v = 'never'", {"v": "s.v"})
    return builder.whenMatchedDelete("t.id < 0")


@pytest.mark.one_kind("the same plan for other rows")
def test_insertion_beside_clauses_that_never_hold_copies_what_the_reference_copies(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    result = run(spark, table, never_matching(spark, table, (2, "b"), (9, "i")).whenNotMatchedInsertAll())
    assert rows_of(spark, table) == OLD | {(9, "i")}
    copied = 0 if mode == "vectors" else 3
    assert result.operation_metrics["numTargetRowsCopied"] == copied
    assert result.operation_metrics["numOutputRows"] == 1 + copied
    assert result.operation_metrics["numTargetFilesRemoved"] == (0 if mode == "vectors" else 1)


@pytest.mark.one_kind("the same plan for other rows")
@pytest.mark.parametrize("rows", [[(2, "b")], [(2, "b"), (9, "not this one")]], ids=["all-matched", "none-inserted"])
def test_where_no_clause_ever_holds_nothing_is_committed_and_nothing_left_behind(spark, tmp_path, mode, rows):
    table = built(tmp_path, mode)
    before = sorted(table.path.rglob("*.parquet"))
    builder = never_matching(spark, table, *rows).whenNotMatchedInsert("s.v = 'i'", {"id": "s.id", "v": "s.v"})
    assert run(spark, table, builder).version is None
    assert newest_version(table.path) == 0
    assert sorted(table.path.rglob("*.parquet")) == before


@pytest.mark.one_kind("the same plan for other rows")
def test_delete_only_merge_writes_no_rows_with_vectors(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    result = run(
        spark, table, merge(spark, table, source(spark, (1, ""), (2, ""), (3, ""), (4, ""))).whenMatchedDelete()
    )
    assert rows_of(spark, table) == {(5, "old5"), (6, "old6")}
    assert result.operation_metrics["numOutputRows"] == (0 if mode == "vectors" else 2)
    assert result.operation_metrics["numTargetFilesRemoved"] == (1 if mode == "vectors" else 2)


@pytest.mark.one_value(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_several_partners_are_refused_and_nothing_is_written(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    before = sorted(table.path.rglob("*"))
    builder = merge(spark, table, source(spark, (1, "a"), (1, "b"))).whenMatchedUpdate("s.v = 'a'", {"v": "s.v"})
    with pytest.raises(ebbtide.DeltaError, match="more than one row of the source") as caught:
        builder.execute()
    assert caught.value.error_class == "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    assert sorted(table.path.rglob("*")) == before


@pytest.mark.one_kind("the same plan for other rows")
def test_several_partners_do_not_matter_for_an_unconditional_delete(spark, tmp_path, mode):
    table = built(tmp_path, mode, feed=True)
    builder = (
        merge(spark, table, source(spark, (1, "a"), (1, "b"), (2, "c"), (7, "x")))
        .whenMatchedDelete()
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceUpdate("t.id = 6", {"v": "'six'"})
    )
    result = run(spark, table, builder)
    assert result.operation_metrics["numTargetRowsMatchedDeleted"] == 2
    assert rows_of(spark, table) == {(3, "old3"), (4, "old4"), (5, "old5"), (6, "six"), (7, "x")}


@pytest.mark.one_kind("the same plan for other rows")
def test_one_row_of_the_source_may_change_many(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    builder = merge(spark, table, source(spark, (4, "w")), "t.id < s.id").whenMatchedUpdate(set={"t.v": "s.v"})
    assert run(spark, table, builder).num_updated_rows == 3
    assert rows_of(spark, table) == {(1, "w"), (2, "w"), (3, "w"), (4, "old4"), (5, "old5"), (6, "old6")}


@pytest.mark.one_kind("the same plan for other rows")
def test_nulls_match_nothing_unless_asked_null_safely(spark, tmp_path, mode):
    table = TableBuilder(tmp_path / "t", SCHEMA)
    if mode == "vectors":
        table.deletion_vectors()
    table.file([{"id": None, "v": "none"}, {"id": 1, "v": "one"}]).commit()
    nothing = merge(spark, table, source(spark, (None, "x"))).whenMatchedDelete()
    assert run(spark, table, nothing).version is None
    safely = merge(spark, table, source(spark, (None, "x")), "t.id <=> s.id").whenMatchedUpdateAll()
    assert run(spark, table, safely).num_updated_rows == 1
    assert rows_of(spark, table) == {(None, "x"), (1, "one")}


@pytest.mark.one_kind("the same plan for other rows")
def test_empty_source_changes_nothing_or_everything(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    upsert = merge(spark, table, source(spark).limit(0)).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    result = run(spark, table, upsert)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert "nothing to change" in repr(result)
    wipe = merge(spark, table, source(spark)).whenNotMatchedBySourceDelete()
    assert run(spark, table, wipe).num_deleted_rows == 6
    assert rows_of(spark, table) == set()


@pytest.mark.one_kind("the same plan for other rows")
def test_empty_target_takes_the_source(spark, tmp_path, mode):
    table = built(tmp_path, mode, groups=())
    builder = merge(spark, table, source(spark, (1, "a"))).whenMatchedDelete().whenNotMatchedInsertAll()
    assert run(spark, table, builder).num_inserted_rows == 1
    assert rows_of(spark, table) == {(1, "a")}


@pytest.mark.one_value(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_source_may_read_the_target_itself(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    shifted = ebbtide.read(spark, str(table.path)).select((F.col("id") + 3).alias("id"), "v").alias("s")
    builder = merge(spark, table, shifted).whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsertAll()
    result = run(spark, table, builder)
    assert (result.num_updated_rows, result.num_inserted_rows) == (3, 3)
    expected = {(n, f"old{n if n < 4 else n - 3}") for n in range(1, 10)}
    assert rows_of(spark, table) == expected


@pytest.mark.one_value(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_random_source_is_computed_once(spark, tmp_path, mode):
    table = built(tmp_path, mode, feed=True)
    random = spark.range(1, 9).select("id", F.rand().cast("string").alias("v")).alias("s")
    builder = merge(spark, table, random).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert run(spark, table, builder).num_affected_rows == 8


@pytest.mark.one_value(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_random_value_is_the_same_in_data_and_change_data(spark, tmp_path, mode):
    table = built(tmp_path, mode, feed=True)
    builder = (
        merge(spark, table, source(spark, (1, "a"), (9, "i")))
        .whenMatchedUpdate(set={"v": "uuid()"})
        .whenNotMatchedInsert(values={"id": "s.id", "v": "uuid()"})
    )
    assert run(spark, table, builder).num_affected_rows == 2


@pytest.mark.one_value(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_columns_may_be_used_in_place_of_text(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    builder = (
        merge(spark, table, source(spark, (1, "a"), (9, "i")), F.col("t.id") == F.col("s.id"))
        .whenMatchedUpdate(F.col("s.v") == "a", {"v": F.upper("s.v")})
        .whenNotMatchedInsert(values={"id": F.col("s.id")})
    )
    run(spark, table, builder)
    assert rows_of(spark, table) == OLD - {(1, "old1")} | {(1, "A"), (9, None)}


@pytest.mark.one_value(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_value_of_another_clause_is_not_computed(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    builder = (
        merge(spark, table, source(spark, (1, "0"), (2, "5")))
        .whenMatchedUpdate("s.v <> '0'", {"v": "CAST(10 / CAST(s.v AS INT) AS STRING)"})
        .whenMatchedUpdate(set={"v": "'zero'"})
    )
    run(spark, table, builder)
    assert {(1, "zero"), (2, "2.0")} <= rows_of(spark, table)


@pytest.mark.one_kind("the same plan for other rows")
def test_merge_without_a_change_makes_no_version(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    builder = merge(spark, table, source(spark, (1, "a"))).whenMatchedUpdateAll("t.id > 5").whenMatchedDelete("false")
    assert run(spark, table, builder).version is None
    assert newest_version(table.path) == 0


@pytest.mark.one_kind(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_commit_records_what_was_asked(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    builder = (
        merge(spark, table, source(spark, (1, "a")), user_metadata="nightly")
        .whenMatchedUpdateAll("s.id > 0")
        .whenMatchedDelete()
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceDelete("t.id = 99")
    )
    run(spark, table, builder)
    info = commit_info(table.path, 1)
    assert info["operation"] == "MERGE"
    assert info["operationParameters"] == {
        "predicate": '["t.id = s.id"]',
        "matchedPredicates": '[{"predicate":"s.id > 0","actionType":"update"},{"actionType":"delete"}]',
        "notMatchedPredicates": '[{"actionType":"insert"}]',
        "notMatchedBySourcePredicates": '[{"predicate":"t.id = 99","actionType":"delete"}]',
    }
    assert info["userMetadata"] == "nightly"


@pytest.mark.one_kind(
    "both modes run on both kinds in test_upsert_updates_matches_and_inserts_the_rest and test_all_kinds_of_clauses_together_make_the_target_the_source"
)
def test_merge_of_an_application_lands_once_even_when_it_changes_nothing(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    options = {"txn_app_id": "job", "txn_version": 7}
    builder = merge(spark, table, source(spark, (99, "a")), **options).whenMatchedDelete()
    assert builder.execute().version == 1
    assert builder.execute().version is None
    assert newest_version(table.path) == 1
