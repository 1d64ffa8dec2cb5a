"""Do tracked rows keep their ids through UPDATE and DELETE, marked or rewritten?

Ids are read by hand (`tests/support/row_ids.py`). An updated row keeps its id and belongs to the commit that updated it; a
row that was only copied keeps both.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_reading import actions_of, commit_info, data_file
from tests.support.row_ids import tracked_rows
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import CorruptTableError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.string()})
MODES = pytest.mark.parametrize("mode", ["on", "off"], ids=["vectors", "rewriting"])


def rows(*numbers, part="a"):
    return [{"id": number, "name": f"n{number}", "part": part} for number in numbers]


def tracked_table(path, *, feed=False, mapping=None, partitioned=False):
    """0 to 3 in version 0, of which 1 is deleted; 4 to 7 in version 1."""
    builder = TableBuilder(path, SCHEMA).deletion_vectors().row_tracking()
    if feed:
        builder.change_data_feed()
    if mapping:
        builder.column_mapping(mapping)
    if partitioned:
        builder.partitioned_by("part")
    builder.file(rows(0, 1, 2, 3), deleted=[1]).commit()
    return builder.file(rows(4, 5, 6, 7, part="b")).commit()


@pytest.mark.one_value("the same calls for other values")
@MODES
@pytest.mark.parametrize("feed", [False, True], ids=["no feed", "change feed"])
def test_updated_rows_keep_their_ids_and_name_the_new_commit(tmp_path, checked_update, mode, feed):
    builder = tracked_table(tmp_path / "t", feed=feed)
    before = tracked_rows(builder.path)
    assert before == {0: (0, 0), 2: (2, 0), 3: (3, 0), 4: (4, 1), 5: (5, 1), 6: (6, 1), 7: (7, 1)}
    checked_update(builder, {"name": "upper(name)"}, "id IN (2, 4)", deletion_vectors=mode)
    assert tracked_rows(builder.path) == before | {2: (2, 2), 4: (4, 2)}
    assert commit_info(builder.path, 2)["tags"] == {"delta.rowTracking.preserved": "true"}
    checked_update(builder, {"name": "lower(name)"}, "id IN (0, 4)", deletion_vectors=mode)
    assert tracked_rows(builder.path) == before | {0: (0, 3), 2: (2, 2), 4: (4, 3)}


@pytest.mark.one_value("the same calls for other values")
@MODES
def test_ids_outlive_a_change_of_the_way(tmp_path, checked_update, checked_delete, mode):
    builder = tracked_table(tmp_path / "t", partitioned=True)
    before = tracked_rows(builder.path)
    checked_update(builder, {"part": "'c'"}, "id IN (2, 4, 5)", deletion_vectors=mode)
    checked_delete(builder, "id IN (0, 5)", deletion_vectors="off")
    checked_update(builder, {"name": "'x'"}, "part = 'c'")
    expected = before | {2: (2, 4), 4: (4, 4)}
    assert tracked_rows(builder.path) == {key: expected[key] for key in (2, 3, 4, 6, 7)}


@pytest.mark.one_value("the same calls for other values")
@MODES
def test_whole_table_keeps_its_ids(tmp_path, checked_update, mode):
    builder = tracked_table(tmp_path / "t")
    before = tracked_rows(builder.path)
    checked_update(builder, {"name": "'x'"}, deletion_vectors=mode)
    assert tracked_rows(builder.path) == {key: (row_id, 2) for key, (row_id, _) in before.items()}


@pytest.mark.one_value("the same calls for other values")
@MODES
@pytest.mark.parametrize("mapping", ["name", "id"])
def test_mapped_tables_keep_their_ids(spark, tmp_path, checked_update, mapping, mode):
    builder = tracked_table(tmp_path / "t", mapping=mapping)
    before = tracked_rows(builder.path, key="col-1")
    checked_update(builder, {"name": "'x'"}, "id IN (3, 5)", deletion_vectors=mode)
    checked_update(builder, {"name": "'y'"}, "id = 3", deletion_vectors=mode)
    assert tracked_rows(builder.path, key="col-1") == before | {3: (3, 3), 5: (5, 2)}
    names = {row["id"]: row["name"] for row in ebbtide.read(spark, str(builder.path)).collect()}
    assert (names[3], names[5], names[0]) == ("y", "x", "n0")


@pytest.mark.one_kind("the calls of test_updated_rows_keep_their_ids_and_name_the_new_commit, which runs on both kinds")
def test_ids_are_in_the_columns_that_the_table_names(tmp_path, checked_update):
    builder = tracked_table(tmp_path / "t")
    checked_update(builder, {"name": "'x'"}, "id = 2")
    [new] = [add for add in actions_of(builder.path, 2, "add") if "deletionVector" not in add]
    data = pq.ParquetFile(data_file(builder.path, new)).read()
    hidden = [name for name in data.column_names if name.startswith("_row")]
    assert [data[name].to_pylist() for name in hidden] == [[2], [None]]
    assert data.schema.field(hidden[0]).type == pa.int64()
    assert (new["baseRowId"], new["defaultRowCommitVersion"]) == (8, 2)


@pytest.mark.one_kind("refused before Spark is asked")
def test_table_that_does_not_name_its_columns_is_refused(tmp_path, checked_update):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().feature("domainMetadata").feature("rowTracking")
    builder.table_property("delta.enableRowTracking", "true").file(rows(1, 2)).commit()
    with pytest.raises(CorruptTableError, match="materializedRowIdColumnName"):
        checked_update(builder, {"name": "'x'"}, "id = 1")
