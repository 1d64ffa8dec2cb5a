"""Does the public API do what its names say: `ebbtide.read` and `DeltaTable`?"""

from __future__ import annotations

import datetime as dt
import json
from functools import reduce
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType
from tests.support.comparison import assert_same_rows
from tests.support.session_settings import session_settings
from tests.support.table_builder import COMMIT_INTERVAL_MS, FIRST_COMMIT_MS, TableBuilder

import ebbtide
from ebbtide.errors import RequestError, TableNotFoundError
from ebbtide.spark_border import timestamp_ms

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
FIRST_COMMIT = dt.datetime.fromtimestamp(FIRST_COMMIT_MS / 1000, UTC)
SCHEMA = pa.schema({"id": pa.int64(), "text": pa.string()})


def numbered(count, start=0):
    return [{"id": number, "text": f"row {number}"} for number in range(start, start + count)]


@pytest.fixture
def builder(tmp_path):
    """Three versions a minute apart: ten rows, two marks, five more rows."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().file(numbered(10)).commit()
    builder.mark(builder.files[0], [3, 4]).commit(operation="DELETE")
    return builder.file(numbered(5, 100)).commit()


# --- read -------------------------------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_read_gives_the_newest_version_unless_told_otherwise(spark, builder):
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())
    for version in range(3):
        assert_same_rows(ebbtide.read(spark, str(builder.path), version=version), builder.expected(version))
        assert_same_rows(ebbtide.read(spark, str(builder.path), version), builder.expected(version))


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "{}/"])
def test_path_may_be_plain_or_a_file_url(spark, builder, spelling):
    assert_same_rows(ebbtide.read(spark, spelling.format(builder.path)), builder.expected())


FORMS = {
    "text": lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S"),
    "iso text": lambda moment: moment.astimezone(dt.timezone(dt.timedelta(hours=2))).isoformat(),
    "datetime with zone": lambda moment: moment.astimezone(dt.timezone(dt.timedelta(hours=-5))),
    "datetime without zone": lambda moment: moment.replace(tzinfo=None),
}


@pytest.mark.parametrize("form", FORMS)
def test_timestamp_in_every_form_finds_the_version_that_was_current(spark, builder, form):
    """One query for all moments."""
    versions = {0: 0, 59: 0, 60: 1, 61: 1, 120: 2}
    frames = [
        ebbtide.read(spark, str(builder.path), timestamp=FORMS[form](FIRST_COMMIT + dt.timedelta(seconds=seconds)))
        .withColumn("seconds", F.lit(seconds))
        for seconds in versions
    ]  # fmt: skip
    expected = [
        row | {"seconds": seconds}
        for seconds, version in versions.items()
        for row in builder.expected(version).to_pylist()
    ]
    assert_same_rows(reduce(lambda one, other: one.union(other), frames), expected)


def test_timestamp_without_a_zone_is_in_the_time_zone_of_the_session(spark, builder):
    local = (
        (FIRST_COMMIT + dt.timedelta(seconds=61)).astimezone(dt.timezone(dt.timedelta(hours=-5))).replace(tzinfo=None)
    )
    with session_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        for given in (local, local.isoformat(sep=" ")):
            assert_same_rows(ebbtide.read(spark, str(builder.path), timestamp=given), builder.expected(1))


ODD_SESSIONS = [
    {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.ansi.enabled": "false"},
    {"spark.sql.ansi.enabled": "false"},
]


@pytest.mark.one_value("the same calls for other zones", "zone")
@pytest.mark.parametrize("settings", ODD_SESSIONS, ids=str)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "-08:00"])
def test_time_of_a_user_means_the_same_instant_whatever_the_type_of_timestamps(spark, settings, zone):
    zone_of_python = dt.timezone(dt.timedelta(hours=-8)) if zone == "-08:00" else ZoneInfo(zone)
    with session_settings(spark, {**settings, "spark.sql.session.timeZone": zone}):
        # In Berlin the second does not exist, and the third exists twice.
        for text in ("2024-01-02 03:04:05.678", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-06-01"):
            local = dt.datetime.fromisoformat(text)
            expected = round(local.replace(tzinfo=zone_of_python).timestamp() * 1000)
            assert timestamp_ms(spark, text) == timestamp_ms(spark, local) == expected
        assert timestamp_ms(spark, "2024-01-02T03:04:05+02:00") == 1704157445000


@pytest.mark.parametrize("settings", ODD_SESSIONS[:2], ids=str)
def test_time_travel_works_where_timestamps_have_no_zone(spark, builder, settings):
    path, text = str(builder.path), f"{FIRST_COMMIT + dt.timedelta(seconds=61):%Y-%m-%d %H:%M:%S}"
    query = f"SELECT * FROM delta.`{path}` TIMESTAMP AS OF"
    with session_settings(spark, settings):
        frames = [
            ebbtide.read(spark, path, timestamp=text),
            ebbtide.sql(spark, f"{query} '{text}'"),
            ebbtide.sql(spark, f"{query} TIMESTAMP'{text}'"),
            ebbtide.sql(spark, f"{query} TIMESTAMP_NTZ'{text}'"),
        ]
        for frame in frames:
            assert frame.count() == builder.expected(1).num_rows
        assert ebbtide.read(spark, path).schema == ebbtide.DeltaTable.forPath(spark, path).toDF().schema
        assert ebbtide.DeltaTable.forPath(spark, path).history().schema["timestamp"].dataType == TimestampType()


@pytest.mark.one_kind("refused before Spark is asked")
def test_version_and_timestamp_together_are_refused(spark, builder):
    with pytest.raises(RequestError, match="either a version or a timestamp"):
        ebbtide.read(spark, str(builder.path), version=0, timestamp="2024-01-01")


def test_text_that_is_no_timestamp_is_refused(spark, builder):
    with pytest.raises(RequestError, match="'yesterday-ish' is not a timestamp"):
        ebbtide.read(spark, str(builder.path), timestamp="yesterday-ish")


def test_frame_keeps_its_version_while_the_table_moves_on(spark, builder):
    frame = ebbtide.read(spark, str(builder.path))
    builder.remove(builder.files[0]).file(numbered(3, 500)).commit()
    assert_same_rows(frame, builder.expected(2))
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected(3))


# --- DeltaTable -------------------------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_table_shows_its_rows_version_and_count(spark, builder):
    table = ebbtide.DeltaTable.forPath(spark, str(builder.path))
    assert_same_rows(table.toDF(), builder.expected())
    assert table.version() == 2
    assert table.count() == len(builder.rows())
    assert repr(table) == f"<DeltaTable {builder.path.as_uri()} at version 2>"


@pytest.mark.one_kind("the calls of test_table_shows_its_rows_version_and_count, which runs on both kinds")
def test_table_sees_what_others_commit(spark, builder):
    table = ebbtide.DeltaTable.forPath(spark, str(builder.path))
    assert table.version() == 2
    builder.mark(builder.files[1], [0]).commit()
    assert table.version() == 3
    assert_same_rows(table.toDF(), builder.expected())
    assert table.count() == len(builder.rows())


@pytest.mark.one_kind("the log alone is read")
def test_files_are_listed_with_their_vectors(spark, builder):
    files = ebbtide.DeltaTable.forPath(spark, str(builder.path)).files().to_pylist()
    assert sorted(file["path"] for file in files) == sorted(file.add["path"] for file in builder.files)
    assert sorted((file["deletion_vector"] or {"cardinality": 0})["cardinality"] for file in files) == [0, 2]


def test_count_reads_only_the_files_whose_statistics_do_not_say(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file(numbered(70), deleted=[1, 64], stats=False).file(numbered(9, 100), name="known.parquet", deleted=[0])
    builder.file(numbered(5, 200), stats=False).commit()
    (builder.path / "known.parquet").unlink()
    assert ebbtide.DeltaTable.forPath(spark, str(builder.path)).count() == len(builder.rows())


@pytest.mark.one_kind("the log alone is read")
def test_count_is_not_negative_when_the_statistics_lie(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().file(numbered(10)).commit()
    builder.mark(builder.files[0], [0, 1, 2], vector="i")
    builder._staged[-1]["add"]["stats"] = json.dumps({"numRecords": 1})
    builder.commit()
    table = ebbtide.DeltaTable.forPath(spark, str(builder.path))
    with pytest.raises(ebbtide.DeltaError, match="marks row 2 of a file that has 1 rows"):
        table.count()


@pytest.mark.one_kind("test_count_reads_only_the_files_whose_statistics_do_not_say runs on both kinds")
def test_count_asks_the_file_when_the_statistics_claim_more_rows_than_it_can_hold(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(numbered(10)).file(numbered(4, 100)).commit()
    file = builder.files[0]
    builder.raw({"add": file.add | {"stats": json.dumps({"numRecords": 2**62})}}).commit()
    assert ebbtide.DeltaTable.forPath(spark, str(builder.path)).count() == 14


@pytest.mark.one_kind("refused from the log alone; files outside are read on both kinds in scan/test_file_places.py")
def test_read_and_delete_refuse_a_file_outside_of_the_root_of_an_untrusted_table(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(numbered(10)).commit()
    file = builder.files[0]
    elsewhere = (builder.path / file.add["path"]).rename(tmp_path / "elsewhere.parquet")
    builder.remove(file).raw({"add": file.add | {"path": elsewhere.as_uri()}}).commit()
    assert ebbtide.read(spark, str(builder.path)).count() == 10
    assert ebbtide.DeltaTable.forPath(spark, str(builder.path)).detail().first().numFilesOutsideRoot == 1
    config = ebbtide.EngineConfig(inside_root_only=True)
    with pytest.raises(ebbtide.DeltaError, match="outside of its root"):
        ebbtide.read(spark, str(builder.path), config=config)
    with pytest.raises(ebbtide.DeltaError, match="outside of its root"):
        ebbtide.DeltaTable.forPath(spark, str(builder.path), config=config).delete("id = 1")
    with pytest.raises(ebbtide.DeltaError, match="outside of its root"):
        ebbtide.sql(spark, f"DELETE FROM delta.`{builder.path}` WHERE id = 1", config=config)


@pytest.mark.matrix
def test_history_has_the_columns_of_describe_history_newest_first(spark, builder):
    history = ebbtide.DeltaTable.forPath(spark, str(builder.path)).history()
    rows = history.collect()
    assert history.columns[:5] == ["version", "timestamp", "userId", "userName", "operation"]
    assert [(row.version, row.operation) for row in rows] == [(2, "WRITE"), (1, "DELETE"), (0, "WRITE")]
    times = [row.ms for row in history.selectExpr("unix_millis(timestamp) AS ms").collect()]
    assert times == [FIRST_COMMIT_MS + version * COMMIT_INTERVAL_MS for version in (2, 1, 0)]


@pytest.mark.one_kind("test_history_has_the_columns_of_describe_history_newest_first runs on both kinds")
def test_history_can_be_limited(spark, builder):
    table = ebbtide.DeltaTable.forPath(spark, str(builder.path))
    assert [row.version for row in table.history(2).collect()] == [2, 1]
    with pytest.raises(RequestError, match="at least 1"):
        table.history(0)


def test_detail_is_one_row_about_the_newest_version(spark, builder):
    detail = ebbtide.DeltaTable.forPath(spark, str(builder.path)).detail()
    (row,) = detail.collect()
    assert row.format == "delta"
    assert row.location == builder.path.as_uri()
    assert (row.numFiles, row.minReaderVersion, row.minWriterVersion) == (2, 3, 7)
    assert row.sizeInBytes == sum(file.add["size"] for file in builder.files)
    assert row.tableFeatures == ["deletionVectors"]
    assert row.properties == {"delta.enableDeletionVectors": "true"}
    assert row.partitionColumns == []
    assert row.numFilesOutsideRoot == 0
    assert detail.selectExpr("unix_millis(createdAt)").first()[0] == FIRST_COMMIT_MS


@pytest.mark.one_kind("the log alone is read")
def test_is_delta_table_says_yes_no_and_no_for_nonsense(spark, builder, tmp_path):
    is_delta_table = ebbtide.DeltaTable.isDeltaTable
    assert is_delta_table(spark, str(builder.path))
    assert not is_delta_table(spark, str(tmp_path))
    assert not is_delta_table(spark, str(tmp_path / "nothing"))
    assert not is_delta_table(spark, "nonsense://x")
    (builder.log / f"{1:020d}.json").write_text("not json\n")
    assert is_delta_table(spark, str(builder.path)), "a broken table is still one"


@pytest.mark.one_kind("refused before Spark is asked")
def test_for_path_refuses_what_is_no_table(spark, tmp_path):
    with pytest.raises(TableNotFoundError, match=str(tmp_path)):
        ebbtide.DeltaTable.forPath(spark, str(tmp_path))


@pytest.mark.one_kind("refused before Spark is asked")
def test_storage_options_that_a_local_table_cannot_use_are_refused(spark, builder):
    with pytest.raises(RequestError, match="region"):
        ebbtide.read(spark, str(builder.path), storage_options={"region": "x"})
