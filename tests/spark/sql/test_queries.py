"""Does a query over Delta tables show their rows, at any version, for as long as anybody uses its answer?"""

from __future__ import annotations

import datetime as dt
import gc

import pyarrow as pa
import pytest
from tests.support.table_builder import COMMIT_INTERVAL_MS, FIRST_COMMIT_MS, TableBuilder

import ebbtide
from ebbtide.errors import DeltaError, RequestError, VersionNotFoundError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


def rows(*ids):
    return [{"id": number, "name": f"n{number}"} for number in ids]


@pytest.fixture
def builder(tmp_path):
    builder = TableBuilder(tmp_path / "t {x}", SCHEMA).deletion_vectors().change_data_feed()
    builder.file(rows(0, 1, 2)).commit()
    return builder.mark(builder.files[0], [1]).commit().file(rows(7)).commit()


def ids(frame):
    return sorted(row[0] for row in frame.collect())


def test_query_shows_the_newest_rows_or_those_of_a_version(spark, builder):
    path = builder.path
    assert ids(ebbtide.sql(spark, f"SELECT id FROM delta.`{path}`")) == [0, 2, 7]
    assert ids(ebbtide.sql(spark, f"SELECT id FROM delta.`{path}` VERSION AS OF 0 WHERE id > 0")) == [1, 2]
    assert ids(ebbtide.sql(spark, f"SELECT t.id FROM delta.`{path}` FOR VERSION AS OF 1 AS t")) == [0, 2]
    with pytest.raises(VersionNotFoundError):
        ebbtide.sql(spark, f"SELECT * FROM delta.`{path}` VERSION AS OF 9")


def test_query_shows_the_rows_at_a_time(spark, builder):
    at = dt.datetime.fromtimestamp((FIRST_COMMIT_MS + COMMIT_INTERVAL_MS) / 1000, dt.timezone.utc)
    text = f"{at:%Y-%m-%d %H:%M:%S}+00:00"
    query = f"SELECT id FROM delta.`{builder.path}` TIMESTAMP AS OF "
    assert ids(ebbtide.sql(spark, query + f"'{text}'")) == [0, 2]
    assert ids(ebbtide.sql(spark, query + f"TIMESTAMP'{text}' t WHERE t.id > 0")) == [2]
    assert ids(ebbtide.sql(spark, query + f"(TIMESTAMP'{text}' - INTERVAL 30 SECONDS)")) == [0, 1, 2]
    with pytest.raises(RequestError, match="not a timestamp"):
        ebbtide.sql(spark, query + "'soon'")


def test_versions_are_joined_and_common_tables_and_subqueries_are_found(spark, builder):
    path = builder.path
    query = f"""
        WITH gone AS (SELECT id FROM delta.`{path}` VERSION AS OF 0 EXCEPT SELECT id FROM delta.`{path}`)
        SELECT g.id, '{{braces}}' AS text FROM gone g
        WHERE g.id IN (SELECT o.id FROM delta.`{path}` VERSION AS OF 0 o JOIN table_changes('{path}', 1) c ON o.id = c.id)
    """
    assert [tuple(row) for row in ebbtide.sql(spark, query).collect()] == [(1, "{braces}")]


def test_changes_are_a_table_of_a_query(spark, builder):
    query = "SELECT id, _change_type, _commit_version FROM table_changes('{}', {}) ORDER BY 3, 1"
    shown = [tuple(row) for row in ebbtide.sql(spark, query.format(builder.path, "1, 2")).collect()]
    assert shown == [(1, "delete", 1), (7, "insert", 2)]
    since = dt.datetime.fromtimestamp((FIRST_COMMIT_MS + COMMIT_INTERVAL_MS) / 1000 + 1, dt.timezone.utc)
    shown = ebbtide.sql(spark, query.format(builder.path, f"'{since:%Y-%m-%d %H:%M:%S}+00:00'")).collect()
    assert [tuple(row) for row in shown] == [(7, "insert", 2)]
    assert ids(ebbtide.sql(spark, query.format(f"delta.`{builder.path}`", "1 + 1, 2"))) == [7]


def test_answer_lives_on_and_does_not_change_with_the_table(spark, builder):
    before = {view.name for view in spark.catalog.listTables()}
    frame = ebbtide.sql(spark, f"SELECT id FROM delta.`{builder.path}`").where("id > 0")
    gc.collect()
    ebbtide.DeltaTable.forPath(spark, str(builder.path)).delete("id = 7")
    assert ids(frame) == [2, 7]
    assert ids(frame.union(frame).distinct()) == [2, 7]
    assert {view.name for view in spark.catalog.listTables()} == before


def test_views_of_the_session_and_tables_meet_in_one_query(spark, builder):
    spark.range(3).createOrReplaceTempView("numbers")
    try:
        query = f"SELECT /*+ BROADCAST(n) */ n.id FROM numbers n LEFT ANTI JOIN delta.`{builder.path}` t USING (id)"
        assert ids(ebbtide.sql(spark, query)) == [1]
        assert ids(ebbtide.sql(spark, "SELECT id FROM numbers")) == [0, 1, 2]
    finally:
        spark.catalog.dropTempView("numbers")


@pytest.mark.one_value("the same call for other mistakes")
@pytest.mark.parametrize(
    "query", ["SELECT nothing FROM delta.`{}`", "SELECT * FROM delta.`{}` WHERE id =", "SELECT * FROM nowhere"]
)
def test_mistake_in_a_query_is_an_error_of_ours_and_comes_at_once(spark, builder, query):
    with pytest.raises(DeltaError):
        ebbtide.sql(spark, query.format(builder.path))


def test_insert_only_view_of_a_table_is_read_as_it_is_now(spark, builder):
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW people AS SELECT * FROM delta.`{builder.path}`")
    try:
        ebbtide.sql(spark, "DELETE FROM people WHERE id = 0")
        assert ids(ebbtide.sql(spark, "SELECT id FROM people")) == [2, 7]
    finally:
        spark.catalog.dropTempView("people")
