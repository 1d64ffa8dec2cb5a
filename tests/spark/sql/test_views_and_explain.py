"""Does a DELETE through a view reach the table behind it and no other, and does EXPLAIN leave everything alone?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import RequestError, TableNotFoundError, UnknownColumnError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})


@pytest.fixture
def builder(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").deletion_vectors()
    return builder.file([{"id": n, "part": "a"} for n in range(5)]).file([{"id": 5, "part": "b"}]).commit()


@pytest.fixture
def view(spark, builder):
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW `some people` AS SELECT * FROM delta.`{builder.path}`")
    yield "`some people`"
    spark.catalog.dropTempView("some people")


def ids(frame):
    return sorted(row["id"] for row in frame.select("id").collect())


def versions(builder):
    return len(list(builder.log.glob("*.json")))


def test_delete_through_a_view_changes_the_table_and_the_view_shows_it(spark, builder, view):
    [row] = ebbtide.sql(spark, f"DELETE FROM {view} WHERE `some people`.id IN (1, 2)").collect()
    assert row.num_affected_rows == 2
    assert ids(ebbtide.read(spark, str(builder.path))) == [0, 3, 4, 5]
    assert ids(spark.table(view)) == [0, 3, 4, 5]


def test_delete_by_path_is_seen_through_the_view_too(spark, builder, view):
    ebbtide.sql(spark, f"DELETE FROM delta.`{builder.path}` WHERE id = 0")
    assert ids(spark.table(view)) == [1, 2, 3, 4, 5]


def test_view_of_a_view_is_one_of_the_table(spark, builder, view):
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW twice AS SELECT * FROM (SELECT * FROM {view} x) y")
    try:
        ebbtide.sql(spark, "DELETE FROM twice WHERE id = 5")
        assert ids(spark.table("twice")) == ids(spark.table(view)) == [0, 1, 2, 3, 4]
    finally:
        spark.catalog.dropTempView("twice")


def test_view_that_somebody_replaced_is_not_ours_any_more(spark, builder, view):
    spark.range(3).createOrReplaceTempView(view)
    with pytest.raises(RequestError, match="no table to change behind the name 'some people'"):
        ebbtide.sql(spark, f"DELETE FROM {view}")
    assert versions(builder) == 1


@pytest.mark.one_value("the same calls for another spelling")
@pytest.mark.parametrize("name", ["nobody", "`no body`"])
def test_name_that_is_no_view_of_ours_is_refused_with_the_spelling_that_works(spark, name):
    with pytest.raises(RequestError, match=r"delta\.`/path/to/table`"):
        ebbtide.sql(spark, f"DELETE FROM {name} WHERE id = 1")


def test_view_of_that_name_is_kept_without_or_replace(spark, builder, view):
    with pytest.raises(RequestError, match="some people"):
        ebbtide.sql(spark, f"CREATE TEMP VIEW {view} AS SELECT * FROM delta.`{builder.path}`")


# --- views of some columns --------------------------------------------------------------------------------------------


@pytest.fixture
def narrow(spark, builder):
    """A view that hides `part`."""
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW narrow AS SELECT id FROM delta.`{builder.path}`")
    yield "narrow"
    spark.catalog.dropTempView("narrow")


def test_view_of_some_columns_shows_them_and_every_change_of_the_table(spark, builder, narrow):
    ebbtide.sql(spark, f"DELETE FROM delta.`{builder.path}` WHERE id < 3")
    shown = ebbtide.sql(spark, "SELECT * FROM narrow ORDER BY id").collect()
    assert [tuple(row) for row in shown] == [(3,), (4,), (5,)]


@pytest.mark.one_value("refused by us; the same calls for other statements")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE narrow SET part = 'x' WHERE id = 1",
        "UPDATE narrow SET id = length(part) WHERE id = 1",
        "UPDATE narrow SET id = 7 WHERE part = 'a'",
        "UPDATE narrow AS n SET id = n.id + 1 WHERE n.part = 'a'",
        "DELETE FROM narrow WHERE part = 'b'",
    ],
)
def test_name_that_the_view_does_not_show_is_unknown(spark, builder, narrow, statement):
    with pytest.raises(UnknownColumnError, match="part") as refused:
        ebbtide.sql(spark, statement)
    assert refused.value.error_class == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert versions(builder) == 1


@pytest.mark.one_value("refused by us; the same calls for other statements")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE narrow SET id = narrow.id + 1 WHERE id = 1",
        "UPDATE narrow SET id = 1 WHERE id IN (SELECT id FROM delta.`/nowhere`)",
        "DELETE FROM narrow",
        "INSERT INTO narrow VALUES (7)",
        "TRUNCATE TABLE narrow",
        "MERGE INTO narrow USING (SELECT 1L AS id) s ON narrow.id = s.id WHEN MATCHED THEN DELETE",
        "CREATE TEMP VIEW wide AS SELECT * FROM narrow",
    ],
)
def test_nothing_is_changed_through_a_view_of_some_columns(spark, builder, narrow, statement):
    with pytest.raises(RequestError, match="shows only some columns of its table") as refused:
        ebbtide.sql(spark, statement)
    assert refused.value.error_class == "DELTA_UNSUPPORTED_SOURCE"
    assert str(builder.path) in str(refused.value)
    assert versions(builder) == 1


def test_view_of_a_column_that_the_table_lacks_is_refused(spark, builder):
    with pytest.raises(UnknownColumnError, match="nothing"):
        ebbtide.sql(spark, f"CREATE TEMP VIEW narrow AS SELECT id, nothing FROM delta.`{builder.path}`")
    assert not spark.catalog.tableExists("narrow")


def test_view_of_a_column_that_the_table_lost_goes_away(spark, builder, narrow):
    ebbtide.sql(spark, f"CREATE OR REPLACE TABLE delta.`{builder.path}` AS SELECT 1 AS other")
    assert not spark.catalog.tableExists("narrow")
    with pytest.raises(RequestError, match="no table to change behind the name 'narrow'"):
        ebbtide.sql(spark, "DELETE FROM narrow")


# --- which table, and which version of it ------------------------------------------------------------------------------


def test_view_of_a_relative_path_stays_with_its_table_when_the_process_changes_its_directory(
    spark, tmp_path, monkeypatch, builder
):
    other = TableBuilder(tmp_path / "elsewhere" / "t", SCHEMA).partitioned_by("part")
    other.file([{"id": 1, "part": "a"}]).commit()
    monkeypatch.chdir(builder.path.parent)
    ebbtide.sql(spark, "CREATE OR REPLACE TEMP VIEW relative AS SELECT * FROM delta.`t`")
    table = ebbtide.DeltaTable.forPath(spark, "t")
    creation = ebbtide.DeltaTable.create(spark).location("made").addColumn("id", "long")
    try:
        monkeypatch.chdir(other.path.parent)
        ebbtide.sql(spark, "DELETE FROM relative WHERE id = 1")
        table.delete("id = 2")
        assert ids(ebbtide.sql(spark, "SELECT * FROM relative")) == [0, 3, 4, 5]
        assert versions(other) == 1
        creation.execute()
        assert (builder.path.parent / "made" / "_delta_log").is_dir()
    finally:
        spark.catalog.dropTempView("relative")


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (lambda spark, path: ebbtide.DeltaTable.forPath(spark, path).delete("id > 0"), [0]),
        (lambda spark, path: ebbtide.DeltaTable.forPath(spark, path).delete_matching(spark.range(5), "id"), [5]),
        (
            lambda spark, path: ebbtide.DeltaTable.forPath(spark, path).update("id > 0", {"id": "id + 10"}),
            [0, 11, 12, 13, 14, 15],
        ),
        (
            lambda spark, path: ebbtide.write(spark.sql("SELECT 7L AS id, 'a' AS part"), path, mode="append"),
            [0, 1, 2, 3, 4, 5, 7],
        ),
        (
            lambda spark, path: (
                ebbtide.DeltaTable.forPath(spark, path)
                .alias("t")
                .merge(spark.range(5).alias("s"), "t.id = s.id")
                .whenMatchedDelete()
                .execute()
            ),
            [5],
        ),
        (
            lambda spark, path: (
                ebbtide.DeltaTable.createOrReplace(spark).location(path).addColumn("id", "long").execute()
            ),
            [],
        ),
        (
            lambda spark, path: (
                ebbtide.DeltaTable.forPath(spark, path).delete("id > 0"),
                ebbtide.DeltaTable.forPath(spark, path).restoreToVersion(0),
            ),
            [0, 1, 2, 3, 4, 5],
        ),
    ],
    ids=["delete", "delete_matching", "update", "write", "merge", "replace", "restore"],
)
def test_view_is_not_stale_after_a_python_call_in_its_session(spark, builder, view, change, shown):
    change(spark, str(builder.path))
    assert ids(spark.table(view)) == shown


def test_view_is_not_stale_after_its_table_was_changed_through_a_link(spark, tmp_path, builder, view):
    link = tmp_path / "link"
    link.symlink_to(builder.path)
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW linked AS SELECT * FROM delta.`{link}`")
    try:
        ebbtide.DeltaTable.forPath(spark, link).delete("id = 0")
        assert ids(spark.table(view)) == ids(spark.table("linked")) == [1, 2, 3, 4, 5]
        ebbtide.sql(spark, f"DELETE FROM delta.`{builder.path}` WHERE id = 1")
        assert ids(spark.table(view)) == ids(spark.table("linked")) == [2, 3, 4, 5]
    finally:
        spark.catalog.dropTempView("linked")


def test_view_is_not_stale_in_sql_after_another_writer(spark, builder, view):
    spark.sql(f"CREATE OR REPLACE TEMP VIEW above AS SELECT id FROM {view}")
    try:
        builder.file([{"id": 8, "part": "b"}]).commit()
        assert ids(ebbtide.sql(spark, f"SELECT * FROM {view}")) == [0, 1, 2, 3, 4, 5, 8]
        builder.file([{"id": 9, "part": "b"}]).commit()
        assert ids(ebbtide.sql(spark, "SELECT * FROM above")) == [0, 1, 2, 3, 4, 5, 8, 9]
    finally:
        spark.catalog.dropTempView("above")


def test_rows_inserted_from_a_view_do_not_come_from_rows_that_another_writer_deleted(spark, builder, view):
    builder.remove(builder.files[0]).commit()
    ebbtide.sql(spark, f"INSERT INTO {view} SELECT id + 10, part FROM {view}")
    assert ids(ebbtide.read(spark, str(builder.path))) == [5, 15]


def test_subquery_over_a_view_sees_what_another_writer_added(spark, builder, view):
    builder.file([{"id": 9, "part": "b"}]).commit()
    ebbtide.sql(spark, f"DELETE FROM delta.`{builder.path}` WHERE id < (SELECT max(id) FROM {view})")
    assert ids(ebbtide.read(spark, str(builder.path))) == [9]


def test_view_of_a_table_that_is_gone_fails_only_statements_that_read_it(spark, tmp_path, builder, view):
    gone = TableBuilder(tmp_path / "gone", SCHEMA).partitioned_by("part").file([{"id": 1, "part": "a"}]).commit()
    ebbtide.sql(spark, f"CREATE OR REPLACE TEMP VIEW lost AS SELECT * FROM delta.`{gone.path}`")
    try:
        gone.path.rename(tmp_path / "moved")
        assert ids(ebbtide.sql(spark, f"SELECT * FROM {view}")) == [0, 1, 2, 3, 4, 5]
        with pytest.raises(TableNotFoundError):
            ebbtide.sql(spark, "SELECT * FROM Lost")
        (tmp_path / "moved").rename(gone.path)
    finally:
        spark.catalog.dropTempView("lost")


# --- EXPLAIN ----------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("WHERE id = 3", ["condition: id = 3", "marked in deletion vectors", "scanned: 1 of 2 files"]),
        ("WHERE part = 'b'", ["the log alone decides", "removed: 1 of 2 files"]),
        ("", ["removed: 2 of 2 files"]),
    ],
)
def test_explain_says_how_and_changes_nothing(spark, builder, where, said):
    frame = ebbtide.sql(spark, f"EXPLAIN DELETE FROM delta.`{builder.path}` {where}")
    assert frame.columns == ["plan"]
    plan = [row.plan for row in frame.collect()]
    assert len(plan) == 5
    for words in said:
        assert words in "\n".join(plan)
    assert versions(builder) == 1


def test_explain_knows_update_and_merge_and_changes_nothing(spark, builder, view):
    merge = f"MERGE INTO {view} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    for statement, heading in ((f"UPDATE {view} SET id = 7 WHERE id = 3", "DeltaUpdate"), (merge, "DeltaMergeInto")):
        plan = [row.plan for row in ebbtide.sql(spark, f"EXPLAIN {statement}").collect()]
        assert any(heading in line for line in plan), plan
        assert any("scanned: " in line for line in plan), plan
    assert versions(builder) == 1


@pytest.mark.one_kind("unknown columns are refused on both kinds in test_delete_statement.py")
def test_explain_refuses_what_the_delete_would_refuse(spark, builder):
    with pytest.raises(UnknownColumnError):
        ebbtide.sql(spark, f"EXPLAIN DELETE FROM delta.`{builder.path}` WHERE nothing = 3")
