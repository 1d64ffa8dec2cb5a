"""Is a MERGE that cannot be done refused with a name for the mistake, before anything is written?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import newest_version
from tests.support.table_builder import TableBuilder

from ebbtide.errors import ConstraintViolationError, DeltaError, RequestError, UnknownColumnError
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string(), "s": pa.struct({"a": pa.int32(), "b": pa.int32()})})


@pytest.fixture
def table(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    return builder.file([{"id": 1, "v": "x", "s": {"a": 1, "b": 2}}]).commit()


@pytest.fixture
def merge(spark, table):
    frame = spark.createDataFrame([(1, "a", "extra")], "id long, w string, more string").alias("src")
    target = DeltaTable.forPath(spark, str(table.path)).alias("t")

    def start(condition="t.id = src.id"):
        return target.merge(frame, condition)

    return start


def assert_refused(table, builder, error_class, *, match=".", kind=DeltaError):
    before = sorted(table.path.rglob("*"))
    with pytest.raises(kind, match=match) as caught:
        builder().execute()
    assert caught.value.error_class == error_class
    assert newest_version(table.path) == 0
    assert sorted(table.path.rglob("*")) == before, "something was written"


@pytest.mark.one_kind("refused by us, before Spark is asked for anything but columns")
def test_merge_without_a_clause(table, merge):
    assert_refused(table, merge, "DELTA_MERGE_MISSING_WHEN", kind=RequestError)


@pytest.mark.one_kind("refused by us, before Spark is asked for anything but columns")
@pytest.mark.parametrize(
    ("clauses", "kind"),
    [
        (lambda m: m.whenMatchedDelete().whenMatchedDelete(), "MATCHED"),
        (
            lambda m: m.whenNotMatchedInsert(values={"id": "src.id"}).whenNotMatchedInsert("id > 1", {"id": "src.id"}),
            "NOT_MATCHED",
        ),
        (
            lambda m: m.whenNotMatchedBySourceDelete().whenNotMatchedBySourceUpdate("id > 1", {"v": "v"}),
            "NOT_MATCHED_BY_SOURCE",
        ),
    ],
)
def test_clause_behind_one_without_a_condition(table, merge, clauses, kind):
    assert_refused(table, lambda: clauses(merge()), f"DELTA_NON_LAST_{kind}_CLAUSE_OMIT_CONDITION")


@pytest.mark.one_value("every clause has its unknown name on both kinds in test_bound_columns.py")
@pytest.mark.parametrize(
    "clauses",
    [
        lambda m: m.whenMatchedUpdate(set={"nope": "src.w"}),
        lambda m: m.whenMatchedUpdate(set={"v": "nope"}),
        lambda m: m.whenMatchedUpdate("nope > 1", {"v": "src.w"}),
        lambda m: m.whenMatchedUpdate(set={"s.nope": "1"}),
        lambda m: m.whenNotMatchedInsert(values={"id": "t.id"}),
        lambda m: m.whenNotMatchedInsert("v = 'x'", {"id": "src.id"}),
        lambda m: m.whenNotMatchedBySourceDelete("w = 'a'"),
        lambda m: m.whenNotMatchedBySourceUpdate(set={"v": "src.w"}),
        lambda m: m.whenMatchedUpdateAll(),
        lambda m: m.whenNotMatchedInsertAll(),
    ],
)
def test_name_that_its_clause_cannot_see(table, merge, clauses):
    assert_refused(table, lambda: clauses(merge()), "DELTA_MERGE_UNRESOLVED_EXPRESSION", kind=UnknownColumnError)


@pytest.mark.parametrize(
    ("condition", "error_class"),
    [
        ("t.id = src.id AND max(t.id) > 2", "DELTA_AGGREGATION_NOT_SUPPORTED"),
        ("t.id = src.id AND rand() < 0.5", "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"),
        ("t.id IN (SELECT 1)", "DELTA_UNSUPPORTED_SUBQUERY"),
        ("id = 1", "AMBIGUOUS_REFERENCE"),
        ("t.id = nope", "DELTA_MERGE_UNRESOLVED_EXPRESSION"),
        ("t.id =", "PARSE_SYNTAX_ERROR"),
        ("  ", ""),
    ],
)
def test_condition_that_cannot_pair_rows(table, merge, condition, error_class):
    assert_refused(table, lambda: merge(condition).whenMatchedDelete(), error_class, kind=RequestError)


@pytest.mark.one_value("test_condition_that_cannot_pair_rows has the same refusals on both kinds")
@pytest.mark.parametrize(
    ("condition", "error_class"),
    [
        ("count(src.id) > 1", "DELTA_AGGREGATION_NOT_SUPPORTED"),
        ("uuid() > 'a'", "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"),
        (lambda: F.rand() > 0.5, "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"),
        ("EXISTS (SELECT 1)", "DELTA_UNSUPPORTED_SUBQUERY"),
    ],
)
def test_clause_condition_that_cannot_choose_rows(table, merge, condition, error_class):
    given = condition() if callable(condition) else condition
    assert_refused(table, lambda: merge().whenMatchedDelete(given), error_class, kind=RequestError)


@pytest.mark.parametrize("as_column", [False, True])
def test_words_of_a_subquery_in_a_string_or_comment_are_not_taken_for_one(merge, as_column):
    condition = "t.id = src.id AND t.v <> 'please (select 1)' /* (select 1) */"
    clause = "src.w = 'please select one' OR src.w = '(values 1)'"
    given = [F.expr(text) if as_column else text for text in (condition, clause)]
    assert merge(given[0]).whenMatchedDelete(given[1]).execute().num_affected_rows == 0


def test_condition_that_is_not_boolean(table, merge):
    with pytest.raises(RequestError):
        merge("t.id + src.id").whenMatchedDelete().execute()


@pytest.mark.one_kind("refused by us, before Spark is asked for anything but columns")
def test_targets_that_overlap(table, merge):
    twice = lambda: merge().whenMatchedUpdate(set={"v": "'a'", "t.v": "'b'"})  # noqa: E731
    assert_refused(table, twice, "DELTA_CONFLICT_SET_COLUMN")
    inside = lambda: merge().whenMatchedUpdate(set={"s": "t.s", "s.a": "1"})  # noqa: E731
    assert_refused(table, inside, "DELTA_CONFLICT_SET_COLUMN")


@pytest.mark.one_kind("refused by us, before Spark is asked for anything but columns")
def test_insert_into_a_field_of_a_struct(table, merge):
    builder = lambda: merge().whenNotMatchedInsert(values={"id": "src.id", "s.a": "1"})  # noqa: E731
    assert_refused(table, builder, "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION")


def test_aggregate_as_a_value(table, merge):
    builder = lambda: merge().whenMatchedUpdate(set={"v": "max(src.w)"})  # noqa: E731
    assert_refused(table, builder, "DELTA_AGGREGATION_NOT_SUPPORTED")


@pytest.mark.one_kind("refused by us, from the types; write/test_assignment.py")
def test_value_that_cannot_be_stored(table, merge):
    builder = lambda: merge().whenMatchedUpdate(set={"id": "array(1)"})  # noqa: E731
    assert_refused(table, builder, "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST")


def test_value_that_does_not_fit_leaves_nothing_behind(table, merge):
    builder = lambda: merge().whenMatchedUpdate(set={"s.a": "3000000000L"})  # noqa: E731
    assert_refused(table, builder, "CAST_OVERFLOW_IN_TABLE_INSERT")


@pytest.mark.one_kind("refused by us, from the types")
def test_struct_with_other_fields(table, merge):
    builder = lambda: merge().whenMatchedUpdate(set={"s": "named_struct('a', 1)"})  # noqa: E731
    assert_refused(table, builder, "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION", match="nested columns")


@pytest.mark.one_kind("refused by us, before Spark is asked for anything but columns")
def test_update_without_values_and_values_that_are_no_expressions(merge):
    with pytest.raises(RequestError, match="set is missing"):
        merge().whenMatchedUpdate("t.id = 1")
    with pytest.raises(RequestError, match="lit"):
        merge().whenMatchedUpdate(set={"v": 5})


@pytest.mark.one_kind("refused by us, before Spark is asked for anything but columns")
def test_append_only_table_takes_inserts_and_refuses_changes(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).feature("appendOnly")
    table = builder.table_property("delta.appendOnly", "true").file([{"id": 1}]).commit()
    frame = spark.createDataFrame([(1,), (2,)], "id long").alias("s")
    merge = DeltaTable.forPath(spark, str(table.path)).alias("t").merge(frame, "t.id = s.id")
    with pytest.raises(DeltaError) as caught:
        merge.whenMatchedDelete().execute()
    assert caught.value.error_class == "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    upsert = merge.whenMatchedUpdate("t.id > 1", {"id": "t.id"}).whenNotMatchedInsertAll()
    assert upsert.execute().num_inserted_rows == 1, "no row is changed, so no file is replaced"


def test_broken_constraint_names_itself_and_leaves_nothing_behind(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).feature("checkConstraints")
    table = builder.table_property("delta.constraints.positive", "id > 0").file([{"id": 1}]).commit()
    before = sorted(table.path.rglob("*"))
    frame = spark.createDataFrame([(1,), (2,)], "id long").alias("s")
    merge = DeltaTable.forPath(spark, str(table.path)).alias("t").merge(frame, "t.id = s.id")
    for broken in (
        merge.whenMatchedUpdate(set={"id": "-s.id"}),
        merge.whenNotMatchedInsert(values={"id": "-s.id"}),
        merge.whenNotMatchedInsert("s.id = 2", {"id": "NULL"}),
    ):
        with pytest.raises(ConstraintViolationError, match="positive"):
            broken.execute()
    assert sorted(table.path.rglob("*")) == before


def test_source_that_cannot_be_read_is_a_typed_error_and_nothing_is_written(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).file([{"id": 1}]).commit()
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "source"))
    source = spark.read.parquet(str(tmp_path / "source"))
    assert source.columns == ["id"]
    [part] = (tmp_path / "source").glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:40])
    merge = DeltaTable.forPath(spark, str(builder.path)).alias("t").merge(source.alias("s"), "t.id = s.id")
    with pytest.raises(DeltaError, match="reading the source of the merge"):
        merge.whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert len(list(builder.log.glob("*.json"))) == 1
