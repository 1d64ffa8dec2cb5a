"""When may Spark take partition values from directory names, and what are the values otherwise?"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from ebbtide.errors import CorruptTableError
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.schema import PrimitiveType, StructField
from ebbtide.scan.files import ScanFile
from ebbtide.scan.partitions import directories_tell_values, value_table


def scan_file(relative_path, **values):
    add = AddFile(path="", partition_values=values, size=1, modification_time=0, data_change=True)
    return ScanFile(add, f"file:/t/{relative_path}", relative_path, size_is_checked=True)


def fields(**types):
    return [(name, StructField(name, PrimitiveType(kind), True, {})) for name, kind in types.items()]


@pytest.mark.parametrize(
    ("kind", "value", "directory"),
    [
        ("string", "x", "p=x"),
        ("string", "a/b", "p=a%2Fb"),
        ("string", "01", "p=01"),
        ("string", None, "p=__HIVE_DEFAULT_PARTITION__"),
        ("string", "", "p=__HIVE_DEFAULT_PARTITION__"),
        ("integer", "-7", "p=-7"),
        ("long", "123456789012345678", "p=123456789012345678"),
        ("byte", "99", "p=99"),
        ("date", "2024-02-29", "p=2024-02-29"),
    ],
)
def test_directory_that_spells_the_value_as_the_log_does_is_believed(kind, value, directory):
    assert directories_tell_values([scan_file(f"{directory}/x.parquet", p=value)], fields(p=kind))


@pytest.mark.parametrize(
    ("kind", "value", "directory"),
    [
        ("string", "x", "p=y"),
        ("string", "x", ""),
        ("string", "x", "p=x/deeper"),
        ("string", "x", "P=x"),
        ("string", "__HIVE_DEFAULT_PARTITION__", "p=__HIVE_DEFAULT_PARTITION__"),
        ("integer", "007", "p=007"),
        ("integer", "+1", "p=+1"),
        ("integer", "9999999999", "p=9999999999"),
        ("byte", "300", "p=300"),
        ("date", "2024-2-3", "p=2024-2-3"),
        ("boolean", "true", "p=true"),
        ("double", "1.5", "p=1.5"),
        ("timestamp", "2024-01-01 00:00:00", "p=2024-01-01 00%3A00%3A00"),
        ("decimal(5,2)", "1.20", "p=1.20"),
    ],
)
def test_directory_that_spark_could_read_otherwise_is_not_believed(kind, value, directory):
    path = f"{directory}/x.parquet".lstrip("/")
    assert not directories_tell_values([scan_file(path, p=value)], fields(p=kind))


def test_one_file_elsewhere_makes_all_directories_unbelievable():
    good = scan_file("p=x/1.parquet", p="x")
    assert directories_tell_values([good, good], fields(p="string"))
    assert not directories_tell_values([good, scan_file("p=x/2.parquet", p="y")], fields(p="string"))
    assert not directories_tell_values([good, scan_file(None, p="x")], fields(p="string"))


def test_order_of_the_partition_columns_is_part_of_the_directory():
    file = scan_file("a=1/b=x/f.parquet", a="1", b="x")
    assert directories_tell_values([file], fields(a="integer", b="string"))
    assert not directories_tell_values([file], fields(b="string", a="integer"))


def test_values_are_typed_one_row_a_file_and_null_where_the_log_says_nothing():
    files = [scan_file("x", n="7", d="2024-02-29"), scan_file("y", n=""), scan_file("z", n=None, d=None)]
    table = value_table(files, fields(n="integer", d="date"), "UTC")
    assert table.schema == pa.schema([("n", pa.int32()), ("d", pa.date32())])
    assert table.to_pylist() == [{"n": 7, "d": dt.date(2024, 2, 29)}, {"n": None, "d": None}, {"n": None, "d": None}]


def test_text_that_is_no_value_of_its_column_is_refused_by_name():
    with pytest.raises(CorruptTableError, match="twelve"):
        value_table([scan_file("x", n="twelve")], fields(n="integer"), "UTC")
