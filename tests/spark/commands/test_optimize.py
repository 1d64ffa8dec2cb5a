"""Does a compaction leave every row where it belongs, in fewer files?"""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_reading import actions_of, commit_info, data_file, log_state, newest_version, stats_of
from tests.support.races import unnamed_files
from tests.support.row_ids import tracked_rows
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.commands.optimize.answer import ANSWER_SCHEMA
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.request import OptimizeRequest, OptimizeSettings
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import DeltaError, InvalidPredicateError, RequestError, UnknownColumnError
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "p": pa.string()})


def row(number, part="a"):
    return {"id": number, "name": None if number % 7 == 3 else f"n{number}", "p": part}


def rows(start, stop, part="a"):
    return [row(number, part) for number in range(start, stop)]


def optimize(spark, table, where=None, **more):
    options = WriteOptions(**more.pop("options", {}))
    per_group = more.pop("commit_per_group", False)
    request = OptimizeRequest(
        open_store(str(table.path)),
        where,
        settings=OptimizeSettings(**more),
        commit_per_group=per_group,
        options=options,
    )
    return OptimizeCommand(spark, request).run()


def ids_in_file_order(table):
    """The ids of each live file as they lie in it."""
    files = sorted(log_state(table.path).adds, key=lambda add: (add["modificationTime"], add["path"]))
    return [pq.ParquetFile(data_file(table.path, add)).read(columns=["id"])["id"].to_pylist() for add in files]


def shown(spark, table, version=None):
    return sorted(map(tuple, ebbtide.read(spark, str(table.path), version).collect()))


@pytest.fixture
def table(tmp_path):
    """Six files of ten rows in two partitions; rows of three files are marked."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p").deletion_vectors()
    for number in range(6):
        part = "a" if number % 2 else "b"
        marked = {1: [0, 3, 9], 2: [5], 5: [9]}.get(number, [])
        builder.file(rows(10 * number, 10 * number + 10, part), deleted=marked)
    return builder.commit()


def test_compaction_puts_the_files_of_each_partition_together(spark, table):
    before = shown(spark, table)
    result = optimize(spark, table)
    assert result.version == 1
    assert shown(spark, table) == before
    state = log_state(table.path)
    assert len(state.adds) == 2
    assert not any(add.get("deletionVector") for add in state.adds)
    assert result.metrics.num_removed_files == 6
    assert result.metrics.num_deletion_vectors_removed == 3
    assert result.metrics.num_deletion_vector_rows_removed == 5
    for kind in ("add", "remove"):
        assert {action["dataChange"] for action in actions_of(table.path, 1, kind)} == {False}
    for add in state.adds:
        assert stats_of(add)["tightBounds"] is True
    assert unnamed_files(table.path) == set()


@pytest.mark.one_kind(
    "the calls of test_compaction_puts_the_files_of_each_partition_together, which runs on both kinds; this adds the contents of the log"
)
def test_history_has_the_names_of_the_reference(spark, table):
    optimize(spark, table, "p = 'a'")
    info = commit_info(table.path, 1)
    assert info["operation"] == "OPTIMIZE"
    assert info["operationParameters"] == {
        "predicate": "[\"p = 'a'\"]",
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": False,
    }
    assert info["isolationLevel"] == "SnapshotIsolation"
    assert info["isBlindAppend"] is False
    [add] = actions_of(table.path, 1, "add")
    sizes = {f"{name}FileSize": str(add["size"]) for name in ("min", "p25", "p50", "p75", "max")}
    assert (
        info["operationMetrics"].items()
        >= {
            "numAddedFiles": "1",
            "numRemovedFiles": "3",
            "numDeletionVectorsRemoved": "2",
            **sizes,
        }.items()
    )


@pytest.mark.one_kind("the log alone decides")
def test_second_compaction_has_nothing_to_do(spark, table):
    optimize(spark, table)
    result = optimize(spark, table)
    assert result.version is None
    assert newest_version(table.path) == 1
    assert result.metrics.num_considered_files == 2
    assert "nothing to do" in repr(result)


def test_rows_keep_their_order_within_and_between_files(spark, tmp_path):
    """Files of very different sizes: Spark would read the largest first."""
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    start = 0
    for count, marked in ((3, []), (70_000, [0, 1, 65_535, 65_536, 69_999]), (1, []), (500, [7])):
        builder.file([{"id": start + number} for number in range(count)], deleted=marked)
        builder.commit()
        start += count
    expected = [item["id"] for item in builder.rows()]
    result = optimize(spark, builder)
    [found] = ids_in_file_order(builder)
    first_ids = {stats_of(remove)["numRecords"]: None for remove in actions_of(builder.path, result.version, "remove")}
    assert len(first_ids) == 4
    assert sorted(found) == sorted(expected)
    # Each old file is one run of ascending ids; the builder gives all files the same age, so runs may change places.
    falls = sum(1 for left, right in pairwise(found) if right < left)
    assert falls <= 3


def test_older_files_come_first(spark, tmp_path):
    path = str(tmp_path / "t")
    for start in (50, 0, 100):
        frame = spark.range(start, start + 10, numPartitions=1)
        ebbtide.write(frame, path, mode="append")
    table = DeltaTable.forPath(spark, path)
    table.optimize().executeCompaction()
    assert [item["id"] for item in table.toDF().collect()] == [*range(50, 60), *range(10), *range(100, 110)]


def test_session_that_limits_rows_per_file_does_not_split_a_group(spark, table):
    with session_settings(spark, {"spark.sql.files.maxRecordsPerFile": "4"}):
        assert optimize(spark, table).metrics.num_added_files == 2


@pytest.mark.one_value("the same calls for another value")
@pytest.mark.parametrize("shuffles", ["1", "3"])
def test_many_groups_become_many_files_under_a_target_size(spark, tmp_path, shuffles):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    for number in range(9):
        builder.file(rows(10 * number, 10 * number + 10))
    builder.commit()
    size = max(file.add["size"] for file in builder.files)
    with session_settings(spark, {"spark.sql.shuffle.partitions": shuffles}):
        result = optimize(spark, builder, target_bytes=3 * size + 2, threads=2)
    assert result.metrics.num_removed_files == 9
    assert result.metrics.num_added_files == result.metrics.num_groups == 3
    assert shown(spark, builder) == shown(spark, builder, 0)


def test_target_size_comes_from_argument_session_and_table(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).table_property("delta.targetFileSize", "1b")
    builder.file(rows(0, 5)).file(rows(5, 10)).commit()
    table = DeltaTable.forPath(spark, str(builder.path))

    def added(**options):
        return table.optimize(**options).executeCompaction().collect()[0]["metrics"]["numFilesAdded"]

    assert added() == 0
    with session_settings(spark, {"spark.databricks.delta.optimize.maxFileSize": "2b"}):
        assert added() == 0
        assert added(target_size=1 << 30) == 1


@pytest.mark.one_kind(
    "the calls of test_compaction_puts_the_files_of_each_partition_together, which runs on both kinds; this adds the choice of files, which the log decides"
)
def test_lone_file_with_many_marked_rows_is_rewritten(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file(rows(0, 20), deleted=[0, 19]).commit()
    assert optimize(spark, builder, max_deleted_share=0.1).version is None
    assert optimize(spark, builder).metrics.num_deletion_vector_rows_removed == 2
    assert [item["id"] for item in ebbtide.read(spark, str(builder.path)).collect()] == list(range(1, 19))


@pytest.mark.one_kind(
    "the calls of test_compaction_puts_the_files_of_each_partition_together, which runs on both kinds; this adds the choice of files, which the log decides"
)
def test_file_without_live_rows_is_removed_and_none_is_written(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file(rows(0, 3), deleted=[0, 1, 2]).commit()
    result = optimize(spark, builder)
    assert (result.metrics.num_removed_files, result.metrics.num_added_files) == (1, 0)
    assert log_state(builder.path).adds == []


def test_row_ids_and_commit_versions_are_kept(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).row_tracking().deletion_vectors()
    builder.file(rows(0, 5)).commit()
    builder.file(rows(5, 10), deleted=[1]).commit()
    before = tracked_rows(builder.path)
    optimize(spark, builder)
    assert tracked_rows(builder.path) == before
    assert commit_info(builder.path, 2)["tags"] == {"delta.rowTracking.preserved": "true"}


@pytest.mark.one_value("the same calls for another mapping")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_kept(spark, tmp_path, mode):
    builder = TableBuilder(tmp_path / "t", SCHEMA).column_mapping(mode).partitioned_by("p").deletion_vectors()
    builder.file(rows(0, 5), deleted=[2]).file(rows(5, 10)).commit()
    before = shown(spark, builder)
    assert optimize(spark, builder, "p = 'a'").metrics.num_removed_files == 2
    assert shown(spark, builder) == before


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("value", [None, "", "a/b=c d%"])
def test_partition_values_stay_as_the_log_spells_them(spark, tmp_path, value):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p")
    builder.file(rows(0, 2, value)).file(rows(2, 4, value)).commit()
    before = {tuple(add["partitionValues"].items()) for add in log_state(builder.path).adds}
    assert optimize(spark, builder).version == 1
    assert {tuple(add["partitionValues"].items()) for add in log_state(builder.path).adds} == before
    assert len(shown(spark, builder)) == 4


@pytest.mark.one_kind(
    "the calls of test_compaction_puts_the_files_of_each_partition_together, which runs on both kinds; this adds the contents of the log"
)
def test_append_only_table_can_be_compacted(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).table_property("delta.appendOnly", "true")
    builder.file(rows(0, 2)).file(rows(2, 4)).commit()
    assert optimize(spark, builder).version == 1


@pytest.mark.one_kind(
    "the calls of test_compaction_puts_the_files_of_each_partition_together, which runs on both kinds; this adds the contents of the log"
)
def test_domains_stay(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).feature("domainMetadata", reader=False)
    builder.domain("mine", "{}").file(rows(0, 2)).file(rows(2, 4)).commit()
    optimize(spark, builder)
    assert DeltaTable.forPath(spark, str(builder.path))._snapshot().domain_metadata.keys() == {"mine"}


@pytest.mark.one_kind("the log alone decides")
def test_change_feed_of_a_compaction_is_empty(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).change_data_feed()
    builder.file(rows(0, 2)).file(rows(2, 4)).commit()
    optimize(spark, builder)
    assert ebbtide.read_changes(spark, str(builder.path), 1).count() == 0


@pytest.mark.one_kind(
    "the calls of test_compaction_puts_the_files_of_each_partition_together, which runs on both kinds; this adds the number of commits"
)
def test_each_group_is_a_commit_when_asked(spark, table):
    before = shown(spark, table)
    result = optimize(spark, table, commit_per_group=True)
    assert result.versions == (1, 2)
    assert result.version == newest_version(table.path) == 2
    assert result.metrics.num_removed_files == 6
    assert shown(spark, table) == before
    assert unnamed_files(table.path) == set()


@pytest.mark.one_kind("test_failed_compaction_leaves_nothing runs on both kinds")
def test_run_that_fails_keeps_the_groups_it_committed(spark, table):
    """One partition's file is broken: the other partition is compacted, and a second run repairs nothing twice."""
    broken = next(file for file in table.files if file.add["partitionValues"]["p"] == "b")
    place = data_file(table.path, broken.add)
    content = place.read_bytes()
    place.write_bytes(b"x" * len(content))
    with pytest.raises(DeltaError):
        optimize(spark, table, commit_per_group=True, threads=1)
    place.write_bytes(content)
    committed = newest_version(table.path)
    assert optimize(spark, table, commit_per_group=True).version == 2
    assert committed in (0, 1)
    assert unnamed_files(table.path) == set()
    assert shown(spark, table) == shown(spark, table, 0)


def test_failed_compaction_leaves_nothing(spark, table):
    broken = next(file for file in table.files if file.add["partitionValues"]["p"] == "b")
    data_file(table.path, broken.add).write_bytes(b"x" * broken.add["size"])
    with pytest.raises(DeltaError):
        optimize(spark, table)
    assert newest_version(table.path) == 0
    assert unnamed_files(table.path) == set()


def test_python_door_answers_like_delta_spark(spark, table):
    answer = DeltaTable.forPath(spark, str(table.path)).optimize().where("p = 'a'").executeCompaction()
    assert answer.schema == ANSWER_SCHEMA
    [found] = answer.collect()
    assert found["path"] == f"file:{table.path}"
    metrics = found["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["totalFilesSkipped"]) == (1, 3, 0)
    assert metrics["deletionVectorStats"].asDict() == {
        "numDeletionVectorsRemoved": 2,
        "numDeletionVectorRowsRemoved": 4,
    }


@pytest.mark.one_value("other refusals of conditions run on both kinds in test_delete.py")
@pytest.mark.parametrize(
    ("where", "error", "error_class"),
    [
        ("id = 1", InvalidPredicateError, "DELTA_NON_PARTITION_COLUMN_REFERENCE"),
        ("p = 'a' OR id = 1", InvalidPredicateError, "DELTA_NON_PARTITION_COLUMN_REFERENCE"),
        ("nope = 1", UnknownColumnError, None),
        ("p", InvalidPredicateError, None),
        ("", InvalidPredicateError, None),
        ("rand() > 0.5", InvalidPredicateError, None),
    ],
)
def test_condition_on_anything_but_partitions_is_refused(spark, table, where, error, error_class):
    with pytest.raises(error) as caught:
        optimize(spark, table, where)
    if error_class is not None:
        assert caught.value.error_class == error_class
        assert "p" in str(caught.value)
    assert newest_version(table.path) == 0


@pytest.mark.one_kind("refused before Spark is asked")
def test_second_where_is_refused(spark, table):
    builder = DeltaTable.forPath(spark, str(table.path)).optimize().where("p = 'a'")
    with pytest.raises(RequestError, match="where"):
        builder.where("p = 'b'")


@pytest.mark.one_value("the same call for other settings")
@pytest.mark.parametrize("name", ["maxFileSize", "minFileSize", "maxDeletedRowsRatio", "maxThreads"])
def test_wrong_setting_of_the_session_is_named(spark, table, name):
    setting = f"spark.databricks.delta.optimize.{name}"
    with session_settings(spark, {setting: "much"}), pytest.raises(RequestError, match=setting.replace(".", r"\.")):
        DeltaTable.forPath(spark, str(table.path)).optimize()
