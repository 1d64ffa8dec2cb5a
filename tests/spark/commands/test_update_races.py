"""Is the outcome of an UPDATE that lost a race what it would be had it started after the winner?

The winner is let in at the moment when the UPDATE is about to commit. No threads and no waiting. Whatever the update had
written and does not need any more must be gone from storage.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.invariants import assert_table_invariants, look
from tests.support.log_reading import actions_of, data_file, log_state, newest_version, vector_file
from tests.support.races import set_property
from tests.support.row_ids import tracked_rows
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.requests import UpdateRequest, WriteOptions
from ebbtide.commands.update.command import UpdateCommand
from ebbtide.errors import (
    CommitOutcomeUnknownError,
    ConstraintViolationError,
    DeltaConcurrentModificationException,
    MetadataChangedException,
)
from ebbtide.storage import PutOutcomeUnknownError, open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64()})
MODES = pytest.mark.parametrize("mode", ["on", "off"], ids=["vectors", "rewriting"])


def rows(*numbers):
    return [{"id": number, "n": 0} for number in numbers]


@pytest.fixture
def table(tmp_path):
    """0 to 9 in two files of five."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    return builder.file(rows(*range(5))).file(rows(*range(5, 10))).commit()


def command(spark, table, assignments, condition, on_phase=lambda _: None, store=None, **options):
    store = store or open_store(str(table.path))
    request = UpdateRequest(store, condition, tuple(assignments.items()), options=WriteOptions(**options))
    return UpdateCommand(spark, request, on_phase=on_phase)


def race(spark, table, assignments, condition, winner, **options):
    """Let `winner()` commit while the update is about to; the update's answer. The table is checked around it."""
    images = []

    def let_the_winner_in(phase):
        if phase == "Committing":
            winner()
            images.append(look(spark, table.path))

    result = command(spark, table, assignments, condition, on_phase=let_the_winner_in, **options).run()
    assert_table_invariants(spark, table.path, before=images[0], result=result)
    assert_no_litter(table)
    return result


def assert_no_litter(table):
    """Every data and vector file was named by some commit."""
    named = set()
    for version in range(newest_version(table.path) + 1):
        for kind in ("add", "cdc"):
            for action in actions_of(table.path, version, kind):
                named.add(data_file(table.path, action))
                if action.get("deletionVector"):
                    named.add(vector_file(table.path, action["deletionVector"]))
    found = {
        file for file in table.path.rglob("*") if file.suffix in {".parquet", ".bin"} and "_delta_log" not in file.parts
    }
    assert found <= named, f"left over: {sorted(found - named)}"


def values_of(spark, table):
    return {row["id"]: row["n"] for row in ebbtide.read(spark, str(table.path)).collect()}


def updated(spark, table, assignments, condition, **options):
    return lambda: command(spark, table, assignments, condition, **options).run()


def deleted(spark, table, condition, **options):
    return lambda: ebbtide.DeltaTable.forPath(spark, str(table.path)).delete(condition, **options)


ADD_ONE = {"n": "n + 1"}


@pytest.mark.one_value("the mode of the winner is in the log", "winner_mode")
@MODES
@pytest.mark.parametrize("winner_mode", ["on", "off"], ids=["winner marks", "winner rewrites"])
def test_two_updates_of_the_same_rows_both_count(spark, table, mode, winner_mode):
    winner = updated(spark, table, {"n": "n + 10"}, "id IN (2, 3)", deletion_vectors=winner_mode)
    result = race(spark, table, ADD_ONE, "id IN (1, 2)", winner, deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 2)
    assert values_of(spark, table) == {n: {1: 1, 2: 11, 3: 10}.get(n, 0) for n in range(10)}


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
@MODES
def test_update_whose_files_stand_keeps_what_it_wrote(spark, table, mode):
    written = []

    def winner():
        written.extend(file for file in table.path.glob("*.parquet"))
        updated(spark, table, {"n": "n + 10"}, "id = 7")()

    result = race(spark, table, ADD_ONE, "id IN (1, 2)", winner, deletion_vectors=mode)
    assert result.num_affected_rows == 2
    assert values_of(spark, table) == {n: {1: 1, 2: 1, 7: 10}.get(n, 0) for n in range(10)}
    new = [data_file(table.path, add) for add in actions_of(table.path, 2, "add") if "deletionVector" not in add]
    assert set(new) <= set(written)


@pytest.mark.one_value("both modes run on both kinds in test_two_updates_of_the_same_rows_both_count")
@MODES
def test_rows_that_came_meanwhile_are_updated_too(spark, table, mode):
    def winner():
        table.file(rows(1, 20)).commit()

    result = race(spark, table, ADD_ONE, "id IN (1, 2)", winner, deletion_vectors=mode)
    assert result.num_affected_rows == 3
    found = sorted(map(tuple, ebbtide.read(spark, str(table.path)).where("n = 1 OR id = 20").collect()))
    assert found == [(1, 1), (1, 1), (2, 1), (20, 0)]


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
@MODES
def test_rows_that_went_meanwhile_are_not_brought_back(spark, table, mode):
    result = race(
        spark, table, ADD_ONE, "id IN (1, 2, 7)", deleted(spark, table, "id IN (2, 7)"), deletion_vectors=mode
    )
    assert result.num_affected_rows == 1
    assert values_of(spark, table) == {n: int(n == 1) for n in range(10) if n not in (2, 7)}


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
@MODES
def test_update_of_what_the_winner_made_unmatched_does_nothing(spark, table, mode):
    winner = updated(spark, table, {"n": "5"}, "id = 1")
    result = race(spark, table, {"n": "9"}, "id = 1 AND n = 0", winner, deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert values_of(spark, table)[1] == 5


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
@MODES
def test_update_of_what_the_winner_made_match_sees_it(spark, table, mode):
    winner = updated(spark, table, {"n": "5"}, "id IN (3, 8)")
    result = race(spark, table, {"n": "n * 10"}, "n = 5 OR id = 0", winner, deletion_vectors=mode)
    assert result.num_affected_rows == 3
    assert values_of(spark, table) == {n: 50 * (n in (3, 8)) for n in range(10)}


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
@MODES
def test_update_of_everything_takes_what_the_winner_left(spark, table, mode):
    def winner():
        deleted(spark, table, "id IN (0, 9)")()
        updated(spark, table, {"n": "5"}, "id = 4")()

    result = race(spark, table, ADD_ONE, None, winner, deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (3, 8)
    assert values_of(spark, table) == {n: 6 if n == 4 else 1 for n in range(1, 9)}


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_update_that_raced_with_the_switching_on_of_vectors_marks(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).feature("deletionVectors").file(rows(*range(5))).commit()
    winner = lambda: set_property(open_store(str(builder.path)), "delta.enableDeletionVectors", "true")  # noqa: E731
    assert race(spark, builder, ADD_ONE, "id = 1", winner).metrics.num_deletion_vectors_added == 1
    assert values_of(spark, builder) == {n: int(n == 1) for n in range(5)}


@pytest.fixture
def plain(tmp_path):
    """0 to 9 in two files of five, under a protocol that knows no vectors."""
    return TableBuilder(tmp_path / "t", SCHEMA).file(rows(*range(5))).file(rows(*range(5, 10))).commit()


def switched(table, value):
    return lambda: set_property(open_store(str(table.path)), "delta.enableDeletionVectors", value)


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
@pytest.mark.parametrize("mode", ["on", "off", "auto"])
def test_update_that_raced_with_an_upgrade_to_vectors_counts_each_row_once(spark, plain, mode):
    result = race(spark, plain, ADD_ONE, "id IN (1, 7)", switched(plain, "true"), deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (2, 2)
    assert values_of(spark, plain) == {n: int(n in (1, 7)) for n in range(10)}
    assert len(ebbtide.read(spark, str(plain.path)).collect()) == 10
    assert result.metrics.num_deletion_vectors_added == (0 if mode == "off" else 2)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
@pytest.mark.parametrize("mode", ["on", "off"])
def test_update_that_may_not_rebase_lands_beside_an_upgrade_to_vectors(spark, plain, mode):
    """The upgrade touches no file, so what was rewritten stands, as in the reference; no row is there twice."""
    result = race(
        spark, plain, ADD_ONE, "id IN (1, 7)", switched(plain, "true"), deletion_vectors=mode, conflicts="abort"
    )
    assert (result.version, result.num_affected_rows, result.metrics.num_deletion_vectors_added) == (2, 2, 0)
    assert values_of(spark, plain) == {n: int(n in (1, 7)) for n in range(10)}
    assert len(ebbtide.read(spark, str(plain.path)).collect()) == 10
    assert_no_litter(plain)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
@pytest.mark.parametrize("mode", ["on", "off"])
def test_update_that_may_not_rebase_is_stopped_by_the_first_vectors(spark, plain, mode):
    """It has copied rows that the winner marked since: its commit would bring them back."""

    def winner():
        switched(plain, "true")()
        deleted(spark, plain, "id = 2")()

    with pytest.raises(DeltaConcurrentModificationException):
        race(spark, plain, ADD_ONE, "id IN (1, 7)", winner, deletion_vectors=mode, conflicts="abort")
    assert newest_version(plain.path) == 2
    assert values_of(spark, plain) == {n: 0 for n in range(10) if n != 2}
    assert_no_litter(plain)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
@pytest.mark.parametrize("mode", ["on", "off", "auto"])
def test_rows_that_the_first_vectors_marked_are_not_brought_back(spark, plain, mode):
    """The update has copied rows of files that had no vectors when it began."""

    def winner():
        switched(plain, "true")()
        deleted(spark, plain, "id IN (2, 7)")()
        updated(spark, plain, {"n": "n + 10"}, "id IN (1, 3)")()

    result = race(spark, plain, ADD_ONE, "id IN (1, 2, 7, 8)", winner, deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (4, 2)
    assert values_of(spark, plain) == {n: {1: 11, 3: 10, 8: 1}.get(n, 0) for n in range(10) if n not in (2, 7)}
    assert len(ebbtide.read(spark, str(plain.path)).collect()) == 8


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
@MODES
def test_update_is_stopped_by_the_switching_off_of_vectors(spark, table, mode):
    """Marks that it has made must not come into a table that wants none."""
    deleted(spark, table, "id = 9")()
    with pytest.raises(MetadataChangedException, match="enableDeletionVectors"):
        race(spark, table, ADD_ONE, "id IN (1, 7)", switched(table, "false"), deletion_vectors=mode)
    assert newest_version(table.path) == 2
    assert values_of(spark, table) == dict.fromkeys(range(9), 0)
    assert_no_litter(table)
    assert command(spark, table, ADD_ONE, "id IN (1, 7)").run().num_affected_rows == 2
    assert values_of(spark, table) == {n: int(n in (1, 7)) for n in range(9)}


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
@MODES
def test_tracked_rows_keep_their_ids_through_a_lost_race(spark, tmp_path, mode):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().row_tracking()
    builder.file(rows(*range(5))).file(rows(*range(5, 10))).commit()
    before = tracked_rows(builder.path)
    race(
        spark, builder, ADD_ONE, "id IN (1, 2)", updated(spark, builder, ADD_ONE, "id IN (2, 7)"), deletion_vectors=mode
    )
    assert tracked_rows(builder.path) == before | {1: (1, 2), 2: (2, 2), 7: (7, 1)}


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_application_transaction_is_recorded_when_the_winner_left_nothing(spark, table):
    winner = deleted(spark, table, "id = 1")
    result = race(spark, table, ADD_ONE, "id = 1", winner, txn_app_id="app", txn_version=1)
    assert (result.version, result.num_affected_rows) == (2, 0)
    assert log_state(table.path).transactions == {"app": 1}


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_same_application_transaction_lands_once_and_leaves_no_litter(spark, table):
    options = {"txn_app_id": "app", "txn_version": 1}
    winner = updated(spark, table, ADD_ONE, "id = 1", **options)
    result = race(spark, table, ADD_ONE, "id = 1", winner, **options)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert values_of(spark, table)[1] == 1


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
@MODES
def test_request_to_abort_raises_and_leaves_no_litter(spark, table, mode):
    winner = updated(spark, table, ADD_ONE, "id = 2")
    with pytest.raises(DeltaConcurrentModificationException):
        race(spark, table, ADD_ONE, "id = 1", winner, conflicts="abort", deletion_vectors=mode)
    assert newest_version(table.path) == 1
    assert_no_litter(table)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
def test_winners_row_that_breaks_a_rule_fails_the_update_and_leaves_no_litter(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().feature("checkConstraints")
    builder.table_property("delta.constraints.few", "n < 100").file(rows(*range(5))).commit()
    with pytest.raises(ConstraintViolationError):
        race(spark, builder, {"n": "n + 50"}, "id < 2", updated(spark, builder, {"n": "60"}, "id = 1"))
    assert values_of(spark, builder) == {n: 60 * (n == 1) for n in range(5)}
    assert_no_litter(builder)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_two_updates_of_the_same_rows_both_count and test_rows_that_came_meanwhile_are_updated_too run on both kinds"
)
def test_nothing_is_deleted_while_the_outcome_is_unknown(spark, table):
    """The put lands, its answer is lost, and so is every look: the files must stay, for the table names them."""

    def lose(op, path):
        if op in {"put_if_absent", "read_range"} and path.endswith("1.json"):
            raise PutOutcomeUnknownError("the answer was lost")

    store = HookedStore(open_store(str(table.path)), after=lose)
    with pytest.raises(CommitOutcomeUnknownError):
        command(spark, table, ADD_ONE, "id = 1", store=store).run()
    assert values_of(spark, table) == {n: int(n == 1) for n in range(10)}
