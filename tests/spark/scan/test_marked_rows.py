"""Does a scan drop exactly the marked rows, whatever Spark does to the query around it?

Every test here runs with both sources of the physical row index: the column that the Parquet reader fills, and the
public `_metadata.row_index` that releases without it fall back to. And with both forms in which marks usually reach
Spark, whatever their number: arrays, and a list in the condition.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from tests.support.comparison import assert_same_rows
from tests.support.query_plans import plan_text, task_count
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import spark_border
from ebbtide.scan import dataframe
from ebbtide.scan.file_numbers import FileNumbers

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "text": pa.string()})
SMALL_SPLITS = {"spark.sql.files.maxPartitionBytes": "4096", "spark.sql.files.openCostInBytes": "0"}
# Around 64-bit words, 65,536-row blocks, and the last row of a file of this many rows.
MANY_ROWS = 131_074
BORDERS = [0, 1, 63, 64, 127, 128, 65_535, 65_536, 65_599, 65_600, 131_071, 131_072, MANY_ROWS - 1]


@pytest.fixture(params=["reader column", "metadata column"], autouse=True)
def row_index_source(request, monkeypatch):
    if request.param == "metadata column":
        monkeypatch.setattr(spark_border, "fills_reader_row_index", lambda spark: False)
    return request.param


@pytest.fixture(params=["list", "arrays"], autouse=True)
def marks_form(request, monkeypatch):
    monkeypatch.setattr(dataframe, "has_few_marks", lambda files: request.param == "list")
    return request.param


def numbered(count, start=0):
    return [{"id": number, "text": f"row {number}"} for number in range(start, start + count)]


def table(path, schema=SCHEMA):
    return TableBuilder(path, schema).deletion_vectors()


def two_branches(path):
    """A file with marks and one without."""
    return table(path).file(numbered(200), deleted=[0, 63, 64, 199]).file(numbered(50, 1000)).commit()


@pytest.mark.matrix
def test_marked_rows_are_gone_and_all_others_are_there(spark, tmp_path):
    builder = two_branches(tmp_path / "t")
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_kind("numbers of rows, not calls of Spark")
@pytest.mark.parametrize("deleted", [BORDERS, [65_535], [65_536], [MANY_ROWS - 1], range(64, 65_536)])
def test_rows_at_the_borders_of_words_blocks_and_files_are_told_apart(spark, tmp_path, deleted):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    builder.file([{"id": number} for number in range(MANY_ROWS)], deleted=deleted).commit()
    frame = ebbtide.read(spark, str(builder.path))
    around = sorted({row for border in BORDERS for row in range(border - 2, border + 3)} & set(range(MANY_ROWS)))
    found = {row.id for row in frame.where(F.col("id").isin(around)).collect()}
    assert found == set(around) - set(deleted)
    assert frame.count() == MANY_ROWS - len(deleted)


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
@pytest.mark.matrix
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_file_cut_into_many_tasks_keeps_physical_positions(spark, tmp_path, vectorized):
    builder = table(tmp_path / "t")
    builder.file(numbered(6_000), deleted=range(0, 6_000, 7), row_group_size=250)
    builder.file(numbered(3_000, 10_000), row_group_size=300).commit()
    with session_settings(spark, SMALL_SPLITS | {"spark.sql.parquet.enableVectorizedReader": vectorized}):
        frame = ebbtide.read(spark, str(builder.path))
        assert task_count(frame) > 20
        assert_same_rows(frame, builder.expected())


@pytest.mark.one_kind("numbers of rows, not calls of Spark")
@pytest.mark.parametrize("row_group_size", [1, 64, 100, 1_000])
def test_row_groups_of_any_size_keep_physical_positions(spark, tmp_path, row_group_size):
    builder = table(tmp_path / "t")
    builder.file(numbered(400), deleted=[0, 63, 64, 99, 100, 399], row_group_size=row_group_size).commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
@pytest.mark.matrix
def test_filter_that_skips_row_groups_does_not_shift_positions(spark, tmp_path):
    builder = table(tmp_path / "t").file(numbered(3_000), deleted=range(1_500, 3_000, 3), row_group_size=100).commit()
    frame = ebbtide.read(spark, str(builder.path)).where("id >= 2500 AND id % 2 = 0")
    expected = [row for row in builder.rows() if row["id"] >= 2_500 and row["id"] % 2 == 0]
    assert_same_rows(frame, expected)


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
def test_record_level_filter_of_the_row_reader_does_not_shift_positions(spark, tmp_path):
    builder = table(tmp_path / "t").file(numbered(1_000), deleted=range(500, 1_000, 3)).commit()
    settings = {
        "spark.sql.parquet.enableVectorizedReader": "false",
        "spark.sql.parquet.recordLevelFilter.enabled": "true",
    }
    with session_settings(spark, settings):
        frame = ebbtide.read(spark, str(builder.path)).where("id > 700")
        assert_same_rows(frame, [row for row in builder.rows() if row["id"] > 700])


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
def test_filter_for_a_marked_row_finds_nothing(spark, tmp_path):
    frame = ebbtide.read(spark, str(two_branches(tmp_path / "t").path))
    assert frame.where("id = 63").collect() == []
    assert [row.id for row in frame.where("id = 62").collect()] == [62]


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
def test_limit_counts_live_rows_only(spark, tmp_path):
    builder = table(tmp_path / "t").file(numbered(500), deleted=range(490)).commit()
    frame = ebbtide.read(spark, str(builder.path))
    assert {row.id for row in frame.limit(20).collect()} == set(range(490, 500))
    assert len(frame.limit(3).collect()) == 3
    assert [row.id for row in frame.orderBy("id").limit(2).collect()] == [490, 491]
    assert frame.first().id >= 490


@pytest.mark.one_value(
    "both row indexes and both forms of marks run on both kinds in test_marked_rows_are_gone_and_all_others_are_there"
)
@pytest.mark.matrix
def test_table_joined_to_itself_shows_each_side_without_marked_rows(spark, tmp_path):
    builder = two_branches(tmp_path / "t")
    frame = ebbtide.read(spark, str(builder.path))
    live = {row["id"] for row in builder.rows()}
    again = frame.alias("a").join(frame.alias("b"), F.col("a.id") == F.col("b.id") + 1).select("a.id")
    assert sorted(row.id for row in again.collect()) == sorted(number for number in live if number - 1 in live)
    assert frame.join(ebbtide.read(spark, str(builder.path)), "id", "left_anti").count() == 0


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
def test_table_joined_to_another_table_drops_the_marked_rows_of_both(spark, tmp_path):
    left = two_branches(tmp_path / "left")
    right = table(tmp_path / "right").file(numbered(100), deleted=[10, 20]).commit()
    frame = ebbtide.read(spark, str(left.path)).join(ebbtide.read(spark, str(right.path)), "id")
    both = {row["id"] for row in left.rows()} & {row["id"] for row in right.rows()}
    assert sorted(row.id for row in frame.select("id").collect()) == sorted(both)


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
def test_frame_run_twice_gives_the_same_rows(spark, tmp_path):
    builder = two_branches(tmp_path / "t")
    frame = ebbtide.read(spark, str(builder.path))
    for _ in range(2):
        assert_same_rows(frame, builder.expected())
        assert frame.count() == len(builder.rows())


@pytest.mark.one_value(
    "both row indexes and both forms of marks run on both kinds in test_marked_rows_are_gone_and_all_others_are_there"
)
def test_cached_frame_keeps_its_version_and_newer_reads_do_not_take_it(spark, tmp_path):
    builder = two_branches(tmp_path / "t")
    cached = ebbtide.read(spark, str(builder.path)).cache()
    try:
        assert_same_rows(cached, builder.expected(0))
        builder.mark(builder.files[0], [5, 6, 7]).commit()
        builder.mark(builder.files[0], [1]).commit()
        assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected(2))
        assert_same_rows(ebbtide.read(spark, str(builder.path), version=1), builder.expected(1))
        assert_same_rows(cached, builder.expected(0))
    finally:
        cached.unpersist()


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
def test_aggregates_see_live_rows_only(spark, tmp_path):
    builder = two_branches(tmp_path / "t")
    (row,) = ebbtide.read(spark, str(builder.path)).agg(F.count("*"), F.sum("id"), F.min("id"), F.max("id")).collect()
    ids = [each["id"] for each in builder.rows()]
    assert tuple(row) == (len(ids), sum(ids), min(ids), max(ids))


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
def test_file_whose_rows_are_all_marked_gives_none(spark, tmp_path):
    builder = table(tmp_path / "t").file(numbered(130), deleted=range(130)).file(numbered(1, 500)).commit()
    assert [row.id for row in ebbtide.read(spark, str(builder.path)).collect()] == [500]


@pytest.mark.one_kind("about what lies in storage, not about Spark")
@pytest.mark.parametrize(
    ("vector", "prefix", "share"),
    [("u", "", False), ("u", "ab", False), ("u", "", True), ("i", "", False), ("p", "", True)],
)
def test_vector_of_every_kind_is_followed(spark, tmp_path, vector, prefix, share):
    builder = table(tmp_path / "t").deletion_vectors(share_a_file=share)
    for start in (0, 100):
        builder.file(numbered(80, start), deleted=[0, start // 10 + 1, 79], vector=vector, vector_prefix=prefix)
    builder.commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
@pytest.mark.matrix
def test_files_of_equal_size_are_told_apart_by_their_paths(spark, tmp_path):
    builder = table(tmp_path / "t").file(numbered(100), deleted=[1]).file(numbered(100), deleted=[2, 70]).commit()
    assert len({file.add["size"] for file in builder.files}) == 1
    frame = ebbtide.read(spark, str(builder.path))
    assert "xxhash64(" in plan_text(frame)
    assert_same_rows(frame, builder.expected())


@pytest.mark.one_value("both row indexes and both forms of marks run on both kinds in the tests without this mark")
def test_files_of_different_sizes_are_told_apart_without_hashing_paths(spark, tmp_path):
    builder = table(tmp_path / "t").file(numbered(100), deleted=[1]).file(numbered(150), deleted=[2, 70]).commit()
    frame = ebbtide.read(spark, str(builder.path))
    assert "xxhash64(" not in plan_text(frame)
    assert_same_rows(frame, builder.expected())


@pytest.fixture
def marks_are_joined(monkeypatch, marks_form):
    """As if the marks were too many for two arrays."""
    monkeypatch.setattr(dataframe, "has_few_marks", lambda files: False)
    monkeypatch.setattr(dataframe, "mark_lookup", lambda *arguments: None)


def test_marks_are_looked_up_without_a_join(spark, tmp_path, marks_form):
    builder = two_branches(tmp_path / "t")
    text = plan_text(ebbtide.read(spark, str(builder.path)))
    assert "Join" not in text
    assert ("& 1023" in text) == (marks_form == "arrays")
    assert len(text) < 20_000, "the marks are not part of the plan's text"


@pytest.mark.one_value(
    "both row indexes and both forms of marks run on both kinds in test_marked_rows_are_gone_and_all_others_are_there"
)
def test_join_drops_the_same_rows_as_the_lookup(spark, tmp_path, marks_are_joined):
    builder = table(tmp_path / "t")
    builder.file(numbered(70_000), deleted=[0, 63, 64, 127, 128, 65_535, 65_536, 69_999])
    builder.file(numbered(70_000), deleted=range(30_000, 40_000)).commit()
    frame = ebbtide.read(spark, str(builder.path))
    assert "shiftright(" in plan_text(frame)
    assert "& 1023" not in plan_text(frame)
    assert_same_rows(frame, builder.expected())


@pytest.mark.one_value(
    "both row indexes and both forms of marks run on both kinds in test_marked_rows_are_gone_and_all_others_are_there"
)
def test_broadcast_is_used_even_where_the_session_never_broadcasts(spark, tmp_path, marks_are_joined):
    builder = two_branches(tmp_path / "t")
    with session_settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}):
        frame = ebbtide.read(spark, str(builder.path))
        assert "BroadcastHashJoin LeftOuter BuildRight" in plan_text(frame)
        assert_same_rows(frame, builder.expected())


@pytest.mark.one_value(
    "both row indexes and both forms of marks run on both kinds in test_marked_rows_are_gone_and_all_others_are_there"
)
def test_file_that_changed_its_size_fails_the_read_instead_of_showing_marked_rows(spark, tmp_path, monkeypatch):
    builder = table(tmp_path / "t")
    for count in (100, 150, 200):
        builder.file(numbered(count), deleted=[1])
    builder.commit()

    def of_other_sizes(files, file_size):
        """As if the files had other sizes when they were looked at than when Spark reads them."""
        return FileNumbers((0, 1, 2), f"(3L + {file_size} - {file_size})")

    monkeypatch.setattr(dataframe, "sizes_as_numbers", of_other_sizes)
    with pytest.raises(PySparkException, match="another size"):
        ebbtide.read(spark, str(builder.path)).collect()


def test_sources_of_the_row_index_are_really_two(spark, tmp_path, row_index_source):
    builder = two_branches(tmp_path / "t")
    text = plan_text(ebbtide.read(spark, str(builder.path)))
    assert ("_metadata.row_index" in text) == (row_index_source == "metadata column")
