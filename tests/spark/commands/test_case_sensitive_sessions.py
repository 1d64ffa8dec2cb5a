"""Do names follow spark.sql.caseSensitive wherever a command looks them up?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import RequestError, UnknownColumnError
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "s": pa.int64(), "p": pa.struct({"x": pa.int64()})})


@pytest.fixture
def delta(spark, tmp_path):
    rows = [{"id": number, "s": number, "p": {"x": number}} for number in (1, 2)]
    TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().file(rows).commit()
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t")
    spark.conf.unset("spark.sql.caseSensitive")


def named(delta):
    return f"delta.`{delta.url.removeprefix('file://')}`"


def shown(delta):
    return {(row["id"], row["s"], row["p"]["x"] if row["p"] else None) for row in delta.toDF().collect()}


def test_name_in_another_letter_case_is_refused_everywhere(spark, delta):
    source = spark.createDataFrame([(1, 7)], "id long, s long").alias("src")
    capital = spark.createDataFrame([(1, 7, (1,))], "id long, S long, p struct<x: long>").alias("src")
    on = "t.id = src.id"
    for call in (
        lambda: delta.update("id = 1", {"S": "9"}),
        lambda: delta.update("id = 1", {"p.X": "9"}),
        lambda: delta.update("id = 1", {"T.s": "9"}),
        lambda: delta.update("id = 1", {"s": "S"}),
        lambda: delta.delete("S = 1"),
        lambda: delta.delete_matching(source, on="S"),
        lambda: delta.delete_matching(capital, on="s"),
        lambda: delta.merge(source, on).whenMatchedUpdate(None, {"S": "9"}).execute(),
        lambda: delta.merge(source, on).whenNotMatchedInsert(None, {"id": "src.id", "S": "9"}).execute(),
        lambda: delta.merge(source, on).whenNotMatchedBySourceUpdate(None, {"S": "9"}).execute(),
        lambda: delta.merge(capital, on).whenMatchedUpdateAll().execute(),
        lambda: delta.merge(capital, on).whenNotMatchedInsertAll().execute(),
        lambda: delta.merge(capital, on).withSchemaEvolution().whenMatchedUpdateAll().execute(),
        lambda: delta.optimize().executeZOrderBy("S"),
        lambda: ebbtide.sql(spark, f"INSERT INTO {named(delta)} (ID, s) SELECT 9, 9"),
    ):
        with pytest.raises(UnknownColumnError):
            call()
    assert delta.history().count() == 1


def test_column_in_another_letter_case_is_not_altered(spark, tmp_path, delta):
    path = tmp_path / "mapped"
    properties = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    ebbtide.write(spark.sql("SELECT 1 AS id, 2 AS s, struct(3 AS x, 4 AS y) AS p"), path, properties=properties)
    for change in (
        "DROP COLUMN S",
        "DROP COLUMN p.X",
        "RENAME COLUMN S TO t",
        "ALTER COLUMN S COMMENT 'c'",
        "ALTER COLUMN S TYPE BIGINT",
        "ALTER COLUMN S SET DEFAULT 1",
        "ALTER COLUMN s AFTER ID",
        "ADD COLUMN n INT AFTER ID",
        "ADD COLUMN P.n INT",
        "CLUSTER BY (S)",
        "ADD CONSTRAINT c CHECK (S > 0)",
    ):
        with pytest.raises(RequestError) as raised:
            ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` {change}")
        assert isinstance(raised.value, UnknownColumnError), (change, raised.value)
    with pytest.raises(RequestError, match="would lose 's' and gain others"):
        ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` REPLACE COLUMNS (id INT, S INT, p STRUCT<x: INT, y: INT>)")
    ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` DROP COLUMN IF EXISTS S")
    assert DeltaTable.forPath(spark, path).version() == 0
    ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` DROP COLUMN s")
    assert ebbtide.read(spark, path).columns == ["id", "p"]


def test_names_that_differ_in_letter_case_alone_are_two_columns_of_the_source(spark, delta):
    source = spark.createDataFrame([(1, 7, 8, (5,)), (9, 3, 4, None)], "id long, s long, S long, p struct<x: long>")
    builder = delta.merge(source.alias("src"), "t.id = src.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    builder.execute()
    assert shown(delta) == {(1, 7, 5), (2, 2, 2), (9, 3, None)}
    delta.merge(source.alias("src"), "t.id = src.id").whenMatchedUpdate(None, {"s": "src.S", "p.x": "src.s"}).execute()
    assert shown(delta) == {(1, 8, 7), (2, 2, 2), (9, 4, 3)}


def test_names_in_another_letter_case_are_taken_where_it_does_not_count(spark, tmp_path):
    path = str(tmp_path / "t")
    ebbtide.write(spark.createDataFrame([(1, 1), (2, 2)], "id long, s long"), path)
    delta = DeltaTable.forPath(spark, path).alias("t")
    delta.update("ID = 1", {"T.S": "9"})
    source = spark.createDataFrame([(2, 7), (3, 8)], "ID long, S long").alias("src")
    delta.merge(source, "t.id = src.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert {tuple(row) for row in delta.toDF().collect()} == {(1, 9), (2, 7), (3, 8)}


def test_partition_column_in_another_letter_case_is_refused(spark, delta, tmp_path):
    rows = spark.createDataFrame([(1, 1)], "id long, s long")
    path = str(tmp_path / "new")
    for call in (
        lambda: ebbtide.write(rows, path, partition_by="S"),
        lambda: DeltaTable.create(spark).location(path).addColumns(rows.schema).partitionedBy("S").execute(),
        lambda: ebbtide.sql(spark, f"CREATE TABLE delta.`{path}` (id BIGINT, s BIGINT) PARTITIONED BY (S)"),
    ):
        with pytest.raises(RequestError, match="The partition column 'S' is not among the columns id, s"):
            call()
    assert not (tmp_path / "new").exists()
    ebbtide.write(rows, path, partition_by="s")
    with pytest.raises(RequestError, match="is not how the table"):
        ebbtide.write(rows, path, mode="append", partition_by="S")
    with pytest.raises(RequestError, match="not among the columns"):
        ebbtide.write(rows, path, mode="overwrite", overwrite_schema=True, partition_by="S")
