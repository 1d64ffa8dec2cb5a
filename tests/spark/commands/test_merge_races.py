"""Is a MERGE that loses a race what it would have been had it started after the winner?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.invariants import look
from tests.support.log_reading import newest_version
from tests.support.merge_checks import assert_merged
from tests.support.races import append, set_property, unnamed_files
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.request import DeleteClause, InsertClause, MergeRequest, UpdateClause
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import DeltaConcurrentModificationException, MetadataChangedException
from ebbtide.storage import open_store
from ebbtide.table import DeltaTable

pytestmark = pytest.mark.spark


@pytest.fixture(params=["on", "off"])
def table(request, tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    builder.table_property("vectors", request.param)
    return builder.file([{"id": 1}, {"id": 2}, {"id": 3}]).file([{"id": 11}, {"id": 12}]).commit()


UPSERT = {"matched": (UpdateClause((("id", "t.id + 100"),)),), "not_matched": (InsertClause(None),)}


def race(spark, table, winner, ids, clauses=UPSERT, source=None, **options):
    """The merge's answer; `winner` commits when the merge is about to. The table is checked around the merge."""
    images = []

    def let_the_winner_in(phase):
        if phase == "Committing":
            winner()
            images.append(look(spark, table.path))

    frame = spark.createDataFrame([(number,) for number in ids], "id long") if source is None else source
    vectors = table._properties["vectors"]
    request = MergeRequest(
        open_store(str(table.path)),
        frame.alias("s"),
        "t.id = s.id",
        target_alias="t",
        options=WriteOptions(deletion_vectors=vectors, **options),
        **clauses,
    )
    result = MergeCommand(spark, request, on_phase=let_the_winner_in).run()
    assert_merged(spark, table.path, images[0], result)
    assert not unnamed_files(table.path), "an abandoned attempt left files behind"
    return result


def delete(spark, table, condition):
    return lambda: DeltaTable.forPath(spark, str(table.path)).delete(condition)


def ids_of(spark, table):
    return sorted(row["id"] for row in ebbtide.read(spark, str(table.path)).collect())


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_file_that_nobody_looked_at_does_not_matter(spark, table):
    result = race(spark, table, delete(spark, table, "id = 11"), [2, 4])
    assert result.version == 2
    assert (result.num_updated_rows, result.num_inserted_rows) == (1, 1)
    assert ids_of(spark, table) == [1, 3, 4, 12, 102]


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_row_that_the_winner_deleted_is_inserted(spark, table):
    result = race(spark, table, delete(spark, table, "id = 2"), [2, 3])
    assert (result.num_updated_rows, result.num_inserted_rows) == (1, 1)
    assert ids_of(spark, table) == [1, 2, 11, 12, 103]


@pytest.mark.one_value("both modes merge on both kinds in test_merge.py")
def test_row_that_the_winner_appended_is_updated(spark, table):
    store = open_store(str(table.path))
    result = race(spark, table, lambda: append(store, [4]), [2, 4])
    assert (result.num_updated_rows, result.num_inserted_rows) == (2, 0)
    assert ids_of(spark, table) == [1, 3, 11, 12, 102, 104]


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_duplicate_that_the_winner_made_is_no_second_partner(spark, table):
    store = open_store(str(table.path))
    result = race(spark, table, lambda: append(store, [2]), [2])
    assert result.num_updated_rows == 2
    assert ids_of(spark, table) == [1, 3, 11, 12, 102, 102]


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_rows_without_a_partner_follow_the_winner(spark, table):
    store = open_store(str(table.path))
    clauses = {"not_matched_by_source": (DeleteClause("t.id > 3"),)}
    result = race(spark, table, lambda: append(store, [50]), [11], clauses)
    assert result.num_deleted_rows == 2
    assert ids_of(spark, table) == [1, 2, 3, 11]


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_winner_that_did_it_all_leaves_nothing_to_do(spark, table):
    result = race(spark, table, delete(spark, table, "id = 2"), [2], {"matched": (DeleteClause(),)})
    assert (result.version, result.num_affected_rows) == (None, 0)


def switched(table, value):
    return lambda: set_property(open_store(str(table.path)), "delta.enableDeletionVectors", value)


@pytest.fixture
def plain(table, tmp_path):
    """The same rows under a protocol that knows no vectors."""
    builder = TableBuilder(tmp_path / "plain", pa.schema({"id": pa.int64()}))
    builder.table_property("vectors", table._properties["vectors"])
    return builder.file([{"id": 1}, {"id": 2}, {"id": 3}]).file([{"id": 11}, {"id": 12}]).commit()


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_upgrade_to_vectors_meanwhile_neither_loses_nor_doubles_a_row(spark, plain):
    result = race(spark, plain, switched(plain, "true"), [2, 12, 4])
    assert (result.version, result.num_updated_rows, result.num_inserted_rows) == (2, 2, 1)
    assert ids_of(spark, plain) == [1, 3, 4, 11, 102, 112]
    assert result.metrics.num_target_deletion_vectors_added == (2 if plain._properties["vectors"] == "on" else 0)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_row_that_the_winner_appended_is_updated runs on both kinds"
)
def test_merge_that_may_not_rebase_lands_beside_an_upgrade_to_vectors(spark, plain):
    """The upgrade touches no file, so what was rewritten stands, as in the reference; no row is there twice."""
    result = race(spark, plain, switched(plain, "true"), [2, 12, 4], conflicts="abort")
    assert (result.version, result.num_updated_rows, result.num_inserted_rows) == (2, 2, 1)
    assert result.metrics.num_target_deletion_vectors_added == 0
    assert ids_of(spark, plain) == [1, 3, 4, 11, 102, 112]


@pytest.mark.one_kind(
    "after a lost race the log decides; test_row_that_the_winner_appended_is_updated runs on both kinds"
)
def test_merge_that_may_not_rebase_is_stopped_by_the_first_vectors(spark, plain):
    """It has copied rows that the winner marked since: its commit would bring them back."""

    def winner():
        switched(plain, "true")()
        delete(spark, plain, "id = 1")()

    with pytest.raises(DeltaConcurrentModificationException):
        race(spark, plain, winner, [2, 4], conflicts="abort")
    assert newest_version(plain.path) == 2
    assert ids_of(spark, plain) == [2, 3, 11, 12]
    assert not unnamed_files(plain.path)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_row_that_the_winner_appended_is_updated runs on both kinds"
)
def test_rows_that_the_first_vectors_marked_are_not_brought_back(spark, plain):
    """The merge has copied, or found partners in, files that had no vectors when it began."""

    def winner():
        switched(plain, "true")()
        delete(spark, plain, "id IN (1, 2)")()

    result = race(spark, plain, winner, [2, 3])
    assert (result.version, result.num_updated_rows, result.num_inserted_rows) == (3, 1, 1)
    assert ids_of(spark, plain) == [2, 11, 12, 103]


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_insertion_alone_follows_an_upgrade_to_vectors(spark, plain):
    def winner():
        switched(plain, "true")()
        delete(spark, plain, "id = 2")()

    result = race(spark, plain, winner, [2, 3, 4], {"not_matched": (InsertClause(None),)})
    assert (result.version, result.num_inserted_rows) == (3, 2)
    assert ids_of(spark, plain) == [1, 2, 3, 4, 11, 12]


@pytest.mark.one_kind("after a lost race the log decides; one race of each command runs on both kinds")
def test_switching_off_of_vectors_meanwhile_is_a_conflict(spark, table):
    delete(spark, table, "id = 11")()
    with pytest.raises(MetadataChangedException, match="enableDeletionVectors"):
        race(spark, table, switched(table, "false"), [2, 12, 4])
    assert newest_version(table.path) == 2
    assert ids_of(spark, table) == [1, 2, 3, 12]
    assert not unnamed_files(table.path)


@pytest.mark.one_kind(
    "after a lost race the log decides; test_row_that_the_winner_appended_is_updated runs on both kinds"
)
def test_request_to_abort_raises_what_the_reference_raises(spark, table):
    with pytest.raises(DeltaConcurrentModificationException):
        race(spark, table, delete(spark, table, "id = 2"), [2], conflicts="abort")
    assert newest_version(table.path) == 1
    assert not unnamed_files(table.path)


@pytest.mark.one_value("the source is looked at on both kinds, before the mode matters")
def test_source_that_reads_the_target_cannot_follow(spark, table):
    store = open_store(str(table.path))
    itself = ebbtide.read(spark, str(table.path))
    with pytest.raises(DeltaConcurrentModificationException):
        race(spark, table, lambda: append(store, [4]), [], source=itself)
    assert ids_of(spark, table) == [1, 2, 3, 4, 11, 12]
    assert not unnamed_files(table.path)
