from __future__ import annotations

from urllib.parse import unquote

import pytest

from ebbtide.errors import RequestError
from ebbtide.storage import open_store
from ebbtide.storage.locations import parse_location


@pytest.mark.parametrize(
    ("given", "url", "spark_path"),
    [
        ("/tmp/t", "file:///tmp/t", "file:/tmp/t"),
        ("/tmp//t/", "file:///tmp/t", "file:/tmp/t"),
        ("//tmp/t", "file:///tmp/t", "file:/tmp/t"),
        ("/tmp/x/../t/.", "file:///tmp/t", "file:/tmp/t"),
        ("/tmp/a b", "file:///tmp/a%20b", "file:/tmp/a b"),
        ("/tmp/a%20b", "file:///tmp/a%2520b", "file:/tmp/a%20b"),
        ("/tmp/a#b?c", "file:///tmp/a%23b%3Fc", "file:/tmp/a#b?c"),
        ("/tmp/a:b", "file:///tmp/a:b", "file:/tmp/a:b"),
        ("/tmp/[é]", "file:///tmp/%5B%C3%A9%5D", "file:/tmp/[é]"),
        ("file:/tmp/t", "file:///tmp/t", "file:/tmp/t"),
        ("file:///tmp/t/", "file:///tmp/t", "file:/tmp/t"),
        ("FILE:///tmp/t", "file:///tmp/t", "file:/tmp/t"),
        ("file:/tmp/a%20b", "file:///tmp/a%2520b", "file:/tmp/a%20b"),
        ("file:///tmp/a b#c", "file:///tmp/a%20b%23c", "file:/tmp/a b#c"),
        ("s3://bucket/a b/t/", "s3://bucket/a%20b/t", "s3a://bucket/a b/t"),
        ("s3a://bucket/t%20", "s3://bucket/t%2520", "s3a://bucket/t%20"),
        ("s3://bucket", "s3://bucket", "s3a://bucket"),
        ("s3://bucket//a//b", "s3://bucket/a/b", "s3a://bucket/a/b"),
        ("gs://bucket/t", "gs://bucket/t", "gs://bucket/t"),
        ("az://container/t", "az://container/t", "az://container/t"),
        (
            "abfss://c@acc.dfs.core.windows.net/a b",
            "abfss://c@acc.dfs.core.windows.net/a%20b",
            "abfss://c@acc.dfs.core.windows.net/a b",
        ),
        ("memory://name/t", "memory://name/t", "memory://name/t"),
    ],
)
def test_a_location_is_read_as_hadoop_reads_it(given, url, spark_path):
    location = parse_location(given)
    assert location.url == url
    assert location.spark_path == spark_path
    assert unquote(url).endswith(location.root)


def test_a_relative_path_is_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_location("a/../t").url == f"file://{tmp_path}/t"
    assert parse_location("./a:b").url == f"file://{tmp_path}/a:b"


def test_a_relative_path_without_a_working_directory_is_refused(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(RequestError, match="working directory is gone"):
        open_store("t")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("a\nb", "control characters"),
        ("s3:/x", "names no bucket"),
        ("s3:x", "names no bucket"),
        ("s3://", "names no bucket"),
        ("s3:///x", "names no bucket"),
        ("s3://bad bucket/x", "names no bucket"),
        ("s3://bücket/x", "names no bucket"),
        ("gs:/b/x", "names no bucket"),
        ("memory:x", "names no bucket"),
        ("http://host/x", "scheme 'http'"),
        ("https://acc.blob.core.windows.net/c", "scheme 'https'"),
        ("hdfs://host/x", "scheme 'hdfs'"),
        ("a:b", "scheme 'a'"),
        ("file:t", "relative file URL"),
        ("file:", "relative file URL"),
        ("file://host/t", "names a host"),
        ("/", "root of the file system"),
        ("file:///", "root of the file system"),
        ("s3://bucket/a/../b", "'..' segment"),
        ("abfss://c@/x", "'@'"),
    ],
)
def test_a_broken_location_is_refused_with_what_to_write_instead(given, complaint):
    with pytest.raises(RequestError, match=complaint) as caught:
        open_store(given)
    assert "Give" in str(caught.value) or "Write" in str(caught.value)


def test_a_file_is_not_a_table(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"")
    with pytest.raises(RequestError, match=r"x\.parquet' is a file"):
        open_store(str(tmp_path / "x.parquet"))


@pytest.mark.parametrize(
    "given",
    [
        "s3a://AKIAABCDEFGH12345678:hunter2/slash@bucket/t",
        "s3://hunter2@bucket/t",
        "gs://user:hunter2@bucket/t",
        "http://user:hunter2@host/t",
        "https://acc.blob.core.windows.net/c?sv=1&sig=hunter2",
        "abfss://c@acc.dfs.core.windows.net/t?sv=1&sig=hunter2",
        "az://c/t?sig=hunter2",
        "s3://bucket/t?X-Amz-Signature=hunter2",
        "abfss://c:hunter2@acc.dfs.core.windows.net/t",
    ],
)
def test_credentials_in_a_location_are_refused_and_not_repeated(given):
    with pytest.raises(RequestError) as caught:
        open_store(given)
    assert "hunter2" not in str(caught.value)
    assert "AKIA" not in str(caught.value)
