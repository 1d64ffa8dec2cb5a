"""Is every statement understood as it was meant, and its condition handed on letter by letter?"""

from __future__ import annotations

import pytest

from ebbtide.errors import RequestError
from ebbtide.protocol.schema_edits import Place
from ebbtide.sql.alter_statements import (
    AddColumns,
    AddConstraint,
    AddedColumn,
    ChangeColumns,
    ChangedColumn,
    ClusterBy,
    ColumnDefinition,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
    ReplaceColumns,
    SetProperties,
    SyncIdentity,
    UnsetProperties,
)
from ebbtide.sql.maintenance_statements import Fsck
from ebbtide.sql.parse import parse_statement
from ebbtide.sql.statements import (
    Assignment,
    CreateView,
    Delete,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    DropTable,
    Explain,
    Merge,
    MergeClause,
    ShowColumns,
    ShowPartitions,
    ShowProperties,
    Truncate,
    Update,
    ViewName,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DESCRIBE delta.`/t`", DescribeTable("/t")),
        ("desc table delta.`/t` `a b`", DescribeTable("/t", "a b")),
        ("DESCRIBE TABLE EXTENDED delta.`/t`", DescribeTable("/t", is_extended=True)),
        ("desc formatted delta.`/t` a", DescribeTable("/t", "a", is_extended=True)),
        ("SHOW COLUMNS IN delta.`/t`", ShowColumns("/t")),
        ("SHOW TBLPROPERTIES delta.`/t` ('a.b')", ShowProperties("/t", "a.b")),
        ("SHOW TBLPROPERTIES delta.`/t`", ShowProperties("/t")),
        ("SHOW PARTITIONS delta.`/t`", ShowPartitions("/t")),
        ("ALTER TABLE delta.`/t` CLUSTER BY (a, b.c)", ClusterBy("/t", (("a",), ("b", "c")))),
        ("ALTER TABLE delta.`/t` CLUSTER BY NONE", ClusterBy("/t")),
        ("ALTER TABLE delta.`/t` DROP FEATURE deletionVectors", DropFeature("/t", "deletionVectors")),
        ("ALTER TABLE delta.`/t` DROP FEATURE 'x-y' TRUNCATE HISTORY", DropFeature("/t", "x-y", True)),
        (
            "ALTER TABLE delta.`/t` ADD CONSTRAINT c CHECK (a > 0 AND f(b) IN (1, 2))",
            AddConstraint("/t", "c", "a > 0 AND f(b) IN (1, 2)"),
        ),
        (
            "ALTER TABLE delta.`/t` ADD COLUMNS (a.b STRUCT<x: INT, first: INT> COMMENT 'hi' FIRST, c INT AFTER d)",
            AddColumns(
                "/t",
                (
                    AddedColumn(ColumnDefinition("b", "STRUCT<x: INT, first: INT>", comment="hi"), ("a",), Place()),
                    AddedColumn(ColumnDefinition("c", "INT"), (), Place("d")),
                ),
            ),
        ),
        ("ALTER TABLE delta.`/t` ADD COLUMN c INT", AddColumns("/t", (AddedColumn(ColumnDefinition("c", "INT")),))),
        (
            "ALTER TABLE delta.`/t` REPLACE COLUMNS (a STRUCT<x: INT> COMMENT 'hi', `b c` INT)",
            ReplaceColumns(
                "/t", (ColumnDefinition("a", "STRUCT<x: INT>", comment="hi"), ColumnDefinition("b c", "INT"))
            ),
        ),
        ("DROP TABLE delta.`/t`", DropTable("/t")),
        ("drop table IF EXISTS delta.`s3://b/t`;", DropTable("s3://b/t", True)),
        ("ALTER TABLE delta.`/t` RENAME COLUMN a.b TO `c d`", RenameColumn("/t", ("a", "b"), "c d")),
        *(
            (f"ALTER TABLE delta.`/t` ALTER COLUMN a {text}", ChangeColumns("/t", (ChangedColumn(("a",), **said),)))
            for text, said in (
                ("TYPE DECIMAL(10, 2)", {"type": "DECIMAL(10, 2)"}),
                ("COMMENT 'x'", {"comment": "x"}),
                ("SET NOT NULL", {"nullable": False}),
                ("DROP NOT NULL", {"nullable": True}),
                ("SET DEFAULT f(1, 2) + 1", {"default": "f(1, 2) + 1"}),
                ("FIRST", {"place": Place()}),
                ("AFTER `b c`", {"place": Place("b c")}),
            )
        ),
        (
            "ALTER TABLE delta.`/t` ALTER COLUMN a COMMENT 'x', b.c DROP NOT NULL",
            ChangeColumns("/t", (ChangedColumn(("a",), comment="x"), ChangedColumn(("b", "c"), nullable=True))),
        ),
        (
            "ALTER TABLE delta.`/t` CHANGE COLUMN a A INT COMMENT 'x' AFTER b",
            ChangeColumns("/t", (ChangedColumn(("a",), type="INT", comment="x", place=Place("b")),)),
        ),
        ("ALTER TABLE delta.`/t` DROP CONSTRAINT IF EXISTS `a b`", DropConstraint("/t", "a b", True)),
        ("ALTER TABLE delta.`/t` DROP COLUMN a.`b.c`", DropColumns("/t", (("a", "b.c"),))),
        ("ALTER TABLE delta.`/t` DROP COLUMNS IF EXISTS (a, b.c)", DropColumns("/t", (("a",), ("b", "c")), True)),
        ("ALTER TABLE delta.`/t` DROP COLUMN a, b;", DropColumns("/t", (("a",), ("b",)))),
        ("ALTER TABLE delta.`/t` ALTER COLUMN `a b` SYNC IDENTITY", SyncIdentity("/t", ("a b",))),
        ("ALTER TABLE delta.`/t` CHANGE a SYNC IDENTITY", SyncIdentity("/t", ("a",))),
        (
            "ALTER TABLE delta.`/t` ALTER COLUMN a DROP DEFAULT",
            ChangeColumns("/t", (ChangedColumn(("a",), drops_default=True),)),
        ),
        (
            "ALTER TABLE delta.`/t` CHANGE a DROP DEFAULT",
            ChangeColumns("/t", (ChangedColumn(("a",), drops_default=True),)),
        ),
        ("DELETE FROM delta.`/t`", Delete("/t", "true")),
        ("delete  from\n\tDELTA . `/t` ;", Delete("/t", "true")),
        ("DELETE FROM `delta`.`/t` WHERE a = 1", Delete("/t", "a = 1")),
        ("DELETE FROM delta.`/t` AS x WHERE x.a = 1", Delete("/t", "x.a = 1", "x")),
        ("DELETE FROM delta.`/t` `my x` wHeRe `my x`.a = 1", Delete("/t", "`my x`.a = 1", "my x")),
        ("DELETE FROM delta.`s3://b/a``b` WHERE true", Delete("s3://b/a`b", "true")),
        ("-- why\nDELETE /* all /* of */ it */ FROM delta.`/t` -- the end;", Delete("/t", "true")),
        ("DELETE FROM delta.`/t where x` WHERE where = 1", Delete("/t where x", "where = 1")),
        ("DELETE FROM people WHERE id = 1", Delete(ViewName("people"), "id = 1")),
        ("DELETE FROM `my people` p WHERE p.id = 1", Delete(ViewName("my people"), "p.id = 1", "p")),
        ("EXPLAIN DELETE FROM delta.`/t` WHERE a = 1", Explain(Delete("/t", "a = 1"))),
        ("EXPLAIN FORMATTED UPDATE v SET a = 1", Explain(Update(ViewName("v"), (Assignment("a", "1"),)))),
        (
            "EXPLAIN WITH s AS (SELECT 1 AS a) MERGE INTO delta.`/t` USING s ON true WHEN MATCHED THEN DELETE",
            Explain(
                Merge(
                    "/t",
                    "WITH s AS (SELECT 1 AS a) SELECT * FROM s",
                    "true",
                    (MergeClause("matched", "delete"),),
                    source_alias="s",
                )
            ),
        ),
        ("explain formatted delete from v", Explain(Delete(ViewName("v"), "true"))),
        ("CREATE TEMP VIEW v AS SELECT * FROM delta.`/t`", CreateView("v", "/t")),
        ("CREATE TEMP VIEW v AS SELECT a, `b c` FROM delta.`/t` x", CreateView("v", "/t", columns=("a", "b c"))),
        ("create or replace temporary view `a b` as select * from v", CreateView("a b", ViewName("v"), True)),
        (
            "CREATE TEMP VIEW v AS SELECT * FROM (SELECT * FROM (SELECT * FROM delta.`/t` AS a) b) AS c;",
            CreateView("v", "/t"),
        ),
        ("truncate table delta.`/t`;", Truncate("/t")),
        ("DESCRIBE DETAIL delta.`/t`", DescribeDetail("/t")),
        ("DESCRIBE DETAIL '/a b/t'", DescribeDetail("/a b/t")),
        ("desc history delta.`/t`;", DescribeHistory("/t")),
        ("DESCRIBE HISTORY '/t' LIMIT 3", DescribeHistory("/t", 3)),
        ("DESCRIBE HISTORY delta.`/t` LIMIT 3", DescribeHistory("/t", 3)),
        ("FSCK REPAIR TABLE delta.`/t`", Fsck("/t")),
        ("fsck repair table delta.`/t` dry run;", Fsck("/t", dry_run=True)),
    ],
)
def test_statement_is_understood(text, expected):
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "name = 'a;b'",
        "name = 'it''s' -- not the end;\n  AND id = 1",
        r"name = 'it\'s; here' /* ; */ or id IN (1, 2)",
        'name = "where"',
        r"name = r'C:\'",
        "id IN (SELECT id FROM delta.`/other;x` WHERE a > 1)",
        "`a;b` <=> 1",
        "a\n  =\n\t1",
    ],
)
@pytest.mark.parametrize("end", ["", ";", " ;; -- done\n", "\n/* ; */"])
def test_condition_reaches_spark_letter_by_letter(condition, end):
    assert parse_statement(f"DELETE FROM delta.`/t` WHERE {condition}{end}") == Delete("/t", condition)


def test_properties_are_read_in_every_spelling_spark_has():
    text = """ALTER TABLE delta.`/t` SET TBLPROPERTIES (
        'delta.a' = 'x', delta.b.c = true, `d e` "v", f = -3, g 2.5, 'h' = r'back\\slash')"""
    properties = {"delta.a": "x", "delta.b.c": "true", "d e": "v", "f": "-3", "g": "2.5", "h": "back\\slash"}
    assert parse_statement(text) == SetProperties("/t", properties)


@pytest.mark.parametrize(("words", "if_exists"), [("", False), ("IF EXISTS", True)])
def test_properties_to_take_away_are_read(words, if_exists):
    text = f"alter table delta.`/t` unset tblproperties {words} ('delta.a', b.c)"
    assert parse_statement(text) == UnsetProperties("/t", ("delta.a", "b.c"), if_exists)


@pytest.mark.parametrize(
    "text",
    [
        "SHOW CREATE TABLE delta.`/t`",
        "ALTER TABLE delta.`/t` RECOVER PARTITIONS",
        "",
        "-- nothing",
    ],
)
def test_other_statements_are_refused_with_the_list_of_those_that_exist(text):
    with pytest.raises(RequestError) as refused:
        parse_statement(text)
    assert "DELETE FROM delta.`path`" in str(refused.value)
    assert "spark.sql" in str(refused.value)


@pytest.mark.parametrize(
    "target", ["db.people", "delta.people", "parquet.`/t`", "delta.``", "delta.`/t`.`x`", "'/t'", ""]
)
def test_table_that_is_no_delta_path_is_refused_with_the_spelling_that_works(target):
    with pytest.raises(RequestError, match=r"delta\.`/path/to/table`"):
        parse_statement(f"DELETE FROM {target} WHERE a = 1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DELETE FROM delta.`/t` WHERE", "a condition after WHERE, but the statement ends"),
        ("DELETE FROM delta.`/t` WHERE -- a = 1", "a condition after WHERE"),
        ("DELETE FROM delta.`/t` AS", "a name after AS"),
        ("DELETE FROM delta.`/t` x y", "Expected WHERE, but found 'y'"),
        ("DELETE FROM delta.`/t`; DELETE FROM delta.`/u`", "more than one statement"),
        ("DELETE FROM delta.`/t` WHERE a = 'x", "not closed"),
        ("DELETE FROM delta.`/t` WHERE a = 1 /* x", "not closed"),
        ("ALTER TABLE delta.`/t` SET TBLPROPERTIES ('a')", "a value for 'a'"),
        ("ALTER TABLE delta.`/t` SET TBLPROPERTIES ()", "the name of a property"),
        ("ALTER TABLE delta.`/t` SET TBLPROPERTIES ('a' = 'b'", "Expected ')', but the statement ends"),
        ("ALTER TABLE delta.`/t` SET TBLPROPERTIES ('a' = b)", "a string, a number, true or false"),
        ("ALTER TABLE delta.`/t` SET TBLPROPERTIES ('a' = 'b', 'a' = 'c')", "given twice"),
        (r"ALTER TABLE delta.`/t` SET TBLPROPERTIES ('a' = 'x\ny')", "raw string"),
        ("DESCRIBE HISTORY delta.`/t` LIMIT many", "a number after LIMIT"),
        ("DESCRIBE DETAIL delta.`/t` now", "the end of the statement"),
        ("EXPLAIN SELECT 1", "Expected DELETE"),
        ("EXPLAIN WITH s AS (SELECT 1) DELETE FROM delta.`/t`", "Expected MERGE after WITH"),
        ("CREATE TEMP VIEW v AS SELECT a + 1 FROM delta.`/t`", "columns of one table, as they are"),
        ("CREATE TEMP VIEW v AS SELECT a AS b FROM delta.`/t`", "columns of one table, as they are"),
        ("CREATE TEMP VIEW v AS SELECT *, a FROM delta.`/t`", "FROM a table"),
        ("CREATE TEMP VIEW v AS SELECT a, FROM delta.`/t`", "as they are"),
        ("CREATE TEMP VIEW v AS SELECT * FROM (SELECT a FROM delta.`/t`)", "SELECT * FROM a table"),
        ("CREATE TEMP VIEW v AS VALUES (1)", "Expected SELECT"),
        ("CREATE TEMP VIEW v AS SELECT * FROM delta.`/t` WHERE a = 1", "Expected the end"),
        ("CREATE TEMP VIEW v AS SELECT * FROM (SELECT * FROM delta.`/t`", "Expected ')'"),
        ("CREATE TEMP VIEW 'v' AS SELECT * FROM delta.`/t`", "the name of the view"),
    ],
)
def test_mistake_is_named_at_its_place(text, said):
    with pytest.raises(RequestError) as refused:
        parse_statement(text)
    assert said in str(refused.value)
