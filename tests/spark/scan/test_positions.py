"""Do commands learn which file and which physical row each live row is?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.query_plans import task_count
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

from ebbtide import spark_border
from ebbtide.log import load_snapshot
from ebbtide.scan import resolve_files, scan_with_positions
from ebbtide.scan.dataframe import scan_files
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})


@pytest.fixture(params=["reader column", "metadata column"], autouse=True)
def row_index_source(request, monkeypatch):
    if request.param == "metadata column":
        monkeypatch.setattr(spark_border, "fills_reader_row_index", lambda spark: False)


def rows(part, count, start=0):
    return [{"id": number, "part": part} for number in range(start, start + count)]


def positions(spark, builder, condition="true"):
    """Every found row as (path in the log, physical row index, id)."""
    snapshot = load_snapshot(open_store(str(builder.path)))
    scan = scan_with_positions(spark, snapshot, resolve_files(snapshot, snapshot.files))
    found = scan.frame.where(condition).select("id", scan.file_column, scan.row_column).collect()
    return sorted((scan.files[row[1]].add.path, row[2], row[0]) for row in found)


def expected(builder, keep=lambda row: True):
    return sorted(
        (file.add["path"], index, row["id"])
        for file in builder.files
        for index, row in enumerate(file.rows)
        if index not in file.deleted and keep(row)
    )


@pytest.mark.matrix
@pytest.mark.parametrize("partitioned", [True, False])
def test_every_live_row_says_its_file_and_physical_row(spark, tmp_path, partitioned):
    builder = TableBuilder(tmp_path / "t x%[1]", SCHEMA).deletion_vectors()
    if partitioned:
        builder.partitioned_by("part")
    builder.file(rows("a b/c", 100), deleted=[0, 64]).file(rows(None, 70, 500), name="b c%20#é.parquet")
    builder.file(rows("a b/c", 70, 1000), deleted=[69]).commit()
    assert positions(spark, builder) == expected(builder)
    assert positions(spark, builder, "id % 2 = 1") == expected(builder, lambda row: row["id"] % 2 == 1)


@pytest.mark.one_value("both row indexes run on both kinds in test_every_live_row_says_its_file_and_physical_row")
def test_positions_survive_splits(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file(rows("a", 4_000), deleted=range(0, 4_000, 3), row_group_size=200).file(
        rows("b", 2_000, 9_000), row_group_size=200
    )
    builder.commit()
    with session_settings(spark, {"spark.sql.files.maxPartitionBytes": "2048", "spark.sql.files.openCostInBytes": "0"}):
        snapshot = load_snapshot(open_store(str(builder.path)))
        assert task_count(scan_with_positions(spark, snapshot, resolve_files(snapshot, snapshot.files)).frame) > 10
        assert positions(spark, builder) == expected(builder)


@pytest.mark.one_value("both row indexes run on both kinds in test_every_live_row_says_its_file_and_physical_row")
def test_user_columns_of_the_helpers_names_are_left_alone(spark, tmp_path):
    schema = pa.schema({"id": pa.int64(), "__ebbtide_file": pa.string(), "__EBBTIDE_ROW_INDEX": pa.int32()})
    builder = TableBuilder(tmp_path / "t", schema).deletion_vectors()
    mine = [{"id": number, "__ebbtide_file": "mine", "__EBBTIDE_ROW_INDEX": -number} for number in range(5)]
    builder.file(mine, deleted=[0]).commit()
    snapshot = load_snapshot(open_store(str(builder.path)))
    scan = scan_with_positions(spark, snapshot, resolve_files(snapshot, snapshot.files))
    assert scan.frame.columns == [*schema.names, scan.file_column, scan.row_column]
    found = scan.frame.collect()
    assert sorted(row[:3] for row in found) == [(number, "mine", -number) for number in range(1, 5)]
    assert sorted(row[scan.row_column] for row in found) == [1, 2, 3, 4]


@pytest.mark.one_value("both row indexes run on both kinds in test_every_live_row_says_its_file_and_physical_row")
def test_scan_of_no_files_has_the_columns_all_the_same(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).commit()
    snapshot = load_snapshot(open_store(str(builder.path)))
    scan = scan_with_positions(spark, snapshot, [])
    assert scan.frame.columns == [*SCHEMA.names, scan.file_column, scan.row_column]
    assert scan.frame.collect() == []


@pytest.mark.one_value("both row indexes run on both kinds in test_every_live_row_says_its_file_and_physical_row")
def test_file_that_keeps_its_marked_rows_shows_exactly_those(spark, tmp_path):
    """What a command needs to write a change feed: the rows it is about to remove."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").deletion_vectors()
    builder.file(rows("a", 100), deleted=[0, 63, 64, 99]).file(rows("b", 70, 500), deleted=[1]).file(rows("c", 5, 900))
    builder.commit()
    snapshot = load_snapshot(open_store(str(builder.path)))
    found = resolve_files(snapshot, snapshot.files)
    turned = [file.only(file.marks) if file.add.partition_values["part"] == "a" else file for file in found]
    expected = {0, 63, 64, 99} | {500, *range(502, 570)} | set(range(900, 905))
    assert {row.id for row in scan_files(spark, snapshot, turned).collect()} == expected
    positioned = scan_with_positions(spark, snapshot, turned)
    kept = positioned.frame.where("part = 'a'").select("id", positioned.row_column).collect()
    assert sorted(tuple(row) for row in kept) == [(0, 0), (63, 63), (64, 64), (99, 99)]


@pytest.mark.one_value(
    "both row indexes run on both kinds in test_every_live_row_says_its_file_and_physical_row", "row_index_source"
)
@pytest.mark.parametrize("dropped", ["file_column", "row_column"])
def test_position_that_nobody_uses_does_not_break_the_plan(spark, tmp_path, dropped):
    """Spark once refused to plan a scan with the row's column but without the file's."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file(rows("a", 70), deleted=[0, 64]).file(rows("b", 5, 500)).commit()
    snapshot = load_snapshot(open_store(str(builder.path)))
    scan = scan_with_positions(spark, snapshot, resolve_files(snapshot, snapshot.files))
    found = scan.frame.drop(getattr(scan, dropped)).where("id % 2 = 0").collect()
    assert sorted(row.id for row in found) == [
        number for number in (*range(2, 70), *range(500, 505)) if number % 2 == 0 and number != 64
    ]
