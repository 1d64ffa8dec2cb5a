"""Do partition columns show the values of the log, whatever the directories are called?"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.support.comparison import assert_same_rows
from tests.support.query_plans import plan_text
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import CorruptTableError

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
INSTANT = dt.datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
VALUES = {
    "boolean": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, 0, 127]),
    "short": (pa.int16(), [-32_768, 7]),
    "integer": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 5, 2**63 - 1]),
    "float": (pa.float32(), [1.5, -0.25]),
    "double": (pa.float64(), [0.1, 1e300, -2.0]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.20"), Decimal("-99999999.99")]),
    "string": (pa.string(), ["x", "X"]),
    "date": (pa.date32(), [dt.date(1582, 10, 15), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [INSTANT, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]),
    "ntz": (pa.timestamp("us"), [INSTANT.replace(tzinfo=None)]),
}
SPECIAL_TEXTS = [
    "a/b", "a=b", "a b", " edge ", "%", "%20", "a%2Fb", "#", "?", "a:b", "[x]", "{y,z}", "*", "\\", "'", '"', "é", "日本",
    "\U0001f600", "\n", "\t", "01", "1e5", "1.0", "true", "null", "NULL", "2024-01-01", "-0", "__HIVE_DEFAULT_PARTITION__",
    "..", ".", "~", "+", "&", "_x", ".x", "a" * 100,
]  # fmt: skip


def table(path, part_type):
    return TableBuilder(path, pa.schema({"id": pa.int64(), "part": part_type})).deletion_vectors()


def filled(builder, values):
    for at, value in enumerate(values):
        rows = [{"id": at * 10 + number, "part": value} for number in range(4)]
        builder.file(rows, deleted=[1]).file(rows)
    return builder.commit()


@pytest.mark.one_value("the same calls for another type")
@pytest.mark.parametrize("kind", VALUES)
def test_partition_values_of_every_type_and_null_come_from_the_log(spark, tmp_path, kind):
    data_type, values = VALUES[kind]
    builder = table(tmp_path / "t", data_type).partitioned_by("part").feature("timestampNtz")
    assert_same_rows(ebbtide.read(spark, str(filled(builder, [*values, None]).path)), builder.expected())


@pytest.mark.matrix
def test_texts_of_special_characters_come_back_as_they_were(spark, tmp_path):
    builder = table(tmp_path / "t", pa.string()).partitioned_by("part")
    rows = [{"id": at, "part": text} for at, text in enumerate(SPECIAL_TEXTS)]
    for row in rows:
        builder.file([row, row], deleted=[row["id"] % 2])
    builder.file([{"id": -1, "part": None}]).commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("text", SPECIAL_TEXTS)
def test_condition_on_a_special_text_finds_its_partition(spark, tmp_path, text):
    builder = table(tmp_path / "t", pa.string()).partitioned_by("part")
    builder.file([{"id": 1, "part": text}, {"id": 2, "part": text}], deleted=[0]).file(
        [{"id": 3, "part": "other"}]
    ).commit()
    literal = "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t") + "'"
    assert [row.id for row in ebbtide.read(spark, str(builder.path), where=f"part = {literal}").collect()] == [2]


@pytest.mark.one_kind("the calls of test_texts_of_special_characters_come_back_as_they_were, which runs on both kinds")
def test_several_partition_columns_keep_the_order_of_the_schema(spark, tmp_path):
    schema = pa.schema({"b": pa.int32(), "id": pa.int64(), "a": pa.string(), "c": pa.date32()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("a", "c", "b").deletion_vectors()
    for a, b in (("x", 1), ("y", None), (None, 3)):
        rows = [{"b": b, "id": number, "a": a, "c": dt.date(2024, 1, 1)} for number in range(5)]
        builder.file(rows, deleted=[0]).file(rows)
    builder.commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


def test_plain_values_are_taken_from_the_directories_without_a_join(spark, tmp_path):
    builder = filled(table(tmp_path / "t", pa.int32()).partitioned_by("part"), [1, 2, None])
    assert plan_text(ebbtide.read(spark, str(builder.path))).count("BroadcastExchange (") == 0


@pytest.mark.one_kind("the calls of test_texts_of_special_characters_come_back_as_they_were, which runs on both kinds")
def test_directories_that_say_something_else_than_the_log_are_not_believed(spark, tmp_path):
    builder = table(tmp_path / "t", pa.string()).partitioned_by("part")
    builder.file([{"id": 1, "part": "a"}, {"id": 2, "part": "a"}], deleted=[0], name="part=liar/x.parquet")
    builder.file([{"id": 3, "part": None}], name="part=liar/y.parquet").commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_kind("the calls of test_texts_of_special_characters_come_back_as_they_were, which runs on both kinds")
def test_directory_that_looks_like_a_partition_does_not_hide_a_data_column(spark, tmp_path):
    builder = table(tmp_path / "t", pa.string())
    rows = [{"id": 1, "part": "from the file"}, {"id": 2, "part": None}]
    builder.file(rows, name="part=7/x.parquet").file(rows, deleted=[0], name="part=8/other=1/x.parquet").commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


def test_timestamps_without_a_zone_stay_so_in_any_session(spark, tmp_path):
    data_type, values = VALUES["ntz"]
    builder = table(tmp_path / "t", data_type).partitioned_by("part").feature("timestampNtz")
    with session_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        frame = ebbtide.read(spark, str(filled(builder, values).path))
        assert frame.schema["part"].dataType.simpleString() == "timestamp_ntz"
        assert {row.part for row in frame.select("part").distinct().collect()} == set(values)


def test_timestamps_of_partitions_do_not_move_with_the_session_time_zone(spark, tmp_path):
    data_type, values = VALUES["timestamp"]
    builder = filled(table(tmp_path / "t", data_type).partitioned_by("part"), values)
    with session_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        found = ebbtide.read(spark, str(builder.path)).selectExpr("unix_micros(part) AS part").distinct().collect()
    assert {row.part for row in found} == {round(value.timestamp() * 1_000_000) for value in values}


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize(
    ("data_type", "text"), [(pa.int32(), "twelve"), (pa.int8(), "300"), (pa.date32(), "2024-02-30")]
)
def test_text_that_is_no_value_of_its_column_is_refused_and_not_null(spark, tmp_path, data_type, text):
    builder = table(tmp_path / "t", data_type).partitioned_by("part").file([{"id": 1, "part": None}]).commit()
    add = builder.files[0].add | {"partitionValues": {"part": text}}
    builder.remove(builder.files[0]).commit().raw({"add": add}).commit()
    with pytest.raises(CorruptTableError, match=text):
        ebbtide.read(spark, str(builder.path))


@pytest.mark.one_kind("the calls of test_texts_of_special_characters_come_back_as_they_were, which runs on both kinds")
def test_value_that_the_log_does_not_name_is_null(spark, tmp_path):
    builder = table(tmp_path / "t", pa.string()).partitioned_by("part").file([{"id": 1, "part": "x"}]).commit()
    add = builder.files[0].add | {"partitionValues": {}}
    builder.remove(builder.files[0]).commit().raw({"add": add}).commit()
    assert [tuple(row) for row in ebbtide.read(spark, str(builder.path)).collect()] == [(1, None)]
