"""Does ALTER TABLE change what it names, write the history of delta-spark, and leave rows and neighbours alone?"""

from __future__ import annotations

import datetime as dt
import json

import pytest
from tests.support.stores import HookedStore

import ebbtide
from ebbtide.commands.define.constraints import add_constraint
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import ConstraintViolationError, DeltaError
from ebbtide.log import load_snapshot
from ebbtide.log.detail import clustering_columns
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


class Table:
    """A table that statements name as {t}."""

    def __init__(self, spark, path, definition, *statements):
        self.spark, self.path = spark, str(path)
        self.sql("CREATE TABLE {t} " + definition)
        for statement in statements:
            self.sql(statement)

    def sql(self, statement):
        return ebbtide.sql(self.spark, statement.replace("{t}", f"delta.`{self.path}`"))

    def alter(self, change):
        self.sql("ALTER TABLE {t} " + change)
        return self

    def rows(self):
        return sorted((tuple(row) for row in ebbtide.read(self.spark, self.path).collect()), key=str)

    @property
    def snapshot(self):
        return load_snapshot(open_store(self.path))

    def last_operation(self):
        row = ebbtide.DeltaTable.forPath(self.spark, self.path).history(1).collect()[0]
        return row.operation, row.operationParameters

    def refused(self, change, error=DeltaError):
        """The class of the error; nothing is committed."""
        before = self.snapshot.version
        with pytest.raises(error) as caught:
            self.alter(change)
        assert self.snapshot.version == before
        return caught.value.error_class


@pytest.fixture
def table(spark, tmp_path):
    return lambda *statements: Table(spark, tmp_path / "t", *statements)


# --- what is taken away -----------------------------------------------------------------------------------------------


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_constraint_is_dropped_whatever_its_case_and_the_feature_stays(table):
    t = table("(id INT) TBLPROPERTIES ('delta.constraints.Pos' = 'id > 0')")
    t.alter("DROP CONSTRAINT pOS")
    assert t.last_operation() == ("DROP CONSTRAINT", {"name": "pOS", "expr": "id > 0", "existed": "true"})
    assert t.snapshot.metadata.configuration == {}
    assert "checkConstraints" in t.snapshot.protocol.writer_features
    t.sql("INSERT INTO {t} VALUES (-1)")
    assert t.rows() == [(-1,)]


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_missing_constraint_is_refused_unless_if_exists(table):
    t = table("(id INT)")
    assert t.refused("DROP CONSTRAINT nope") == "DELTA_CONSTRAINT_DOES_NOT_EXIST"
    t.alter("DROP CONSTRAINT IF EXISTS nope")
    assert t.last_operation() == ("DROP CONSTRAINT", {"name": "nope", "existed": "false"})


def test_dropped_column_is_not_shown_and_a_new_one_of_its_name_is_empty(table):
    t = table(
        f"(id INT, v STRING, s STRUCT<a: INT, b: INT>) {MAPPED}",
        "INSERT INTO {t} VALUES (1, 'a', named_struct('a', 1, 'b', 2))",
    )
    t.alter("DROP COLUMNS (V, s.B)")
    assert t.last_operation() == ("DROP COLUMNS", {"columns": '["v","s.b"]'})
    assert t.rows() == [(1, (1,))]
    ebbtide.write(
        t.spark.createDataFrame([(2, (2,), "new")], "id int, s struct<a: int>, v string"),
        t.path,
        mode="append",
        merge_schema=True,
    )
    assert t.rows() == [(1, (1,), None), (2, (2,), "new")]


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_columns_that_something_needs_are_not_dropped(table):
    t = table(
        "(id INT, s STRUCT<a: INT, b: INT>, c INT, g INT GENERATED ALWAYS AS (c + 1), part INT) PARTITIONED BY (part) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.constraints.x' = 's.a > 0')"
    )
    assert t.refused("DROP COLUMN part") == "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN"
    assert t.refused("DROP COLUMN c") == "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"
    assert t.refused("DROP COLUMN S") == "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    assert t.refused("DROP COLUMN s.a") == "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    assert t.refused("DROP COLUMN nope") == "UNRESOLVED_COLUMN"
    assert t.refused("DROP COLUMN id.x") == "INVALID_FIELD_NAME"
    assert t.refused("DROP COLUMNS (id, id)") == "UNRESOLVED_COLUMN"
    version = t.snapshot.version
    t.alter("DROP COLUMN IF EXISTS nope")
    assert t.snapshot.version == version
    t.alter("DROP COLUMN IF EXISTS nope, s.b, g").alter("DROP COLUMN c")
    assert t.snapshot.schema.names == ("id", "s", "part")


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_column_cannot_be_dropped_without_column_mapping_and_the_error_says_how_to_get_it(table):
    t = table("(id INT, v INT)", "INSERT INTO {t} VALUES (1, 2)")
    assert t.refused("DROP COLUMN v") == "DELTA_UNSUPPORTED_DROP_COLUMN"
    t.alter("SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')").alter("DROP COLUMN v")
    t.sql("INSERT INTO {t} VALUES (3)")
    t.sql("DELETE FROM {t} WHERE id = 1")
    assert t.rows() == [(3,)]


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_last_column_stays(table):
    assert table(f"(id INT) {MAPPED}").refused("DROP COLUMN id") == "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_dropped_default_is_null_from_then_on(table):
    t = table("(id INT, v STRING DEFAULT 'a')", "INSERT INTO {t} (id) VALUES (1)")
    t.alter("ALTER COLUMN V DROP DEFAULT")
    name, parameters = t.last_operation()
    assert name == "CHANGE COLUMN"
    assert json.loads(parameters["column"]) == {"name": "v", "type": "string", "nullable": True, "metadata": {}}
    t.sql("INSERT INTO {t} (id) VALUES (2)")
    assert t.rows() == [(1, "a"), (2, None)]
    assert t.refused("ALTER COLUMN nope DROP DEFAULT") == "UNRESOLVED_COLUMN"


# --- constraints ------------------------------------------------------------------------------------------------------


def test_new_constraint_holds_for_old_and_new_rows(table):
    t = table("(id INT, v STRING)", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
    t.alter("ADD CONSTRAINT Short CHECK (length(v)<=5 /* letters */)")
    assert t.last_operation() == ("ADD CONSTRAINT", {"name": "Short", "expr": "length ( v ) <= 5"})
    assert t.snapshot.metadata.configuration == {"delta.constraints.short": "length ( v ) <= 5"}
    with pytest.raises(ConstraintViolationError, match="short"):
        t.sql("INSERT INTO {t} VALUES (3, 'too long')")
    assert t.refused("ADD CONSTRAINT SHORT CHECK (id > 0)") == "DELTA_CONSTRAINT_ALREADY_EXISTS"


def test_constraint_that_rows_break_is_refused_with_their_number_and_an_example(table):
    t = table("(id INT, v STRING)", "INSERT INTO {t} VALUES (1, 'a'), (-7, 'b'), (NULL, 'c')")
    with pytest.raises(ConstraintViolationError) as caught:
        t.alter("ADD CONSTRAINT pos CHECK (id > 0)")
    assert caught.value.error_class == "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
    assert "2 rows" in str(caught.value) and ("id : -7" in str(caught.value) or "id : null" in str(caught.value))
    t.sql("DELETE FROM {t} WHERE id < 0 OR id IS NULL")
    t.alter("ADD CONSTRAINT pos CHECK (id > 0)")


@pytest.mark.one_value("other refusals of conditions run on both kinds in test_delete.py")
@pytest.mark.parametrize(
    ("condition", "error_class"),
    [
        ("nope > 0", "UNRESOLVED_COLUMN"),
        ("id + 1", "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"),
        ("reflect('java.lang.System', 'getProperty', 'x') IS NULL", "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT"),
        ("id IN (SELECT 1)", "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT"),
        ("rand() < 2", "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT"),
    ],
)
def test_constraint_that_no_row_could_be_asked_is_refused(table, condition, error_class):
    t = table("(id INT)", "INSERT INTO {t} VALUES (1)")
    assert t.refused(f"ADD CONSTRAINT c CHECK ({condition})") == error_class


@pytest.mark.one_kind("the race is decided in the log")
def test_row_that_came_meanwhile_is_asked_too(table, spark):
    t = table("(id INT)", "INSERT INTO {t} VALUES (1)")
    waiting = ["INSERT INTO {t} VALUES (-1)"]

    def before(operation, path):
        if operation == "put_if_absent" and path.endswith(".json") and waiting:
            t.sql(waiting.pop())

    store = HookedStore(open_store(t.path), before=before)
    with pytest.raises(ConstraintViolationError, match="1 rows"):
        add_constraint(spark, store, "pos", "id > 0", options=WriteOptions())
    assert t.snapshot.properties.constraints == {} and t.rows() == [(-1,), (1,)]


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("the same calls for another mapping")
@pytest.mark.parametrize("mapping", ["", MAPPED])
def test_new_columns_are_null_in_old_rows_and_written_in_new_ones(table, mapping):
    t = table(
        f"(id INT, s STRUCT<a: INT>, arr ARRAY<STRUCT<x: INT>>) {mapping}",
        "INSERT INTO {t} VALUES (1, named_struct('a', 1), array(named_struct('x', 1)))",
    )
    t.alter("ADD COLUMNS (n VARCHAR(3) COMMENT 'new' FIRST, s.b STRING, arr.element.y INT FIRST)")
    assert t.rows() == [(None, 1, (1, None), [(None, 1)])]
    t.sql("INSERT INTO {t} VALUES ('abc', 2, named_struct('a', 2, 'b', 'b'), array(named_struct('y', 3, 'x', 2)))")
    assert t.rows() == [("abc", 2, (2, "b"), [(3, 2)]), (None, 1, (1, None), [(None, 1)])]
    with pytest.raises(ConstraintViolationError, match="abcd"):
        t.sql("INSERT INTO {t} VALUES ('abcd', 2, NULL, NULL)")


def test_renamed_column_keeps_its_values_and_serves_conditions(table):
    t = table(
        f"(id INT, v STRING, part INT) PARTITIONED BY (part) {MAPPED}",
        "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2)",
    )
    t.alter("RENAME COLUMN V TO `new name`").alter("RENAME COLUMN part TO p")
    assert t.last_operation() == ("RENAME COLUMN", {"oldColumnPath": "part", "newColumnPath": "p"})
    t.sql("UPDATE {t} SET `new name` = 'c' WHERE p = 2")
    t.sql("DELETE FROM {t} WHERE p = 1")
    t.sql("INSERT INTO {t} VALUES (3, 'd', 3)")
    assert t.snapshot.schema.names == ("id", "new name", "p") and t.rows() == [(2, "c", 2), (3, "d", 3)]
    assert t.refused("RENAME COLUMN id TO P") == "FIELD_ALREADY_EXISTS"


def test_wider_type_reads_old_files_and_takes_larger_values(table):
    t = table(
        "(id INT, a ARRAY<INT>, p SMALLINT) PARTITIONED BY (p) TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "INSERT INTO {t} VALUES (1, array(1), 1)",
    )
    t.alter("ALTER COLUMN id TYPE BIGINT").alter("ALTER COLUMN a.element TYPE BIGINT").alter("ALTER COLUMN p TYPE INT")
    large = 2**40
    t.sql(f"INSERT INTO {{t}} VALUES ({large}, array({large}), 70000)")
    assert t.rows() == [(1, [1], 1), (large, [large], 70000)]
    t.sql("DELETE FROM {t} WHERE id = 1")
    assert t.rows() == [(large, [large], 70000)]
    version = t.snapshot.version
    t.alter("ALTER COLUMN id TYPE BIGINT")
    assert t.snapshot.version == version
    assert t.refused("ALTER COLUMN id TYPE INT") == "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"
    assert t.refused("ALTER COLUMN a TYPE ARRAY<INT>") == "CANNOT_UPDATE_FIELD.ARRAY_TYPE"


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_type_is_not_widened_where_readers_do_not_expect_it(table):
    t = table("(id INT)")
    assert t.refused("ALTER COLUMN id TYPE BIGINT") == "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"


def test_column_gets_comment_place_default_and_may_be_null(table):
    t = table(
        "(id INT NOT NULL, v STRING, s STRUCT<a: INT, b: INT>) "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "INSERT INTO {t} VALUES (1, 'a', NULL)",
    )
    t.alter("ALTER COLUMN ID COMMENT 'key', s.a AFTER b").alter("ALTER COLUMN s FIRST").alter("ALTER id DROP NOT NULL")
    t.alter("ALTER COLUMN v SET DEFAULT concat('d', 'e')")
    t.sql("INSERT INTO {t} (s, id) VALUES (named_struct('b', 2, 'a', 1), NULL)")
    assert t.rows() == [(None, 1, "a"), ((2, 1), None, "de")]
    assert t.snapshot.schema.get("id").metadata == {"comment": "key"}
    assert t.refused("ALTER COLUMN id SET NOT NULL") == "DELTA_ALTER_TABLE_CHANGE_COL_NOT_SUPPORTED"
    for text in ("'x'", "3000000000", "true"):
        assert t.refused(f"ALTER COLUMN id SET DEFAULT {text}") == "INVALID_DEFAULT_VALUE.DATA_TYPE"
    t.alter("ALTER COLUMN id SET DEFAULT 30L")
    assert t.refused("ALTER COLUMN id SET DEFAULT (SELECT 1)") == "INVALID_DEFAULT_VALUE"
    assert t.refused("ALTER COLUMN id SET DEFAULT v") == "UNRESOLVED_COLUMN"


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_default_needs_a_feature_that_the_error_names(table):
    t = table("(id INT)")
    assert t.refused("ALTER COLUMN id SET DEFAULT 3") == "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED"


# --- layout and features ----------------------------------------------------------------------------------------------


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_clustering_columns_follow_renames_and_cannot_be_dropped(table):
    t = table(f"(id INT, s STRUCT<a: INT>, arr ARRAY<INT>) {MAPPED}", "INSERT INTO {t} VALUES (1, NULL, NULL)")
    t.alter("CLUSTER BY (s.a, ID)")
    assert t.last_operation() == ("CLUSTER BY", {"oldClusteringColumns": "", "newClusteringColumns": "s.a,ID"})
    t.alter("RENAME COLUMN id TO key")
    assert clustering_columns(t.snapshot) == ("s.a", "key")
    assert t.refused("DROP COLUMN key") == "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN"
    assert t.refused("CLUSTER BY (arr)") == "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"
    assert t.refused("CLUSTER BY (nope)") == "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"
    t.alter("CLUSTER BY NONE").alter("DROP COLUMN key")
    assert clustering_columns(t.snapshot) == ()


@pytest.mark.one_kind("about the table's definition, not about Spark")
@pytest.mark.parametrize(
    ("name", "value"), [("delta.dataSkippingNumIndexedCols", "1"), ("delta.dataSkippingStatsColumns", "id")]
)
def test_table_is_clustered_by_columns_without_statistics(table, name, value):
    t = table(f"(id INT, s STRUCT<a: INT, b: INT>) {MAPPED}", "INSERT INTO {t} VALUES (1, NULL)")
    t.alter(f"SET TBLPROPERTIES ('{name}' = '{value}')")
    assert t.refused("CLUSTER BY (id, s.b)") == "DELTA_CLUSTERING_COLUMN_MISSING_STATS"
    t.alter("CLUSTER BY (ID)")
    assert clustering_columns(t.snapshot) == ("id",)


def test_feature_is_dropped_by_sql_and_by_the_method(table):
    t = table("(id INT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", "INSERT INTO {t} VALUES (1), (2)")
    handle = ebbtide.DeltaTable.forPath(t.spark, t.path)
    handle.upgradeTableProtocol(1, 3)
    assert "checkConstraints" in t.snapshot.protocol.writer_features
    handle.dropFeatureSupport("checkConstraints")
    t.alter("DROP FEATURE deletionVectors")
    assert t.snapshot.protocol.writer_features == {"appendOnly", "invariants", "checkpointProtection"}
    t.sql("DELETE FROM {t} WHERE id = 1")
    assert t.rows() == [(2,)]


def test_view_of_a_table_shows_the_columns_that_are_left(table, spark):
    t = table(f"(id INT, v STRING) {MAPPED}", "INSERT INTO {t} VALUES (1, 'a')")
    t.sql("CREATE OR REPLACE TEMP VIEW altered AS SELECT * FROM {t}")
    try:
        t.alter("DROP COLUMN v")
        assert spark.sql("SELECT * FROM altered").columns == ["id"]
    finally:
        spark.catalog.dropTempView("altered")


# --- looking ----------------------------------------------------------------------------------------------------------


def test_columns_properties_and_partitions_are_shown_as_spark_shows_them(table):
    t = table(
        "(id INT COMMENT 'key', v VARCHAR(5), p DATE) PARTITIONED BY (p) TBLPROPERTIES ('mine' = '1')",
        "INSERT INTO {t} VALUES (1, 'a', DATE'2026-01-02'), (2, 'b', NULL), (3, 'c', DATE'2026-01-02')",
    )

    def shown(statement):
        return [tuple(row) for row in t.sql(statement).collect()]

    assert shown("DESCRIBE TABLE {t}") == [
        ("id", "int", "key"),
        ("v", "varchar(5)", None),
        ("p", "date", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "date", None),
    ]
    assert shown("DESCRIBE {t} ID") == [("col_name", "id"), ("data_type", "int"), ("comment", "key")]
    assert shown("SHOW COLUMNS IN {t}") == [("id",), ("v",), ("p",)]
    assert ("mine", "1") in shown("SHOW TBLPROPERTIES {t}")
    assert shown("SHOW TBLPROPERTIES {t} (mine)") == [("mine", "1")]
    assert "does not have" in shown("SHOW TBLPROPERTIES {t} ('other')")[0][1]
    assert shown("SHOW PARTITIONS {t}") == [(dt.date(2026, 1, 2),), (None,)]


@pytest.mark.one_kind(
    "the calls of test_columns_properties_and_partitions_are_shown_as_spark_shows_them, which runs on both kinds; this adds rows"
)
def test_extended_description_says_what_the_log_knows_of_the_table(table):
    t = table(
        "(a INT, s STRUCT<x: INT>) COMMENT 'about' TBLPROPERTIES ('mine' = '1')", "ALTER TABLE {t} CLUSTER BY (s.x)"
    )
    plain = [tuple(row) for row in t.sql("DESCRIBE TABLE {t}").collect()]
    extended = [tuple(row) for row in t.sql("DESCRIBE TABLE EXTENDED {t}").collect()]
    assert extended == [tuple(row) for row in t.sql("DESCRIBE FORMATTED {t}").collect()]
    assert extended[: len(plain)] == plain
    added = extended[len(plain) :]
    assert added[:3] == [("", "", ""), ("# Detailed Table Information", "", ""), ("Comment", "about", "")]
    assert [name for name, *_ in added[3:]] == ["Location", "Provider", "Table Properties"]
    properties = added[-1][1]
    assert properties.startswith('[clusteringColumns=[["s","x"]],delta.feature.appendOnly=supported,')
    assert properties.endswith(",mine=1]")
    [shown] = t.sql("SHOW TBLPROPERTIES {t} ('clusteringColumns')").collect()
    assert shown["value"] == '[["s","x"]]'


@pytest.mark.one_kind(
    "the parts of the statement are ours; statements that write and read run on both kinds in the tests without this mark"
)
def test_table_without_partitions_has_none_to_show(table):
    t = table("(id INT)")
    with pytest.raises(DeltaError, match="DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE"):
        t.sql("SHOW PARTITIONS {t}")
