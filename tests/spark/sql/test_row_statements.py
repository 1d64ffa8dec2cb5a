"""Do UPDATE, MERGE, INSERT and CREATE TABLE in SQL do what their Python calls do, and say how many rows they changed?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.log_reading import commit_info, log_state, newest_version
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import (
    ConstraintViolationError,
    DeltaError,
    RequestError,
    TableAlreadyExistsError,
    TableNotFoundError,
)

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.int32()})


@pytest.fixture
def table(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").deletion_vectors().change_data_feed()
    for part in (0, 1):
        builder.file([{"id": 10 * part + n, "name": f"n{n}", "part": part} for n in range(3)])
    return builder.commit().path


@pytest.fixture
def source(spark):
    spark.sql("SELECT * FROM VALUES (1L, 'one', 0), (50L, 'fifty', 1) AS s(id, name, part)").createOrReplaceTempView(
        "news"
    )
    yield "news"
    spark.catalog.dropTempView("news")


def answer(spark, statement):
    [row] = ebbtide.sql(spark, statement).collect()
    return row.asDict()


def rows(spark, path):
    return sorted(tuple(row) for row in ebbtide.read(spark, str(path)).select("id", "name", "part").collect())


START = [(0, "n0", 0), (1, "n1", 0), (2, "n2", 0), (10, "n0", 1), (11, "n1", 1), (12, "n2", 1)]


def without(*ids):
    return [row for row in START if row[0] not in ids]


def test_update_changes_the_rows_and_counts_them(spark, table):
    statement = f"UPDATE delta.`{table}` t SET name = upper(t.name), t.part = 7 WHERE t.id IN (1, 2)"
    assert answer(spark, statement) == {"num_affected_rows": 2}
    assert rows(spark, table) == sorted([*without(1, 2), (1, "N1", 7), (2, "N2", 7)])
    assert commit_info(table, 1)["operation"] == "UPDATE"


@pytest.mark.one_kind("test_other_tables_can_be_read_in_condition_and_value in test_update.py runs on both kinds")
def test_update_may_read_other_tables_in_its_condition(spark, table, tmp_path):
    other = TableBuilder(tmp_path / "other", SCHEMA).file([{"id": 11, "name": "x", "part": 3}]).commit().path
    statement = f"UPDATE delta.`{table}` SET name = 'hit' WHERE id IN (SELECT id FROM delta.`{other}`)"
    assert answer(spark, statement) == {"num_affected_rows": 1}
    assert (11, "hit", 1) in rows(spark, table)


def test_merge_counts_each_kind_of_change(spark, table, source):
    statement = f"""
        MERGE INTO delta.`{table}` AS t USING {source} ON t.id = news.id
        WHEN MATCHED THEN UPDATE SET name = news.name
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.id >= 11 THEN DELETE
    """
    counts = {"num_affected_rows": 4, "num_updated_rows": 1, "num_deleted_rows": 2, "num_inserted_rows": 1}
    assert answer(spark, statement) == counts
    assert rows(spark, table) == sorted([*without(1, 11, 12), (1, "one", 0), (50, "fifty", 1)])


@pytest.mark.one_value("queries over tables and views run on both kinds in test_queries.py")
@pytest.mark.parametrize(
    "using",
    [
        "(SELECT id, name, part FROM news WHERE id > 5) s",
        "(VALUES (50L, 'fifty', 1)) AS s(id, name, part)",
        "delta.`{other}` AS s",
        "delta.`{other}` VERSION AS OF 0 s",
        "(SELECT id, name, part FROM delta.`{other}` JOIN news USING (id, name, part)) s",
    ],
)
def test_source_of_a_merge_may_be_a_query_or_a_table(spark, table, source, tmp_path, using):
    builder = TableBuilder(tmp_path / "other", SCHEMA).file([{"id": 50, "name": "fifty", "part": 1}]).commit()
    statement = f"MERGE INTO delta.`{table}` t USING {using.format(other=builder.path)} ON s.id = t.id "
    statement += "WHEN NOT MATCHED THEN INSERT (id, name, part) VALUES (s.id, s.name, s.part)"
    assert answer(spark, statement)["num_inserted_rows"] == 1
    assert rows(spark, table) == sorted([*START, (50, "fifty", 1)])


def test_merge_with_a_common_table_and_evolution_through_a_view(spark, table):
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW people AS SELECT * FROM delta.`{table}`")
    try:
        statement = """
            WITH c AS (SELECT 1L AS id, 'one' AS name, 0 AS part, true AS extra)
            MERGE WITH SCHEMA EVOLUTION INTO people USING c ON c.id = people.id WHEN MATCHED THEN UPDATE SET *
        """
        assert answer(spark, statement)["num_updated_rows"] == 1
        assert spark.table("people").where("extra").collect()[0].name == "one"
    finally:
        spark.catalog.dropTempView("people")


@pytest.mark.one_kind("refused by us")
def test_same_column_twice_is_refused_in_sql_as_well(spark, table, source):
    for statement in (
        f"UPDATE delta.`{table}` SET name = 'a', name = 'b'",
        f"MERGE INTO delta.`{table}` t USING news s ON s.id = t.id WHEN MATCHED THEN UPDATE SET name = 'a', name = 'b'",
    ):
        with pytest.raises(RequestError) as refused:
            ebbtide.sql(spark, statement)
        assert refused.value.error_class == "DELTA_CONFLICT_SET_COLUMN"
    assert newest_version(table) == 0


@pytest.mark.one_value("the same calls for other spellings")
@pytest.mark.parametrize(
    ("insert", "added"),
    [
        ("VALUES (70, 'x', 1), (71, NULL, 2)", [(70, "x", 1), (71, None, 2)]),
        ("(part, id, name) SELECT 2, 70L, 'x'", [(70, "x", 2)]),
        ("(ID) VALUES (70)", [(70, None, None)]),
        ("BY NAME SELECT 3 AS part, 70L AS id, 'x' AS name", [(70, "x", 3)]),
        ("SELECT id + 100, name, part FROM delta.`{table}` WHERE id = 0", [(100, "n0", 0)]),
        ("TABLE news", [(1, "one", 0), (50, "fifty", 1)]),
    ],
)
def test_insert_adds_rows_by_position_or_name(spark, table, source, insert, added):
    count = answer(spark, f"INSERT INTO delta.`{table}` {insert.format(table=table)}")
    assert count == {"num_affected_rows": len(added), "num_inserted_rows": len(added)}
    shown = [tuple(row) for row in ebbtide.read(spark, str(table)).select("id", "name", "part").collect()]
    assert sorted(shown, key=str) == sorted([*START, *added], key=str)


def test_insert_overwrite_and_replace_where_take_old_rows_away(spark, table):
    answer(spark, f"INSERT INTO delta.`{table}` REPLACE WHERE part = 1 SELECT 70L, 'x', 1")
    assert rows(spark, table) == [*START[:3], (70, "x", 1)]
    answer(spark, f"INSERT OVERWRITE delta.`{table}` VALUES (1, 'only', 0)")
    assert rows(spark, table) == [(1, "only", 0)]
    assert newest_version(table) == 2


@pytest.mark.one_kind(
    "test_session_that_means_partitions_loses_no_others in test_write.py reads the setting on both kinds"
)
def test_insert_overwrite_refuses_a_session_that_means_partitions(spark, table):
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(RequestError, match="REPLACE WHERE"):
            ebbtide.sql(spark, f"INSERT OVERWRITE delta.`{table}` VALUES (1, 'only', 0)")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(spark, table) == START


@pytest.mark.one_value("refused by us; mistakes in queries run on both kinds in test_queries.py")
@pytest.mark.parametrize(
    ("insert", "error_class"),
    [
        ("VALUES (1, 'x')", "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
        ("(id, name) VALUES (1)", "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
        ("(id, nothing) VALUES (1, 2)", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("(id, ID) VALUES (1, 2)", None),
        ("SELECT nothing", None),
    ],
)
def test_insert_that_does_not_fit_is_refused_and_writes_nothing(spark, table, insert, error_class):
    with pytest.raises(DeltaError) as refused:
        ebbtide.sql(spark, f"INSERT INTO delta.`{table}` {insert}")
    assert error_class is None or refused.value.error_class == error_class
    assert newest_version(table) == 0


@pytest.mark.one_kind("refused before Spark is asked")
def test_insert_into_no_table_says_so(spark, tmp_path):
    with pytest.raises(TableNotFoundError):
        ebbtide.sql(spark, f"INSERT INTO delta.`{tmp_path / 'none'}` VALUES (1)")


def test_table_is_created_with_its_rules_and_filled(spark, tmp_path):
    path = tmp_path / "made"
    create = f"""CREATE TABLE delta.`{path}` (
        id BIGINT NOT NULL COMMENT 'the key', name STRING DEFAULT 'nobody',
        at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), place STRUCT<x: INT, y: ARRAY<STRING>>
    ) USING delta PARTITIONED BY (day) COMMENT 'made' TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"""
    assert ebbtide.sql(spark, create).collect() == []
    ebbtide.sql(spark, f"INSERT INTO delta.`{path}` (id, at) VALUES (1, TIMESTAMP'2024-02-29 12:00:00')")
    [row] = ebbtide.sql(spark, f"SELECT id, name, CAST(day AS STRING) AS day FROM delta.`{path}`").collect()
    assert tuple(row) == (1, "nobody", "2024-02-29")
    [detail] = ebbtide.sql(spark, f"DESCRIBE DETAIL delta.`{path}`").collect()
    assert (detail.description, list(detail.partitionColumns)) == ("made", ["day"])
    with pytest.raises(ConstraintViolationError):
        ebbtide.sql(spark, f"INSERT INTO delta.`{path}` (id) VALUES (NULL)")
    with pytest.raises(TableAlreadyExistsError):
        ebbtide.sql(spark, create)
    ebbtide.sql(spark, create.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    assert newest_version(path) == 1
    ebbtide.sql(spark, f"CREATE OR REPLACE TABLE delta.`{path}` (other INT) USING delta")
    assert ebbtide.read(spark, str(path)).columns == ["other"]


def test_table_is_made_from_a_query(spark, table, tmp_path):
    path = tmp_path / "copy"
    ebbtide.sql(
        spark, f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (part) AS SELECT * FROM delta.`{table}`"
    )
    assert rows(spark, path) == START
    ebbtide.sql(spark, f"CREATE OR REPLACE TABLE delta.`{path}` COMMENT 'one' AS SELECT 1 AS a")
    assert ebbtide.read(spark, str(path)).columns == ["a"]
    ebbtide.sql(spark, f"CREATE TABLE IF NOT EXISTS delta.`{path}` AS SELECT 2 AS b")
    assert ebbtide.read(spark, str(path)).collect() == [(1,)]


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize("statement", ["UPDATE delta.`{}/part=a` SET id = 1", "DELETE FROM delta.`{}/part=a`"])
def test_partition_directory_is_not_taken_for_a_table(spark, tmp_path, statement):
    schema = pa.schema({"id": pa.int64(), "part": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("part").file([{"id": 1, "part": "a"}]).commit()
    with pytest.raises(TableNotFoundError, match="full scan") as caught:
        ebbtide.sql(spark, statement.format(builder.path))
    assert caught.value.error_class == "DELTA_UNEXPECTED_PARTIAL_SCAN"
    with pytest.raises(TableNotFoundError, match="is a directory inside the Delta table"):
        ebbtide.read(spark, f"{builder.path}/part=a")
    with pytest.raises(TableNotFoundError, match="no Delta table"):
        ebbtide.read(spark, str(tmp_path / "other" / "part=a"))


def test_char_and_varchar_columns_are_as_the_reference_makes_them(spark, tmp_path):
    path = tmp_path / "texts"
    columns = "id INT, c CHAR(5), v VARCHAR(3) NOT NULL COMMENT 'short', n STRUCT<a: CHAR(3), b: ARRAY<VARCHAR(2)>>"
    ebbtide.sql(spark, f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    fields = {field["name"]: field for field in json.loads(log_state(path).metadata["schemaString"])["fields"]}
    assert (fields["c"]["type"], fields["v"]["type"]) == ("string", "string")
    noted = {name: fields[name]["metadata"].get("__CHAR_VARCHAR_TYPE_STRING") for name in ("c", "v", "n")}
    assert noted == {"c": "char(5)", "v": "varchar(3)", "n": "struct<a:char(3),b:array<varchar(2)>>"}
    assert [field["metadata"] for field in fields["n"]["type"]["fields"]] == [{}, {}]
    ebbtide.sql(spark, f"INSERT INTO delta.`{path}` VALUES (1, 'ab', 'ab', named_struct('a', 'x', 'b', array('yy')))")
    for bad in ("'abcdef', 'ab', null", "'ab', 'abcd', null", "'ab', 'a', named_struct('a', 'x', 'b', array('yyy'))"):
        with pytest.raises(ConstraintViolationError) as refused:
            ebbtide.sql(spark, f"INSERT INTO delta.`{path}` VALUES (2, {bad})")
        assert refused.value.error_class == "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
    with pytest.raises(ConstraintViolationError):
        ebbtide.sql(spark, f"UPDATE delta.`{path}` SET v = 'long' WHERE id = 1")
    shown = ebbtide.sql(spark, f"SELECT concat('[', c, ']'), concat('[', v, ']') FROM delta.`{path}`").collect()
    assert [tuple(row) for row in shown] == [("[ab   ]", "[ab]")]
    assert answer(spark, f"DELETE FROM delta.`{path}` WHERE c = 'ab' AND v = 'ab'") == {"num_affected_rows": 1}
