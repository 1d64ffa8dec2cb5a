"""Does ALTER TABLE change what it names, write the history of delta-spark, and leave rows and neighbours alone?"""

from __future__ import annotations

import json

import pytest

import ebbtide
from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot
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


def test_constraint_is_dropped_whatever_its_case_and_the_feature_stays(table):
    t = table("(id INT) TBLPROPERTIES ('delta.constraints.Pos' = 'id > 0')")
    t.alter("DROP CONSTRAINT pOS")
    assert t.last_operation() == ("DROP CONSTRAINT", {"name": "pOS", "expr": "id > 0", "existed": "true"})
    assert t.snapshot.metadata.configuration == {}
    assert "checkConstraints" in t.snapshot.protocol.writer_features
    t.sql("INSERT INTO {t} VALUES (-1)")
    assert t.rows() == [(-1,)]


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


def test_column_cannot_be_dropped_without_column_mapping_and_the_error_says_how_to_get_it(table):
    t = table("(id INT, v INT)", "INSERT INTO {t} VALUES (1, 2)")
    assert t.refused("DROP COLUMN v") == "DELTA_UNSUPPORTED_DROP_COLUMN"
    t.alter("SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')").alter("DROP COLUMN v")
    t.sql("INSERT INTO {t} VALUES (3)")
    t.sql("DELETE FROM {t} WHERE id = 1")
    assert t.rows() == [(3,)]


def test_last_column_stays(table):
    assert table(f"(id INT) {MAPPED}").refused("DROP COLUMN id") == "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"


def test_dropped_default_is_null_from_then_on(table):
    t = table("(id INT, v STRING DEFAULT 'a')", "INSERT INTO {t} (id) VALUES (1)")
    t.alter("ALTER COLUMN V DROP DEFAULT")
    name, parameters = t.last_operation()
    assert name == "CHANGE COLUMN"
    assert json.loads(parameters["column"]) == {"name": "v", "type": "string", "nullable": True, "metadata": {}}
    t.sql("INSERT INTO {t} (id) VALUES (2)")
    assert t.rows() == [(1, "a"), (2, None)]
    assert t.refused("ALTER COLUMN nope DROP DEFAULT") == "UNRESOLVED_COLUMN"


def test_view_of_a_table_shows_the_columns_that_are_left(table, spark):
    t = table(f"(id INT, v STRING) {MAPPED}", "INSERT INTO {t} VALUES (1, 'a')")
    t.sql("CREATE OR REPLACE TEMP VIEW altered AS SELECT * FROM {t}")
    try:
        t.alter("DROP COLUMN v")
        assert spark.sql("SELECT * FROM altered").columns == ["id"]
    finally:
        spark.catalog.dropTempView("altered")
