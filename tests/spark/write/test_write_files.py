"""Do the rows of a frame arrive in files, once each, with actions that describe them?

Every file is read back with pyarrow, so that Spark does not vouch for itself.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.support.recording_store import RecordingStore
from tests.support.write_targets import struct, with_physical_names, write_target

from ebbtide import spark_border
from ebbtide.errors import InternalError, RequestError
from ebbtide.protocol.partition_values import parse_partition_value
from ebbtide.protocol.schema import ArrayType, MapType, PrimitiveType
from ebbtide.storage import open_store
from ebbtide.write import write_files

pytestmark = pytest.mark.spark

ODD_ROOT = "a b%20#[é]{x}"


def table_of(target, action):
    """The rows of one file, as pyarrow reads the file itself."""
    root = unquote(target.store.url.removeprefix("file://"))
    return pq.ParquetFile(f"{root}/{unquote(action.path)}").read()


def rows_of(target, actions):
    return [row for action in actions for row in table_of(target, action).to_pylist()]


def files_below(path):
    return sorted(str(item.relative_to(path)) for item in path.rglob("*") if item.is_file())


def test_rows_arrive_with_sizes_times_and_statistics(spark, tmp_path):
    root = tmp_path / ODD_ROOT
    target = write_target(root, struct(id="long", name="string"), features=["deletionVectors"])
    frame = spark.createDataFrame([(1, "a"), (2, None), (3, "c")], "id long, name string").coalesce(1)
    written = write_files(spark, frame, target)
    (add,) = written.adds
    assert rows_of(target, [add]) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]
    assert (written.num_rows, written.num_change_rows, written.change_files) == (3, 0, ())
    assert (add.partition_values, add.data_change) == ({}, True)
    status = (root / add.path).stat()
    assert (add.size, add.modification_time) == (status.st_size, status.st_mtime_ns // 1_000_000)
    assert written.num_bytes == status.st_size
    assert add.stats == (
        '{"numRecords":3,"minValues":{"id":1,"name":"a"},"maxValues":{"id":3,"name":"c"},'
        '"nullCount":{"id":0,"name":1},"tightBounds":true}'
    )


@pytest.mark.one_kind("about what lies in storage")
def test_nothing_but_the_named_files_is_left_in_the_table(spark, tmp_path):
    target = write_target(tmp_path, struct(id="long"))
    written = write_files(spark, spark.range(100), target, data_change=False)
    assert files_below(tmp_path) == sorted(add.path for add in written.adds)
    assert [item for item in tmp_path.iterdir() if item.is_dir()] == []
    assert len(written.adds) == 2
    assert all(re.fullmatch(r"part-0000[01]-[0-9a-f-]{36}\.c000\.snappy\.parquet", add.path) for add in written.adds)
    assert {add.data_change for add in written.adds} == {False}


@pytest.mark.one_value(
    "the same calls with partitions; test_partition_values_in_the_log_are_those_of_the_rows_whatever_their_type writes those on both kinds"
)
@pytest.mark.parametrize("partition_columns", [[], ["id"]])
def test_frame_without_rows_gives_no_file(spark, tmp_path, partition_columns):
    target = write_target(tmp_path, struct(id="long", x="long"), partition_columns)
    written = write_files(spark, spark.range(10).selectExpr("id", "id AS x").where("id < 0"), target)
    assert (written.adds, written.change_files, written.num_rows) == ((), (), 0)
    assert files_below(tmp_path) == []


def test_settings_of_the_session_are_as_before_and_do_not_reach_the_files(spark, tmp_path):
    key = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(key, "INT96")
    target = write_target(tmp_path, struct(t="timestamp"))
    try:
        written = write_files(spark, spark.sql("SELECT TIMESTAMP'1500-01-01 00:00:00.123456' AS t"), target)
        assert spark.conf.get(key) == "INT96"
    finally:
        spark.conf.unset(key)
    assert rows_of(target, written.adds) == [{"t": dt.datetime(1500, 1, 1, 0, 0, 0, 123456, dt.timezone.utc)}]
    assert json.loads(written.adds[0].stats)["minValues"] == {"t": "1500-01-01T00:00:00.123Z"}
    assert spark.conf.get("spark.sql.parquet.datetimeRebaseModeInWrite") in {"EXCEPTION", "CORRECTED"}


# --- partitions -------------------------------------------------------------------------------------------------------

PARTITION_VALUES = {
    "string": ["plain", "a/b=c %20", "é", "A", "a", "__HIVE_DEFAULT_PARTITION__", "x" * 300, None],
    "integer": [0, -5, None],
    "long": [2**63 - 1, -(2**63)],
    "boolean": [True, False, None],
    "date": [dt.date(1, 1, 1), dt.date(1969, 12, 31), None],
    "timestamp": [
        dt.datetime(2021, 10, 31, 0, 30, 0, 1, dt.timezone.utc),
        dt.datetime(2021, 10, 31, 1, 30, 0, 1, dt.timezone.utc),
        dt.datetime(1900, 1, 1, tzinfo=dt.timezone.utc),
    ],
    "timestamp_ntz": [dt.datetime(2021, 3, 28, 2, 30, 0, 120000), dt.datetime(1900, 1, 1), None],
    "decimal(38,18)": [Decimal("0.000000000000000001"), Decimal("-12345678901234567890.500000000000000000"), None],
    "double": [math.inf, 0.1, -0.0, 0.0, 1e-300, None],
    "float": [0.1, 3.4028234663852886e38],
    "binary": [b"ab", "é".encode(), None],
}


@pytest.mark.one_value("the same calls for another type")
@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_partition_values_in_the_log_are_those_of_the_rows_whatever_their_type(spark, tmp_path, kind):
    values = PARTITION_VALUES[kind]
    sql_type = {"long": "bigint", "integer": "int"}.get(kind, kind)
    frame = spark.createDataFrame(list(enumerate(values)), f"id int, p {sql_type}")
    target = write_target(tmp_path, struct(id="integer", p=kind), ["p"])
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        if kind.startswith("timestamp"):
            texts = [(index, None if value is None else value.isoformat()) for index, value in enumerate(values)]
            frame = spark.createDataFrame(texts, "id int, p string").select("id", F.col("p").cast(sql_type))
        written = write_files(spark, frame, target)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    found = {}
    for add in written.adds:
        table = table_of(target, add)
        assert table.column_names == ["id"]
        value = parse_partition_value(add.partition_values["p"], PrimitiveType(kind), column="p")
        found.update(dict.fromkeys(table.column("id").to_pylist(), value))
    expected = dict(enumerate(values))
    if kind == "float":
        expected = {index: pa.scalar(value, pa.float32()).as_py() for index, value in expected.items()}
        found = {index: pa.scalar(value, pa.float32()).as_py() for index, value in found.items()}
    assert {index: repr(value) for index, value in found.items()} == {i: repr(v) for i, v in expected.items()}
    assert written.num_rows == len(values)


@pytest.mark.one_kind("the calls of test_partition_values_in_the_log_are_those_of_the_rows_whatever_their_type")
def test_empty_string_and_null_are_one_partition_and_nan_is_another(spark, tmp_path):
    frame = spark.createDataFrame([(1, "", math.nan), (2, None, math.nan), (3, "x", 1.0)], "id int, p string, d double")
    target = write_target(tmp_path, struct(id="integer", p="string", d="double"), ["p", "d"])
    written = write_files(spark, frame.coalesce(1), target)
    values = sorted((dict(add.partition_values) for add in written.adds), key=str)
    assert values == [{"p": "x", "d": "1.0"}, {"p": None, "d": "NaN"}]
    assert sorted(unquote(add.path).rpartition("/")[0] for add in written.adds) == [
        "p=__HIVE_DEFAULT_PARTITION__/d=NaN",
        "p=x/d=1.0",
    ]


@pytest.mark.one_kind("the calls of test_partition_values_in_the_log_are_those_of_the_rows_whatever_their_type")
def test_rows_come_back_out_of_the_files_of_their_partition_only(spark, tmp_path):
    target = write_target(tmp_path, struct(id="long", p="long"), ["p"])
    written = write_files(spark, spark.range(100).selectExpr("id", "id % 3 AS p"), target)
    assert {add.partition_values["p"] for add in written.adds} == {"0", "1", "2"}
    for add in written.adds:
        ids = table_of(target, add).column("id").to_pylist()
        assert {str(number % 3) for number in ids} == {add.partition_values["p"]}
        assert json.loads(add.stats)["numRecords"] == len(ids)
    assert sorted(row["id"] for row in rows_of(target, written.adds)) == list(range(100))


@pytest.mark.one_kind("the calls of test_rows_arrive_with_sizes_times_and_statistics, which runs on both kinds")
def test_partition_columns_are_repeated_after_the_data_where_the_table_asks_for_it(spark, tmp_path):
    target = write_target(tmp_path, struct(p="string", id="long"), ["p"], features=["materializePartitionColumns"])
    written = write_files(spark, spark.createDataFrame([("a", 1)], "p string, id long"), target)
    assert table_of(target, written.adds[0]).to_pylist() == [{"id": 1, "p": "a"}]
    assert list(json.loads(written.adds[0].stats)["nullCount"]) == ["id"]


# --- change data ------------------------------------------------------------------------------------------------------


def change_frame(spark):
    rows = [(1, "a", None), (2, "a", "delete"), (3, "b", None), (4, "b", "update_preimage")]
    return spark.createDataFrame(rows, "id int, p string, change string")


@pytest.mark.one_value("the same calls with partitions")
@pytest.mark.parametrize("partition_columns", [[], ["p"]])
def test_rows_with_a_change_type_go_to_change_data_and_only_there(spark, tmp_path, partition_columns):
    target = write_target(tmp_path, struct(id="integer", p="string"), partition_columns)
    written = write_files(spark, change_frame(spark), target, change_type_column="change")
    assert (written.num_rows, written.num_change_rows) == (2, 2)
    assert sorted(row["id"] for row in rows_of(target, written.adds)) == [1, 3]
    changes = rows_of(target, written.change_files)
    assert sorted((row["id"], row["_change_type"]) for row in changes) == [(2, "delete"), (4, "update_preimage")]
    for change in written.change_files:
        folder = f"_change_data/p={change.partition_values['p']}" if partition_columns else "_change_data"
        assert re.fullmatch(rf"{folder}/cdc-\d{{5}}-[0-9a-f-]{{36}}\.c000\.snappy\.parquet", change.path)
    assert set(json.loads(written.adds[0].stats)["nullCount"]) == ({"id"} if partition_columns else {"id", "p"})


@pytest.mark.one_kind("the calls of test_rows_with_a_change_type_go_to_change_data_and_only_there")
def test_data_files_carry_no_change_type_but_null(spark, tmp_path):
    target = write_target(tmp_path, struct(id="integer", p="string"))
    written = write_files(spark, change_frame(spark), target, change_type_column="change")
    assert {row.get("_change_type") for row in rows_of(target, written.adds)} == {None}


def test_frame_is_evaluated_once_so_chance_decides_once_for_each_row(spark, tmp_path):
    target = write_target(tmp_path, struct(id="long"))
    frame = spark.range(2000).withColumn("change", F.when(F.rand() < 0.5, "delete"))
    written = write_files(spark, frame, target, change_type_column="change")
    ids = [row["id"] for row in rows_of(target, [*written.adds, *written.change_files])]
    assert sorted(ids) == list(range(2000))
    assert written.num_change_rows > 0


@pytest.mark.one_kind("refused before Spark is asked")
def test_table_with_a_reserved_column_cannot_have_change_data(spark, tmp_path):
    target = write_target(tmp_path, struct(_Change_Type="string"))
    frame = spark.createDataFrame([("x", None)], "_Change_Type string, c string")
    with pytest.raises(RequestError, match="RESERVED_CDC_COLUMNS_ON_WRITE"):
        write_files(spark, frame, target, change_type_column="c")


# --- columns ----------------------------------------------------------------------------------------------------------

NESTED = struct(
    id="long",
    s=struct(a="integer", t=struct(b="string")),
    xs=ArrayType(struct(k="integer")),
    m=MapType(PrimitiveType("string"), struct(v="integer")),
)
NESTED_ROW = (
    "SELECT 1L AS id, named_struct('a', 2, 't', named_struct('b', 'x')) AS s, array(named_struct('k', 3)) AS xs, "
    "map('key', named_struct('v', 4)) AS m"
)


@pytest.mark.one_value("the same calls for another mapping")
@pytest.mark.parametrize("mapping", ["name", "id"])
def test_mapped_columns_have_physical_names_and_ids_at_every_level(spark, tmp_path, mapping):
    schema = with_physical_names(NESTED)
    target = write_target(tmp_path, schema, mapping=mapping)
    written = write_files(spark, spark.sql(NESTED_ROW), target)
    table = table_of(target, written.adds[0])
    (row,) = table.to_pylist()
    assert row == {"p1": 1, "p2": {"p3": 2, "p4": {"p5": "x"}}, "p6": [{"p7": 3}], "p8": [("key", {"p9": 4})]}
    ids = [int(table.schema.field(name).metadata[b"PARQUET:field_id"]) for name in ("p1", "p2", "p6", "p8")]
    assert ids == [1, 2, 6, 8]
    nested = table.schema.field("p2").type
    assert [int(nested.field(name).metadata[b"PARQUET:field_id"]) for name in ("p3", "p4")] == [3, 4]
    inner = table.schema.field("p6").type.value_type.field("p7")
    assert int(inner.metadata[b"PARQUET:field_id"]) == 7
    assert json.loads(written.adds[0].stats)["minValues"] == {"p1": 1, "p2": {"p3": 2, "p4": {"p5": "x"}}}


@pytest.mark.one_kind("the calls of test_mapped_columns_have_physical_names_and_ids_at_every_level")
def test_partition_values_of_a_mapped_table_are_under_physical_names(spark, tmp_path):
    target = write_target(tmp_path, with_physical_names(struct(id="long", p="string")), ["p"], mapping="name")
    written = write_files(spark, spark.createDataFrame([(1, "x")], "id long, p string"), target)
    assert [dict(add.partition_values) for add in written.adds] == [{"p2": "x"}]
    assert written.adds[0].path.startswith("p2=x/")


def test_names_of_columns_may_hold_any_character(spark, tmp_path):
    names = ["a.b", "c`d", "ebbtide_part", "e f"]
    target = write_target(tmp_path, struct(**dict.fromkeys(names, "long")), ["e f"])
    frame = spark.range(1).select(*(F.lit(number).cast("long").alias(name) for number, name in enumerate(names)))
    written = write_files(spark, frame, target)
    assert rows_of(target, written.adds) == [{"a.b": 0, "c`d": 1, "ebbtide_part": 2}]
    assert written.adds[0].partition_values == {"e f": "3"}


@pytest.mark.one_kind("the calls of test_rows_arrive_with_sizes_times_and_statistics, which runs on both kinds")
def test_extra_columns_are_written_under_the_names_they_are_given(spark, tmp_path):
    target = write_target(tmp_path, struct(id="long"))
    frame = spark.range(1).selectExpr("id", "7L AS row_id")
    written = write_files(spark, frame, target, extra_columns={"row_id": "_row-id-col-1"})
    assert rows_of(target, written.adds) == [{"id": 0, "_row-id-col-1": 7}]
    assert json.loads(written.adds[0].stats)["minValues"] == {"id": 0}


def test_void_columns_are_left_out_of_the_files(spark, tmp_path):
    target = write_target(tmp_path, struct(id="long", nothing="void"))
    written = write_files(spark, spark.range(1).selectExpr("id", "NULL AS nothing"), target)
    assert rows_of(target, written.adds) == [{"id": 0}]


def test_variants_are_written_unshredded_as_every_reader_knows_them(spark, tmp_path):
    target = write_target(tmp_path, struct(id="long", v="variant"))
    written = write_files(spark, spark.sql("""SELECT 1L AS id, parse_json('{"a": 1}') AS v"""), target)
    (row,) = rows_of(target, written.adds)
    assert set(row["v"]) == {"value", "metadata"}
    assert row["v"]["value"] is not None
    assert json.loads(written.adds[0].stats)["nullCount"] == {"id": 0}


@pytest.mark.one_kind("refused by us, from the schema of the frame")
@pytest.mark.parametrize("frame_sql", ["SELECT 1 AS id", "SELECT 1L AS other", "SELECT 'x' AS id"])
def test_frame_of_other_columns_or_types_is_refused_before_anything_is_written(spark, tmp_path, frame_sql):
    target = write_target(tmp_path / "t", struct(id="long"))
    with pytest.raises(InternalError, match="'id'"):
        write_files(spark, spark.sql(frame_sql), target)
    assert not (tmp_path / "t").exists()


# --- statistics that depend on Spark's writer -------------------------------------------------------------------------


@pytest.mark.one_kind("about Spark's Parquet writer, which both kinds have")
@pytest.mark.matrix
def test_footers_of_this_spark_are_trusted_with_bounds_of_floats_and_show_nan(spark, tmp_path):
    target = write_target(tmp_path, struct(d="double", f="float", n="double"))
    frame = spark.createDataFrame(
        [(1.5, 0.1, 1.0), (2.5, 0.5, math.nan), (0.5, 0.2, 2.0)], "d double, f float, n double"
    )
    (add,) = write_files(spark, frame.coalesce(1), target).adds
    statistics = json.loads(add.stats)
    assert statistics["minValues"] == {"d": 0.5, "f": 0.1}
    assert statistics["maxValues"] == {"d": 2.5, "f": 0.5}
    assert statistics["nullCount"] == {"d": 0, "f": 0, "n": 0}


@pytest.mark.one_kind("about Spark's Parquet writer, which both kinds have")
@pytest.mark.matrix
def test_very_long_strings_do_not_cost_the_bounds_and_the_null_count(spark, tmp_path):
    target = write_target(tmp_path, struct(s="string"))
    frame = spark.createDataFrame([("b" * 100_000,), (None,), ("a" * 5000,)], "s string").coalesce(1)
    (add,) = write_files(spark, frame, target).adds
    statistics = json.loads(add.stats)
    assert statistics["minValues"] == {"s": "a" * 32}
    assert statistics["maxValues"] == {"s": "b" * 32 + "\x7f"}
    assert statistics["nullCount"] == {"s": 1}


@pytest.mark.one_kind("about Spark's Parquet writer, which both kinds have")
def test_every_type_has_the_statistics_that_it_should(spark, tmp_path):
    kinds = {
        "b": "byte", "sh": "short", "i": "integer", "l": "long", "d": "date", "ts": "timestamp", "nt": "timestamp_ntz",
        "de": "decimal(38,2)", "st": "string", "bo": "boolean", "bi": "binary",
    }  # fmt: skip
    target = write_target(tmp_path, struct(**kinds, xs=ArrayType(PrimitiveType("integer"))))
    frame = spark.sql(
        "SELECT 1Y AS b, 2S AS sh, 3 AS i, 4L AS l, DATE'1960-02-03' AS d, TIMESTAMP'1960-01-01 00:00:00.0009' AS ts, "
        "TIMESTAMP_NTZ'2020-01-01 12:00:00.1239' AS nt, CAST(-1.5 AS DECIMAL(38,2)) AS de, 'x' AS st, true AS bo, "
        "X'00' AS bi, array(1) AS xs"
    )
    (add,) = write_files(spark, frame, target).adds
    expected = (
        '{"b":1,"sh":2,"i":3,"l":4,"d":"1960-02-03","ts":"1960-01-01T00:00:00.000Z",'
        '"nt":"2020-01-01T12:00:00.123","de":-1.50,"st":"x"}'
    )
    nulls = '{"b":0,"sh":0,"i":0,"l":0,"d":0,"ts":0,"nt":0,"de":0,"st":0,"bo":0,"bi":0,"xs":0}'
    assert add.stats == f'{{"numRecords":1,"minValues":{expected},"maxValues":{expected},"nullCount":{nulls}}}'


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("the same calls with partitions")
@pytest.mark.parametrize("partition_columns", [[], ["p"]])
def test_failed_write_leaves_the_table_as_it_was(spark, tmp_path, partition_columns):
    (tmp_path / "live.parquet").write_bytes(b"live")
    target = write_target(tmp_path, struct(id="long", p="long"), partition_columns)
    frame = spark.range(1000).selectExpr("1000 DIV (id - 900) AS id", "id % 2 AS p")
    with pytest.raises(RequestError, match="DIVIDE_BY_ZERO"):
        write_files(spark, frame, target)
    assert [item.name for item in tmp_path.iterdir()] == ["live.parquet"]


@pytest.mark.one_value("the same calls for another number")
@pytest.mark.parametrize("reported", [{"rows": 99}, {"rows": 101}])
def test_count_that_differs_from_the_footers_is_never_committed(spark, tmp_path, monkeypatch, reported):
    monkeypatch.setattr(spark_border, "wait_for_metrics", lambda observation: reported)
    target = write_target(tmp_path, struct(id="long"))
    with pytest.raises(InternalError, match="100"):
        write_files(spark, spark.range(100), target)
    assert list(tmp_path.iterdir()) == []


def test_write_without_a_report_of_spark_is_refused(spark, tmp_path, monkeypatch):
    def never_used(frame, metrics):
        from pyspark.sql import Observation

        return frame, Observation()

    monkeypatch.setattr(spark_border, "observe_metrics", never_used)
    monkeypatch.setattr(spark_border.running, "_REPORT_SECONDS", 1)
    target = write_target(tmp_path, struct(id="long"))
    with pytest.raises(InternalError, match="did not report"):
        write_files(spark, spark.range(5), target)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.one_kind("refused by us; test_failed_write_leaves_the_table_as_it_was runs on both kinds")
def test_row_of_a_partition_that_the_log_cannot_name_stops_the_write(spark, tmp_path):
    target = write_target(tmp_path, struct(id="long", p="binary"), ["p"])
    with pytest.raises(RequestError, match="'p'"):
        write_files(spark, spark.sql("SELECT 1L AS id, X'FF' AS p"), target)
    assert list(tmp_path.iterdir()) == []


# --- several writers, other stores ------------------------------------------------------------------------------------


def test_two_threads_may_write_to_one_table_with_one_session(spark, tmp_path):
    key = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(key)
    target = write_target(tmp_path, struct(t="timestamp", p="long"), ["p"])
    frame = spark.range(200).selectExpr("timestamp_seconds(id) AS t", "id % 2 AS p")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: write_files(spark, frame, target), range(4)))
    adds = [add for written in results for add in written.adds]
    assert len(rows_of(target, adds)) == 800
    assert all(json.loads(add.stats)["minValues"] for add in adds)
    assert files_below(tmp_path) == sorted(add.path for add in adds)
    assert spark.conf.get(key) == before


class ServiceOnDisk(RecordingStore):
    """Looks like a service from here, while Spark finds its files on the disk."""

    @property
    def url(self):
        return "s3://bucket/table"


@pytest.mark.one_kind("about what lies in storage")
def test_files_stay_where_spark_put_them_when_the_table_is_not_on_this_disk(spark, tmp_path):
    store = ServiceOnDisk(open_store(str(tmp_path)))
    target = write_target(store, struct(id="integer", p="string"), ["p"])
    written = write_files(spark, change_frame(spark), target, change_type_column="change")
    actions = [*written.adds, *written.change_files]
    assert sorted((dict(a.partition_values)["p"], pq.read_metadata(tmp_path / a.path).num_rows) for a in actions) == [
        ("a", 1),
        ("a", 1),
        ("b", 1),
        ("b", 1),
    ]
    left = [path for path in files_below(tmp_path) if not path.endswith(".crc")]
    assert left == sorted(action.path for action in actions)
    assert len({action.path.partition("/")[0] for action in actions}) == 1
