"""Can a table be made without columns, and get them from its first rows?"""

from __future__ import annotations

import pytest

import ebbtide
from ebbtide.errors import RequestError

pytestmark = pytest.mark.spark


@pytest.fixture
def empty(spark, tmp_path):
    path = str(tmp_path / "t")
    ebbtide.DeltaTable.create(spark).location(path).execute()
    return path


def test_a_table_without_columns_reads_as_an_empty_frame(spark, empty):
    table = ebbtide.DeltaTable.forPath(spark, empty)
    assert (table.toDF().columns, table.toDF().collect(), table.toDF().count()) == ([], [], 0)
    assert ebbtide.read(spark, empty).collect() == []
    table.delete()
    table.delete("true")
    assert table.toDF().count() == 0


def test_create_table_in_sql_needs_no_columns(spark, tmp_path):
    path = tmp_path / "t"
    ebbtide.sql(spark, f"CREATE TABLE delta.`{path}` USING delta")
    assert ebbtide.read(spark, str(path)).columns == []


def test_the_first_rows_bring_the_columns_with_schema_evolution(spark, empty):
    ebbtide.write(spark.range(2), empty, mode="append", merge_schema=True)
    assert sorted(row.id for row in ebbtide.read(spark, empty).collect()) == [0, 1]
    ebbtide.DeltaTable.forPath(spark, empty).delete("id = 0")
    assert ebbtide.read(spark, empty).count() == 1


@pytest.mark.one_kind("schemas are replaced on both kinds in test_write.py")
def test_the_first_rows_may_also_replace_the_schema(spark, empty):
    ebbtide.write(spark.range(2), empty, mode="overwrite", overwrite_schema=True)
    assert ebbtide.read(spark, empty).count() == 2


@pytest.mark.one_kind("refused by us, from the columns")
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_rows_without_schema_evolution_are_refused_as_in_the_reference(spark, empty, mode):
    with pytest.raises(RequestError, match="DELTA_METADATA_MISMATCH"):
        ebbtide.write(spark.range(2), empty, mode=mode)


def test_a_frame_without_columns_makes_no_table(spark, tmp_path):
    with pytest.raises(RequestError, match="DELTA_EMPTY_DATA"):
        ebbtide.write(spark.range(2).select(), str(tmp_path / "t"))


@pytest.mark.one_kind("refused before Spark is asked")
def test_a_table_without_columns_cannot_be_partitioned(spark, tmp_path):
    builder = ebbtide.DeltaTable.create(spark).location(str(tmp_path / "t")).partitionedBy("a")
    with pytest.raises(RequestError, match="'a' is not among"):
        builder.execute()


@pytest.mark.parametrize(
    "statement",
    [
        "DESCRIBE delta.`{0}` nope",
        "ALTER TABLE delta.`{0}` CLUSTER BY (nope)",
        "ALTER TABLE delta.`{0}` ALTER COLUMN nope COMMENT 'x'",
        "INSERT INTO delta.`{0}` (nope) VALUES (1)",
        "UPDATE delta.`{0}` SET nope = 1",
        "OPTIMIZE delta.`{0}` ZORDER BY (nope)",
    ],
)
@pytest.mark.one_kind("the sentence is ours")
def test_message_about_a_table_without_columns_ends_in_an_empty_list(spark, empty, statement):
    with pytest.raises(RequestError, match="no columns") as caught:
        ebbtide.sql(spark, statement.format(empty))
    assert " ." not in str(caught.value)
