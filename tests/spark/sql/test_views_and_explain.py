"""Does a DELETE through a view reach the table behind it and no other, and does EXPLAIN leave everything alone?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import RequestError, UnknownColumnError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})


@pytest.fixture
def builder(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").deletion_vectors()
    return builder.file([{"id": n, "part": "a"} for n in range(5)]).file([{"id": 5, "part": "b"}]).commit()


@pytest.fixture
def view(spark, builder):
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW `some people` AS SELECT * FROM delta.`{builder.path}`")
    yield "`some people`"
    spark.catalog.dropTempView("some people")


def ids(frame):
    return sorted(row["id"] for row in frame.select("id").collect())


def versions(builder):
    return len(list(builder.log.glob("*.json")))


def test_delete_through_a_view_changes_the_table_and_the_view_shows_it(spark, builder, view):
    [row] = ebbtide.sql(spark, f"DELETE FROM {view} WHERE `some people`.id IN (1, 2)").collect()
    assert row.num_affected_rows == 2
    assert ids(ebbtide.read(spark, str(builder.path))) == [0, 3, 4, 5]
    assert ids(spark.table(view)) == [0, 3, 4, 5]


def test_delete_by_path_is_seen_through_the_view_too(spark, builder, view):
    ebbtide.sql(spark, f"DELETE FROM delta.`{builder.path}` WHERE id = 0")
    assert ids(spark.table(view)) == [1, 2, 3, 4, 5]


def test_view_of_a_view_is_one_of_the_table(spark, builder, view):
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW twice AS SELECT * FROM (SELECT * FROM {view} x) y")
    try:
        ebbtide.sql(spark, "DELETE FROM twice WHERE id = 5")
        assert ids(spark.table("twice")) == ids(spark.table(view)) == [0, 1, 2, 3, 4]
    finally:
        spark.catalog.dropTempView("twice")


def test_view_that_somebody_replaced_is_not_ours_any_more(spark, builder, view):
    spark.range(3).createOrReplaceTempView(view)
    with pytest.raises(RequestError, match="no table to change behind the name 'some people'"):
        ebbtide.sql(spark, f"DELETE FROM {view}")
    assert versions(builder) == 1


@pytest.mark.parametrize("name", ["nobody", "`no body`"])
def test_name_that_is_no_view_of_ours_is_refused_with_the_spelling_that_works(spark, name):
    with pytest.raises(RequestError, match=r"delta\.`/path/to/table`"):
        ebbtide.sql(spark, f"DELETE FROM {name} WHERE id = 1")


def test_view_of_that_name_is_kept_without_or_replace(spark, builder, view):
    with pytest.raises(RequestError, match="some people"):
        ebbtide.sql(spark, f"CREATE TEMP VIEW {view} AS SELECT * FROM delta.`{builder.path}`")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("WHERE id = 3", ["condition: id = 3", "marked in deletion vectors", "scanned: 1 of 2 files"]),
        ("WHERE part = 'b'", ["the log alone decides", "removed: 1 of 2 files"]),
        ("", ["removed: 2 of 2 files"]),
    ],
)
def test_explain_says_how_and_changes_nothing(spark, builder, where, said):
    frame = ebbtide.sql(spark, f"EXPLAIN DELETE FROM delta.`{builder.path}` {where}")
    assert frame.columns == ["plan"]
    [row] = frame.collect()
    for words in said:
        assert words in row.plan
    assert versions(builder) == 1


def test_explain_refuses_what_the_delete_would_refuse(spark, builder):
    with pytest.raises(UnknownColumnError):
        ebbtide.sql(spark, f"EXPLAIN DELETE FROM delta.`{builder.path}` WHERE nothing = 3")
