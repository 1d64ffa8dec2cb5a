"""Is the outcome of two DELETEs that overlap what it would be had one come after the other?

The second one is let in at the moment when the first is about to commit, so the first always loses the race and has to
follow. No threads and no waiting.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.invariants import assert_table_invariants, look
from tests.support.log_reading import actions_of, log_state, newest_version, vector_rows
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.errors import ConcurrentDeleteReadException, DeltaConcurrentModificationException
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

IDS = pa.schema({"id": pa.int64()})


@pytest.fixture
def table(tmp_path):
    """0 to 9 in two files of five."""
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file([{"id": number} for number in range(5)]).file([{"id": number} for number in range(5, 10)])
    return builder.commit()


def command(spark, table, condition, on_phase=lambda _: None, **options):
    request = DeleteRequest(open_store(str(table.path)), condition, options=WriteOptions(**options))
    return DeleteCommand(spark, request, on_phase=on_phase)


def race(spark, table, loser, winner, *, winner_options=None, **options):
    """Run both; what the loser, which follows the winner, answered. The table is checked around the loser."""
    images = []

    def let_the_winner_in(phase):
        if phase == "Committing":
            command(spark, table, winner, **(winner_options or {})).run()
            images.append(look(spark, table.path))

    result = command(spark, table, loser, on_phase=let_the_winner_in, **options).run()
    assert_table_invariants(spark, table.path, before=images[0], result=result)
    return result


def rows_of(spark, table):
    return sorted(row["id"] for row in ebbtide.read(spark, str(table.path)).collect())


@pytest.mark.one_value("after a lost race the log decides; one race of each command runs on both kinds")
@pytest.mark.parametrize(
    ("loser", "winner", "affected", "left"),
    [
        ("id = 1", "id = 2", 1, [0, 3, 4, 5, 6, 7, 8, 9]),
        ("id = 1", "id = 7", 1, [0, 2, 3, 4, 5, 6, 8, 9]),
        ("id IN (1, 2)", "id IN (2, 3)", 1, [0, 4, 5, 6, 7, 8, 9]),
        ("id IN (1, 2)", "id < 5", 0, [5, 6, 7, 8, 9]),
        ("id < 5", "id = 2", 4, [5, 6, 7, 8, 9]),
        ("id >= 0", "id IN (0, 9)", 8, []),
        ("id = 2", "id = 2", 0, [0, 1, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_rows_of_both_deletes_are_gone_and_each_is_counted_once(spark, table, loser, winner, affected, left):
    result = race(spark, table, loser, winner)
    assert result.num_affected_rows == affected
    assert (result.version is None) is (affected == 0)
    assert rows_of(spark, table) == left


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_union_with_the_winner_names_the_winners_vector(spark, table):
    race(spark, table, "id = 1", "id = 2")
    [remove], [add] = actions_of(table.path, 2, "remove"), actions_of(table.path, 2, "add")
    [winners] = actions_of(table.path, 1, "add")
    assert remove["deletionVector"] == winners["deletionVector"]
    assert list(vector_rows(table.path, add)) == [1, 2]


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
@pytest.mark.parametrize("loser_mode", ["on", "off"])
@pytest.mark.parametrize("winner_mode", ["on", "off"])
def test_marking_and_rewriting_may_meet(spark, table, loser_mode, winner_mode):
    result = race(
        spark,
        table,
        "id IN (1, 2)",
        "id IN (2, 3)",
        winner_options={"deletion_vectors": winner_mode},
        deletion_vectors=loser_mode,
    )
    assert result.num_affected_rows == 1
    assert rows_of(spark, table) == [0, *range(4, 10)]


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_whole_table_delete_takes_what_the_winner_left(spark, table):
    result = race(spark, table, None, "id = 2")
    assert result.num_affected_rows == 9
    assert log_state(table.path).live == {}


@pytest.mark.one_kind(
    "after a lost race the log decides; test_rows_of_both_deletes_are_gone_and_each_is_counted_once runs on both kinds"
)
def test_request_to_abort_raises_what_the_reference_raises(spark, table):
    with pytest.raises(DeltaConcurrentModificationException) as caught:
        race(spark, table, "id = 1", "id = 2", conflicts="abort")
    assert isinstance(caught.value, ConcurrentDeleteReadException) or "APPEND" in caught.value.error_class
    assert newest_version(table.path) == 1
    assert rows_of(spark, table) == [0, 1, *range(3, 10)]
