"""Does a DELETE take the cheapest way, delete exactly the rows for which the condition is true, and say so in the log?

Worked examples with deletion vectors on. Every DELETE here goes through `checked_delete`, which compares log, vectors,
files and rows before and after (`tests/support/invariants.py`) and runs it a second time to see that nothing is left to do.
"""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import (
    actions_of,
    commit_info,
    log_state,
    newest_version,
    read_commit,
    stats_of,
    vector_rows,
)
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.conditions import bind_condition
from ebbtide.errors import DeltaError, InvalidPredicateError, UnknownColumnError
from ebbtide.storage import open_store
from ebbtide.transaction import Transaction

pytestmark = pytest.mark.spark

IDS = pa.schema({"id": pa.int64()})
PEOPLE = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.string()})
VECTOR_COUNTERS = ("numDeletionVectorsAdded", "numDeletionVectorsRemoved", "numDeletionVectorsUpdated")


def ids(*numbers):
    return [{"id": number} for number in numbers]


@pytest.fixture
def table(tmp_path):
    """0 to 9 in two files of five."""
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    return builder.file(ids(*range(5))).file(ids(*range(5, 10))).commit()


@pytest.fixture
def people(tmp_path):
    """Two files each in the partitions a, b and null, two people each; every second name is null."""
    builder = TableBuilder(tmp_path / "people", PEOPLE).partitioned_by("part").deletion_vectors()
    for number, part in enumerate(["a", "a", "b", "b", None, None]):
        first = 2 * number
        rows = [{"id": first, "name": f"n{first}", "part": part}, {"id": first + 1, "name": None, "part": part}]
        builder.file(rows)
    return builder.commit()


def rows_of(spark, table, **options):
    return sorted(row["id"] for row in ebbtide.read(spark, str(table.path), **options).collect())


def kinds(table, version):
    return [next(iter(action)) for action in read_commit(table.path, version)]


# --- the worked examples ----------------------------------------------------------------------------------------------


@pytest.mark.one_kind("the log decides, not Spark")
def test_delete_in_steps_counts_as_the_reference_counts(spark, table, checked_delete):
    steps = [
        ("id >= 4", {"numDeletedRows": 6, "numRemovedFiles": 1}, (1, 0, 0)),
        ("id = 3", {"numDeletedRows": 1, "numRemovedFiles": 0}, (1, 1, 1)),
        ("id IN (0, 1, 2)", {"numDeletedRows": 3, "numRemovedFiles": 1}, (0, 1, 0)),
    ]
    for version, (condition, counters, vectors) in enumerate(steps, start=1):
        result = checked_delete(table, condition)
        expected = counters | dict(zip(VECTOR_COUNTERS, vectors, strict=True))
        assert expected.items() <= result.operation_metrics.items()
        written = commit_info(table.path, version)["operationMetrics"]
        assert {name: str(count) for name, count in expected.items()}.items() <= written.items()
    assert rows_of(spark, table) == []
    assert log_state(table.path).live == {}
    assert rows_of(spark, table, version=1) == [0, 1, 2, 3]
    assert rows_of(spark, table, version=2) == [0, 1, 2]
    assert rows_of(spark, table, version=0) == list(range(10))


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_commit_has_the_shape_that_others_write(tmp_path, checked_delete):
    """One file with one marked row, one more is marked: every field of every line."""
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(*range(50))).commit()
    builder.mark(builder.files[0], [3]).commit(operation="DELETE")
    [old] = log_state(builder.path).adds
    checked_delete(builder, "id = 7")
    [first, second, third] = read_commit(builder.path, 2)

    info = first["commitInfo"]
    assert info["operation"] == "DELETE"
    assert info["operationParameters"] == {"predicate": '["id = 7"]'}
    assert (info["readVersion"], info["isolationLevel"], info["isBlindAppend"]) == (1, "Serializable", False)
    metrics = info["operationMetrics"]
    assert int(metrics.pop("executionTimeMs")) >= 0
    assert metrics == {
        "numRemovedFiles": "0",
        "numRemovedBytes": "0",
        "numCopiedRows": "0",
        "numDeletionVectorsAdded": "1",
        "numDeletionVectorsRemoved": "1",
        "numAddedChangeFiles": "0",
        "numDeletionVectorsUpdated": "1",
        "numDeletedRows": "1",
        "scanTimeMs": "0",
        "numAddedFiles": "0",
        "numAddedBytes": "0",
        "rewriteTimeMs": "0",
    }
    assert info["engineInfo"].startswith("Ebbtide/")
    assert info["txnId"]
    assert abs(info["timestamp"] - dt.datetime.now(dt.timezone.utc).timestamp() * 1000) < 600_000

    add = second["add"]
    vector = add.pop("deletionVector")
    stats = json.loads(add.pop("stats"))
    assert add == {
        "path": old["path"],
        "partitionValues": {},
        "size": old["size"],
        "modificationTime": old["modificationTime"],
        "dataChange": True,
    }
    assert stats == {
        "numRecords": 50,
        "minValues": {"id": 0},
        "maxValues": {"id": 49},
        "nullCount": {"id": 0},
        "tightBounds": False,
    }
    assert list(vector) == ["storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality"]
    assert (vector["storageType"], len(vector["pathOrInlineDv"])) == ("u", 20)
    assert (vector["offset"], vector["sizeInBytes"], vector["cardinality"]) == (1, 36, 2)
    assert list(vector_rows(builder.path, second["add"] | {"deletionVector": vector})) == [3, 7]

    remove = third["remove"]
    assert remove.pop("deletionTimestamp") == pytest.approx(info["timestamp"], abs=600_000)
    assert remove == {
        "path": old["path"],
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": old["size"],
        "stats": '{"numRecords":50}',
        "deletionVector": old["deletionVector"],
    }


# --- the three ways ---------------------------------------------------------------------------------------------------


@pytest.mark.one_kind("no data is read: the log alone decides")
def test_delete_without_a_condition_removes_every_file_unread(table, checked_delete):
    sizes = sum(file.add["size"] for file in table.files)
    result = checked_delete(table, again=False)
    assert kinds(table, 1) == ["commitInfo", "remove", "remove"]
    assert commit_info(table.path, 1)["operationParameters"] == {"predicate": "[]"}
    metrics = result.metrics
    assert (metrics.num_deleted_rows, metrics.num_removed_files, metrics.num_removed_bytes) == (10, 2, sizes)
    assert (metrics.num_files_before_skipping, metrics.num_files_after_skipping) == (2, 2)
    assert (metrics.num_bytes_before_skipping, metrics.num_bytes_after_skipping) == (sizes, sizes)
    assert not list(table.path.rglob("*.bin"))


@pytest.mark.one_kind("no data is read: the log alone decides")
def test_delete_of_everything_reports_the_vectors_it_drops(tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(*range(5)), deleted=[0, 1]).file(ids(5, 6)).commit()
    result = checked_delete(builder)
    assert result.num_affected_rows == 5
    assert result.metrics.num_deletion_vectors_removed == 1
    assert [remove.get("deletionVector") for remove in actions_of(builder.path, 1, "remove")] == [
        file.add.get("deletionVector") for file in builder.files
    ]


def test_condition_on_partition_columns_removes_whole_files_unread(spark, people, checked_delete):
    partition, elsewhere = people.path / "part=a", people.path.parent / "elsewhere"
    partition.rename(elsewhere)
    result = DeleteCommand(spark, DeleteRequest(open_store(str(people.path)), "part = 'a'")).run()
    elsewhere.rename(partition)
    assert kinds(people, 1) == ["commitInfo", "remove", "remove"]
    metrics = result.metrics
    assert (metrics.num_deleted_rows, metrics.num_removed_files) == (4, 2)
    assert (metrics.num_files_before_skipping, metrics.num_files_after_skipping) == (6, 2)
    assert (metrics.num_partitions_after_skipping, metrics.num_partitions_removed_from) == (1, 1)
    assert metrics.num_partitions_added_to == 0
    assert checked_delete(people, "part = 'a'").version is None
    assert rows_of(spark, people) == list(range(4, 12))


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("part IS NULL", 8),
        ("part <> 'a'", 8),
        ("part = 'a' OR part IS NULL", 4),
        ("upper(part) = 'A' AND 1 = 1", 8),
        ("part = NULL", 12),
        ("false", 12),
        ("CAST(NULL AS BOOLEAN)", 12),
        ("1 + 1 = 2", 0),
    ],
)
def test_partition_values_decide_without_a_vector(spark, people, checked_delete, condition, left):
    result = checked_delete(people, condition, again=False)
    assert result.num_affected_rows == 12 - left
    assert not actions_of(people.path, newest_version(people.path), "add") or left == 12
    assert len(rows_of(spark, people)) == left


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds the contents of the log"
)
def test_partition_and_data_are_asked_together(spark, people, checked_delete):
    result = checked_delete(people, "part = 'b' AND name IS NULL")
    assert result.num_affected_rows == 2
    assert result.metrics.num_files_after_skipping == 2
    assert result.metrics.num_partitions_after_skipping == 1
    assert rows_of(spark, people) == [0, 1, 2, 3, 4, 6, 8, 9, 10, 11]


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds the contents of the log"
)
def test_files_that_cannot_match_are_not_read(table, checked_delete):
    result = checked_delete(table, "id = 7")
    assert result.metrics.num_files_before_skipping == 2
    assert result.metrics.num_files_after_skipping == 1
    assert [add["path"] for add in actions_of(table.path, 1, "add")] == [table.files[1].add["path"]]


# --- which rows -------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize(
    ("condition", "deleted"),
    [
        ("name = 'n2'", [2]),
        ("name <> 'n2'", [0, 4, 6, 8, 10]),
        ("NOT (name = 'n2')", [0, 4, 6, 8, 10]),
        ("name IS NULL", [1, 3, 5, 7, 9, 11]),
        ("name <=> NULL AND id < 4", [1, 3]),
        ("name = NULL", []),
        ("name IN ('n0', NULL)", [0]),
        ("name NOT IN ('n0', NULL)", []),
        ("coalesce(name = 'n2', true)", [1, 2, 3, 5, 7, 9, 11]),
    ],
)
def test_row_for_which_the_condition_is_null_stays(spark, people, checked_delete, condition, deleted):
    result = checked_delete(people, condition, again=False)
    assert result.num_affected_rows == len(deleted)
    assert rows_of(spark, people) == sorted(set(range(12)) - set(deleted))


def test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped(spark, tmp_path, checked_delete):
    # Spark's writer puts 20,000 rows into a page; the keys are in the first and the last of four.
    path = tmp_path / "t"
    properties = {"delta.enableDeletionVectors": "true"}
    ebbtide.write(spark.range(0, 70_000, 1, 1), str(path), properties=properties)
    keys = [*range(0, 20_000, 1_999), *range(60_001, 70_000, 999)]
    assert 10 < len(keys) <= 256
    result = checked_delete(path, f"id IN ({', '.join(map(str, keys))})")
    assert result.num_affected_rows == len(keys)
    left = {row.id for row in ebbtide.read(spark, str(path)).collect()}
    assert left == set(range(70_000)) - set(keys)


def test_condition_may_be_a_column(spark, table, checked_delete):
    result = checked_delete(table, (F.col("id") > 2) & (F.col("id") < 7))
    assert result.num_affected_rows == 4
    assert rows_of(spark, table) == [0, 1, 2, 7, 8, 9]
    [predicate] = json.loads(commit_info(table.path, 1)["operationParameters"]["predicate"])
    assert "id" in predicate


def test_condition_may_use_the_alias_of_the_table(spark, table, checked_delete):
    assert checked_delete(table, "t.id % 2 = 0", alias="t").num_affected_rows == 5
    assert rows_of(spark, table) == [1, 3, 5, 7, 9]


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds values"
)
def test_condition_may_speak_of_now(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "day": pa.date32()})).deletion_vectors()
    days = [dt.date(1969, 12, 31), dt.date(2099, 12, 31), None]
    builder.file([{"id": number, "day": day} for number, day in enumerate(days)]).commit()
    assert checked_delete(builder, "day < current_date()").num_affected_rows == 1
    assert checked_delete(builder, "CAST(day AS TIMESTAMP) >= current_timestamp()").num_affected_rows == 1
    assert rows_of(spark, builder) == [2]


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds values"
)
def test_nested_fields_and_elements_can_be_asked_for(spark, tmp_path, checked_delete):
    schema = pa.schema(
        {
            "id": pa.int64(),
            "s": pa.struct({"inner": pa.struct({"x": pa.int32()})}),
            "tags": pa.list_(pa.string()),
            "m": pa.map_(pa.string(), pa.int32()),
        }
    )
    rows = [
        {"id": 0, "s": {"inner": {"x": 1}}, "tags": ["a"], "m": [("k", 1)]},
        {"id": 1, "s": {"inner": {"x": 2}}, "tags": ["b"], "m": [("k", 2)]},
        {"id": 2, "s": {"inner": None}, "tags": [], "m": []},
        {"id": 3, "s": None, "tags": None, "m": None},
    ]
    builder = TableBuilder(tmp_path / "t", schema).deletion_vectors().file(rows).commit()
    assert checked_delete(builder, "s.inner.x = 1").num_affected_rows == 1
    assert checked_delete(builder, "array_contains(tags, 'b') AND m['k'] = 2").num_affected_rows == 1
    assert checked_delete(builder, "s IS NULL").num_affected_rows == 1
    assert rows_of(spark, builder) == [2]


@pytest.mark.one_kind("test_helper_names.py does this on both kinds")
def test_user_columns_may_have_the_names_of_our_helpers(spark, tmp_path, checked_delete):
    names = ("path", "file", "row", "block", "bit", "word", "_metadata", "__ebbtide_file", "deletionVector", "id")
    schema = pa.schema({name: pa.int64() for name in names})
    rows = [dict.fromkeys(names, number) for number in range(6)]
    builder = TableBuilder(tmp_path / "t", schema).deletion_vectors().file(rows[:3]).file(rows[3:]).commit()
    assert checked_delete(builder, "path = 1 OR file = 2 OR `_metadata` = 4 OR word = 5").num_affected_rows == 4
    assert rows_of(spark, builder) == [0, 3]


# --- again ------------------------------------------------------------------------------------------------------------


@pytest.mark.one_kind("the log decides, not Spark")
def test_second_delete_keeps_what_the_first_marked(spark, table, checked_delete):
    checked_delete(table, "id IN (1, 8)")
    result = checked_delete(table, "id IN (1, 2, 8, 9)")
    assert result.num_affected_rows == 2
    marked = [list(vector_rows(table.path, add)) for add in log_state(table.path).adds]
    assert sorted(marked) == [[1, 2], [3, 4]]
    assert rows_of(spark, table) == [0, 3, 4, 5, 6, 7]
    assert rows_of(spark, table, version=1) == [0, 2, 3, 4, 5, 6, 7, 9]


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds the contents of the log"
)
def test_delete_of_deleted_rows_is_no_commit(table, checked_delete):
    checked_delete(table, "id = 1", again=False)
    vectors = set(table.path.rglob("*.bin"))
    result = checked_delete(table, "id = 1", again=False)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert newest_version(table.path) == 1
    assert set(table.path.rglob("*.bin")) == vectors


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds the contents of the log"
)
def test_delete_that_matches_nothing_is_no_commit(table, checked_delete):
    result = checked_delete(table, "id % 100 = 50", again=False)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert result.metrics.num_files_after_skipping == 2
    assert not list(table.path.rglob("*.bin"))


@pytest.mark.one_kind("the log decides, not Spark")
def test_every_earlier_version_still_shows_its_rows(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).deletion_vectors()
    builder.file(ids(*range(8))).commit()
    for number in range(8):
        checked_delete(builder, f"id = {number}", again=False)
    for version in range(9):
        assert rows_of(spark, builder, version=version) == list(range(version, 8))


# --- what the request says --------------------------------------------------------------------------------------------


@pytest.mark.one_kind("refused before Spark is asked")
def test_append_only_table_refuses_even_where_nothing_matches(spark, tmp_path, checked_delete):
    builder = TableBuilder(tmp_path / "t", IDS).table_property("delta.appendOnly", "true").deletion_vectors()
    builder.feature("appendOnly").file(ids(1)).commit()
    for condition in (None, "id = 99", "id = 1"):
        with pytest.raises(DeltaError) as caught:
            checked_delete(builder, condition)
        assert caught.value.error_class == "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    assert rows_of(spark, builder) == [1]


@pytest.mark.one_kind("the log decides, not Spark")
def test_application_transaction_lands_once(spark, table, checked_delete):
    sent = {"txn_app_id": "job", "txn_version": 5}
    assert checked_delete(table, "id = 1", **sent).version == 1
    [transaction] = actions_of(table.path, 1, "txn")
    assert (transaction["appId"], transaction["version"]) == ("job", 5)
    assert kinds(table, 1)[:2] == ["commitInfo", "txn"]
    repeated = checked_delete(table, "id = 2", **sent)
    assert (repeated.version, repeated.num_affected_rows) == (None, 0)
    assert checked_delete(table, "id = 2", txn_app_id="job", txn_version=4).version is None
    assert checked_delete(table, "id = 2", txn_app_id="job", txn_version=6).version == 2
    assert log_state(table.path).transactions == {"job": 6}
    assert rows_of(spark, table) == [0, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds the contents of the log"
)
def test_application_transaction_alone_is_no_commit(table, checked_delete):
    assert checked_delete(table, "id = 99", txn_app_id="job", txn_version=5).version is None
    assert log_state(table.path).transactions == {}


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds the contents of the log"
)
def test_words_of_the_user_are_in_the_commit(table, checked_delete):
    checked_delete(table, "id = 1", user_metadata="ticket 42")
    assert commit_info(table.path, 1)["userMetadata"] == "ticket 42"


@pytest.mark.one_kind(
    "the calls of test_condition_may_be_a_column and test_long_list_of_keys_finds_its_rows_though_pages_between_them_are_skipped, which run on both kinds; this adds the names of the phases"
)
def test_progress_is_told_in_phases(spark, table):
    phases = []
    request = DeleteRequest(open_store(str(table.path)), "id = 1")
    DeleteCommand(spark, request, on_phase=phases.append).run()
    assert phases == ["Reading the log", "Looking for matching rows", "Committing"]


def test_delete_inside_another_command_gives_its_actions_and_commits_nothing(spark, table):
    store = open_store(str(table.path))
    transaction = Transaction.begin(store)
    command = DeleteCommand(spark, DeleteRequest(store, None))
    everything = command.perform_delete(transaction, command.plan(transaction.snapshot, None))
    assert [type(action).__name__ for action in everything.actions()] == ["RemoveFile", "RemoveFile"]
    condition = bind_condition(spark, transaction.snapshot, "id = 1")
    some = command.perform_delete(transaction, command.plan(transaction.snapshot, condition))
    assert [type(action).__name__ for action in some.actions()] == ["AddFile", "RemoveFile"]
    assert some.metrics().num_deleted_rows == 1
    assert newest_version(table.path) == 0


# --- conditions that are no good --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "error", "error_class"),
    [
        ("rand() < 0.5", InvalidPredicateError, "INVALID_NON_DETERMINISTIC_EXPRESSIONS"),
        ("id = 1 AND uuid() = 'x'", InvalidPredicateError, "INVALID_NON_DETERMINISTIC_EXPRESSIONS"),
        ("nobody = 1", UnknownColumnError, "UNRESOLVED_COLUMN"),
        ("id + 1", InvalidPredicateError, "DATATYPE_MISMATCH"),
        ("sum(id) > 1", InvalidPredicateError, ""),
        ("id = ", InvalidPredicateError, "PARSE_SYNTAX_ERROR"),
        ("  ", InvalidPredicateError, ""),
    ],
)
def test_bad_condition_is_refused_before_any_work(spark, table, checked_delete, condition, error, error_class):
    with pytest.raises(error) as caught:
        checked_delete(table, condition)
    assert caught.value.error_class.startswith(error_class)
    assert newest_version(table.path) == 0
    assert rows_of(spark, table) == list(range(10))


@pytest.mark.one_value("the same calls for another spelling")
@pytest.mark.parametrize("keys", ["VALUES 1, 2", "TABLE gone", "FROM gone", "SELECT id FROM gone"])
def test_rows_may_be_chosen_by_a_query_in_any_of_its_forms(spark, table, checked_delete, keys):
    spark.createDataFrame(pa.table({"id": pa.array([1, 2], pa.int64())})).createOrReplaceTempView("gone")
    assert checked_delete(table, f"id IN ({keys})").num_affected_rows == 2
    assert rows_of(spark, table) == [0, *range(3, 10)]


def test_cached_reader_does_not_make_later_reads_stale(spark, table, checked_delete):
    frame = ebbtide.read(spark, str(table.path)).cache()
    try:
        assert frame.count() == 10
        checked_delete(table, "id < 3")
        assert rows_of(spark, table) == list(range(3, 10))
        assert ebbtide.read(spark, str(table.path)).count() == 7
    finally:
        frame.unpersist()


@pytest.mark.one_kind("about what lies in storage, not about Spark")
def test_statistics_after_marking_tell_all_null_from_some_null(tmp_path, checked_delete):
    schema = pa.schema({"id": pa.int64(), "never": pa.string(), "always": pa.string(), "some": pa.string()})
    rows = [{"id": number, "never": None, "always": "x", "some": "x" if number % 2 else None} for number in range(4)]
    builder = TableBuilder(tmp_path / "t", schema).deletion_vectors().file(rows).commit()
    checked_delete(builder, "id = 0")
    checked_delete(builder, "id = 1")
    [add] = log_state(builder.path).adds
    assert stats_of(add)["nullCount"] == {"id": 0, "never": 4, "always": 0, "some": 2}
    assert checked_delete(builder, "never IS NOT NULL").version is None
    assert checked_delete(builder, "some IS NULL").num_affected_rows == 1
