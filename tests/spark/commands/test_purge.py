"""Is everything that was deleted gone from the live files after a PURGE?"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_reading import actions_of, commit_info, data_file, log_state, newest_version
from tests.support.races import RacingStore, ids_at, unnamed_files
from tests.support.row_ids import tracked_rows
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.commands.purge.command import PurgeCommand, PurgeRequest
from ebbtide.errors import InvalidPredicateError
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})


def rows(start, stop, part="a"):
    return [{"id": number, "p": part} for number in range(start, stop)]


@pytest.fixture
def table(tmp_path):
    """Four files in two partitions; single rows of two of them are marked, far below any threshold."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p").deletion_vectors()
    builder.file(rows(0, 100), deleted=[7]).file(rows(100, 110))
    return builder.file(rows(200, 300, "b"), deleted=[9]).file(rows(300, 310, "b")).commit()


def purge(spark, table, *rivals, where=None):
    store = open_store(str(table.path))
    if rivals:
        store = RacingStore(store, *rivals, first=newest_version(table.path) + 1)
    return PurgeCommand(spark, PurgeRequest(store, where)).run()


def stored_ids(table):
    """Every id in a live file, marked or not."""
    files = [pq.ParquetFile(data_file(table.path, add)) for add in log_state(table.path).adds]
    return sorted(number for file in files for number in file.read(columns=["id"])["id"].to_pylist())


def test_files_with_marked_rows_are_rewritten_and_others_stay(spark, table):
    before = ids_at(table.path)
    result = purge(spark, table)
    assert result.version == 1
    assert result.is_complete
    assert stored_ids(table) == ids_at(table.path) == before
    assert len(actions_of(table.path, 1, "remove")) == 2
    assert {action["dataChange"] for kind in ("add", "remove") for action in actions_of(table.path, 1, kind)} == {False}
    info = commit_info(table.path, 1)
    assert info["operation"] == "REORG"
    assert info["operationParameters"] == {"predicate": "[]", "applyPurge": True}
    assert unnamed_files(table.path) == set()


@pytest.mark.one_kind("the log alone decides")
def test_second_purge_has_nothing_to_do(spark, table):
    purge(spark, table)
    result = purge(spark, table)
    assert result.version is None
    assert result.is_complete
    assert newest_version(table.path) == 1


@pytest.mark.one_kind(
    "the calls of test_files_with_marked_rows_are_rewritten_and_others_stay, which runs on both kinds; this adds the choice of files, which the log decides"
)
def test_only_the_chosen_partitions_are_purged(spark, table):
    result = DeltaTable.forPath(spark, str(table.path)).purge("p = 'a'")
    assert result.metrics.num_removed_files == 1
    assert 7 not in stored_ids(table)
    assert 209 in stored_ids(table)


@pytest.mark.one_kind("conditions on data are refused on both kinds in test_optimize.py")
def test_condition_on_data_is_refused(spark, table):
    with pytest.raises(InvalidPredicateError) as caught:
        DeltaTable.forPath(spark, str(table.path)).purge("id = 7")
    assert caught.value.error_class == "DELTA_NON_PARTITION_COLUMN_REFERENCE"
    assert newest_version(table.path) == 0


@pytest.mark.one_kind("after a lost race the log decides")
def test_row_deleted_during_the_purge_is_taken_out_by_another_pass(spark, table):
    path = str(table.path)
    result = purge(spark, table, lambda: DeltaTable.forPath(spark, path).delete("id IN (8, 205, 305)"))
    assert result.is_complete
    assert result.versions == (2, 3)
    expected = set(range(110)) | set(range(200, 310))
    assert stored_ids(table) == ids_at(table.path) == sorted(expected - {7, 8, 205, 209, 305})
    assert unnamed_files(table.path) == set()


@pytest.mark.one_kind("after a lost race the log decides")
def test_purge_that_never_catches_up_says_so(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().file(rows(0, 100), deleted=[0]).commit()
    path = str(builder.path)
    rivals = {}
    for number in range(1, 30):
        # A rival before each of our commits: every other version is ours.
        rivals[number] = lambda number=number: DeltaTable.forPath(spark, path).delete(f"id = {number}")
    store = RacingStore(open_store(path), first=1)
    names = list(rivals)
    store.rivals = {f"_delta_log/{2 * at + 1:020d}.json": rivals[name] for at, name in enumerate(names)}
    result = PurgeCommand(spark, PurgeRequest(store)).run()
    assert not result.is_complete
    assert "not complete" in repr(result)
    assert 0 not in stored_ids(builder)


def test_dropped_columns_leave_the_files(spark, tmp_path):
    path = str(tmp_path / "t")
    frame = spark.range(0, 10, numPartitions=1).selectExpr("id", "id AS secret", "struct(id AS keep, id AS drop) AS s")
    ebbtide.write(frame, path, properties={"delta.columnMapping.mode": "name"})
    ebbtide.write(frame, path, mode="append")
    ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` DROP COLUMN secret")
    before = sorted(map(repr, ebbtide.read(spark, path).collect()))
    result = DeltaTable.forPath(spark, path).purge()
    assert result.metrics.num_removed_files == 2
    [add] = log_state(tmp_path / "t").adds
    assert len(pq.ParquetFile(data_file(tmp_path / "t", add)).schema_arrow.names) == 2
    assert sorted(map(repr, ebbtide.read(spark, path).collect())) == before
    assert DeltaTable.forPath(spark, path).purge().version is None


@pytest.mark.one_kind(
    "the calls of test_files_with_marked_rows_are_rewritten_and_others_stay, which runs on both kinds; this adds row ids"
)
def test_row_ids_are_not_taken_for_dropped_columns(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).column_mapping("name").row_tracking().deletion_vectors()
    builder.file(rows(0, 5), deleted=[1]).file(rows(5, 9)).commit()
    assert purge(spark, builder).metrics.num_removed_files == 1
    assert purge(spark, builder).version is None
    assert ebbtide.read(spark, str(builder.path)).count() == 8


@pytest.mark.one_kind(
    "the calls of test_files_with_marked_rows_are_rewritten_and_others_stay, which runs on both kinds; this adds row ids"
)
def test_row_ids_and_commit_versions_are_kept(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).row_tracking().deletion_vectors()
    builder.file(rows(0, 5), deleted=[1]).commit()
    builder.file(rows(5, 9), deleted=[0]).commit()
    table = DeltaTable.forPath(spark, str(builder.path))
    before = tracked_rows(builder.path)
    purge(spark, builder)
    assert tracked_rows(builder.path) == before
    # Now the ids are columns of the file. Rows that change get a new commit version and keep their ids.
    table.update("id IN (3, 8)", {"p": "'z'"})
    table.delete("id = 2")
    before = tracked_rows(builder.path)
    result = purge(spark, builder, lambda: table.delete("id = 6"))
    assert result.is_complete
    assert tracked_rows(builder.path) == {key: ids for key, ids in before.items() if key != 6}
    assert stored_ids(builder) == [0, 3, 4, 7, 8]


def test_statement_purges_too(spark, table):
    path = str(table.path)
    [answer] = ebbtide.sql(spark, f"REORG TABLE delta.`{path}` WHERE p = 'b' APPLY (PURGE)").collect()
    assert answer["metrics"]["numFilesRemoved"] == 1
    [answer] = ebbtide.sql(spark, f"reorg table delta.`{path}` apply (purge)").collect()
    assert answer["metrics"]["deletionVectorStats"]["numDeletionVectorsRemoved"] == 1
    assert stored_ids(table) == ids_at(table.path)
