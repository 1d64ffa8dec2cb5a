"""Does a clone read, change and travel as a table of its own, while its source stays as it is, byte by byte?

What ends up in the log is tested without Spark (`tests/unit/commands/test_clone.py`).
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.log_reading import actions_of, log_state, newest_version
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import MissingDataFileError, RequestError, TableAlreadyExistsError, UnsupportedFeatureError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})


def rows_of(ids, part="a"):
    return [{"id": number, "p": part} for number in ids]


def made(builder):
    """0: ids 0-4 of a, ids 5-7 of `b c` | 1: 0 and 1 marked."""
    builder.partitioned_by("p").deletion_vectors()
    builder.file(rows_of(range(5))).file(rows_of(range(5, 8), "b c")).commit()
    return builder.mark(builder.files[0], [0, 1]).commit(operation="DELETE")


@pytest.fixture
def source(tmp_path):
    return made(TableBuilder(tmp_path / "so urce", SCHEMA).change_data_feed())


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


def bytes_below(path):
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()}


def test_clone_is_returned_and_shows_the_rows_of_the_source(spark, source, tmp_path):
    delta = DeltaTable.forPath(spark, source.path)
    clone = delta.clone(tmp_path / "c", isShallow=True)
    assert ids(clone.toDF()) == [2, 3, 4, 5, 6, 7]
    assert ids(clone.toDF().where("p = 'b c'")) == [5, 6, 7]
    assert clone.count() == 6
    assert ids(delta.cloneAtVersion(0, tmp_path / "d", True).toDF()) == [*range(8)]
    assert ids(delta.cloneAtTimestamp("2024-01-01 00:00:30", tmp_path / "e", True).toDF()) == [*range(8)]


def test_statement_makes_a_clone(spark, source, tmp_path):
    place, other = f"delta.`{source.path}`", f"delta.`{tmp_path}/c`"
    [row] = ebbtide.sql(spark, f"CREATE TABLE {other} SHALLOW CLONE {place} TBLPROPERTIES ('mine' = 'x')").collect()
    assert row.asDict()["source_num_of_files"] == 2
    assert next(iter(row.asDict())) == "source_table_size"
    assert log_state(tmp_path / "c").configuration["mine"] == "x"
    assert ebbtide.sql(spark, f"CREATE TABLE IF NOT EXISTS {other} SHALLOW CLONE {place}").collect() == []
    ebbtide.sql(spark, f"DELETE FROM {other}")
    ebbtide.sql(spark, f"CREATE OR REPLACE TABLE {other} SHALLOW CLONE {place} VERSION AS OF 0")
    assert ids(ebbtide.read(spark, tmp_path / "c")) == [*range(8)]
    ebbtide.sql(spark, f"DELETE FROM {other}")
    ebbtide.sql(spark, f"REPLACE TABLE {other} SHALLOW CLONE {place} TIMESTAMP AS OF '2024-01-01 00:01:00'")
    assert ids(ebbtide.read(spark, tmp_path / "c")) == [*range(2, 8)]


@pytest.mark.one_value("both modes run on both kinds in the tests of the commands")
@pytest.mark.parametrize("mode", ["on", "off"], ids=["vectors", "rewriting"])
def test_changes_of_the_clone_leave_the_source_as_it_is(spark, source, tmp_path, mode):
    clone = DeltaTable.forPath(spark, source.path).clone(tmp_path / "c", isShallow=True)
    before = bytes_below(source.path)
    assert clone.delete("id = 2", deletion_vectors=mode).num_affected_rows == 1
    assert clone.update("id = 5", {"id": "50"}, deletion_vectors=mode).num_affected_rows == 1
    updates = spark.createDataFrame([(3, "z"), (9, "z")], "id BIGINT, p STRING").alias("s")
    merge = clone.alias("t").merge(updates, "t.id = s.id", deletion_vectors=mode)
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert ids(clone.toDF()) == [3, 4, 6, 7, 9, 50]
    ebbtide.write(spark.createDataFrame([(100, "a")], "id BIGINT, p STRING"), tmp_path / "c", mode="append")
    clone.restoreToVersion(0)
    assert ids(clone.toDF()) == [2, 3, 4, 5, 6, 7]
    assert bytes_below(source.path) == before
    assert ids(ebbtide.read(spark, source.path)) == [2, 3, 4, 5, 6, 7]


@pytest.mark.one_kind("the scans and writes of a compaction have tests of their own on both")
def test_compaction_of_the_clone_copies_the_rows_it_shows(spark, source, tmp_path):
    clone = DeltaTable.forPath(spark, source.path).clone(tmp_path / "c", isShallow=True)
    before = bytes_below(source.path)
    clone.optimize(max_deleted_share=0.0).executeCompaction()
    assert ids(clone.toDF()) == [2, 3, 4, 5, 6, 7]
    assert bytes_below(source.path) == before


@pytest.mark.one_kind("the log decides where a vector lies")
def test_new_marks_of_the_clone_lie_in_its_own_directory(spark, source, tmp_path):
    clone = DeltaTable.forPath(spark, source.path).clone(tmp_path / "c", isShallow=True)
    clone.delete("id = 2")
    [add] = actions_of(tmp_path / "c", 1, "add")
    assert (add["deletionVector"]["storageType"], add["deletionVector"]["cardinality"]) == ("u", 3)
    [remove] = actions_of(tmp_path / "c", 1, "remove")
    assert remove["deletionVector"]["storageType"] == "p"
    assert len(list((tmp_path / "c").glob("deletion_vector_*.bin"))) == 1


@pytest.mark.one_kind("the feed's own tests run its scans on both")
def test_change_feed_of_the_clone_begins_with_its_rows(spark, source, tmp_path):
    clone = DeltaTable.forPath(spark, source.path).clone(tmp_path / "c", isShallow=True)
    clone.delete("id = 7")
    feed = ebbtide.read_changes(spark, tmp_path / "c", 0)
    assert ids(feed.where("_commit_version = 0 AND _change_type = 'insert'")) == [2, 3, 4, 5, 6, 7]
    assert ids(feed.where("_commit_version = 1 AND _change_type = 'delete'")) == [7]


@pytest.mark.one_kind("the scans of mapped columns have tests of their own on both")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_found_in_the_files_of_the_source(spark, tmp_path, mode):
    builder = made(TableBuilder(tmp_path / "s", SCHEMA).column_mapping(mode))
    clone = DeltaTable.forPath(spark, builder.path).clone(tmp_path / "c", isShallow=True)
    assert ids(clone.toDF().where("p = 'a'")) == [2, 3, 4]
    assert clone.update("id = 3", {"p": "'z'"}).num_affected_rows == 1
    assert ids(clone.toDF().where("p = 'z'")) == [3]


@pytest.mark.one_kind("row ids have tests of their own on both")
def test_rows_of_the_clone_get_ids_of_its_own_even_where_the_source_kept_some(spark, tmp_path):
    builder = made(TableBuilder(tmp_path / "s", SCHEMA).row_tracking())
    delta = DeltaTable.forPath(spark, builder.path)
    # The new file keeps the old row ids in a column, under the source's name for it.
    delta.update("id >= 5", {"id": "id + 100"})
    clone = delta.clone(tmp_path / "c", isShallow=True)
    clone.update("id = 106", {"id": "0"})
    assert ids(clone.toDF()) == [0, 2, 3, 4, 105, 107]
    numbered = [add["baseRowId"] for add in actions_of(tmp_path / "c", 0, "add")]
    assert min(numbered) == 0
    assert len(set(numbered)) == len(numbered)


@pytest.mark.one_kind("refused before Spark is asked")
def test_deep_clone_is_refused_with_the_next_step(spark, source, tmp_path):
    delta = DeltaTable.forPath(spark, source.path)
    with pytest.raises(UnsupportedFeatureError, match="isShallow=True") as refused:
        delta.clone(tmp_path / "c")
    assert refused.value.error_class == "DELTA_UNSUPPORTED_DEEP_CLONE"
    for words in ("CLONE", "DEEP CLONE"):
        with pytest.raises(UnsupportedFeatureError, match="SHALLOW CLONE"):
            ebbtide.sql(spark, f"CREATE TABLE delta.`{tmp_path}/c` {words} delta.`{source.path}`")
    assert not (tmp_path / "c").exists()


@pytest.mark.one_kind("refused before Spark is asked")
def test_clone_onto_a_table_is_refused_and_changes_nothing(spark, source, tmp_path):
    delta = DeltaTable.forPath(spark, source.path)
    delta.clone(tmp_path / "c", isShallow=True)
    before = bytes_below(tmp_path)
    with pytest.raises(TableAlreadyExistsError):
        delta.clone(tmp_path / "c", isShallow=True)
    with pytest.raises(TableAlreadyExistsError):
        ebbtide.sql(spark, f"CREATE TABLE delta.`{tmp_path}/c` SHALLOW CLONE delta.`{source.path}`")
    with pytest.raises(RequestError, match="only an empty table"):
        delta.clone(tmp_path / "c", isShallow=True, replace=True)
    assert bytes_below(tmp_path) == before


@pytest.mark.one_kind("storage is asked without Spark")
def test_clone_whose_files_were_vacuumed_says_so(spark, source, tmp_path):
    clone = DeltaTable.forPath(spark, source.path).clone(tmp_path / "c", isShallow=True)
    [vector] = source.path.glob("deletion_vector_*.bin")
    moved = vector.rename(tmp_path / "moved.bin")
    with pytest.raises(MissingDataFileError, match="deletion_vector_"):
        clone.toDF().collect()
    # The other engines read whatever a test leaves behind.
    moved.rename(vector)


@pytest.mark.one_kind("arguments are checked before Spark is asked")
@pytest.mark.parametrize(
    "wrong", [{"isShallow": "yes"}, {"replace": 1}, {"properties": {"a": 1}}, {"properties": ["a"]}]
)
def test_arguments_of_the_wrong_type_are_refused(spark, source, tmp_path, wrong):
    with pytest.raises(TypeError):
        DeltaTable.forPath(spark, source.path).clone(tmp_path / "c", **({"isShallow": True} | wrong))
    assert newest_version(source.path) == 1
