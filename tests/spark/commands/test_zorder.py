"""Are rows sorted so that files hold small ranges of every column, and does every row stay?"""

from __future__ import annotations

import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from tests.support.log_reading import commit_info, log_state, newest_version, stats_of
from tests.support.races import RacingStore, unnamed_files
from tests.support.row_ids import tracked_rows
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.commands.optimize.clustering import interleave_bits
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.request import OptimizeRequest, OptimizeSettings
from ebbtide.errors import RequestError, UnknownColumnError, UnsupportedFeatureError
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"x": pa.int64(), "y": pa.int64(), "p": pa.string()})


def grid(tmp_path, side=32, files=4):
    """All pairs of `side` numbers, in an order in which every file has nearly all values of both columns."""
    pairs = [{"x": n % side, "y": (n * 7 // side + n) % side, "p": "a"} for n in range(side * side)]
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    for number in range(files):
        builder.file(pairs[number::files], deleted=[0] if number == 1 else [])
    return builder.commit()


def zorder(spark, table, *columns, **settings):
    request = OptimizeRequest(open_store(str(table.path)), zorder_by=columns, settings=OptimizeSettings(**settings))
    return OptimizeCommand(spark, request).run()


def shown(spark, path, version=None):
    return sorted(map(repr, ebbtide.read(spark, str(path), version).collect()))


def spans(table, column):
    """For each live file, how many values lie between its smallest and its largest."""
    stats = [stats_of(add) for add in log_state(table.path).adds]
    return [each["maxValues"][column] - each["minValues"][column] for each in stats]


def test_files_hold_small_ranges_of_both_columns(spark, tmp_path):
    table = grid(tmp_path)
    before = shown(spark, table.path)
    total = sum(add["size"] for add in log_state(table.path).adds)
    result = zorder(spark, table, "x", "y", target_bytes=total // 16)
    assert shown(spark, table.path) == before
    assert result.metrics.num_added_files == 16
    # Sorted by one column alone, the other would span all 32 values in every file.
    for column in ("x", "y"):
        assert sum(spans(table, column)) / 16 < 16
    info = commit_info(table.path, 1)
    assert info["operationParameters"]["zOrderBy"] == '["x","y"]'
    assert info["operationParameters"]["clusterBy"] == "[]"
    assert unnamed_files(table.path) == set()


@pytest.mark.one_kind(
    "the calls of test_files_hold_small_ranges_of_both_columns, which runs on both kinds; this adds values"
)
def test_one_column_is_sorted(spark, tmp_path):
    table = grid(tmp_path)
    total = sum(add["size"] for add in log_state(table.path).adds)
    zorder(spark, table, "x", target_bytes=total // 4)
    assert max(spans(table, "x")) <= 9
    assert ebbtide.read(spark, str(table.path)).count() == 32 * 32 - 1


@pytest.mark.one_kind("an expression of SQL, which means the same on both kinds")
def test_interleaved_bits_are_those_of_all_columns_in_turn(spark):
    numbers = [(a, b, c) for a in (0, 1, 5, 7) for b in (0, 2, 7) for c in (0, 3, 6)]
    frame = spark.createDataFrame(numbers, "a BIGINT, b BIGINT, c BIGINT")
    for a, b, c, found in frame.selectExpr("*", interleave_bits(["a", "b", "c"], 3)).collect():
        expected = int("".join(f"{a:03b}"[at] + f"{b:03b}"[at] + f"{c:03b}"[at] for at in range(3)), 2)
        assert found == expected


def test_every_type_with_an_order_can_be_sorted_by(spark, tmp_path):
    schema = pa.schema(
        {
            "i": pa.int32(),
            "s": pa.string(),
            "d": pa.date32(),
            "t": pa.timestamp("us", tz="UTC"),
            "f": pa.float64(),
            "b": pa.bool_(),
            "m": pa.decimal128(20, 3),
            "r": pa.binary(),
            "n": pa.struct({"odd name`": pa.int64()}),
        }
    )

    def row(number):
        return {
            "i": number,
            "s": None if number % 3 == 0 else f"s{number % 5}",
            "d": dt.date(2024, 1, 1) + dt.timedelta(days=number % 7),
            "t": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(hours=-number),
            "f": float("nan") if number % 11 == 0 else -number / 3,
            "b": None if number % 2 else number % 4 == 0,
            "m": decimal.Decimal(number) / 8,
            "r": bytes([number % 256]),
            "n": {"odd name`": number % 6},
        }

    builder = TableBuilder(tmp_path / "t", schema)
    builder.file([row(n) for n in range(50)]).file([row(n) for n in range(50, 90)]).commit()
    columns = ("i", "s", "d", "t", "f", "b", "m", "r", "n.`odd name```")
    settings = {"checks_statistics": False, "target_bytes": 2000}
    result = zorder(spark, builder, *columns, **settings)
    assert result.metrics.num_added_files > 1
    assert shown(spark, builder.path) == shown(spark, builder.path, 0)


@pytest.mark.one_kind(
    "the calls of test_files_hold_small_ranges_of_both_columns, which runs on both kinds; this adds values"
)
def test_column_without_a_value_can_be_sorted_by(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA)
    builder.file([{"x": None, "y": None, "p": None}] * 3).file([{"x": None, "y": 1, "p": None}]).commit()
    zorder(spark, builder, "x", "y")
    assert ebbtide.read(spark, str(builder.path)).count() == 4


def test_partitions_are_sorted_each_by_itself(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p")
    for part in ("a", "b"):
        builder.file([{"x": n, "y": -n, "p": part} for n in range(5)])
        builder.file([{"x": n, "y": -n, "p": part} for n in range(5, 9)])
    builder.commit()
    table = DeltaTable.forPath(spark, str(builder.path))
    [answer] = table.optimize().where("p = 'a'").executeZOrderBy("x", ["y"]).collect()
    metrics = answer["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["totalFilesSkipped"]) == (1, 2, 0)
    assert metrics["zOrderStats"]["strategyName"] == "all"
    assert metrics["zOrderStats"]["mergedFiles"]["num"] == 2
    assert metrics["preserveInsertionOrder"] is False
    assert table.count() == 18


@pytest.mark.one_kind("after a lost race the log decides")
def test_rows_deleted_while_they_were_sorted_stay_deleted(spark, tmp_path):
    """Their places are not known, so the group is sorted again."""
    table = grid(tmp_path, side=8)
    path = str(table.path)
    store = RacingStore(open_store(path), lambda: DeltaTable.forPath(spark, path).delete("x = 3"), first=1)
    request = OptimizeRequest(store, zorder_by=("x", "y"))
    assert OptimizeCommand(spark, request).run().version == 2
    assert ebbtide.read(spark, path).where("x = 3").count() == 0
    assert ebbtide.read(spark, path).count() == ebbtide.read(spark, path, 1).count()
    assert not any(add.get("deletionVector") for add in log_state(table.path).adds)
    assert unnamed_files(table.path) == set()


@pytest.mark.one_kind("after a lost race the log decides")
def test_sorting_that_keeps_losing_is_given_up(spark, tmp_path):
    table = grid(tmp_path, side=8)
    path = str(table.path)
    rivals = [lambda n=n: DeltaTable.forPath(spark, path).delete(f"x = {n}") for n in range(6)]
    store = RacingStore(open_store(path), *rivals, first=1)
    result = OptimizeCommand(spark, OptimizeRequest(store, zorder_by=("x", "y"))).run()
    assert result.version is None
    assert result.metrics.num_dropped_groups == 1
    assert unnamed_files(table.path) == set()


# --- clustered tables --------------------------------------------------------------------------------------------------


def clustered(tmp_path, *columns, schema=SCHEMA):
    builder = TableBuilder(tmp_path / "t", schema)
    builder.feature("domainMetadata", reader=False).feature("clustering", reader=False)
    configuration = json.dumps({"clusteringColumns": [[name] for name in columns], "domainName": "delta.clustering"})
    return builder.domain("delta.clustering", configuration)


def test_clustered_table_is_sorted_by_its_columns(spark, tmp_path):
    builder = clustered(tmp_path, "x", "y")
    for number in range(3):
        builder.file([{"x": n, "y": (n * 5) % 13, "p": None} for n in range(number, 60, 3)])
    builder.commit()
    [answer] = DeltaTable.forPath(spark, str(builder.path)).optimize().executeCompaction().collect()
    assert answer["metrics"]["numFilesRemoved"] == 3
    assert answer["metrics"]["clusteringStats"]["mergedFiles"]["numFiles"] == 3
    assert {add["clusteringProvider"] for add in log_state(builder.path).adds} == {"ebbtide"}
    parameters = commit_info(builder.path, 1)["operationParameters"]
    assert (parameters["clusterBy"], parameters["zOrderBy"]) == ('["x","y"]', "[]")
    assert "delta.clustering" in DeltaTable.forPath(spark, str(builder.path))._snapshot().domain_metadata
    again = OptimizeCommand(spark, OptimizeRequest(open_store(str(builder.path)))).run()
    assert again.version is None
    assert shown(spark, builder.path) == shown(spark, builder.path, 0)


@pytest.mark.one_kind(
    "the calls of test_files_hold_small_ranges_of_both_columns, which runs on both kinds; this adds row ids"
)
def test_sorted_rows_keep_their_ids_and_commit_versions(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).row_tracking().deletion_vectors()
    builder.file([{"x": n, "y": -n, "p": None} for n in range(5)], deleted=[1]).commit()
    builder.file([{"x": n, "y": -n, "p": None} for n in range(5, 9)]).commit()
    before = tracked_rows(builder.path, key="x")
    DeltaTable.forPath(spark, str(builder.path)).optimize().executeZOrderBy("y")
    assert tracked_rows(builder.path, key="x") == before


@pytest.mark.one_kind(
    "the calls of test_clustered_table_is_sorted_by_its_columns, which runs on both kinds; this adds PURGE"
)
def test_sorted_file_is_purged_and_counts_as_sorted_afterwards(spark, tmp_path):
    builder = clustered(tmp_path, "x").deletion_vectors()
    builder.file([{"x": n, "y": n, "p": None} for n in range(60)]).commit()
    table = DeltaTable.forPath(spark, str(builder.path))
    table.optimize().executeCompaction()
    table.delete("x = 7")
    result = table.purge()
    assert result.metrics.num_deletion_vector_rows_removed == 1
    [add] = log_state(builder.path).adds
    assert add["clusteringProvider"] == "ebbtide"
    assert OptimizeCommand(spark, OptimizeRequest(open_store(str(builder.path)))).run().version is None
    assert [item["x"] for item in table.toDF().collect()] == [n for n in range(60) if n != 7]


@pytest.mark.one_kind(
    "the calls of test_clustered_table_is_sorted_by_its_columns, which runs on both kinds; this adds FULL"
)
def test_full_optimize_sorts_by_columns_that_were_chosen_later(spark, tmp_path):
    builder = clustered(tmp_path, "x")
    builder.file([{"x": n, "y": (n * 7) % 60, "p": None} for n in range(60)]).commit()
    statement = f"OPTIMIZE delta.`{builder.path}`"
    ebbtide.sql(spark, statement)
    ebbtide.sql(spark, f"ALTER TABLE delta.`{builder.path}` CLUSTER BY (y)")
    [answer] = ebbtide.sql(spark, statement).collect()
    assert answer["metrics"]["numFilesRemoved"] == 0
    [answer] = ebbtide.sql(spark, f"{statement} FULL").collect()
    assert answer["metrics"]["numFilesRemoved"] == 1
    assert commit_info(builder.path, 3)["operationParameters"]["isFull"] is True
    assert [item["y"] for item in ebbtide.read(spark, str(builder.path)).collect()] == list(range(60))


@pytest.mark.one_kind("refused before Spark is asked")
def test_full_optimize_of_a_table_that_is_not_clustered_is_refused(spark, small):
    with pytest.raises(RequestError) as caught:
        ebbtide.sql(spark, f"OPTIMIZE delta.`{small.path}` FULL")
    assert caught.value.error_class == "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"


@pytest.mark.one_kind("the log alone decides")
def test_files_that_another_engine_sorted_are_left_alone(spark, tmp_path):
    builder = clustered(tmp_path, "x")
    builder.file([{"x": 1, "y": 1, "p": None}]).file([{"x": 2, "y": 1, "p": None}]).commit()
    log = builder.path / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"dataChange"', '"clusteringProvider": "liquid", "dataChange"'))
    assert OptimizeCommand(spark, OptimizeRequest(open_store(str(builder.path)))).run().version is None


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize(
    ("asked", "error_class"),
    [
        ({"zorder_by": ("x",)}, "DELTA_CLUSTERING_WITH_ZORDER_BY"),
        ({"where": "x = 1"}, "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE"),
    ],
)
def test_other_orders_are_refused_for_a_clustered_table(spark, tmp_path, asked, error_class):
    builder = clustered(tmp_path, "x").file([{"x": 1, "y": 1, "p": None}]).commit()
    with pytest.raises(RequestError) as caught:
        OptimizeCommand(spark, OptimizeRequest(open_store(str(builder.path)), **asked)).run()
    assert caught.value.error_class == error_class


@pytest.mark.one_kind("refused before Spark is asked")
def test_table_clustered_by_a_missing_column_is_refused_by_name(spark, tmp_path):
    builder = clustered(tmp_path, "gone").file([{"x": 1, "y": 1, "p": None}]).commit()
    with pytest.raises(UnsupportedFeatureError, match="gone"):
        OptimizeCommand(spark, OptimizeRequest(open_store(str(builder.path)))).run()


# --- what is refused ---------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    schema = pa.schema({"x": pa.int64(), "m": pa.map_(pa.string(), pa.int64()), "late": pa.int64(), "p": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("p")
    builder.table_property("delta.dataSkippingNumIndexedCols", "2")
    return builder.file([{"x": 1, "m": [], "late": 1, "p": "a"}]).commit()


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize(
    ("column", "error", "error_class"),
    [
        ("nope", UnknownColumnError, "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"),
        ("x.y", UnknownColumnError, "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"),
        ("P", RequestError, "DELTA_ZORDERING_ON_PARTITION_COLUMN"),
        ("late", RequestError, "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS"),
        ("m", UnsupportedFeatureError, ""),
    ],
)
def test_column_that_cannot_be_sorted_by_is_refused(spark, small, column, error, error_class):
    with pytest.raises(error) as caught:
        zorder(spark, small, "x", column)
    assert caught.value.error_class == error_class
    assert column in str(caught.value)
    assert newest_version(small.path) == 0


def test_letter_case_counts_where_the_session_says_so(spark, small):
    with session_settings(spark, {"spark.sql.caseSensitive": "true"}), pytest.raises(UnknownColumnError):
        zorder(spark, small, "X")
    assert zorder(spark, small, "X").version == 1


@pytest.mark.one_kind("refused before Spark is asked")
def test_no_column_is_refused(spark, small):
    with pytest.raises(RequestError, match="at least one"):
        DeltaTable.forPath(spark, str(small.path)).optimize().executeZOrderBy()
