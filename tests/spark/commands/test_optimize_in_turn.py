"""Are files that are read in turn copied in order, and is it noticed when they are not?"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_reading import actions_of, data_file, log_state, newest_version, vector_rows
from tests.support.races import RacingStore, unnamed_files
from tests.support.row_ids import tracked_rows
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

from ebbtide import DeltaTable
from ebbtide.commands.optimize import copying, in_turn
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.request import OptimizeRequest
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64()})
# Spark would read the largest first, and those with marks after those without.
FILES = ((3, []), (70_000, [0, 1, 65_535, 65_536, 69_999]), (1, []), (500, [7]), (20, []))


@pytest.fixture
def tried(monkeypatch):
    """Files of any size are read in turn; the list says of each copy whether its rows came in order."""
    monkeypatch.setattr(in_turn, "_WORTH_A_SCAN", 0)
    outcomes = []
    came = in_turn.RowsInTurn.came_in_order

    def noted(self):
        outcomes.append(came(self))
        return outcomes[-1]

    monkeypatch.setattr(in_turn.RowsInTurn, "came_in_order", noted)
    return outcomes


def build(path, *, tracked=False):
    builder = TableBuilder(path, SCHEMA).deletion_vectors()
    if tracked:
        builder.row_tracking()
    start = 0
    for count, marked in FILES:
        builder.file([{"id": start + number} for number in range(count)], deleted=marked)
        start += count
    return builder.commit()


def compact(spark, store):
    return OptimizeCommand(spark, OptimizeRequest(store)).run()


def assert_in_order(builder):
    """Each old file is one run in the new one; they have the same age, and are ordered by their names then."""
    [add] = log_state(builder.path).adds
    found = pq.ParquetFile(data_file(builder.path, add)).read()["id"].to_pylist()
    runs = sorted(builder.files, key=lambda file: file.add["path"])
    marked = {file.add["path"]: set(gone) for file, (_, gone) in zip(builder.files, FILES, strict=True)}
    starts = dict(zip([file.add["path"] for file in builder.files], (0, 3, 70_003, 70_004, 70_504), strict=True))
    counts = dict(zip(starts, [count for count, _ in FILES], strict=True))
    expected = [
        starts[path] + row
        for path in (file.add["path"] for file in runs)
        for row in range(counts[path])
        if row not in marked[path]
    ]
    assert found == expected
    assert unnamed_files(builder.path) == set()


@pytest.mark.parametrize("split_bytes", ["134217728", "20000"])
def test_files_that_are_read_in_turn_are_not_sorted(spark, tmp_path, tried, monkeypatch, split_bytes):
    monkeypatch.delattr(copying.KeptOrder, "sort")
    builder = build(tmp_path / "t")
    # The large file is read in several pieces.
    with session_settings(spark, {"spark.sql.files.maxPartitionBytes": split_bytes}):
        compact(spark, open_store(str(builder.path)))
    assert tried == [True]
    assert_in_order(builder)


@pytest.mark.one_kind("what is compared is a number that the driver knows")
def test_rows_that_come_in_another_order_are_sorted_and_nothing_else_is_left(spark, tmp_path, tried, monkeypatch):
    united = in_turn._unite
    monkeypatch.setattr(in_turn, "_unite", lambda frames: united(list(reversed(frames))))
    builder = build(tmp_path / "t")
    compact(spark, open_store(str(builder.path)))
    assert tried == [False]
    assert_in_order(builder)
    assert len(actions_of(builder.path, 1, "add")) == 1


def test_rows_deleted_meanwhile_are_marked_where_they_went(spark, tmp_path, tried):
    builder = build(tmp_path / "t")
    path = str(builder.path)
    rival = lambda: DeltaTable.forPath(spark, path).delete("id IN (1, 4, 70002, 70100, 70523)")  # noqa: E731
    gone = {1, 70_100, 70_523}
    store = RacingStore(open_store(path), rival, first=newest_version(builder.path) + 1)
    assert compact(spark, store).metrics.num_carried_rows == len(gone)
    assert tried == [True]
    [add] = log_state(builder.path).adds
    held = pq.ParquetFile(data_file(builder.path, add)).read()["id"].to_pylist()
    assert {held[row] for row in vector_rows(builder.path, add)} == gone


def test_row_ids_are_kept(spark, tmp_path, tried):
    builder = build(tmp_path / "t", tracked=True)
    before = tracked_rows(builder.path)
    compact(spark, open_store(str(builder.path)))
    assert tried == [True]
    assert tracked_rows(builder.path) == before
