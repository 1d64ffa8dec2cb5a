"""May a user's columns be called like the engine's helper columns?

Every table here has a column of each name that the engine would take first, half of them in capitals, and of each name
that it gives to the columns of its intermediate results. A value that gets lost or swapped is seen: each tells its row
and its column.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.helper_names import first_helper_names
from tests.support.merge_checks import checked_merge
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

INTERMEDIATE = (
    *("file", "row", "block", "bit", "word", "is_pair", "kind", "partner", "pairs", "partnered", "partnered_source"),
    *("matched_updated", "missing_deleted", "num_rows", "num_bytes", "last_row", "rows", "value", "values", "c0", "v0"),
    *("inserted", "change_rows", "long_labels", "key_bytes", "low0", "high0", "number", "col", "ebbtide_part"),
)
HELPERS = [name.upper() if place % 2 else name for place, name in enumerate(first_helper_names())]
NAMES = [*HELPERS, *INTERMEDIATE]
KINDS = ("vectors", "rewrites, a change feed and row ids")


def row(number, tag="old"):
    return {"id": number, "p": "a" if number < 4 else "b", **{name: f"{tag} {number} {name}" for name in NAMES}}


def without_names(number, tag="old"):
    return {"id": number, "p": row(number)["p"], "v": f"{tag} {number}"}


def schema_of(rows):
    return pa.schema({name: pa.int64() if name == "id" else pa.string() for name in rows[0]})


@pytest.fixture(params=KINDS)
def make(request, tmp_path):
    def made(rows):
        builder = TableBuilder(tmp_path / "t", schema_of(rows)).partitioned_by("p")
        if "feed" in request.param:
            builder.change_data_feed().row_tracking()
        if "vectors" in request.param:
            builder.deletion_vectors()
        for part in ("a", "b"):
            builder.file([item for item in rows if item["p"] == part])
        return builder.commit()

    return made


def frame_of(spark, rows):
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema_of(rows))).alias("s")


def shown(spark, table):
    return {item["id"]: item.asDict() for item in ebbtide.read(spark, str(table.path)).collect()}


def open_table(spark, table):
    return DeltaTable.forPath(spark, str(table.path)).alias("t")


def test_columns_called_like_helpers_survive_delete_update_append_and_replace(spark, make):
    table = make([row(number) for number in range(1, 7)])
    expected = {number: row(number) for number in range(1, 7)}
    delta = open_table(spark, table)
    delta.delete(f"id = 1 AND `{HELPERS[0]}` = 'old 1 {HELPERS[0]}'")
    del expected[1]
    delta.update("id IN (2, 5)", {f"`{name}`": f"concat('new ', id, ' ', '{name}')" for name in (*HELPERS, "file")})
    for number in (2, 5):
        expected[number] |= {name: f"new {number} {name}" for name in (*HELPERS, "file")}
    assert shown(spark, table) == expected
    ebbtide.write(frame_of(spark, [row(7, "app")]), str(table.path), mode="append")
    expected[7] = row(7, "app")
    ebbtide.write(frame_of(spark, [row(3, "put")]), str(table.path), mode="overwrite", replace_where="id <= 3")
    expected = {3: row(3, "put")} | {number: item for number, item in expected.items() if number > 3}
    assert shown(spark, table) == expected
    if table_has_feed(table):
        changes = ebbtide.read_changes(spark, str(table.path), start_version=2, end_version=2).collect()
        assert {(item["_change_type"], item["id"], item[HELPERS[1]].split()[0]) for item in changes} == {
            (kind, number, tag)
            for number in (2, 5)
            for kind, tag in (("update_preimage", "old"), ("update_postimage", "new"))
        }


def test_columns_called_like_helpers_survive_a_merge_with_all_clauses(spark, make):
    table = make([row(number) for number in range(1, 7)])
    source = frame_of(spark, [row(number, "src") for number in (2, 3, 9)])
    builder = open_table(spark, table).merge(source, "t.id = s.id")
    builder = builder.whenMatchedDelete("s.id = 3").whenMatchedUpdate(
        None, {f"`{name}`": f"s.`{name}`" for name in NAMES}
    )
    builder = builder.whenNotMatchedInsertAll().whenNotMatchedBySourceDelete("t.id = 6")
    builder = builder.whenNotMatchedBySourceUpdate("t.id = 5", {f"`{HELPERS[2]}`": f"concat(t.`{HELPERS[3]}`, '!')"})
    checked_merge(spark, table.path, builder.execute)
    changed = row(5) | {HELPERS[2]: f"{row(5)[HELPERS[3]]}!"}
    assert shown(spark, table) == {1: row(1), 2: row(2, "src"), 4: row(4), 5: changed, 9: row(9, "src")}


@pytest.mark.one_value("names are chosen by us; the tests without this mark run every way of writing on both kinds")
def test_columns_called_like_helpers_survive_an_upsert_and_an_insert(spark, make):
    table = make([row(number) for number in range(1, 5)])
    source = frame_of(spark, [row(number, "src") for number in (2, 9)])
    builder = open_table(spark, table).merge(source, "t.id = s.id")
    checked_merge(spark, table.path, builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute)
    source = frame_of(spark, [row(number, "more") for number in (2, 8)])
    checked_merge(
        spark, table.path, open_table(spark, table).merge(source, "t.id = s.id").whenNotMatchedInsertAll().execute
    )
    expected = {1: row(1), 2: row(2, "src"), 3: row(3), 4: row(4), 9: row(9, "src"), 8: row(8, "more")}
    assert shown(spark, table) == expected


@pytest.mark.one_value("names are chosen by us; the tests without this mark run every way of writing on both kinds")
@pytest.mark.parametrize("side", ["target", "source"])
def test_one_side_alone_may_have_columns_called_like_helpers(spark, make, side):
    of_target, of_source = (row, without_names) if side == "target" else (without_names, row)
    table = make([of_target(number) for number in range(1, 7)])
    source = frame_of(spark, [of_source(number, "src") for number in (2, 3, 9)])
    column, value = (HELPERS[4], "s.v") if side == "target" else ("v", f"s.`{HELPERS[4]}`")
    builder = open_table(spark, table).merge(source, "t.id = s.id").whenMatchedDelete("s.id = 3")
    builder = builder.whenMatchedUpdate(None, {f"`{column}`": value})
    builder = builder.whenNotMatchedInsert(None, {"id": "s.id", "p": "s.p", f"`{column}`": value})
    builder = builder.whenNotMatchedBySourceUpdate("t.id = 5", {f"`{column}`": "'gone'"})
    checked_merge(spark, table.path, builder.execute)
    given = {number: of_source(number, "src")["v" if side == "target" else HELPERS[4]] for number in (2, 9)}
    empty = {name: None for name in of_target(9)}
    assert shown(spark, table) == {
        **{number: of_target(number) for number in (1, 4, 6)},
        2: of_target(2) | {column: given[2]},
        5: of_target(5) | {column: "gone"},
        9: empty | {"id": 9, "p": "b", column: given[9]},
    }


def table_has_feed(table):
    return "enableChangeDataFeed" in (table.path / "_delta_log" / f"{0:020}.json").read_text()
