"""Does `delete_matching` delete the rows whose keys are in a DataFrame, each once, and none for a null?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import commit_info, log_state, newest_version
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.requests import MatchingKeys
from ebbtide.errors import RequestError, UnknownColumnError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.string()})


@pytest.fixture
def table(tmp_path):
    """Ids 0 to 9 in part a, null and 11 to 19 in part b; names are the ids as text."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").deletion_vectors()
    for part, numbers in (("a", range(10)), ("b", [None, *range(11, 20)])):
        builder.file([{"id": number, "name": str(number), "part": part} for number in numbers])
    return builder.commit()


def left(spark, table):
    rows = ebbtide.read(spark, str(table.path)).collect()
    return sorted(-1 if row["id"] is None else row["id"] for row in rows)


def keys(spark, *values, name="id"):
    return spark.createDataFrame(pa.table({name: pa.array(values, pa.int64())}))


def test_nulls_match_nothing_and_duplicates_count_once(spark, table, checked_delete):
    result = checked_delete(table, MatchingKeys(keys(spark, 3, 3, None, 15, 99, 3), ["id"]))
    assert result.num_affected_rows == 2
    assert left(spark, table) == [-1, *(number for number in range(20) if number not in {3, 10, 15})]
    assert commit_info(table.path, 1)["operationParameters"] == {"predicate": '["(id) IN (keys of a DataFrame)"]'}


def test_keys_may_be_many_and_beside_other_columns(spark, table, checked_delete):
    many = spark.range(5, 200_000).withColumn("name", F.lit("somebody else"))
    result = checked_delete(table, MatchingKeys(many, "id"))
    assert result.num_affected_rows == 14
    assert left(spark, table) == [-1, 0, 1, 2, 3, 4]


def test_several_key_columns_must_all_be_equal(spark, table, checked_delete):
    pairs = pa.table(
        {
            "part": pa.array(["a", "b", "a", None], pa.string()),
            "id": pa.array([1, 2, None, 3], pa.int64()),
        }
    )
    result = checked_delete(table, MatchingKeys(spark.createDataFrame(pairs), ("id", "part")))
    assert result.num_affected_rows == 1
    assert 1 not in left(spark, table)


@pytest.mark.one_kind(
    "the calls of test_nulls_match_nothing_and_duplicates_count_once, which runs on both kinds; this adds a name"
)
def test_key_names_are_compared_as_spark_compares_them(spark, table, checked_delete):
    assert checked_delete(table, MatchingKeys(keys(spark, 7, name="ID"), ["Id"])).num_affected_rows == 1


def test_keys_may_come_from_the_table_itself(spark, table, checked_delete):
    own = ebbtide.read(spark, str(table.path)).where("id % 2 = 0").select("id")
    assert checked_delete(table, MatchingKeys(own, ["id"]), again=False).num_affected_rows == 9
    assert left(spark, table) == [-1, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19]


def test_random_keys_are_drawn_once(spark, table, checked_delete):
    drawn = spark.range(20).where(F.rand() < 0.5)
    result = checked_delete(table, MatchingKeys(drawn, ["id"]), again=False)
    assert len(left(spark, table)) == 20 - result.num_affected_rows


@pytest.mark.one_kind(
    "the calls of test_nulls_match_nothing_and_duplicates_count_once, which runs on both kinds; this adds values"
)
def test_no_keys_delete_nothing(spark, table, checked_delete):
    result = checked_delete(table, MatchingKeys(spark.range(0), ["id"]))
    assert (result.version, newest_version(table.path)) == (None, 0)


@pytest.mark.one_kind(
    "the calls of test_nulls_match_nothing_and_duplicates_count_once, which runs on both kinds; this adds values"
)
def test_file_that_loses_its_last_row_goes(spark, table, checked_delete):
    result = checked_delete(table, MatchingKeys(spark.range(10), ["id"]))
    assert (result.num_affected_rows, result.metrics.num_removed_files) == (10, 1)
    assert len(log_state(table.path).live) == 1


@pytest.mark.one_kind(
    "the calls of test_nulls_match_nothing_and_duplicates_count_once, which runs on both kinds; this adds values"
)
def test_marked_rows_are_not_found_again(spark, table, checked_delete):
    checked_delete(table, "id < 5")
    assert checked_delete(table, MatchingKeys(spark.range(7), ["id"])).num_affected_rows == 2


@pytest.mark.one_kind("refused by us, from the columns")
@pytest.mark.parametrize(
    ("on", "error"),
    [([], RequestError), (["nobody"], UnknownColumnError), (["name"], UnknownColumnError)],
)
def test_key_column_must_be_on_both_sides(spark, table, checked_delete, on, error):
    with pytest.raises(error):
        checked_delete(table, MatchingKeys(keys(spark, 1), on))
    assert newest_version(table.path) == 0


@pytest.mark.one_kind(
    "the calls of test_nulls_match_nothing_and_duplicates_count_once, which runs on both kinds; this adds rewriting, which runs on both kinds in test_delete_rewrites.py"
)
def test_rows_are_rewritten_away_where_vectors_are_off(spark, table, checked_delete):
    result = checked_delete(table, MatchingKeys(keys(spark, 3, None, 15), ["id"]), deletion_vectors="off")
    assert result.num_affected_rows == 2
    assert (result.metrics.num_added_files, result.metrics.num_copied_rows) == (2, 18)
    assert left(spark, table) == [-1, *(number for number in range(20) if number not in {3, 10, 15})]


def test_door_takes_one_name_or_several(spark, table):
    door = ebbtide.DeltaTable.forPath(spark, str(table.path))
    assert door.delete_matching(keys(spark, 1), on="id").num_affected_rows == 1
    assert door.delete_matching(keys(spark, 1, 2), on=["id"]).num_affected_rows == 1
