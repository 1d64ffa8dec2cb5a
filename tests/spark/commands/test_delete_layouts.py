"""Does DELETE mark the right rows whatever the table looks like: names, places, mappings, vectors, missing statistics?"""

from __future__ import annotations

import json
import re
import shutil

import pyarrow as pa
import pytest
from tests.support.log_reading import (
    actions_of,
    commit_info,
    data_file,
    log_state,
    newest_version,
    read_commit,
    stats_of,
    vector_file,
    vector_rows,
)
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.config import EngineConfig

pytestmark = pytest.mark.spark

IDS = pa.schema({"id": pa.int64()})
ODD_NAMES = ["a b", "100%", "%41", "ä+ö", "x=y", "it's", "[a]{b}", "a#b?c&d", 'q"q', "back\\slash", "star*"]


def ids(*numbers):
    return [{"id": number} for number in numbers]


def rows_of(spark, path, **options):
    return sorted(row["id"] for row in ebbtide.read(spark, str(path), **options).collect())


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("name", ["a b%20c", "ünï [x]{y}*", "it's #1?&=+", "%25"])
def test_table_and_files_may_have_any_name(spark, tmp_path, checked_delete, name):
    builder = TableBuilder(tmp_path / name / "t", IDS).deletion_vectors()
    builder.file(ids(0, 1, 2), name=f"{name}.parquet").file(ids(3, 4), name="b.parquet").commit()
    assert checked_delete(builder, "id IN (1, 3)").num_affected_rows == 2
    assert checked_delete(builder, "id IN (2, 3)").num_affected_rows == 1
    assert rows_of(spark, builder.path) == [0, 4]


def test_partition_values_may_be_any_text(spark, tmp_path, checked_delete):
    schema = pa.schema({"id": pa.int64(), "p": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("p").deletion_vectors()
    for number, name in enumerate(ODD_NAMES):
        builder.file([{"id": 2 * number, "p": name}, {"id": 2 * number + 1, "p": name}])
    builder.file([{"id": 100, "p": None}, {"id": 101, "p": None}]).commit()
    assert checked_delete(builder, "id % 2 = 0").num_affected_rows == len(ODD_NAMES) + 1
    literals = ", ".join('r"' + name + '"' for name in ODD_NAMES[:3])
    assert checked_delete(builder, f"p IN ({literals})").num_affected_rows == 3
    assert checked_delete(builder, "p = r'back\\slash' OR (p IS NULL AND id > 0)").num_affected_rows == 2
    assert rows_of(spark, builder.path) == [7, 9, 11, 13, 15, 17, 21]


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_asked_by_their_logical_names(spark, tmp_path, checked_delete, mode):
    schema = pa.schema({"id": pa.int64(), "s p": pa.struct({"x,y": pa.int32()}), "part": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("part").column_mapping(mode).deletion_vectors()
    for part in ("a", "b"):
        first = 0 if part == "a" else 3
        rows = [{"id": first + n, "s p": {"x,y": n}, "part": part} for n in range(3)]
        builder.file(rows)
    builder.commit()
    assert checked_delete(builder, "`s p`.`x,y` = 1").num_affected_rows == 2
    assert checked_delete(builder, "part = 'a' AND id = 0").num_affected_rows == 1
    assert rows_of(spark, builder.path) == [2, 3, 5]
    for add in log_state(builder.path).adds:
        assert set(add["partitionValues"]) == {"col-4"}
        assert set(stats_of(add)["minValues"]) == {"col-1", "col-2"}
    assert checked_delete(builder, "part = 'b'").num_affected_rows == 2
    assert rows_of(spark, builder.path) == [2]


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_file_without_statistics_gets_its_row_count_from_the_footer(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t t", IDS).deletion_vectors()
    builder.file(ids(*range(5)), stats=False, row_group_size=2).file(ids(5, 6), stats=False).commit()
    result = checked_delete(builder, "id IN (1, 5, 6)")
    assert (result.num_affected_rows, result.metrics.num_removed_files) == (3, 1)
    [add] = log_state(builder.path).adds
    assert stats_of(add) == {"numRecords": 5, "tightBounds": False}
    assert checked_delete(builder, "id >= 0").num_affected_rows == 4
    assert rows_of(spark, builder.path) == []


@pytest.mark.one_kind("no data is read: the log alone decides")
def test_whole_files_that_nobody_counted_are_an_unknown_number_of_rows(tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(1, 2)).file(ids(3), stats=False).commit()
    assert checked_delete(builder).num_affected_rows == -1
    assert "numDeletedRows" not in commit_info(builder.path, 1)["operationMetrics"]


# --- vectors of every kind --------------------------------------------------------------------------------------------


@pytest.mark.one_kind("about what lies in storage, not about Spark")
@pytest.mark.parametrize(("kind", "prefix"), [("i", ""), ("p", ""), ("u", ""), ("u", "ab")])
def test_old_vector_of_any_kind_is_united_into_a_relative_one(spark, tmp_path, checked_delete, kind, prefix):
    builder = TableBuilder(tmp_path / "t ü", IDS).deletion_vectors()
    builder.file(ids(*range(6)), deleted=[0, 5], vector=kind, vector_prefix=prefix).commit()
    old = builder.files[0].add["deletionVector"]
    result = checked_delete(builder, "id <= 2")
    assert (result.num_affected_rows, result.metrics.num_deletion_vectors_updated) == (2, 1)
    [add], [remove] = actions_of(builder.path, 1, "add"), actions_of(builder.path, 1, "remove")
    assert remove["deletionVector"] == old
    assert (add["deletionVector"]["storageType"], len(add["deletionVector"]["pathOrInlineDv"])) == ("u", 20)
    assert list(vector_rows(builder.path, add)) == [0, 1, 2, 5]
    assert rows_of(spark, builder.path) == [3, 4]


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_vectors_of_other_files_in_a_shared_file_are_left_alone(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors(share_a_file=True)
    builder.file(ids(0, 1, 2), deleted=[0]).file(ids(3, 4, 5), deleted=[0]).commit()
    checked_delete(builder, "id = 4")
    state = log_state(builder.path)
    assert [list(vector_rows(builder.path, add)) for add in state.adds] == [[0], [0, 1]]
    assert rows_of(spark, builder.path) == [1, 2, 5]


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_random_prefixes_become_directories(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.table_property("delta.randomizeFilePrefixes", "true").table_property("delta.randomPrefixLength", "3")
    builder.file(ids(0, 1)).file(ids(2, 3)).commit()
    checked_delete(builder, "id IN (0, 2)", config=EngineConfig(deletion_vector_target_bytes=2))
    files = [vector_file(builder.path, add["deletionVector"]) for add in log_state(builder.path).adds]
    assert len(set(files)) == 2
    for file in files:
        assert re.fullmatch(r"[A-Za-z0-9]{3}", file.parent.name)
        assert file.parent.parent == builder.path
    assert rows_of(spark, builder.path) == [1, 3]


@pytest.mark.one_kind("about what lies in storage, not about Spark")
@pytest.mark.parametrize(("target_bytes", "files"), [(2, 10), (200, 3), (2_000_000, 1)])
def test_vectors_are_packed_as_the_reference_packs_them(spark, tmp_path, checked_delete, target_bytes, files):
    """100 files of two rows, one row deleted in ten of them: each vector has 34 bytes, 42 with its frame."""
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    for number in range(100):
        builder.file(ids(2 * number, 2 * number + 1))
    builder.commit()
    config = EngineConfig(deletion_vector_target_bytes=target_bytes)
    result = checked_delete(builder, "id < 20 AND id % 2 = 0", config=config)
    assert result.operation_metrics["numDeletionVectorsAdded"] == 10
    vectors = [add["deletionVector"] for add in actions_of(builder.path, 1, "add")]
    assert [vector["sizeInBytes"] for vector in vectors] == [34] * 10
    assert len({vector_file(builder.path, vector) for vector in vectors}) == files
    assert len(list(builder.path.rglob("*.bin"))) == files
    assert len(rows_of(spark, builder.path)) == 190


# --- places -----------------------------------------------------------------------------------------------------------


def shallow_clone(source, path):
    """A table of its own whose files and vectors lie in another one, named by absolute URLs."""
    (path / "_delta_log").mkdir(parents=True)
    lines = []
    for action in read_commit(source.path, 0):
        add = action.get("add")
        if add is not None:
            vector = add.get("deletionVector")
            if vector and vector["storageType"] == "u":
                place = vector_file(source.path, vector).absolute().as_uri()
                add["deletionVector"] = vector | {"storageType": "p", "pathOrInlineDv": place}
            add["path"] = data_file(source.path, add).absolute().as_uri()
        lines.append(json.dumps(action) + "\n")
    (path / "_delta_log" / f"{0:020d}.json").write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("stats", [True, False])
def test_files_of_a_shallow_clone_are_marked_in_the_clone(spark, tmp_path, checked_delete, stats):
    source = TableBuilder(tmp_path / "the source", IDS).deletion_vectors()
    source.file(ids(*range(5)), deleted=[0]).file(ids(5, 6, 7), stats=stats).commit()
    clone = shallow_clone(source, tmp_path / "the clone")
    config = EngineConfig(allow_foreign_paths=True)
    result = checked_delete(clone, "id IN (1, 6)", config=config)
    assert (result.metrics.num_deletion_vectors_added, result.metrics.num_deletion_vectors_updated) == (1, 1)
    assert {add["deletionVector"]["storageType"] for add in actions_of(clone, 1, "add")} == {"u"}
    removed = {remove["deletionVector"]["storageType"] for remove in actions_of(clone, 1, "remove") if "deletionVector" in remove}  # fmt: skip
    assert removed == {"p"}
    assert len(list(clone.rglob("*.bin"))) == 1
    assert rows_of(spark, clone, config=config) == [2, 3, 4, 5, 7]
    assert rows_of(spark, source.path) == list(range(1, 8))
    assert newest_version(source.path) == 0


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_table_that_moved_keeps_its_marks(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(*range(4))).commit()
    checked_delete(builder, "id = 0")
    moved = tmp_path / "somewhere" / "else"
    shutil.copytree(builder.path, moved)
    assert checked_delete(moved, "id = 1").num_affected_rows == 1
    assert rows_of(spark, moved) == [2, 3]
    assert rows_of(spark, builder.path) == [1, 2, 3]


# --- features ---------------------------------------------------------------------------------------------------------


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_change_feed_of_marked_rows_is_left_to_be_inferred(tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors().change_data_feed()
    builder.file(ids(*range(5))).file(ids(5, 6)).commit()
    result = checked_delete(builder, "id >= 4")
    assert result.metrics.num_added_change_files == 0
    assert not actions_of(builder.path, 1, "cdc")
    assert not (builder.path / "_change_data").exists()
    checked_delete(builder)
    assert not actions_of(builder.path, 2, "cdc")


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_row_ids_stay_with_their_files(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors().row_tracking()
    builder.file(ids(*range(5))).file(ids(5, 6)).commit()
    before = {add["path"]: (add["baseRowId"], add["defaultRowCommitVersion"]) for add in log_state(builder.path).adds}
    checked_delete(builder, "id IN (1, 5, 6)")
    [add] = actions_of(builder.path, 1, "add")
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == before[add["path"]]
    for remove in actions_of(builder.path, 1, "remove"):
        assert (remove["baseRowId"], remove["defaultRowCommitVersion"]) == before[remove["path"]]
    assert commit_info(builder.path, 1)["tags"]["delta.rowTracking.preserved"] == "true"
    assert not actions_of(builder.path, 1, "domainMetadata")


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_time_inside_the_commit_moves_on(tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors().in_commit_timestamps()
    builder.file(ids(1, 2)).commit()
    checked_delete(builder, "id = 1")
    assert list(read_commit(builder.path, 1)[0]) == ["commitInfo"]
    before, after = (commit_info(builder.path, version)["inCommitTimestamp"] for version in (0, 1))
    assert after > before


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_table_that_begins_with_a_checkpoint_is_marked_as_any_other(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(*range(5)), deleted=[0]).commit().checkpoint()
    assert checked_delete(builder, "id < 3").num_affected_rows == 2
    assert rows_of(spark, builder.path) == [3, 4]


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_rows_of_every_row_group_are_found(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(*range(1000)), row_group_size=100).commit()
    for condition, deleted in [("id = 2", 1), ("id = 150", 1), ("id >= 999", 1), ("id % 100 = 50", 9)]:
        assert checked_delete(builder, condition, again=False).num_affected_rows == deleted
    [add] = log_state(builder.path).adds
    assert list(vector_rows(builder.path, add)) == sorted({2, 150, 999, *range(50, 1000, 100)})
    assert rows_of(spark, builder.path) == sorted(set(range(1000)) - {2, 150, 999, *range(50, 1000, 100)})
