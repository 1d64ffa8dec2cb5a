"""Does a DELETE that lost a race end as if it had started after the winner, and look again only at what changed?

Every test lets a DELETE find its rows, write its vectors or files, and then lose: a rival commits just before the
DELETE's own commit reaches storage (`RacingStore`). The table has three files of ten ids each: a 0-9, b 10-19, c 20-29.
Unless a test says otherwise the loser deletes 0 to 6 and 11: most of a, one row of b, nothing of c, which its statistics
rule out. So "on" marks two files, "off" rewrites two, "auto" rewrites a and marks b.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable as RivalTable
from deltalake import write_deltalake
from tests.support import races
from tests.support.invariants import assert_table_invariants, look
from tests.support.log_reading import actions_of, newest_version, vector_file
from tests.support.races import ID_SCHEMA, RacingStore, ids_at
from tests.support.searches import Searches, watched
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    StorageError,
)
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

CONDITION = "id < 7 OR id = 11"
DELETED = {*range(7), 11}
MODES = ["on", "off", "auto"]


def rows(first, last):
    return [{"id": number} for number in range(first, last)]


class Table:
    """The table of a test, the loser's view of it, and what the loser looked at again."""

    def __init__(self, spark, path, *, vectors=True, build=lambda builder: builder):
        self.spark = spark
        self.path = path
        builder = TableBuilder(path, ID_SCHEMA)
        if vectors:
            builder.deletion_vectors()
        builder.file(rows(0, 10), name="a").file(rows(10, 20), name="b").file(rows(20, 30), name="c")
        build(builder)
        builder.commit()
        self.store = open_store(str(path))
        self.searches = Searches()
        self.won = None

    def delete(self, condition, *, store=None, **options):
        """A DELETE that nobody races with, unless its store says so."""
        request = DeleteRequest(store or self.store, condition, options=WriteOptions(**options))
        return watched(DeleteCommand, self.searches)(self.spark, request).run()

    def lose(self, *rivals, condition=CONDITION, **options):
        """Run the DELETE so that each of the rivals commits before it. What it looks at is noted from the first on."""

        def wins(rival):
            def run():
                seen = list(self.searches.rounds)
                rival()
                # A rival may be a DELETE too, and what it looks at is its own business.
                self.searches.rounds[:] = [] if self.won is None else seen
                self.won = look(self.spark, self.path)

            return run

        first = newest_version(self.path) + 1
        return self.delete(condition, store=RacingStore(self.store, *map(wins, rivals), first=first), **options)

    def rescanned(self):
        """The files in which the loser looked for rows after it had lost; new ones by the name `new`."""
        return sorted(path if len(path) == 1 else "new" for paths in self.searches.rounds for path in paths)

    def assert_whole(self, result):
        assert_table_invariants(self.spark, self.path, before=self.won, result=result)
        races.assert_each_delete_counts_its_own_rows(self.path)
        assert races.unnamed_files(self.path) == set(), "a lost attempt left files behind"


@pytest.fixture
def table(spark, tmp_path):
    return Table(spark, tmp_path / "t")


def without(*gone):
    return [number for number in range(30) if number not in {*DELETED, *gone}]


# --- delete and delete ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_delete_of_rows_that_the_winner_deleted_makes_no_version(table, mode):
    result = table.lose(lambda: table.delete(CONDITION), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert result.metrics.num_deletion_vectors_added == result.metrics.num_removed_files == 0
    assert ids_at(table.path) == without()
    assert newest_version(table.path) == 1
    assert table.rescanned() == []
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_deletes_of_other_rows_of_one_file_are_both_kept(table, mode):
    result = table.lose(lambda: table.delete("id IN (8, 12)"), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == without(8, 12)
    assert table.rescanned() == []
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_row_that_both_delete_counts_for_the_winner_alone(table, mode):
    result = table.lose(lambda: table.delete("id IN (0, 8)"), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 7)
    assert ids_at(table.path) == without(8)
    assert table.rescanned() == []
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_deletes_in_other_files_do_not_disturb_each_other(table, mode):
    result = table.lose(lambda: table.delete("id = 25"), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == without(25)
    assert table.rescanned() == []
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_file_that_the_winner_removed_whole_is_left_alone(table, mode):
    result = table.lose(lambda: table.delete("id < 10"), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 1)
    assert ids_at(table.path) == without(7, 8, 9)
    assert table.rescanned() == []
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_winner_and_loser_together_empty_a_file_and_the_file_goes(table, mode):
    result = table.lose(lambda: table.delete("id BETWEEN 7 AND 9"), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == without(7, 8, 9)
    assert "a" not in races.live_paths(table.path)
    assert result.metrics.num_removed_files >= 1
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_both_delete_do_not_make_a_file_look_empty(table, mode):
    """Three marks of the winner and seven of the loser in a file of ten rows, one of them the same: row 9 stays."""
    result = table.lose(lambda: table.delete("id IN (6, 7, 8)"), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 7)
    assert ids_at(table.path) == without(7, 8)
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_winner_that_rewrites_files_makes_the_loser_look_at_the_new_ones_only(table, mode):
    result = table.lose(lambda: table.delete("id IN (8, 25)", deletion_vectors="off"), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == without(8, 25)
    assert set(table.rescanned()) == {"new"}
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_delete_that_loses_twice_in_a_row_follows_both_winners(table, mode):
    """Three deletes of one file: the first winner marks it, the second marks it again, and appends come in between."""

    def append_then_delete():
        races.append(table.store, [-1, 100])
        table.delete("id IN (9, 100)")

    result = table.lose(lambda: table.delete("id IN (0, 8)"), append_then_delete, deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (4, 8)
    assert ids_at(table.path) == without(8, 9)
    assert table.rescanned() == ["new"]
    table.assert_whole(result)


def test_three_deletes_that_all_start_on_one_version_all_land(table):
    """The third holds the second at its commit, which holds the first."""
    start = load_snapshot(table.store)

    def delete_at_start(condition, *rivals):
        store = RacingStore(table.store, *rivals, first=1)
        request = DeleteRequest(store, condition, hint=start)
        return DeleteCommand(table.spark, request).run()

    results = []
    results.append(
        delete_at_start(
            "id IN (1, 2, 3)",
            lambda: results.append(
                delete_at_start("id IN (2, 4)", lambda: results.append(delete_at_start("id IN (1, 2)")))
            ),
        )
    )
    assert [(result.version, result.num_affected_rows) for result in results] == [(1, 2), (2, 1), (3, 1)]
    assert ids_at(table.path) == [0, *range(5, 30)]
    races.assert_each_delete_counts_its_own_rows(table.path)


# --- delete and append ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_matching_rows_that_were_appended_meanwhile_are_deleted_too(table, mode):
    result = table.lose(lambda: races.append(table.store, [-2, -1, 100]), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 10)
    assert ids_at(table.path) == [*without(), 100]
    assert table.rescanned() == ["new"]
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_appended_rows_that_do_not_match_stay(table, mode):
    """Statistics cannot rule the new file out, so it is looked at, and nothing in it matches."""
    result = table.lose(lambda: races.append(table.store, [7, 50]), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == sorted([*without(), 7, 50])
    assert table.rescanned() == ["new"]
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_appended_file_that_cannot_match_is_not_even_looked_at(table, mode):
    result = table.lose(
        lambda: write_deltalake(str(table.path), pa.table({"id": [60, 61]}), mode="append"), deletion_vectors=mode
    )
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == [*without(), 60, 61]
    assert table.rescanned() == []
    table.assert_whole(result)


def test_delete_of_everything_deletes_what_was_appended_meanwhile(table):
    result = table.lose(lambda: races.append(table.store, [100, 101]), condition=None)
    assert (result.version, result.num_affected_rows) == (2, 32)
    assert ids_at(table.path) == []
    assert table.rescanned() == []
    table.assert_whole(result)


def test_delete_by_partition_removes_files_that_came_meanwhile_and_reads_no_data(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "p": pa.string()})).partitioned_by("p")
    builder.deletion_vectors().file([{"id": 1, "p": "x"}]).file([{"id": 2, "p": "y"}]).commit()
    new = pa.table({"id": [3, 4], "p": ["x", "y"]})
    store = RacingStore(
        open_store(str(builder.path)), lambda: write_deltalake(str(builder.path), new, mode="append"), first=1
    )
    searches = Searches()
    result = watched(DeleteCommand, searches)(spark, DeleteRequest(store, "p = 'x'")).run()
    assert (result.version, result.num_affected_rows) == (2, 2)
    assert ids_at(builder.path) == [2, 4]
    assert searches.rounds == []


# --- delete and layout ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_found_again_in_the_file_that_a_compaction_moved_them_to(table, mode):
    result = table.lose(RivalTable(str(table.path)).optimize.compact, deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == without()
    assert table.rescanned() == ["new"]
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_compaction_of_one_file_of_two_leaves_the_other_ones_result_standing(table, mode):
    result = table.lose(lambda: races.compact(table.store, table.path, paths=["b", "c"]), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == without()
    assert table.rescanned() == ["new"]
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_a_restore_brings_back_are_deleted_as_well(table, mode):
    """The vector of a shrinks under the loser: 0 was deleted when it looked, and is there again when it commits."""
    table.delete("id IN (0, 8, 12)")
    result = table.lose(lambda: races.restore(table.store, 0), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (3, 8)
    assert ids_at(table.path) == without()
    assert table.rescanned() == ["a", "b"]
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_restore_of_a_version_in_which_rows_were_deleted_counts_them_for_itself(table, mode):
    """The vector of a grows by a restore, which is no other than growing by a DELETE."""
    table.delete("id IN (0, 8)")
    races.restore(table.store, 0)
    result = table.lose(lambda: races.restore(table.store, 1), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (4, 7)
    assert ids_at(table.path) == without(8)
    assert table.rescanned() == []
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_overwritten_table_is_deleted_from_as_it_is_then(table, mode):
    result = table.lose(lambda: races.overwrite(table.store, [3, 4, 100]), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 2)
    assert ids_at(table.path) == [100]
    assert table.rescanned() == ["new"]
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_overwrite_that_leaves_nothing_to_delete_makes_the_loser_do_nothing(table, mode):
    result = table.lose(lambda: races.overwrite(table.store, [7, 100]), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert ids_at(table.path) == [7, 100]
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spelling", ["a", "%61"])
def test_file_that_was_only_stated_again_keeps_what_the_loser_did(table, mode, spelling):
    """Somebody writes new tags, and may spell the path in another way: the rows are the same."""

    def restate():
        [old] = [add for add in load_snapshot(table.store).add_files() if add.path == "a"]
        races.commit(table.store, [replace(old, path=spelling, tags={"seen": "yes"}, data_change=False)], "STATISTICS")

    result = table.lose(restate, deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert sorted(look(table.spark, table.path).rows["id"].to_pylist()) == without()
    assert table.rescanned() == []
    assert [add.tags for add in load_snapshot(table.store).add_files() if add.path == spelling] == (
        [{"seen": "yes"}] if mode == "on" else []
    )


# --- delete and the table itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_delete_is_stopped_by_a_change_of_the_schema(table, mode):
    """The condition was read against other columns: a new column could shadow a name in it, so nobody guesses."""
    with pytest.raises(MetadataChangedException, match="ADD COLUMNS"):
        table.lose(lambda: races.add_column(table.store, "note"), deletion_vectors=mode)
    assert newest_version(table.path) == 1
    assert ids_at(table.path) == list(range(30))


@pytest.mark.parametrize("mode", ["on", "auto"])
def test_delete_that_raced_with_enabling_vectors_marks_its_rows(spark, tmp_path, mode):
    table = Table(spark, tmp_path / "t", vectors=False)
    result = table.lose(
        lambda: races.set_property(table.store, "delta.enableDeletionVectors", "true"), deletion_vectors=mode
    )
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == without()
    marked = {add["path"] for add in actions_of(table.path, 2, "add") if "deletionVector" in add}
    assert marked == ({"a", "b"} if mode == "on" else {"b"})
    assert table.rescanned() == ["a", "b"]
    table.assert_whole(result)


def test_delete_that_rewrites_is_not_disturbed_by_enabling_vectors(spark, tmp_path):
    table = Table(spark, tmp_path / "t", vectors=False)
    result = table.lose(
        lambda: races.set_property(table.store, "delta.enableDeletionVectors", "true"), deletion_vectors="off"
    )
    assert (result.version, result.num_affected_rows) == (2, 8)
    assert ids_at(table.path) == without()
    assert table.rescanned() == []
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_the_first_vectors_marked_are_not_brought_back(spark, tmp_path, mode):
    table = Table(spark, tmp_path / "t", vectors=False)

    def rivals():
        races.set_property(table.store, "delta.enableDeletionVectors", "true")
        table.delete("id IN (0, 8, 12)")

    result = table.lose(rivals, deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (3, 7)
    assert ids_at(table.path) == without(8, 12)
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_delete_is_stopped_by_the_switching_off_of_vectors(table, mode):
    """Marks that it has made must not come into a table that wants none."""
    with pytest.raises(MetadataChangedException, match="enableDeletionVectors"):
        table.lose(
            lambda: races.set_property(table.store, "delta.enableDeletionVectors", "false"), deletion_vectors=mode
        )
    assert newest_version(table.path) == 1
    assert ids_at(table.path) == list(range(30))
    assert races.unnamed_files(table.path) == set()


def test_delete_by_keys_follows_a_winner_with_the_keys_it_pinned(table):
    from ebbtide.commands.requests import MatchingKeys

    keys = MatchingKeys(table.spark.createDataFrame([(number,) for number in [*DELETED, -1]], "id BIGINT"), ("id",))

    def rivals():
        table.delete("id IN (0, 8)")
        races.append(table.store, [-1, 7])

    result = table.lose(rivals, condition=keys)
    assert (result.version, result.num_affected_rows) == (3, 8)
    assert ids_at(table.path) == sorted([*without(8), 7])
    assert table.rescanned() == ["new"]
    table.assert_whole(result)


def test_same_delete_sent_twice_at_once_lands_once(table):
    """Idempotent by application and version: what came between the two sendings must survive the second."""
    sent = {"txn_app_id": "job", "txn_version": 1}

    def first_sending():
        table.delete(CONDITION, **sent)
        races.append(table.store, [3])

    result = table.lose(first_sending, **sent)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert ids_at(table.path) == sorted([*without(), 3])
    assert races.unnamed_files(table.path) == set()


@pytest.mark.parametrize("mode", MODES)
def test_change_data_of_a_loser_that_rewrites_tells_its_own_rows(spark, tmp_path, mode):
    table = Table(spark, tmp_path / "t", build=lambda builder: builder.change_data_feed())
    result = table.lose(lambda: table.delete("id IN (0, 8)", deletion_vectors=mode), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 7)
    assert bool(actions_of(table.path, 2, "cdc")) == (mode == "off")
    table.assert_whole(result)


# --- as the reference does --------------------------------------------------------------------------------------------

RIVALS_IN_THE_WAY = {
    "append": (lambda table: races.append(table.store, [50]), ConcurrentAppendException),
    "delete of the same file": (lambda table: table.delete("id = 8"), ConcurrentAppendException),
    "delete of another file": (lambda table: table.delete("id = 25"), ConcurrentAppendException),
    "delete of the whole file": (lambda table: table.delete("id < 10"), ConcurrentDeleteReadException),
    "compaction": (lambda table: races.compact(table.store, table.path), ConcurrentAppendException),
    "overwrite": (lambda table: races.overwrite(table.store, [1]), ConcurrentAppendException),
    "schema": (lambda table: races.add_column(table.store, "note"), MetadataChangedException),
}


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("rival", RIVALS_IN_THE_WAY)
def test_delete_that_may_not_rebase_is_stopped_as_the_reference_stops_it(table, mode, rival):
    act, error = RIVALS_IN_THE_WAY[rival]
    with pytest.raises(error) as caught:
        table.lose(lambda: act(table), deletion_vectors=mode, conflicts="abort")
    assert type(caught.value) is error
    assert "Nothing was changed" in str(caught.value)
    assert newest_version(table.path) == 1
    assert races.unnamed_files(table.path) == set()


@pytest.mark.parametrize("rival", sorted(set(RIVALS_IN_THE_WAY) - {"schema"}))
def test_what_stops_the_reference_does_not_stop_a_delete_that_rebases(table, rival):
    act, _ = RIVALS_IN_THE_WAY[rival]
    result = table.lose(lambda: act(table))
    assert result.version == 2
    assert not DELETED & set(ids_at(table.path))
    table.assert_whole(result)


def test_delete_of_everything_that_may_not_rebase_is_stopped_by_a_delete(table):
    with pytest.raises(ConcurrentDeleteReadException) as caught:
        table.lose(lambda: table.delete("id < 10"), condition=None, conflicts="abort")
    assert isinstance(caught.value, DeltaConcurrentModificationException)
    assert not isinstance(caught.value, ConcurrentDeleteDeleteException)
    assert ids_at(table.path) == list(range(10, 30))


def test_condition_that_reads_the_table_itself_is_not_followed(table):
    """What such a condition means changes with every commit; it is answered by the reference's rules."""
    condition = f"id = (SELECT max(id) FROM delta.`{table.path}`)"
    with pytest.raises(ConcurrentAppendException):
        table.lose(lambda: races.append(table.store, [50]), condition=condition)
    assert ids_at(table.path) == [*range(30), 50]


# --- what is left behind ----------------------------------------------------------------------------------------------


def test_vectors_of_the_lost_attempt_are_deleted(table):
    result = table.lose(lambda: table.delete("id IN (8, 12)"))
    assert result.version == 2
    assert races.unnamed_files(table.path) == set()


def test_file_of_vectors_stays_while_one_of_them_is_needed(table):
    """The vectors of a and b are in one file; the winner changes b, so that only the one of a is used."""
    result = table.lose(lambda: table.delete("id = 12"))
    assert result.version == 2
    files = {vector_file(table.path, add["deletionVector"]) for add in actions_of(table.path, 2, "add")}
    assert len(files) == 2
    assert ids_at(table.path) == without(12)
    table.assert_whole(result)


@pytest.mark.parametrize("mode", MODES)
def test_loser_that_fails_while_it_follows_leaves_nothing_behind(table, mode):
    """What it had written for the first attempt goes, and what it had begun for the second."""

    def fail():
        raise StorageError("no more room")

    def rival():
        races.append(table.store, [1])
        table.delete("id = 8")
        table.searches.before = fail

    with pytest.raises(StorageError):
        table.lose(rival, deletion_vectors=mode)
    assert newest_version(table.path) == 2
    assert ids_at(table.path) == sorted([*(number for number in range(30) if number != 8), 1])
    assert races.unnamed_files(table.path) == set()


def test_delete_whose_vectors_fail_leaves_no_rewritten_file(table):
    """`auto` rewrites a first, then marks b."""

    def fail(op, path):
        if op == "put_if_absent" and path.endswith(".bin"):
            raise StorageError("no more room")

    with pytest.raises(StorageError):
        table.delete(CONDITION, store=HookedStore(table.store, before=fail), deletion_vectors="auto")
    assert races.unnamed_files(table.path) == set()


def test_vectors_of_files_that_the_winner_left_alone_are_used_and_not_written_again(table):
    store_calls = []
    result = table.lose(lambda: store_calls.append(races.append(table.store, [60])))
    assert result.version == 2
    assert races.unnamed_files(table.path) == set()
