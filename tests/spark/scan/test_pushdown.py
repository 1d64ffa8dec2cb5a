"""Does Spark still push columns and filters into Parquet, and do files without marks cost nothing extra?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.comparison import assert_same_rows
from tests.support.query_plans import operators, parquet_scans, plan_text
from tests.support.table_builder import TableBuilder

import ebbtide

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "text": pa.string(),
        "price": pa.float64(),
        "place": pa.struct({"city": pa.string(), "zip": pa.int32()}),
    }
)
ROW_INDEX = "_tmp_metadata_row_index"


def numbered(count, start=0):
    return [
        {"id": number, "text": f"row {number}", "price": number / 2, "place": {"city": f"c{number}", "zip": number}}
        for number in range(start, start + count)
    ]


@pytest.fixture
def plain(tmp_path):
    return (
        TableBuilder(tmp_path / "plain", SCHEMA).deletion_vectors().file(numbered(30)).file(numbered(20, 100)).commit()
    )


@pytest.fixture
def mixed(tmp_path):
    builder = TableBuilder(tmp_path / "mixed", SCHEMA).deletion_vectors()
    return builder.file(numbered(30)).file(numbered(20, 100), deleted=[3, 4]).file(numbered(9, 200)).commit()


@pytest.mark.matrix
def test_table_without_marks_is_planned_like_its_parquet_files(spark, plain):
    files = [str(plain.path / file.add["path"]) for file in plain.files]
    bare = spark.read.schema(ebbtide.read(spark, str(plain.path)).schema).parquet(*files)
    # Floats are another question: `test_floats`.
    for query in (lambda frame: frame.drop("price"), lambda frame: frame.where("id > 5").select("text")):
        ours, theirs = query(ebbtide.read(spark, str(plain.path))), query(bare)
        assert operators(ours) == operators(theirs)
        (scan,), (bare_scan,) = parquet_scans(ours), parquet_scans(theirs)
        assert (scan.read_schema, scan.pushed_filters) == (bare_scan.read_schema, bare_scan.pushed_filters)


@pytest.mark.matrix
def test_files_without_marks_are_a_branch_that_knows_nothing_of_marks(spark, mixed):
    frame = ebbtide.read(spark, str(mixed.path))
    scans = parquet_scans(frame)
    assert len(scans) == 2
    without_marks, with_marks = scans
    assert ROW_INDEX not in without_marks.read_schema
    assert "file_" not in without_marks.output
    assert mixed.files[1].add["path"] in with_marks.location
    assert mixed.files[1].add["path"] not in without_marks.location
    assert ROW_INDEX in with_marks.read_schema
    assert "Join" not in plan_text(frame)


@pytest.mark.matrix
def test_filters_are_pushed_into_parquet_in_both_branches(spark, mixed):
    frame = ebbtide.read(spark, str(mixed.path)).where("id > 10 AND text LIKE 'row 1%'")
    for scan in parquet_scans(frame):
        assert "GreaterThan(id,10)" in scan.pushed_filters
        assert "StringStartsWith(text,row 1)" in scan.pushed_filters
        assert ROW_INDEX not in scan.pushed_filters
    expected = [row for row in mixed.rows() if row["id"] > 10 and row["text"].startswith("row 1")]
    assert_same_rows(frame, expected)


@pytest.mark.matrix
def test_only_the_columns_asked_for_are_read_in_both_branches(spark, mixed):
    scans = parquet_scans(ebbtide.read(spark, str(mixed.path)).select("price"))
    assert [scan.read_schema for scan in scans] == [
        "struct<price:double>",
        f"struct<price:double,{ROW_INDEX}:bigint>",
    ]


@pytest.mark.one_kind(
    "Spark's optimiser is the same for both kinds; test_only_the_columns_asked_for_are_read_in_both_branches runs on both"
)
def test_count_reads_no_column_of_files_without_marks(spark, mixed):
    scans = parquet_scans(ebbtide.read(spark, str(mixed.path)).groupBy().count())
    assert [scan.read_schema for scan in scans] == ["struct<>", f"struct<{ROW_INDEX}:bigint>"]


@pytest.mark.one_kind(
    "Spark's optimiser is the same for both kinds; test_only_the_columns_asked_for_are_read_in_both_branches runs on both"
)
def test_single_fields_of_a_struct_are_read_alone(spark, mixed):
    frame = ebbtide.read(spark, str(mixed.path)).where("place.zip > 105").select("place.city")
    for scan in parquet_scans(frame):
        assert "place:struct<city:string,zip:int>" in scan.read_schema
        assert "id:" not in scan.read_schema
        assert "GreaterThan(place.zip,105)" in scan.pushed_filters
    (first, _) = parquet_scans(ebbtide.read(spark, str(mixed.path)).select("place.city"))
    assert first.read_schema == "struct<place:struct<city:string>>"


@pytest.mark.one_kind(
    "Spark's optimiser is the same for both kinds; test_filters_are_pushed_into_parquet_in_both_branches runs on both"
)
def test_filters_follow_renamed_columns_into_parquet(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().column_mapping("name")
    builder.file(numbered(30)).file(numbered(20, 100), deleted=[3]).commit()
    frame = ebbtide.read(spark, str(builder.path)).where("id > 10").select("text")
    for scan in parquet_scans(frame):
        assert "GreaterThan(`col-1`,10)" in scan.pushed_filters
        assert scan.read_schema.startswith("struct<col-1:bigint,col-2:string")
    assert_same_rows(frame, [{"text": row["text"]} for row in builder.rows() if row["id"] > 10])


@pytest.mark.one_kind(
    "Spark's optimiser is the same for both kinds; test_filters_are_pushed_into_parquet_in_both_branches runs on both"
)
def test_later_filter_on_a_partition_column_prunes_directories(spark, tmp_path):
    schema = pa.schema({"id": pa.int64(), "part": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("part").deletion_vectors()
    for part in ("a", "b"):
        rows = [{"id": number, "part": part} for number in range(10)]
        builder.file(rows).file(rows, deleted=[1])
    builder.commit()
    frame = ebbtide.read(spark, str(builder.path)).where("part = 'a'")
    for scan in parquet_scans(frame):
        assert "(part = a)" in scan.partition_filters
    assert_same_rows(frame, [row for row in builder.rows() if row["part"] == "a"])
