"""Does every command that changes rows refuse an append-only table in the same way?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.log_reading import newest_version
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import RequestError
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    builder = TableBuilder(tmp_path_factory.mktemp("append_only") / "t", pa.schema({"id": pa.int64()}))
    builder.deletion_vectors().feature("appendOnly").table_property("delta.appendOnly", "true")
    return builder.file([{"id": 1}, {"id": 2}]).commit()


def merged(spark, table):
    source = spark.createDataFrame([(1,)], "id long").alias("s")
    merge = DeltaTable.forPath(spark, str(table.path)).alias("t").merge(source, "t.id = s.id")
    return merge.whenMatchedDelete().execute()


COMMANDS = {
    "DELETE": lambda spark, table: DeltaTable.forPath(spark, str(table.path)).delete("id = 1"),
    "DELETE that matches nothing": lambda spark, table: DeltaTable.forPath(spark, str(table.path)).delete("id = 9"),
    "UPDATE": lambda spark, table: DeltaTable.forPath(spark, str(table.path)).update("id = 1", {"id": "3"}),
    "MERGE": merged,
    "TRUNCATE": lambda spark, table: ebbtide.sql(spark, f"TRUNCATE TABLE delta.`{table.path}`"),
    "overwrite": lambda spark, table: ebbtide.write(spark.range(1), str(table.path), mode="overwrite"),
    "replace_where": lambda spark, table: ebbtide.write(
        spark.range(1), str(table.path), mode="overwrite", replace_where="id < 1"
    ),
}


@pytest.mark.one_value("refused before Spark is asked, whatever the command")
@pytest.mark.parametrize("command", COMMANDS)
def test_append_only_table_is_refused_with_one_class_by_every_command(spark, table, command):
    with pytest.raises(RequestError, match=r"append-only \(delta.appendOnly=true\)") as caught:
        COMMANDS[command](spark, table)
    assert type(caught.value) is RequestError
    assert caught.value.error_class == "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    assert newest_version(table.path) == table.version
