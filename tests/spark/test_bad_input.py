"""Is every wrong call, and every broken or hostile table, answered with a clear error of ours and never with wrong rows?

Bytes that attack the parser are in `tests/faults`; here the whole way from `ebbtide.read` to the error is walked.
"""

from __future__ import annotations

import json
import struct
import zlib

import pyarrow as pa
import pytest
from tests.support.deletion_vector_files import MAGIC, VectorFile, inline_descriptor, z85
from tests.support.table_builder import FIRST_COMMIT_MS, TableBuilder

import ebbtide
from ebbtide.errors import (
    CorruptDeletionVectorError,
    CorruptTableError,
    MissingDataFileError,
    RequestError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64()})
# A refusal takes milliseconds; an attack that works takes minutes.
HOSTILE_SECONDS = 60


def table(path):
    return TableBuilder(path, SCHEMA).deletion_vectors()


def rows(count):
    return [{"id": number} for number in range(count)]


def with_vector(builder, descriptor):
    """The table's only file comes back with this descriptor, right or wrong."""
    (file,) = builder.files
    return builder.remove(file).raw({"add": file.add | {"deletionVector": descriptor}}).commit()


# --- wrong calls ------------------------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_directory_without_a_table_is_named(spark, tmp_path):
    with pytest.raises(TableNotFoundError, match=str(tmp_path)) as caught:
        ebbtide.read(spark, str(tmp_path))
    assert caught.value.error_class == "DELTA_MISSING_DELTA_TABLE"


@pytest.mark.one_kind("no more calls than test_directory_without_a_table_is_named, which runs on both kinds")
def test_directory_that_does_not_exist_is_named(spark, tmp_path):
    with pytest.raises(TableNotFoundError, match="nowhere"):
        ebbtide.read(spark, str(tmp_path / "nowhere"))


@pytest.mark.one_kind("refused before Spark is asked, as in test_directory_without_a_table_is_named")
def test_path_that_is_a_file_is_refused(spark, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RequestError, match="is a file"):
        ebbtide.read(spark, str(tmp_path / "file"))


@pytest.mark.one_kind("refused before Spark is asked, as in test_directory_without_a_table_is_named")
@pytest.mark.parametrize(
    "url", ["", "  ", "nonsense://x/y", "s3://", "s3:/bucket", "file://host/x", "file:relative", "a\nb", "/"]
)
def test_broken_url_is_refused(spark, url):
    with pytest.raises(RequestError):
        ebbtide.read(spark, url)


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
def test_version_that_does_not_exist_is_refused(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(1)).commit()
    for version in (1, 10**12):
        with pytest.raises(VersionNotFoundError, match=str(version)):
            ebbtide.read(spark, str(builder.path), version=version)
    with pytest.raises(RequestError):
        ebbtide.read(spark, str(builder.path), version=-1)


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
def test_version_that_was_cleaned_up_is_refused_and_says_what_is_left(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(1)).commit().file(rows(2)).commit().checkpoint().clean_commits(before=1)
    assert ebbtide.read(spark, str(builder.path), version=1).count() == 3
    with pytest.raises(VersionNotFoundError, match="0"):
        ebbtide.read(spark, str(builder.path), version=0)


def test_timestamp_before_the_first_commit_is_refused(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(1)).commit()
    with pytest.raises(VersionNotFoundError, match="before the oldest version") as caught:
        ebbtide.read(spark, str(builder.path), timestamp="2020-01-01")
    assert caught.value.error_class == "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"


@pytest.mark.one_kind("the calls of test_timestamp_before_the_first_commit_is_refused, which runs on both kinds")
def test_timestamp_after_the_newest_commit_is_refused(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(1)).commit(timestamp_ms=FIRST_COMMIT_MS)
    with pytest.raises(VersionNotFoundError, match="after the newest commit"):
        ebbtide.read(spark, str(builder.path), timestamp="2030-01-01")


# --- broken tables ----------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("deleted", [[], [1]])
def test_missing_data_file_is_named_before_anything_is_read(spark, tmp_path, deleted):
    builder = table(tmp_path / "t").file(rows(5), deleted=deleted, name="lost one.parquet").file(rows(3)).commit()
    (builder.path / "lost one.parquet").unlink()
    with pytest.raises(MissingDataFileError, match=r"lost one\.parquet"):
        ebbtide.read(spark, str(builder.path))


def test_file_that_is_gone_when_the_query_runs_is_an_error_and_not_fewer_rows(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(5), name="late.parquet").commit()
    frame = ebbtide.read(spark, str(builder.path))
    (builder.path / "late.parquet").unlink()
    with pytest.raises(Exception, match=r"late\.parquet"):
        frame.collect()


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["u", "p"])
def test_missing_vector_file_is_named_and_never_means_no_marks(spark, tmp_path, kind):
    builder = table(tmp_path / "t").file(rows(5), deleted=[1], vector=kind).commit()
    (vector,) = builder.path.glob("*.bin")
    vector.unlink()
    with pytest.raises(MissingDataFileError, match=vector.name):
        ebbtide.read(spark, str(builder.path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
def test_vector_with_a_flipped_bit_is_refused(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(500), deleted=range(0, 500, 3)).commit()
    (vector,) = builder.path.glob("*.bin")
    data = bytearray(vector.read_bytes())
    data[40] ^= 4
    vector.write_bytes(data)
    with pytest.raises(CorruptDeletionVectorError):
        ebbtide.read(spark, str(builder.path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
def test_vector_that_marks_a_row_the_file_does_not_have_is_refused(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    with pytest.raises(CorruptDeletionVectorError, match="row 7"):
        ebbtide.read(spark, str(with_vector(builder, inline_descriptor([1, 7])).path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
def test_missing_commit_in_the_middle_is_named(spark, tmp_path):
    builder = table(tmp_path / "t")
    for _ in range(3):
        builder.file(rows(1)).commit()
    (builder.log / f"{1:020d}.json").unlink()
    with pytest.raises(CorruptTableError, match="1"):
        ebbtide.read(spark, str(builder.path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
def test_feature_that_readers_must_know_is_refused_by_name(spark, tmp_path):
    builder = table(tmp_path / "t").feature("timeTravelForCats", reader=True).file(rows(1)).commit()
    with pytest.raises(UnsupportedFeatureError, match="timeTravelForCats"):
        ebbtide.read(spark, str(builder.path))


# --- hostile tables ---------------------------------------------------------------------------------------------------


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.parametrize("prefix", ["..", "../..", "a/b", "/etc", "../../../tmp", "%2e%2e", ".", "a\\b", "\0"])
def test_vector_prefix_that_leaves_its_directory_is_refused(spark, tmp_path, prefix):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    descriptor = VectorFile(builder.path).add([1])
    hostile = descriptor | {"pathOrInlineDv": prefix + descriptor["pathOrInlineDv"]}
    with pytest.raises(CorruptTableError):
        ebbtide.read(spark, str(with_vector(builder, hostile).path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.parametrize(
    "path", ["../secret.parquet", "a/../../secret.parquet", "%2e%2e/secret.parquet", "..%2Fsecret.parquet"]
)
def test_data_file_that_climbs_out_of_the_table_is_refused(spark, tmp_path, path):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    (tmp_path / "secret.parquet").write_bytes((builder.path / builder.files[0].add["path"]).read_bytes())
    builder.raw({"add": builder.files[0].add | {"path": path}}).commit()
    with pytest.raises(CorruptTableError):
        ebbtide.read(spark, str(builder.path))


FOREIGN = [
    "s3://bucket/x.parquet",
    "http://127.0.0.1:1/x.parquet",
    "hdfs://host/x",
    "memory://other/x.parquet",
    "file://host/x.parquet",
]


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.parametrize("url", FOREIGN)
def test_data_file_in_another_store_is_refused(spark, tmp_path, url):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    builder.raw({"add": builder.files[0].add | {"path": url}}).commit()
    with pytest.raises(UnsupportedFeatureError, match="allow_foreign_paths"):
        ebbtide.read(spark, str(builder.path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.parametrize("url", FOREIGN)
def test_vector_in_another_store_is_refused(spark, tmp_path, url):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    descriptor = VectorFile(builder.path).add([1]) | {"storageType": "p", "pathOrInlineDv": url}
    with pytest.raises((UnsupportedFeatureError, CorruptTableError)):
        ebbtide.read(spark, str(with_vector(builder, descriptor).path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
def test_option_allows_another_store_and_then_the_store_answers(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    descriptor = VectorFile(builder.path).add([1]) | {"storageType": "p", "pathOrInlineDv": "memory://none/x.bin"}
    with pytest.raises(MissingDataFileError, match=r"x\.bin"):
        ebbtide.read(
            spark, str(with_vector(builder, descriptor).path), config=ebbtide.EngineConfig(allow_foreign_paths=True)
        )


def bitmap_of(body):
    return struct.pack("<i", MAGIC) + body


BITMAP_ATTACKS = {
    "2^60 buckets": bitmap_of(struct.pack("<Q", 1 << 60)),
    "more buckets than bytes": bitmap_of(struct.pack("<Q", 1 << 20) + b"\0" * 64),
    "negative bucket count": bitmap_of(struct.pack("<q", -1)),
    "container count beyond the data": bitmap_of(struct.pack("<QI", 1, 0) + struct.pack("<II", 12346, 65536)),
    "nothing after the magic number": bitmap_of(b""),
    "other magic number": struct.pack("<i", 7) + b"\0" * 8,
}


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.timeout(HOSTILE_SECONDS)
@pytest.mark.parametrize("place", ["inline", "file"])
@pytest.mark.parametrize("attack", BITMAP_ATTACKS)
def test_bitmap_that_claims_what_it_does_not_hold_is_refused_at_once(spark, tmp_path, attack, place):
    data = BITMAP_ATTACKS[attack]
    builder = table(tmp_path / "t").file(rows(5)).commit()
    descriptor = {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": 1}
    if place == "file":
        file = VectorFile(builder.path)
        descriptor = file.add([1]) | {"offset": 1, "sizeInBytes": len(data)}
        file.path.write_bytes(b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data)))
    with pytest.raises(CorruptDeletionVectorError):
        ebbtide.read(spark, str(with_vector(builder, descriptor).path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.timeout(HOSTILE_SECONDS)
@pytest.mark.parametrize("size", [2**31 - 1, 2**40, -1])
def test_vector_that_claims_an_absurd_size_is_refused(spark, tmp_path, size):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    descriptor = VectorFile(builder.path).add([1]) | {"sizeInBytes": size}
    with pytest.raises(CorruptTableError):
        ebbtide.read(spark, str(with_vector(builder, descriptor).path))


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.timeout(HOSTILE_SECONDS)
def test_log_line_of_a_hundred_megabytes_is_refused(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    with (builder.log / f"{1:020d}.json").open("w") as commit:
        commit.write('{"commitInfo": {"engineInfo": "')
        for _ in range(100):
            commit.write("x" * 1_000_000)
        commit.write('"}}\n')
    with pytest.raises(CorruptTableError, match="line"):
        ebbtide.read(spark, str(builder.path))


BOMBS = {
    "array": "[" * 200_000 + "]" * 200_000,
    "object": '{"a":' * 200_000 + "1" + "}" * 200_000,
    "add": '{"add": {"path": "x", "tags": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}}",
    "unknown action": '{"surprise": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "huge number": '{"add": {"path": "x", "partitionValues": {}, "size": '
    + "9" * 1_000_000
    + ', "modificationTime": 1, "dataChange": true}}',
}


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.timeout(HOSTILE_SECONDS)
@pytest.mark.parametrize("bomb", BOMBS)
def test_json_bomb_in_a_commit_is_refused(spark, tmp_path, bomb):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    (builder.log / f"{1:020d}.json").write_text(BOMBS[bomb] + "\n")
    with pytest.raises(CorruptTableError):
        ebbtide.read(spark, str(builder.path)).count()


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
@pytest.mark.timeout(HOSTILE_SECONDS)
def test_schema_nested_beyond_reason_is_refused(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    nested = '{"type":"array","containsNull":true,"elementType":' * 50_000 + '"long"' + "}" * 50_000
    schema = '{"type":"struct","fields":[{"name":"id","type":' + nested + ',"nullable":true,"metadata":{}}]}'
    builder.raw({"metaData": builder._metadata()["metaData"] | {"schemaString": schema}}).commit()
    with pytest.raises(CorruptTableError):
        ebbtide.read(spark, str(builder.path))


@pytest.mark.timeout(HOSTILE_SECONDS)
@pytest.mark.parametrize(
    "metadata",
    [
        {"__CHAR_VARCHAR_TYPE_STRING": 9},
        {"__COLLATIONS": 7},
        {"odd": {"list": [1, "a", {"null": None}]}},
        {"EXISTS_DEFAULT": "1 / 0", "comment": 7, "parquet.field.id": "x"},
    ],
    ids=["char", "collations", "odd", "default"],
)
@pytest.mark.parametrize("column", ["id", "part"])
def test_metadata_of_a_column_that_spark_cannot_read_does_not_reach_it(spark, tmp_path, column, metadata):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "part": pa.string()})).partitioned_by("part")
    builder.deletion_vectors().file([{"id": 1, "part": "a"}]).file([{"id": 2, "part": "b"}]).commit()
    first = builder.log / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    [definition] = [action["metaData"] for action in actions if "metaData" in action]
    schema = json.loads(definition["schemaString"])
    for field in schema["fields"]:
        field["metadata"] = metadata if field["name"] == column else {}
    definition["schemaString"] = json.dumps(schema)
    first.write_text("".join(json.dumps(action) + "\n" for action in actions))
    delta = ebbtide.DeltaTable.forPath(spark, builder.path)
    delta.delete("part = 'b' OR id = 7")
    assert delta.toDF().collect() == [(1, "a")]
    delta.delete("length(part) = 1")
    assert delta.toDF().collect() == []


def test_statistics_that_are_a_bomb_are_no_statistics(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(5), stats=False).commit()
    (file,) = builder.files
    bomb = '{"numRecords":5,"minValues":' + '{"a":' * 100_000 + "1" + "}" * 100_001
    builder.remove(file).commit().raw({"add": file.add | {"stats": bomb}}).commit()
    assert ebbtide.read(spark, str(builder.path), where="id >= 3").count() == 2
    assert ebbtide.DeltaTable.forPath(spark, str(builder.path)).count() == 5


@pytest.mark.one_kind(
    "refused from the log alone, before Spark is asked; test_missing_data_file_is_named_before_anything_is_read runs on both kinds"
)
def test_commit_that_is_not_json_is_refused_with_its_name(spark, tmp_path):
    builder = table(tmp_path / "t").file(rows(5)).commit()
    (builder.log / f"{1:020d}.json").write_text(json.dumps({"add": {"path": 7}}) + "\n")
    with pytest.raises(CorruptTableError, match=f"{1:020d}"):
        ebbtide.read(spark, str(builder.path))
