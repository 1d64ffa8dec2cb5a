"""Are data files found wherever they lie and whatever they are called?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.comparison import assert_same_rows
from tests.support.query_plans import plan_text
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import CorruptTableError, MissingDataFileError, UnsupportedFeatureError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})
DIRECTORIES = [
    "a b",
    "t%20x",
    "t[1]",
    "t{a,b}",
    "t#?x",
    "té",
    "part=1",
    "t*x",
    "_hidden/.deep",
    "a:b",
    "back\\slash",
    "t,u;v",
]
FILE_NAMES = [
    "a b%20#é.parquet",
    "x[1]{a,b}*?.parquet",
    "plus+&=;@,.parquet",
    "no-extension",
    "back\\slash.parquet",
    "deep/er/x.parquet",
]
SKIPPED_BY_SPARK = ["_x.parquet", ".x.parquet", "x.parquet._COPYING_"]


def rows(count, start=0, part="p"):
    return [{"id": number, "part": part} for number in range(start, start + count)]


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("name", DIRECTORIES)
def test_table_in_a_directory_of_any_name_is_read(spark, tmp_path, name, partitioned):
    builder = TableBuilder(tmp_path / name, SCHEMA).deletion_vectors()
    if partitioned:
        builder.partitioned_by("part")
    builder.file(rows(70), deleted=[1, 64]).file(rows(80, 100), deleted=[2]).file(rows(3, 500)).commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.matrix
def test_files_of_any_name_are_read(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    for at, name in enumerate(FILE_NAMES):
        builder.file(rows(70, at * 1000), deleted=[at, 64], name=name).file(
            rows(5, at * 1000 + 500), name="plain " + name
        )
    builder.commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize("deleted", [[], [1]])
@pytest.mark.parametrize("name", SKIPPED_BY_SPARK)
def test_file_that_spark_would_skip_is_refused_instead_of_its_rows_being_lost(spark, tmp_path, name, deleted):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file(rows(5), deleted=deleted, name=name).file(rows(5, 100)).commit()
    with pytest.raises(UnsupportedFeatureError, match=name):
        ebbtide.read(spark, str(builder.path))


def adopt(builder, other):
    """Add the files of another table by their absolute URLs, as a shallow clone does."""
    for file in other.files:
        builder.raw({"add": file.add | {"path": (other.path / file.add["path"]).as_uri()}})
    return builder.commit()


@pytest.mark.one_value("the same calls with partitions")
@pytest.mark.matrix
@pytest.mark.parametrize("partitioned", [True, False])
def test_files_outside_the_table_are_read(spark, tmp_path, partitioned):
    other = TableBuilder(tmp_path / "other é [1]", SCHEMA).deletion_vectors()
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    if partitioned:
        other.partitioned_by("part")
        builder.partitioned_by("part")
    other.file(rows(70), deleted=[1, 64], vector="p").file(rows(9, 900, "q"), deleted=[3], vector="i").file(
        rows(4, 100)
    ).commit()
    builder.file(rows(70, 300), deleted=[5]).file(rows(7, 500, "z")).commit()
    adopt(builder, other)
    expected = pa.concat_tables([builder.expected(), other.expected()])
    frame = ebbtide.read(spark, str(builder.path))
    assert "xxhash64(" in plan_text(frame), "sizes that nobody checked must not be keys"
    assert_same_rows(frame, expected)


@pytest.mark.one_kind("refused before Spark is asked")
def test_missing_file_outside_the_table_is_named(spark, tmp_path):
    other = TableBuilder(tmp_path / "other", SCHEMA).file(rows(3), name="lost.parquet").commit()
    builder = adopt(TableBuilder(tmp_path / "t", SCHEMA).commit(), other)
    (other.path / "lost.parquet").unlink()
    with pytest.raises(MissingDataFileError, match=r"lost\.parquet"):
        ebbtide.read(spark, str(builder.path))


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize("deleted", [[], [1]])
def test_file_of_another_length_than_the_log_says_is_refused(spark, tmp_path, deleted):
    builder = (
        TableBuilder(tmp_path / "t", SCHEMA)
        .deletion_vectors()
        .file(rows(50), deleted=deleted, name="cut.parquet")
        .commit()
    )
    file = builder.path / "cut.parquet"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CorruptTableError, match=r"cut\.parquet"):
        ebbtide.read(spark, str(builder.path))


def test_session_that_skips_broken_files_does_not_make_rows_vanish(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows(50), name="broken.parquet").file(rows(5, 100)).commit()
    file = builder.path / "broken.parquet"
    file.write_bytes(b"\0" * file.stat().st_size)
    settings = {"spark.sql.files.ignoreCorruptFiles": "true", "spark.sql.files.ignoreMissingFiles": "true"}
    with session_settings(spark, settings):
        with pytest.raises(Exception, match=r"broken\.parquet"):
            ebbtide.read(spark, str(builder.path)).collect()
        file.unlink()
        with pytest.raises(MissingDataFileError, match=r"broken\.parquet"):
            ebbtide.read(spark, str(builder.path))


def test_table_without_files_has_its_columns_and_no_rows(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").commit()
    frame = ebbtide.read(spark, str(builder.path))
    assert_same_rows(frame, builder.expected())
    assert frame.columns == ["id", "part"]
