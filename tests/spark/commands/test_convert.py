"""Does a converted folder show the rows that Spark reads from its files, and is a folder that cannot be left as it was?

Listing, partition directories and statistics are tested without Spark (`tests/unit/commands/test_convert_folder.py`,
`tests/unit/write/test_foreign_footers.py`).
"""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T
from tests.support.comparison import assert_same_rows
from tests.support.log_reading import actions_of, commit_info, log_state, stats_of
from tests.support.session_settings import session_settings

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import CorruptTableError, DeltaError, RequestError, SchemaMismatchError
from ebbtide.session_settings import TABLE_DEFAULTS

pytestmark = pytest.mark.spark

MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "small": pa.array([1, -2, 3], pa.int16()),
        "unsigned": pa.array([1, 4_000_000_000, None], pa.uint32()),
        "name": ["é", None, "b"],
        "price": pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("-3.40")], pa.decimal128(9, 2)),
        "day": pa.array([dt.date(2024, 1, 2)] * 3),
        "at": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
        "local": pa.array([MOMENT, None, MOMENT], pa.timestamp("us")),
        "s": [{"x": 1, "y": ["a"]}, None, {"x": None, "y": []}],
        "raw": [b"x", None, b""],
    }
)


def folder(path, *tables, **partitions):
    """One file per table; `partitions` maps the names of directories to tables."""
    for number, table in enumerate(tables):
        path.mkdir(exist_ok=True)
        pq.write_table(table, path / f"part {number}.parquet")
    for name, table in partitions.items():
        (path / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path / name / "f.parquet")
    return path


def numbers(*ids):
    return pa.table({"id": pa.array(ids, pa.int64())})


def names_below(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))


def test_folder_becomes_a_table_with_the_rows_that_spark_reads(spark, tmp_path):
    place = folder(tmp_path / "a b", ROWS, ROWS.slice(0, 1))
    expected = spark.read.parquet(str(place))
    schema, rows = expected.schema, expected.toArrow()
    table = DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
    assert [(field.name, field.dataType) for field in table.toDF().schema] == [
        (field.name, field.dataType) for field in schema
    ]
    assert_same_rows(table.toDF(), rows)
    assert (table.version(), table.count()) == (0, 4)


@pytest.mark.one_kind("the log alone is looked at")
def test_commit_records_what_delta_spark_records(spark, tmp_path):
    place = folder(tmp_path / "f", numbers(1, 2), numbers(3))
    DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
    info = commit_info(place, 0)
    assert info["operation"] == "CONVERT"
    assert info["operationParameters"] == {
        "numFiles": 2,
        "partitionedBy": "[]",
        "collectStats": True,
        "sourceFormat": "parquet",
    }
    assert info["operationMetrics"] == {"numConvertedFiles": "2"}
    first, second = sorted(actions_of(place, 0, "add"), key=lambda add: add["path"])
    assert (first["path"], first["dataChange"]) == ("part%200.parquet", True)
    assert stats_of(second)["minValues"] == {"id": 3}
    assert first["size"] == (place / "part 0.parquet").stat().st_size


@pytest.mark.one_value("the schema as text and as a type are told apart by us")
@pytest.mark.parametrize(
    "given", ["p INT, q STRING", T.StructType().add("p", T.IntegerType()).add("q", T.StringType())]
)
def test_partition_columns_come_from_the_directories(spark, tmp_path, given):
    place = folder(
        tmp_path / "f",
        **{"p=1/q=a%2Fb": numbers(1), "p=2/q=c": numbers(2), "p=__HIVE_DEFAULT_PARTITION__/q=c": numbers(3)},
    )
    table = DeltaTable.convertToDelta(spark, f"parquet.`{place}`", given)
    assert sorted(map(tuple, table.toDF().collect())) == [(1, 1, "a/b"), (2, 2, "c"), (3, None, "c")]
    assert log_state(place).metadata["partitionColumns"] == ["p", "q"]
    assert table.delete("p = 2").num_affected_rows == 1
    assert table.update("q = 'a/b'", {"id": "10"}).num_affected_rows == 1
    assert sorted(row["id"] for row in table.toDF().collect()) == [3, 10]


@pytest.mark.one_kind("columns are merged by Spark's reader, which the first test asks on both")
def test_columns_of_all_files_are_merged_and_a_repeated_partition_column_is_the_directorys(spark, tmp_path):
    place = folder(
        tmp_path / "f",
        **{
            "p=1": pa.table({"id": [1], "p": ["wrong"], "a": ["x"]}),
            "p=2": pa.table({"id": [2], "p": ["wrong"], "b": [True]}),
        },
    )
    table = DeltaTable.convertToDelta(spark, f"parquet.`{place}`", "p INT")
    assert table.toDF().columns == ["id", "p", "a", "b"]
    assert sorted(map(tuple, table.toDF().collect())) == [(1, 1, "x", None), (2, 2, None, True)]


def test_statement_converts_with_and_without_statistics(spark, tmp_path):
    place = folder(tmp_path / "f", **{"p=1": numbers(1)})
    answer = ebbtide.sql(spark, f"CONVERT TO DELTA parquet.`{place}` NO STATISTICS PARTITIONED BY (p INT)")
    assert answer.collect() == []
    [add] = actions_of(place, 0, "add")
    assert "stats" not in add
    assert commit_info(place, 0)["operationParameters"]["collectStats"] is False
    assert [tuple(row) for row in ebbtide.read(spark, place).collect()] == [(1, 1)]


@pytest.mark.one_kind("the log is listed before Spark is asked")
def test_folder_that_is_a_table_already_is_left_as_it_is(spark, tmp_path):
    place = folder(tmp_path / "f", numbers(1))
    DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
    before = names_below(place)
    for identifier in (f"parquet.`{place}`", f"delta.`{place}`"):
        assert DeltaTable.convertToDelta(spark, identifier, "p INT").version() == 0
    ebbtide.sql(spark, f"CONVERT TO DELTA parquet.`{place}`")
    assert names_below(place) == before


@pytest.mark.one_kind("footers are read without Spark")
def test_files_that_do_not_fit_together_are_refused(spark, tmp_path):
    place = folder(tmp_path / "f", numbers(1), pa.table({"id": ["one"]}))
    before = names_below(place)
    with pytest.raises(SchemaMismatchError) as refused:
        DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
    assert refused.value.error_class == "DELTA_FAILED_MERGE_SCHEMA_FILE"
    assert names_below(place) == before


@pytest.mark.one_kind("footers are read without Spark")
def test_file_that_is_no_parquet_is_refused(spark, tmp_path):
    place = folder(tmp_path / "f", numbers(1))
    (place / "notes.txt").write_text("not a table")
    before = names_below(place)
    with pytest.raises((CorruptTableError, RequestError)) as refused:
        DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
    assert "notes.txt" in str(refused.value)
    assert names_below(place) == before


@pytest.mark.one_kind("Spark is not asked, or only for the schema")
@pytest.mark.parametrize(
    ("files", "given", "error_class"),
    [
        ({"p=1": numbers(1)}, None, "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"),
        ({"p=1": numbers(1)}, "q INT", "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME"),
        ({"p=x": numbers(1)}, "p INT", "DELTA_FAILED_CAST_PARTITION_VALUE"),
        ({}, None, "DELTA_EMPTY_DIRECTORY"),
        ({".": pa.table({"a b": [1]})}, None, "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
        ({"id=1": numbers(1)}, "id BIGINT", "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION"),
    ],
)
def test_folder_that_cannot_be_a_table_is_left_as_it_was(spark, tmp_path, files, given, error_class):
    place = tmp_path / "f"
    place.mkdir()
    folder(place, **files)
    before = names_below(place)
    with pytest.raises(DeltaError) as refused:
        DeltaTable.convertToDelta(spark, f"parquet.`{place}`", given)
    assert refused.value.error_class == error_class
    assert names_below(place) == before


@pytest.mark.one_kind("settings are read in one place for both")
def test_defaults_of_the_session_apply_and_are_refused_where_files_cannot_follow(spark, tmp_path):
    place = folder(tmp_path / "f", numbers(1, 2))
    statement = f"CONVERT TO DELTA parquet.`{place}`"
    with session_settings(spark, {f"{TABLE_DEFAULTS}columnMapping.mode": "name"}):
        with pytest.raises(RequestError) as refused:
            ebbtide.sql(spark, statement)
        assert refused.value.error_class == "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING"
    with session_settings(spark, {f"{TABLE_DEFAULTS}enableRowTracking": "true"}):
        with pytest.raises(RequestError) as refused:
            ebbtide.sql(spark, f"{statement} NO STATISTICS")
        assert refused.value.error_class == "DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS"
        assert not (place / "_delta_log").exists()
        ebbtide.sql(spark, statement)
    [add] = actions_of(place, 0, "add")
    assert add["baseRowId"] == 0


@pytest.mark.one_kind("arguments are checked before Spark is asked")
@pytest.mark.parametrize("given", [5, ["p INT"], {"p": "INT"}])
def test_partition_columns_must_be_text_or_a_schema(spark, tmp_path, given):
    with pytest.raises(TypeError, match="partitionSchema must be columns"):
        DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path}`", given)


@pytest.mark.one_kind("manifests are written without Spark")
def test_generate_writes_manifests_through_both_doors(spark, tmp_path):
    place = folder(tmp_path / "f", numbers(1))
    table = DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
    assert table.generate("symlink_format_manifest") is None
    manifest = place / "_symlink_format_manifest" / "manifest"
    assert manifest.read_text() == f"file:{place}/part 0.parquet\n"
    manifest.unlink()
    assert ebbtide.sql(spark, f"GENERATE symlink_format_manifest FOR TABLE delta.`{place}`").collect() == []
    assert manifest.exists()
    with pytest.raises(RequestError) as refused:
        ebbtide.sql(spark, f"GENERATE something FOR TABLE delta.`{place}`")
    assert refused.value.error_class == "DELTA_MODE_NOT_SUPPORTED"
