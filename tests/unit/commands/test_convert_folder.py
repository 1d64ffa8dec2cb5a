"""Which files of a folder count, which partition does each lie in, and which folders are refused?"""

from __future__ import annotations

import pytest

from ebbtide.commands.convert.folder import list_folder
from ebbtide.commands.convert.identifier import parquet_path
from ebbtide.errors import RequestError, UnsupportedFeatureError
from ebbtide.protocol.schema import PrimitiveType, StructField
from ebbtide.storage import open_store


def column(name, kind="string"):
    return StructField(name, PrimitiveType(kind), True)


def listed(path, *fields, is_exact=False):
    files = list_folder(open_store(str(path)), fields, is_exact=is_exact)
    return {file.meta.path: file.values for file in files}


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def test_hidden_names_are_no_data(tmp_path):
    touch(tmp_path, "a.parquet", "sub/b", "_SUCCESS", ".a.parquet.crc", "_temporary/0/c.parquet", ".x/d", "e._COPYING_")
    assert set(listed(tmp_path)) == {"a.parquet", "sub/b"}


def test_hidden_directory_that_names_a_partition_counts(tmp_path):
    touch(tmp_path, "_p=1/a.parquet", "_p=2/_hidden")
    assert listed(tmp_path, column("_p")) == {"_p=1/a.parquet": ("1",)}


def test_values_are_unescaped_as_hive_escapes_them(tmp_path):
    touch(tmp_path, "p=a%2Fb c/a", "p=__HIVE_DEFAULT_PARTITION__/b", "p=100%/c", "p=%é%zz/d", "p=x=y/e")
    assert listed(tmp_path, column("p")) == {
        "p=a%2Fb c/a": ("a/b c",),
        "p=__HIVE_DEFAULT_PARTITION__/b": (None,),
        "p=100%/c": ("100%",),
        "p=%é%zz/d": ("%é%zz",),
        "p=x=y/e": ("x=y",),
    }


def test_names_of_columns_are_unescaped_too(tmp_path):
    touch(tmp_path, "a%3Db=1/f")
    assert listed(tmp_path, column("a=b")) == {"a%3Db=1/f": ("1",)}


def test_levels_are_in_the_order_of_the_directories_and_plain_ones_do_not_count(tmp_path):
    touch(tmp_path, "data/y=2024/m=1/part/f")
    assert listed(tmp_path, column("y", "integer"), column("m")) == {"data/y=2024/m=1/part/f": ("2024", "1")}


@pytest.mark.parametrize(
    ("name", "fields", "error_class"),
    [
        ("p=1/f", [], "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"),
        ("f", [column("p")], "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"),
        ("p=1/q=2/f", [column("p")], "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"),
        ("p=1/q=2/f", [column("q"), column("p")], "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME"),
        ("p=one/f", [column("p", "integer")], "DELTA_FAILED_CAST_PARTITION_VALUE"),
        ("p=2024-13-01/f", [column("p", "date")], "DELTA_FAILED_CAST_PARTITION_VALUE"),
        ("p=300/f", [column("p", "byte")], "DELTA_FAILED_CAST_PARTITION_VALUE"),
        ("p=/f", [column("p")], ""),
        ("_SUCCESS", [], "DELTA_EMPTY_DIRECTORY"),
        ("sub/_delta_log/0.json", [], ""),
    ],
)
def test_folder_that_is_not_what_was_said_is_refused(tmp_path, name, fields, error_class):
    touch(tmp_path, name)
    with pytest.raises(RequestError) as refused:
        listed(tmp_path, *fields)
    assert refused.value.error_class == error_class
    assert name.split("/")[0] in str(refused.value) or error_class == "DELTA_EMPTY_DIRECTORY"


@pytest.mark.parametrize("name", ["p=${env:HOME}/f", "${env:HOME}/p=1/f", "p=1/a:[b]/f", "p=1/a:*.parquet"])
def test_file_that_spark_cannot_open_becomes_part_of_a_table(tmp_path, name):
    touch(tmp_path, name)
    with pytest.raises(RequestError, match=r"Spark cannot open.*%3A"):
        listed(tmp_path, column("p"))


def test_colon_or_brackets_alone_are_no_reason_to_refuse(tmp_path):
    touch(tmp_path, "p=12:30/f", "p={x}/f", "p={a%3Ab}/f")
    assert set(listed(tmp_path, column("p")).values()) == {("12:30",), ("{x}",), ("{a:b}",)}


def test_letter_case_of_a_column_counts_where_the_session_says_so(tmp_path):
    touch(tmp_path, "P=1/f")
    assert listed(tmp_path, column("p")) == {"P=1/f": ("1",)}
    with pytest.raises(RequestError, match="'P', where 'p' was expected"):
        listed(tmp_path, column("p"), is_exact=True)


def test_folder_of_a_stream_is_refused(tmp_path):
    touch(tmp_path, "a.parquet", "_spark_metadata/0")
    with pytest.raises(UnsupportedFeatureError, match="written by a stream"):
        listed(tmp_path)


def test_folder_that_does_not_exist_is_empty(tmp_path):
    with pytest.raises(RequestError) as refused:
        listed(tmp_path / "none")
    assert refused.value.error_class == "DELTA_EMPTY_DIRECTORY"


@pytest.mark.parametrize("identifier", ["parquet.`/a b`", "PARQUET . `/a b`", "delta.`/a b`"])
def test_folder_is_named_by_its_path_in_backquotes(identifier):
    assert parquet_path(identifier) == "/a b"


@pytest.mark.parametrize(
    ("identifier", "error_class"),
    [
        ("/a/b", "DELTA_MISSING_PROVIDER_FOR_CONVERT"),
        ("people", "DELTA_MISSING_PROVIDER_FOR_CONVERT"),
        ("parquet.people", "DELTA_MISSING_PROVIDER_FOR_CONVERT"),
        ("parquet.`/a` x", "DELTA_MISSING_PROVIDER_FOR_CONVERT"),
        ("parquet.``", "DELTA_MISSING_PROVIDER_FOR_CONVERT"),
        ("orc.`/a`", "DELTA_CONVERT_NON_PARQUET_TABLE"),
    ],
)
def test_anything_else_is_refused(identifier, error_class):
    with pytest.raises(RequestError) as refused:
        parquet_path(identifier)
    assert refused.value.error_class == error_class
