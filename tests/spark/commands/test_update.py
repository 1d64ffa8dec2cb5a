"""Does an UPDATE change exactly the rows for which the condition is true, and say so in the log?

Worked examples, with deletion vectors and without. Every UPDATE goes through `checked_update`, which compares log,
vectors, files and rows before and after (`tests/support/invariants.py`).
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import (
    actions_of,
    commit_info,
    data_file,
    log_state,
    newest_version,
    read_commit,
    stats_of,
)
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import DeltaError, InvalidPredicateError
from ebbtide.scan import flagged_rows
from ebbtide.session_settings import UPDATE_WITH_VECTORS

pytestmark = pytest.mark.spark

PEOPLE = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.string()})
VECTOR_COUNTERS = ("numDeletionVectorsAdded", "numDeletionVectorsRemoved", "numDeletionVectorsUpdated")
MODES = pytest.mark.parametrize("mode", ["on", "off"], ids=["vectors", "rewriting"])


def person(number, part=None):
    return {"id": number, "name": f"n{number}", "part": part}


@pytest.fixture
def table(tmp_path):
    """0 to 9 in two files of five; row 4 was deleted before."""
    builder = TableBuilder(tmp_path / "t", PEOPLE).deletion_vectors()
    builder.file([person(number) for number in range(5)], deleted=[4])
    return builder.file([person(number) for number in range(5, 10)]).commit()


@pytest.fixture
def partitioned(tmp_path):
    """Two rows each in a, b and the null partition."""
    builder = TableBuilder(tmp_path / "p", PEOPLE).partitioned_by("part").deletion_vectors()
    for first, part in ((0, "a"), (2, "b"), (4, None)):
        builder.file([person(first, part), person(first + 1, part)])
    return builder.commit()


def rows_of(spark, table, *columns, **options):
    frame = ebbtide.read(spark, str(table.path), **options).select(*(columns or ("id", "name")))
    return sorted(map(tuple, frame.collect()), key=str)


def logged(table):
    info = commit_info(table.path, newest_version(table.path))
    return {name: int(value) for name, value in info["operationMetrics"].items() if not name.endswith("TimeMs")}


# --- the two ways -----------------------------------------------------------------------------------------------------


@MODES
def test_update_changes_the_matching_rows_and_no_other(spark, table, checked_update, mode):
    result = checked_update(table, {"name": "concat(name, '!')"}, "id IN (1, 2, 4, 7)", deletion_vectors=mode)
    assert (result.version, result.num_affected_rows) == (1, 3)
    expected = [(n, f"n{n}!" if n in (1, 2, 7) else f"n{n}") for n in range(10) if n != 4]
    assert rows_of(spark, table) == expected
    assert rows_of(spark, table, version=0) == [(n, f"n{n}") for n in range(10) if n != 4]


@pytest.mark.one_kind(
    "the calls of test_update_changes_the_matching_rows_and_no_other, which runs on both kinds; this adds the contents of the log"
)
def test_with_vectors_only_the_new_versions_are_written(table, checked_update):
    checked_update(table, {"name": "upper(name)"}, "id IN (1, 7)")
    adds = actions_of(table.path, 1, "add")
    marked = [add for add in adds if "deletionVector" in add]
    new = [add for add in adds if "deletionVector" not in add]
    assert sorted(add["deletionVector"]["cardinality"] for add in marked) == [1, 2]
    assert sum(stats_of(add)["numRecords"] for add in new) == 2
    assert logged(table) == {
        "numAddedFiles": len(new),
        "numAddedBytes": sum(add["size"] for add in new),
        # Every touched file counts, also those that stay with a vector.
        "numRemovedFiles": 2,
        "numRemovedBytes": 0,
        "numUpdatedRows": 2,
        "numCopiedRows": 0,
        "numAddedChangeFiles": 0,
        "numDeletionVectorsAdded": 2,
        "numDeletionVectorsRemoved": 1,
        "numDeletionVectorsUpdated": 1,
    }


@pytest.mark.one_kind(
    "the calls of test_update_changes_the_matching_rows_and_no_other, which runs on both kinds; this adds the contents of the log"
)
def test_without_vectors_touched_files_are_rewritten_and_others_stay(table, checked_update):
    before = {add["path"]: add for add in log_state(table.path).adds}
    checked_update(table, {"name": "upper(name)"}, "id IN (1, 3)", deletion_vectors="off")
    [remove] = actions_of(table.path, 1, "remove")
    [add] = actions_of(table.path, 1, "add")
    assert stats_of(add)["numRecords"] == 4
    metrics = logged(table)
    assert (metrics["numUpdatedRows"], metrics["numCopiedRows"], metrics["numRemovedFiles"]) == (2, 2, 1)
    assert metrics["numRemovedBytes"] == before[remove["path"]]["size"]
    assert [metrics[name] for name in VECTOR_COUNTERS] == [0, 0, 0]


def test_rewriting_joins_the_positions_when_they_are_too_many_to_look_up(spark, table, checked_update, monkeypatch):
    monkeypatch.setattr(flagged_rows, "mark_lookup", lambda *_: None)
    result = checked_update(table, {"name": "'x'"}, "id IN (0, 3, 9)", deletion_vectors="off")
    assert (result.num_affected_rows, result.metrics.num_copied_rows) == (3, 6)
    assert rows_of(spark, table) == [(n, "x" if n in (0, 3, 9) else f"n{n}") for n in range(10) if n != 4]


@pytest.mark.one_kind(
    "the calls of test_update_changes_the_matching_rows_and_no_other, which runs on both kinds; this adds the contents of the log"
)
def test_file_of_which_every_row_is_updated_goes_without_a_vector(spark, table, checked_update):
    result = checked_update(table, {"id": "id + 100"}, "id BETWEEN 0 AND 5")
    assert result.num_affected_rows == 5
    removed = {remove["path"] for remove in actions_of(table.path, 1, "remove")}
    added = {add["path"] for add in actions_of(table.path, 1, "add")}
    assert len(removed - added) == 1
    assert sorted(row[0] for row in rows_of(spark, table)) == [6, 7, 8, 9, 100, 101, 102, 103, 105]


@pytest.mark.one_value("the same calls for the other mode")
@MODES
def test_update_of_everything_rewrites_the_files_without_looking_for_matches(spark, table, checked_update, mode):
    sizes = sum(add["size"] for add in log_state(table.path).adds)
    result = checked_update(table, {"name": "'x'"}, deletion_vectors=mode)
    assert result.num_affected_rows == 9
    assert rows_of(spark, table) == [(n, "x") for n in range(10) if n != 4]
    assert not any("deletionVector" in add for add in actions_of(table.path, 1, "add"))
    metrics = logged(table)
    assert (metrics["numRemovedFiles"], metrics["numCopiedRows"]) == (2, 0)
    assert [metrics[name] for name in VECTOR_COUNTERS] == [0, 0, 0]
    assert metrics["numRemovedBytes"] == (0 if mode == "on" else sizes)
    assert commit_info(table.path, 1)["operationParameters"] == {"predicate": "[]"}


@pytest.mark.one_value("the same calls for the other mode")
@MODES
def test_condition_on_partitions_rewrites_their_files(spark, partitioned, checked_update, mode):
    result = checked_update(partitioned, {"name": "concat(part, name)"}, "part IN ('a', 'b')", deletion_vectors=mode)
    assert result.num_affected_rows == 4
    assert rows_of(spark, partitioned)[:4] == [(0, "an0"), (1, "an1"), (2, "bn2"), (3, "bn3")]
    assert rows_of(spark, partitioned)[4:] == [(4, "n4"), (5, "n5")]
    assert len(actions_of(partitioned.path, 1, "remove")) == 2


@pytest.mark.one_value("both modes run on both kinds in test_update_changes_the_matching_rows_and_no_other")
@MODES
def test_update_of_a_partition_column_moves_rows(spark, partitioned, checked_update, mode):
    result = checked_update(partitioned, {"part": "CASE WHEN id = 1 THEN 'b' END"}, "id < 3", deletion_vectors=mode)
    assert result.num_affected_rows == 3
    assert rows_of(spark, partitioned, "id", "part") == [
        (0, None), (1, "b"), (2, None), (3, "b"), (4, None), (5, None),
    ]  # fmt: skip
    assert {add["partitionValues"]["part"] for add in log_state(partitioned.path).adds} <= {"b", None, "a"}
    assert rows_of(spark, partitioned, "id", where="part = 'b'") == [(1,), (3,)]


@pytest.mark.one_kind(
    "the calls of test_update_changes_the_matching_rows_and_no_other, which runs on both kinds; this adds the choice between its two modes"
)
def test_auto_rewrites_a_file_that_would_be_mostly_marked(spark, table, checked_update):
    result = checked_update(table, {"name": "'x'"}, "id IN (0, 5, 6, 7, 8)", deletion_vectors="auto")
    metrics = result.metrics
    assert (metrics.num_deletion_vectors_updated, metrics.num_copied_rows, metrics.num_updated_rows) == (1, 1, 5)
    assert rows_of(spark, table) == [(n, "x" if n in (0, 5, 6, 7, 8) else f"n{n}") for n in range(10) if n != 4]


@pytest.mark.one_kind(
    "the calls of test_update_changes_the_matching_rows_and_no_other, which runs on both kinds; this adds values"
)
@MODES
def test_null_condition_leaves_the_row(spark, tmp_path, checked_update, mode):
    builder = TableBuilder(tmp_path / "t", PEOPLE).deletion_vectors()
    builder.file([person(1), {"id": None, "name": "null", "part": None}, person(3)]).commit()
    assert checked_update(builder, {"name": "'x'"}, "id > 0", deletion_vectors=mode).num_affected_rows == 2
    assert rows_of(spark, builder) == [(1, "x"), (3, "x"), (None, "null")]


@pytest.mark.one_kind(
    "the calls of test_update_changes_the_matching_rows_and_no_other, which runs on both kinds; this adds the contents of the log"
)
def test_file_without_statistics_is_counted_by_its_footer(spark, tmp_path, checked_update):
    builder = TableBuilder(tmp_path / "t", PEOPLE).deletion_vectors()
    builder.file([person(n) for n in range(3)], stats=False).commit()
    assert checked_update(builder, {"name": "'x'"}, "id = 1").num_affected_rows == 1
    [marked] = [add for add in actions_of(builder.path, 1, "add") if "deletionVector" in add]
    assert stats_of(marked)["numRecords"] == 3
    assert rows_of(spark, builder) == [(0, "n0"), (1, "x"), (2, "n2")]


# --- nothing to do ----------------------------------------------------------------------------------------------------


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("condition", ["id = 100", "id = 4", "false", "CAST(NULL AS BOOLEAN)", "part = 'nowhere'"])
def test_update_that_matches_nothing_commits_nothing(table, checked_update, condition):
    result = checked_update(table, {"name": "'x'"}, condition)
    assert (result.version, result.num_affected_rows) == (None, 0)
    assert newest_version(table.path) == 0


@pytest.mark.one_kind("the log alone decides")
def test_update_of_an_empty_table_commits_nothing(tmp_path, checked_update):
    builder = TableBuilder(tmp_path / "t", PEOPLE).deletion_vectors().commit()
    assert checked_update(builder, {"name": "'x'"}).version is None


@pytest.mark.one_kind(
    "the calls of test_update_changes_the_matching_rows_and_no_other, which runs on both kinds; this adds the contents of the log"
)
def test_application_transaction_is_recorded_even_when_nothing_matched(table, checked_update):
    options = {"txn_app_id": "app", "txn_version": 3}
    result = checked_update(table, {"name": "'x'"}, "id = 100", **options)
    assert (result.version, result.num_affected_rows) == (1, 0)
    assert [next(iter(action)) for action in read_commit(table.path, 1)] == ["commitInfo", "txn"]
    assert log_state(table.path).transactions == {"app": 3}
    assert checked_update(table, {"name": "'x'"}, "id = 1", **options).version is None
    assert checked_update(table, {"name": "'x'"}, "id = 1", txn_app_id="app", txn_version=4).version == 2


@pytest.mark.one_kind("refused before Spark is asked")
def test_append_only_table_refuses_before_any_work(table, checked_update):
    table.table_property("delta.appendOnly", "true").commit()
    with pytest.raises(DeltaError) as caught:
        checked_update(table, {"name": "'x'"}, "id = 100")
    assert caught.value.error_class == "DELTA_CANNOT_MODIFY_APPEND_ONLY"


# --- what the commit and the caller are told --------------------------------------------------------------------------


@pytest.mark.one_kind(
    "the calls of test_update_changes_the_matching_rows_and_no_other, which runs on both kinds; this adds the contents of the log"
)
def test_commit_says_what_was_done(table, checked_update):
    checked_update(table, {"name": "'x'"}, "id = 1", user_metadata="note")
    info = commit_info(table.path, 1)
    assert info["operation"] == "UPDATE"
    assert json.loads(info["operationParameters"]["predicate"]) == ["id = 1"]
    assert (info["userMetadata"], info["readVersion"], info["isBlindAppend"]) == ("note", 0, False)
    assert {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"} <= info["operationMetrics"].keys()


def test_table_door_takes_columns_aliases_and_the_session_setting(spark, table):
    spark.conf.set(UPDATE_WITH_VECTORS, "false")
    try:
        named = ebbtide.DeltaTable.forPath(spark, str(table.path)).alias("t")
        result = named.update(F.col("t.id") == 1, {"t.name": F.concat(F.col("t.name"), F.lit("!"))})
    finally:
        spark.conf.unset(UPDATE_WITH_VECTORS)
    assert result.num_affected_rows == 1
    assert result.metrics.num_copied_rows == 3
    assert rows_of(spark, table)[1] == (1, "n1!")
    assert "1 row updated" in repr(result)
    assert "numUpdatedRows" in result._repr_html_()


def test_other_tables_can_be_read_in_condition_and_value(spark, table, tmp_path, checked_update):
    other = TableBuilder(tmp_path / "other", pa.schema({"id": pa.int64(), "v": pa.string()}))
    other.file([{"id": 1, "v": "one"}, {"id": 7, "v": "seven"}]).commit()
    result = checked_update(
        table,
        {"name": f"(SELECT max(o.v) FROM delta.`{other.path}` o WHERE o.id = t.id)"},
        f"t.id IN (SELECT id FROM delta.`{other.path}`)",
        alias="t",
    )
    assert result.num_affected_rows == 2
    assert [row for row in rows_of(spark, table) if row[0] in (1, 7)] == [(1, "one"), (7, "seven")]
    assert str(other.path) in commit_info(table.path, 1)["operationParameters"]["predicate"]


@pytest.mark.one_kind("test_other_tables_can_be_read_in_condition_and_value runs on both kinds")
def test_condition_may_read_the_target_itself(spark, table, checked_update):
    result = checked_update(table, {"name": "'max'"}, f"id = (SELECT max(id) FROM delta.`{table.path}`)")
    assert result.num_affected_rows == 1
    assert rows_of(spark, table)[-1] == (9, "max")


@pytest.mark.one_kind("test_bad_condition_is_refused_before_any_work in test_delete.py runs on both kinds")
def test_random_condition_is_refused(table, checked_update):
    with pytest.raises(InvalidPredicateError):
        checked_update(table, {"name": "'x'"}, "rand() < 0.5")
    assert newest_version(table.path) == 0


# --- columns under other names, change data ---------------------------------------------------------------------------


@pytest.mark.one_value("both modes run on both kinds in test_update_changes_the_matching_rows_and_no_other")
@MODES
@pytest.mark.parametrize("mapping", ["name", "id"])
def test_mapped_tables_are_updated_under_physical_names(spark, tmp_path, checked_update, mapping, mode):
    schema = pa.schema({"id": pa.int64(), "a b": pa.struct({"x y": pa.int32(), "z": pa.string()}), "part": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by("part").column_mapping(mapping).deletion_vectors()
    builder.file([{"id": n, "a b": {"x y": n, "z": "z"}, "part": "p q"} for n in range(4)]).commit()
    result = checked_update(
        builder, {"`a b`.`x y`": "id * 10", "part": "'new'"}, "`a b`.`x y` >= 2", deletion_vectors=mode
    )
    assert result.num_affected_rows == 2
    rows = rows_of(spark, builder, "id", "a b", "part")
    assert [(n, x, part) for n, (x, _), part in rows] == [(0, 0, "p q"), (1, 1, "p q"), (2, 20, "new"), (3, 30, "new")]
    new = [add for add in actions_of(builder.path, 1, "add") if "deletionVector" not in add]
    assert "new" in {value for add in new for value in add["partitionValues"].values()}
    assert all(set(add["partitionValues"]) == {"col-5"} for add in new)


def changes_of(table, version):
    found = []
    for change in actions_of(table.path, version, "cdc"):
        rows = pq.ParquetFile(data_file(table.path, change)).read().to_pylist()
        found += [(row["_change_type"], row["id"], row["name"], change["partitionValues"].get("part")) for row in rows]
    return sorted(found)


@pytest.mark.one_value("the same calls for other conditions", "condition")
@MODES
@pytest.mark.parametrize("condition", ["id IN (1, 2)", "part = 'a'", None])
def test_change_feed_holds_every_updated_row_before_and_after(spark, tmp_path, checked_update, mode, condition):
    builder = TableBuilder(tmp_path / "t", PEOPLE).partitioned_by("part").deletion_vectors().change_data_feed()
    builder.file([person(n, "a") for n in range(3)], deleted=[0]).commit()
    checked_update(builder, {"name": "upper(name)", "part": "'b'"}, condition, deletion_vectors=mode)
    assert changes_of(builder, 1) == [
        ("update_postimage", 1, "N1", "b"),
        ("update_postimage", 2, "N2", "b"),
        ("update_preimage", 1, "n1", "a"),
        ("update_preimage", 2, "n2", "a"),
    ]
    assert rows_of(spark, builder, "id", "name", "part") == [(1, "N1", "b"), (2, "N2", "b")]
    metrics = logged(builder)
    change_bytes = sum(change["size"] for change in actions_of(builder.path, 1, "cdc"))
    assert metrics["numAddedChangeFiles"] == 2
    # As the reference counts: change data is among the removed bytes.
    removed = actions_of(builder.path, 1, "remove")[0]["size"] if mode == "off" else 0
    assert metrics["numRemovedBytes"] == removed + change_bytes


@MODES
def test_random_value_is_the_same_in_the_table_and_in_the_feed(spark, tmp_path, checked_update, mode):
    builder = TableBuilder(tmp_path / "t", PEOPLE).deletion_vectors().change_data_feed()
    builder.file([person(n) for n in range(5)]).commit()
    checked_update(
        builder, {"name": "uuid()", "id": "id + CAST(rand() * 1000 AS INT) * 10"}, "id < 3", deletion_vectors=mode
    )
    told = sorted((key, name) for kind, key, name, _ in changes_of(builder, 1) if kind == "update_postimage")
    assert told == sorted(row for row in rows_of(spark, builder) if not row[1].startswith("n"))
    assert len({name for _, name in told}) == 3
