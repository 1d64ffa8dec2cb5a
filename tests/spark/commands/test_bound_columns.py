"""May a condition or a value speak of columns that are bound to a DataFrame, as in `source["id"]`?

Of those of the source, yes, on classic Spark and on Connect. Of those of the table's own DataFrame, no: each read is a
DataFrame of its own. That is said in one sentence, before any work.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import UnknownColumnError
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string(), "n": pa.int64()})


@pytest.fixture
def table(tmp_path):
    rows = [{"id": number, "v": f"old{number}", "n": number} for number in (1, 2, 3)]
    return TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().file(rows).commit()


@pytest.fixture
def source(spark):
    return spark.createDataFrame([(1, "a b", 5), (2, "gone", 6), (9, "new", 7)], "id long, v string, n long")


def shown(spark, table):
    return {tuple(row) for row in ebbtide.read(spark, str(table.path)).collect()}


@pytest.mark.parametrize("alias", [None, "s"])
def test_columns_bound_to_the_source_work_in_every_clause(spark, table, source, alias):
    given = source if alias is None else source.alias(alias)
    delta = DeltaTable.forPath(spark, str(table.path)).alias("t")
    builder = delta.merge(given, (F.col("t.id") == source["id"]) & (F.col("t.n") < 100))
    builder = builder.whenMatchedDelete(source["v"] == "gone")
    builder = builder.whenMatchedUpdate(None, {"v": F.concat(F.upper(source["v"]), F.col("t.v")), "n": source["n"] + 1})
    builder.whenNotMatchedInsert(source["n"] > 0, {"id": source["id"], "v": given["v"]}).execute()
    assert shown(spark, table) == {(1, "A Bold1", 6), (3, "old3", 3), (9, "new", None)}


@pytest.mark.parametrize("name", ["a.b c", "a`b", "A-ü"])
def test_column_of_the_source_with_an_odd_name_is_not_taken_for_that_of_the_table(spark, tmp_path, name):
    path, quoted = str(tmp_path / "odd"), "`" + name.replace("`", "``") + "`"
    columns = f"id long, {quoted} string, s struct<{quoted}: long>"
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    ebbtide.write(spark.createDataFrame([(1, "old", (1,)), (2, "old", (2,))], columns), path, properties=properties)
    source = spark.createDataFrame([(1, "new", (5,)), (3, "new", (6,))], columns).alias("src")
    delta = DeltaTable.forPath(spark, path).alias("t")
    builder = delta.merge(source, F.col("t.id") == source["id"])
    builder = builder.whenMatchedUpdate(source[quoted] == "new", {quoted: F.upper(source[quoted]), "s": source["s"]})
    builder.whenNotMatchedInsert(None, {"id": source["id"], quoted: source[quoted]}).execute()
    assert {(row[0], row[1], row[2] and row[2][0]) for row in delta.toDF().collect()} == {
        (1, "NEW", 5),
        (2, "old", 2),
        (3, "new", None),
    }


def test_columns_bound_to_the_table_are_refused_in_one_sentence_before_any_work(spark, table, source):
    delta = DeltaTable.forPath(spark, str(table.path))
    own = delta.toDF()
    for call in (
        lambda: delta.delete(own["id"] == 1),
        lambda: delta.update(own["id"] == 1, {"n": F.lit(0)}),
        lambda: delta.update("id = 1", {"n": own["n"] + 1}),
        lambda: delta.alias("t").merge(source.alias("s"), own["id"] == F.col("s.id")).whenMatchedDelete().execute(),
        lambda: delta.merge(source.alias("s"), "s.n = 5").whenMatchedUpdate(None, {"n": own["n"]}).execute(),
        lambda: delta.merge(source, own["id"] == source["id"]).whenMatchedDelete().execute(),
    ):
        with pytest.raises(UnknownColumnError, match=r"belongs to another DataFrame.*F\.col\('") as caught:
            call()
        assert "__ebbtide" not in str(caught.value)
    assert delta.history().count() == 1


def test_names_of_helper_columns_are_in_no_message(spark, table, source):
    delta = DeltaTable.forPath(spark, str(table.path))
    for call in (
        lambda: delta.merge(source, "nope = 1").whenMatchedDelete().execute(),
        lambda: delta.merge(source, "id = 1").whenMatchedDelete().execute(),
        lambda: delta.merge(source, "true").whenMatchedDelete("nope").execute(),
        lambda: delta.merge(source, "true").whenNotMatchedInsert(None, {"id": "nope"}).execute(),
        lambda: delta.merge(source, "true").whenNotMatchedBySourceUpdate(None, {"id": "nope"}).execute(),
        lambda: delta.merge(source, "helper = 1").whenMatchedDelete().execute(),
        lambda: delta.delete("nope = 1"),
        lambda: delta.update("id = 1", {"n": "nope"}),
    ):
        with pytest.raises(UnknownColumnError) as caught:
            call()
        assert "__ebbtide" not in str(caught.value)


def test_helper_column_of_the_source_means_nothing_to_the_user(spark, table, source):
    delta = DeltaTable.forPath(spark, str(table.path))
    with pytest.raises(UnknownColumnError):
        delta.merge(source, "__ebbtide_source_row = 1").whenMatchedDelete().execute()
