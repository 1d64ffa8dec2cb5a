"""Does an upsert, which writes its source while its matches are looked for, leave what any merge leaves?"""

from __future__ import annotations

from threading import Event

import pyarrow as pa
import pytest
from tests.support.merge_checks import checked_merge
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.merge import performing
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.strategy import MergeThresholds
from ebbtide.commands.merge.writing import MergeWriter
from ebbtide.errors import ConstraintViolationError, RequestError
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})


@pytest.fixture(params=["joined", "looked up"])
def upsert(request, spark):
    """`upsert(table, row, ...)` is a command to run."""
    thresholds = MergeThresholds() if request.param == "joined" else MergeThresholds(looked_up_keys=0)

    def command(table, *rows):
        source = spark.createDataFrame(list(rows), "id long, v string").alias("s")
        merge = DeltaTable.forPath(spark, str(table.path)).alias("t").merge(source, "t.id = s.id")
        request = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().to_request()
        return MergeCommand(spark, request, thresholds=thresholds)

    return command


def table(tmp_path, *ids):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file([{"id": number, "v": "old"} for number in ids])
    return builder.commit()


def rows(spark, table):
    return sorted(map(tuple, ebbtide.read(spark, str(table.path)).collect()), key=repr)


def files(table):
    return sorted(path.name for path in table.path.rglob("*.parquet"))


def test_rows_are_counted_by_what_became_of_them(spark, upsert, tmp_path):
    written = table(tmp_path, 1, 2, 3)
    result = checked_merge(spark, written.path, upsert(written, (2, "new"), (7, "new"), (None, "new")).run)
    assert (result.num_updated_rows, result.num_inserted_rows) == (1, 2)
    assert rows(spark, written) == [(1, "old"), (2, "new"), (3, "old"), (7, "new"), (None, "new")]


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("low", [-(2**63), -5, 2**63 - 3])
def test_keys_at_the_ends_of_their_type(spark, upsert, tmp_path, low):
    others = [-(2**63), -1, 0, 2**63 - 1]
    written = table(tmp_path, *{low, low + 1, *others})
    result = upsert(written, (low, "new"), (low + 2, "new")).run()
    assert result.num_updated_rows + result.num_inserted_rows == 2
    expected = dict.fromkeys({low + 1, *others}, "old") | {low: "new", low + 2: "new"}
    assert rows(spark, written) == sorted(expected.items(), key=repr)


@pytest.mark.one_value("both ways run on both kinds in test_rows_are_counted_by_what_became_of_them")
def test_source_row_with_two_matched_rows_is_written_twice(spark, upsert, tmp_path):
    written = table(tmp_path, 1, 1, 3)
    result = checked_merge(spark, written.path, upsert(written, (1, "new"), (9, "new")).run)
    assert (result.num_updated_rows, result.num_inserted_rows) == (2, 1)
    assert rows(spark, written) == [(1, "new"), (1, "new"), (3, "old"), (9, "new")]
    # What was written first, for one matched row each, is not left in the table.
    assert len(files(written)) == 2


@pytest.mark.one_value("both ways run on both kinds in test_rows_are_counted_by_what_became_of_them")
def test_refused_upsert_leaves_no_file(spark, upsert, tmp_path):
    written = table(tmp_path, 1, 2)
    before = files(written)
    with pytest.raises(RequestError, match="more than one row of the source"):
        upsert(written, (1, "a"), (1, "b")).run()
    assert files(written) == before
    assert rows(spark, written) == [(1, "old"), (2, "old")]


@pytest.mark.one_kind(
    "test_broken_constraint_names_itself_and_leaves_nothing_behind in test_merge_input.py runs on both kinds"
)
def test_row_that_breaks_a_rule_leaves_no_file(spark, upsert, tmp_path):
    written = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    written.table_property("delta.constraints.short", "length(v) < 5")
    written.file([{"id": 1, "v": "old"}])
    written.commit()
    before = files(written)
    with pytest.raises(ConstraintViolationError):
        upsert(written, (1, "far too long"), (2, "new")).run()
    assert files(written) == before
    assert rows(spark, written) == [(1, "old")]


@pytest.mark.one_value("both ways run on both kinds in test_rows_are_counted_by_what_became_of_them")
def test_failed_search_takes_the_write_with_it(spark, upsert, tmp_path, monkeypatch):
    written = table(tmp_path, 1, 2)
    before = files(written)

    def fails(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(performing, "find_matches", fails)
    with pytest.raises(KeyboardInterrupt):
        upsert(written, (1, "new"), (2, "new")).run()
    assert files(written) == before


@pytest.mark.one_kind("both ways run on both kinds in test_rows_are_counted_by_what_became_of_them")
def test_empty_source_and_empty_table(spark, upsert, tmp_path):
    written = table(tmp_path, 1)
    assert upsert(written).run().version is None
    empty = TableBuilder(tmp_path / "empty", SCHEMA).deletion_vectors().commit()
    assert upsert(empty, (1, "new")).run().num_inserted_rows == 1
    assert rows(spark, empty) == [(1, "new")]


@pytest.mark.one_value("both ways run on both kinds in test_rows_are_counted_by_what_became_of_them")
def test_search_does_not_wait_for_the_write_nor_the_write_for_the_search(spark, upsert, tmp_path, monkeypatch):
    """Without this the tests above would pass for a merge that does one after the other."""
    writing, searching = Event(), Event()
    write, find = MergeWriter.write_source, performing.find_matches

    def write_beside(self):
        writing.set()
        assert searching.wait(60), "the search waits for the write"
        return write(self)

    def find_beside(*args, **more):
        searching.set()
        assert writing.wait(60), "the write waits for the search"
        return find(*args, **more)

    monkeypatch.setattr(MergeWriter, "write_source", write_beside)
    monkeypatch.setattr(performing, "find_matches", find_beside)
    assert upsert(table(tmp_path, 1, 2), (1, "new")).run().num_updated_rows == 1
