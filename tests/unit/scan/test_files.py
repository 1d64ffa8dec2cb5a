"""Does a scan know, before Spark starts, where every file is, which rows are marked, and what is missing?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError, MissingDataFileError, UnsupportedFeatureError
from ebbtide.log import load_snapshot
from ebbtide.protocol.paths import DataLocation
from ebbtide.scan.files import resolve_files, spark_path
from ebbtide.storage import open_store

SCHEMA = pa.schema({"id": pa.int64()})


def rows(count):
    return [{"id": number} for number in range(count)]


def resolved(builder, **options):
    snapshot = load_snapshot(open_store(str(builder.path)), **options)
    return resolve_files(snapshot, snapshot.files)


def test_files_keep_their_order_and_know_their_place_and_marks(tmp_path):
    builder = TableBuilder(tmp_path / "a b", SCHEMA).deletion_vectors()
    builder.file(rows(9), name="x y%.parquet").file(rows(9), deleted=[1, 8], name="z.parquet").commit()
    found = {file.relative_path: file for file in resolved(builder)}
    assert set(found) == {"x y%.parquet", "z.parquet"}
    assert found["x y%.parquet"].spark_path == f"file:{builder.path}/x y%.parquet"
    assert found["x y%.parquet"].marks is None
    assert list(found["z.parquet"].marks) == [1, 8]
    assert all(file.size_is_checked for file in found.values())


def test_vector_without_rows_is_no_mark(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().file(rows(3)).commit()
    (file,) = builder.files
    empty = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 0}
    builder.remove(file).raw({"add": file.add | {"deletionVector": empty}}).commit()
    assert [file.marks for file in resolved(builder)] == [None]


def test_missing_file_is_found_before_spark_starts(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows(3), name="x.parquet").commit()
    (builder.path / "x.parquet").unlink()
    with pytest.raises(MissingDataFileError, match=r"x\.parquet"):
        resolved(builder)


@pytest.mark.parametrize("change", [-1, 1])
def test_file_of_another_length_is_found_before_spark_starts(tmp_path, change):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows(3), name="x.parquet").commit()
    data = (builder.path / "x.parquet").read_bytes()
    (builder.path / "x.parquet").write_bytes((data + b"\0")[: len(data) + change])
    with pytest.raises(CorruptTableError, match=f"{len(data) + change} bytes, the log says {len(data)}"):
        resolved(builder)


def test_file_elsewhere_in_the_same_store_is_resolved_but_its_size_is_not_trusted(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).commit()
    other = TableBuilder(tmp_path / "other é", SCHEMA).file(rows(3), name="x.parquet").commit()
    builder.raw({"add": other.files[0].add | {"path": (other.path / "x.parquet").as_uri()}}).commit()
    (file,) = resolved(builder)
    assert file.spark_path == f"file:{other.path}/x.parquet"
    assert file.relative_path is None
    assert not file.size_is_checked


def test_file_in_another_store_needs_permission(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows(3)).commit()
    builder.raw({"add": builder.files[0].add | {"path": "s3a://bucket/a%20b/x.parquet"}}).commit()
    with pytest.raises(UnsupportedFeatureError):
        resolved(builder)
    found = resolved(builder, config=EngineConfig(allow_foreign_paths=True))
    assert {file.spark_path for file in found if file.relative_path is None} == {"s3a://bucket/a b/x.parquet"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:///other/a%20b.parquet", "file:/other/a b.parquet"),
        ("s3://bucket/a%2525.parquet", "s3a://bucket/a%25.parquet"),
        ("gs://bucket/x.parquet", "gs://bucket/x.parquet"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
    ],
)
def test_absolute_urls_are_spelled_as_spark_wants_them(tmp_path, url, expected):
    assert spark_path(open_store(str(tmp_path)), DataLocation(absolute_url=url)) == expected
