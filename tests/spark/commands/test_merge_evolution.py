"""Does MERGE with schema evolution add what only the source has, in the same commit, and nothing else?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.log_reading import actions_of, newest_version
from tests.support.merge_checks import told_changes
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import DeltaError
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})


@pytest.fixture(params=["vectors", "rewrites"])
def mode(request):
    return request.param


def built(path, mode, schema=SCHEMA, rows=None, mapping=None, feed=False):
    table = TableBuilder(path / "t", schema)
    if mode == "vectors":
        table.deletion_vectors()
    if mapping:
        table.column_mapping(mapping)
    if feed:
        table.change_data_feed()
    return table.file(rows or [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]).commit()


def merge(spark, table, rows, schema):
    frame = spark.createDataFrame(rows, schema).alias("s")
    return DeltaTable.forPath(spark, str(table.path)).alias("t").merge(frame, "t.id = s.id").withSchemaEvolution()


def rows_of(spark, table):
    return {row["id"]: tuple(row)[1:] for row in ebbtide.read(spark, str(table.path)).collect()}


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("mapping", [None, "name", "id"])
def test_star_adds_the_columns_of_the_source(spark, tmp_path, mode, mapping):
    table = built(tmp_path, mode, mapping=mapping, feed=True)
    upsert = merge(spark, table, [(2, "B", 7), (3, "C", 8)], "id long, v string, extra int")
    result = upsert.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert result.num_affected_rows == 2
    assert newest_version(table.path) == 1
    assert rows_of(spark, table) == {1: ("a", None), 2: ("B", 7), 3: ("C", 8)}
    [metadata] = actions_of(table.path, 1, "metaData")
    fields = json.loads(metadata["schemaString"])["fields"]
    assert [field["name"] for field in fields] == ["id", "v", "extra"]
    if mapping:
        assert fields[-1]["metadata"]["delta.columnMapping.id"] == 3
        assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "3"
    else:
        kinds = {change["_change_type"]: change["extra"] for change in told_changes(table.path, 1)}
        assert kinds == {"update_preimage": None, "update_postimage": 7, "insert": 8}


@pytest.mark.one_value("both modes merge on both kinds in test_merge.py")
def test_column_named_in_a_clause_is_added_and_others_are_not(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    upsert = merge(spark, table, [(2, 7, "x"), (3, 8, "y")], "id long, extra int, other string")
    upsert = upsert.whenMatchedUpdate(set={"extra": "s.extra + 1"})
    upsert.whenNotMatchedInsert(values={"id": "s.id"}).execute()
    assert rows_of(spark, table) == {1: ("a", None), 2: ("b", 8), 3: (None, None)}


@pytest.mark.one_value("refused before the mode matters")
def test_column_that_neither_side_has_is_refused(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    with pytest.raises(DeltaError, match="nonexistent") as caught:
        merge(spark, table, [(2, 7)], "id long, extra int").whenMatchedUpdate(set={"nonexistent": "s.extra"}).execute()
    assert caught.value.error_class == "DELTA_MERGE_UNRESOLVED_EXPRESSION"


@pytest.mark.one_value("the same calls for other values")
def test_columns_that_the_source_lacks_are_kept(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    upsert = merge(spark, table, [(2, 7), (3, 8)], "id long, extra int")
    upsert.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows_of(spark, table) == {1: ("a", None), 2: ("b", 7), 3: (None, 8)}


@pytest.mark.one_value("both modes merge on both kinds in test_merge.py")
def test_nested_fields_are_united_and_kept(spark, tmp_path, mode):
    schema = pa.schema({"id": pa.int64(), "s": pa.struct({"a": pa.int32(), "c": pa.int32()})})
    table = built(tmp_path, mode, schema, [{"id": 1, "s": {"a": 1, "c": 3}}, {"id": 5, "s": {"a": 5, "c": 6}}])
    upsert = merge(spark, table, [(1, (10, 30)), (2, (20, 40))], "id long, s struct<a: int, d: int>")
    upsert.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    found = {row["id"]: row["s"].asDict() for row in ebbtide.read(spark, str(table.path)).collect()}
    assert found == {
        1: {"a": 10, "c": 3, "d": 30},
        2: {"a": 20, "c": None, "d": 40},
        5: {"a": 5, "c": 6, "d": None},
    }


@pytest.mark.one_value("the same calls for other values")
def test_nothing_to_add_leaves_the_metadata_alone(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    merge(spark, table, [(2, "B")], "ID long, v string").whenMatchedUpdateAll().execute()
    assert not actions_of(table.path, 1, "metaData")
    assert rows_of(spark, table) == {1: ("a",), 2: ("B",)}


@pytest.mark.one_kind("refused by us")
def test_columns_of_the_change_feed_are_refused(spark, tmp_path, mode):
    table = built(tmp_path, mode, feed=True)
    upsert = merge(spark, table, [(2, "insert")], "id long, _change_type string").whenNotMatchedInsertAll()
    with pytest.raises(DeltaError) as caught:
        upsert.execute()
    assert caught.value.error_class == "RESERVED_CDC_COLUMNS_ON_WRITE"


@pytest.mark.one_value("the same calls for other values")
def test_type_that_needs_a_feature_brings_it(spark, tmp_path, mode):
    table = built(tmp_path, mode)
    upsert = merge(spark, table, [(2, None)], "id long, at timestamp_ntz").whenMatchedUpdateAll()
    upsert.execute()
    [protocol] = actions_of(table.path, 1, "protocol")
    assert "timestampNtz" in protocol["readerFeatures"]
