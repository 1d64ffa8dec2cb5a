"""Paths in the log: decoding, encoding, identity, and what may not be followed."""

import pyarrow as pa
import pytest

from ebbtide.errors import CorruptTableError, RequestError, UnsupportedFeatureError
from ebbtide.protocol.paths import (
    DataLocation,
    absolute_url,
    canonical_path,
    canonical_paths,
    decode_path,
    encode_path,
    resolve_data_path,
    resolve_sidecar_path,
)

LOCAL = "file:///data/my%20table"
S3 = "s3://bucket/warehouse/t"


def relative(path):
    return DataLocation(relative_path=path)


def absolute(url):
    return DataLocation(absolute_url=url)


ENCODED = [
    ("part-0.parquet", "part-0.parquet"),
    ("a b", "a%20b"),
    ("p=100%/x", "p=100%25/x"),
    ("p=a%3Ab/x", "p=a%253Ab/x"),
    ("a#b?c", "a%23b%3Fc"),
    ("a[1]{2}", "a%5B1%5D%7B2%7D"),
    ("_-!.~'()*,;:$&+=@/", "_-!.~'()*,;:$&+=@/"),
    ('"<>\\^`|', "%22%3C%3E%5C%5E%60%7C"),
    ("straße/日本/🙂", "straße/日本/🙂"),
    ("nb\u00a0sp\u2028x", "nb%C2%A0sp%E2%80%A8x"),
    ("tab\tnew\n", "tab%09new%0A"),
    ("time=12:30/x", "time=12:30/x"),
    ("a:b/c:d", "a%3Ab/c:d"),
]


@pytest.mark.parametrize(("decoded", "encoded"), ENCODED)
def test_a_path_is_encoded_as_hadoop_does_and_decodes_back(decoded, encoded):
    assert encode_path(decoded) == encoded
    assert decode_path(encoded) == decoded
    assert resolve_data_path(encoded, LOCAL) == relative(decoded.rstrip("/"))


@pytest.mark.parametrize("path", ["%zz", "a%", "a%2", "%%20", "100%/x", "%FF", "%C3%28", "a%00b", "a\x00b"])
def test_a_broken_escape_is_a_corrupt_table(path):
    with pytest.raises(CorruptTableError):
        decode_path(path)
    with pytest.raises(CorruptTableError):
        resolve_data_path(path, LOCAL)


@pytest.mark.parametrize(
    ("path", "table", "location"),
    [
        ("a b/x.parquet", LOCAL, relative("a b/x.parquet")),
        ("a//b/./c/../x", LOCAL, relative("a/b/x")),
        ("%2e/x", LOCAL, relative("x")),
        ("a%2Fb", LOCAL, relative("a/b")),
        ("..hidden/x..", LOCAL, relative("..hidden/x..")),
        ("file:///data/my%20table/p=1/x", LOCAL, relative("p=1/x")),
        ("file:/data/my%20table/x", LOCAL, relative("x")),
        ("FILE://localhost/data/my%20table/x", LOCAL, relative("x")),
        ("/data/my%20table/x", LOCAL, relative("x")),
        ("/data/my table/x", LOCAL, relative("x")),
        ("/data/other/x%20y", LOCAL, absolute("file:///data/other/x%20y")),
        ("file:/data/my%20tables/x", LOCAL, absolute("file:///data/my%20tables/x")),
        ("file:///data/my%20table/../other/x", LOCAL, absolute("file:///data/other/x")),
        ("file:///data/my%20table", LOCAL, absolute("file:///data/my%20table")),
        ("s3://bucket/warehouse/t/x", S3, relative("x")),
        ("s3a://bucket/warehouse/t/x", S3, relative("x")),
        ("s3n://BUCKET/elsewhere/x", S3, absolute("s3://bucket/elsewhere/x")),
        ("/elsewhere/x", S3, absolute("s3://bucket/elsewhere/x")),
        ("s3://bucket/x", "s3://bucket", relative("x")),
        ("s3://bucket/warehouse/t/x", S3 + "/", relative("x")),
        ("abfs://c@acc.dfs.core.windows.net/t/x", "abfss://c@acc.dfs.core.windows.net/t", relative("x")),
    ],
)
def test_a_path_is_relative_inside_the_table_and_absolute_elsewhere_in_its_store(path, table, location):
    assert resolve_data_path(path, table) == location


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "%2e%2e/x", "..%2Fx", "/..", "file:///../x", ".", "a/..", "./", ""]
)
def test_a_path_that_climbs_out_or_names_no_file_is_a_corrupt_table(path):
    with pytest.raises(CorruptTableError):
        resolve_data_path(path, LOCAL)


@pytest.mark.parametrize("path", ["a#b", "a?b=c", "s3://bucket/x?versionId=1", "//host/x", "mailto:x", "C:x", "a:b"])
def test_a_path_that_java_would_read_as_something_else_is_a_corrupt_table(path):
    with pytest.raises(CorruptTableError):
        resolve_data_path(path, S3)


@pytest.mark.parametrize(
    ("path", "table", "url"),
    [
        ("s3://other/x", S3, "s3://other/x"),
        ("gs://bucket/x", S3, "gs://bucket/x"),
        ("file:///etc/passwd", S3, "file:///etc/passwd"),
        ("file://server/share/x", LOCAL, "file://server/share/x"),
        ("https://example.com/a%20b", LOCAL, "https://example.com/a%20b"),
    ],
)
def test_another_store_is_followed_only_when_allowed(path, table, url):
    with pytest.raises(UnsupportedFeatureError, match="allow_foreign_paths"):
        resolve_data_path(path, table)
    assert resolve_data_path(path, table, allow_foreign=True) == absolute(url)
    assert canonical_path(path, table) == url


def test_an_error_message_does_not_repeat_credentials():
    with pytest.raises(UnsupportedFeatureError) as caught:
        resolve_data_path("s3://KEY:SECRET@other/x", S3)
    assert "SECRET" not in str(caught.value)


def test_a_table_url_must_be_absolute():
    with pytest.raises(RequestError):
        resolve_data_path("/x", "data/table")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a%20b", "a b"),
        ("x", "./x"),
        ("x", "%78"),
        ("x", "file:///data/my%20table/x"),
        ("file:/other/x", "file:///other/x"),
        ("file:/other/%78", "/other/x"),
    ],
)
def test_two_spellings_of_one_file_have_one_canonical_path(one, two):
    assert canonical_path(one, LOCAL) == canonical_path(two, LOCAL)


@pytest.mark.parametrize(
    ("one", "two"), [("a%20b", "a%2520b"), ("x", "X"), ("x", "file:///other/x"), ("s3%3A//other/x", "s3://other/x")]
)
def test_different_files_have_different_canonical_paths(one, two):
    assert canonical_path(one, LOCAL) != canonical_path(two, LOCAL)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_column_of_paths_is_canonicalised_like_each_of_them(chunked):
    paths = ["p=1/part-0.parquet", None, "a%20b", "file:///data/my%20table/x", "./y", "a//z", "q/", "..x", "s3://o/p"]
    column = pa.chunked_array([paths[:3], paths[3:]]) if chunked else pa.array(paths)
    expected = [path and canonical_path(path, LOCAL) for path in paths]
    assert canonical_paths(column, LOCAL).to_pylist() == expected
    assert canonical_paths(column.slice(1, 5), LOCAL).to_pylist() == expected[1:6]
    assert canonical_paths(column.slice(0, 0), LOCAL).to_pylist() == []


def test_plain_paths_are_returned_without_a_copy():
    column = pa.array(["a/b.parquet", "c=1/d.parquet"])
    assert canonical_paths(column, LOCAL) is column


@pytest.mark.parametrize("path", ["../x", "", "a%zz", "a#b", "/..", "."])
def test_a_broken_path_in_a_column_is_a_corrupt_table(path):
    with pytest.raises(CorruptTableError):
        canonical_paths(pa.array(["fine", path]), LOCAL)


def test_the_absolute_url_of_a_location():
    assert absolute_url(relative("p=a%20b/x y"), LOCAL) == "file:///data/my%20table/p=a%2520b/x%20y"
    assert absolute_url(relative("x"), S3 + "/") == "s3://bucket/warehouse/t/x"
    assert absolute_url(absolute("s3://b/x"), LOCAL) == "s3://b/x"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("u.parquet", "_delta_log/_sidecars/u.parquet"),
        ("a%20b.parquet", "_delta_log/_sidecars/a b.parquet"),
        ("_delta_log/_sidecars/u.parquet", "_delta_log/_sidecars/u.parquet"),
        ("file:/data/my%20table/_delta_log/_sidecars/u.parquet", "_delta_log/_sidecars/u.parquet"),
    ],
)
def test_a_sidecar_lies_in_its_own_directory(path, expected):
    assert resolve_sidecar_path(path, LOCAL) == expected


@pytest.mark.parametrize(
    "path",
    ["..", "..%2F..%2Fx", "a/x.parquet", "/tmp/x.parquet", "_delta_log/_sidecars/../x", "_delta_log/_sidecars/d/x"],
)
def test_a_sidecar_elsewhere_is_a_corrupt_table(path):
    with pytest.raises(CorruptTableError):
        resolve_sidecar_path(path, LOCAL)
