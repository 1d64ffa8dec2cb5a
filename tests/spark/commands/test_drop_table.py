"""Does DROP TABLE go through every door, and take the views of the table with it?"""

from __future__ import annotations

import pytest

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import DeltaError, RequestError, TableNotFoundError

pytestmark = pytest.mark.spark


@pytest.fixture
def path(spark, tmp_path):
    ebbtide.write(spark.sql("SELECT id, id AS v FROM range(3)"), tmp_path / "t", partition_by="id")
    return tmp_path / "t"


def test_statement_drops_the_table_and_its_views_and_no_others(spark, path, tmp_path):
    ebbtide.write(spark.range(2), tmp_path / "other")
    for name, table in (("drop_all", path), ("drop_some", path), ("drop_not", tmp_path / "other")):
        column = "id" if name == "drop_some" else "*"
        ebbtide.sql(spark, f"CREATE TEMP VIEW {name} AS SELECT {column} FROM delta.`{table}`")
    spark.range(5).createOrReplaceTempView("drop_some")
    assert ebbtide.sql(spark, f"DROP TABLE delta.`{path}`").count() == 0
    assert not path.exists()
    assert not spark.catalog.tableExists("drop_all")
    # Somebody made another view of that name, which is not ours to drop.
    assert spark.table("drop_some").count() == 5
    assert spark.table("drop_not").count() == 2
    for name in ("drop_some", "drop_not"):
        spark.catalog.dropTempView(name)


def test_no_table_is_an_error_unless_if_exists_is_said(spark, path):
    ebbtide.sql(spark, f"DROP TABLE IF EXISTS delta.`{path}`")
    ebbtide.sql(spark, f"DROP TABLE IF EXISTS delta.`{path}`")
    with pytest.raises(TableNotFoundError):
        ebbtide.sql(spark, f"DROP TABLE delta.`{path}`")


def test_method_takes_a_confirmation(spark, path):
    table = DeltaTable.forPath(spark, path)
    with pytest.raises(RequestError, match="confirm=True"):
        table.drop()
    assert table.drop(dry_run=True).num_files == 3
    assert table.count() == 3
    assert table.drop(confirm=True).num_versions == 1
    with pytest.raises(TableNotFoundError):
        table.toDF()
    ebbtide.write(spark.range(1), path)
    assert table.count() == 1


@pytest.mark.one_kind("refused before Spark is asked for anything")
def test_directory_inside_a_table_is_no_table(spark, path):
    with pytest.raises(DeltaError, match="inside the Delta table"):
        ebbtide.sql(spark, f"DROP TABLE delta.`{path}/id=1`")
    assert ebbtide.read(spark, path).count() == 3
