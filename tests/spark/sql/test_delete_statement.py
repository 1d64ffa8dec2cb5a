"""Do SQL and Python delete the same rows, and are bad conditions refused before anything happens?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.subqueries import condition_tables
from ebbtide.errors import InvalidPredicateError, RequestError, TableNotFoundError, UnknownColumnError
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.string()})
ROWS = [
    {"id": number, "name": None if number % 5 == 0 else f"it's {number}", "part": "ab"[number // 5]}
    for number in range(10)
]


def build(path):
    builder = TableBuilder(path / "a table", SCHEMA).partitioned_by("part").deletion_vectors()
    return builder.file(ROWS[:5]).file(ROWS[5:]).commit()


@pytest.fixture
def builder(tmp_path):
    """Ids 0-4 in part a, 5-9 in part b; the names of 0 and 5 are null."""
    return build(tmp_path)


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory):
    """The same table without its data files, for what must not read them."""
    builder = build(tmp_path_factory.mktemp("unreadable"))
    for file in builder.path.rglob("*.parquet"):
        file.unlink()
    return builder


def ids(spark, builder):
    return sorted(row["id"] for row in ebbtide.read(spark, str(builder.path)).collect())


def last_commit(builder):
    newest = max(builder.log.glob("*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


def info_of(builder):
    return last_commit(builder)[0]["commitInfo"]


def versions(builder):
    return len(list(builder.log.glob("*.json")))


def delete(spark, builder, rest):
    (row,) = ebbtide.sql(spark, f"DELETE FROM delta.`{builder.path}` {rest}").collect()
    return row.num_affected_rows


def test_delete_answers_with_the_number_of_rows_and_records_the_users_words(spark, builder):
    frame = ebbtide.sql(spark, f"delete from delta.`{builder.path}` t where t.id IN (3, 7) -- two;\n;")
    assert frame.schema.simpleString() == "struct<num_affected_rows:bigint>"
    assert [row.num_affected_rows for row in frame.collect()] == [2]
    assert ids(spark, builder) == [0, 1, 2, 4, 5, 6, 8, 9]
    assert json.loads(info_of(builder)["operationParameters"]["predicate"]) == ["t.id IN (3, 7)"]
    assert info_of(builder)["operation"] == "DELETE"


@pytest.mark.one_kind(
    "the calls of test_delete_answers_with_the_number_of_rows_and_records_the_users_words; this adds values"
)
def test_row_for_which_the_condition_is_null_stays(spark, builder):
    assert delete(spark, builder, r"WHERE name <> 'it\'s 1'") == 7
    assert ids(spark, builder) == [0, 1, 5]


@pytest.mark.one_kind("no data is read: the log alone decides")
def test_delete_without_where_means_the_literal_true_and_reads_no_data(spark, builder):
    for file in builder.path.rglob("*.parquet"):
        file.write_bytes(b"not parquet")
    assert delete(spark, builder, "") == 10
    assert json.loads(info_of(builder)["operationParameters"]["predicate"]) == ["true"]
    assert [key for action in last_commit(builder)[1:] for key in action] == ["remove", "remove"]


@pytest.mark.one_kind("no data is read: the log alone decides")
def test_words_of_a_subquery_in_a_string_or_comment_leave_the_partition_only_path_open(spark, builder):
    [file] = builder.path.glob("part=b/*.parquet")
    file.write_bytes(b"not parquet")
    assert delete(spark, builder, "WHERE part = 'b' AND part <> 'please (select 1)' /* (select 1) */") == 5
    assert [key for action in last_commit(builder)[1:] for key in action] == ["remove"]


@pytest.mark.one_kind("no data is read: the log alone decides")
def test_python_call_without_condition_records_no_predicate(spark, builder):
    ebbtide.DeltaTable.forPath(spark, str(builder.path)).delete()
    assert json.loads(info_of(builder)["operationParameters"]["predicate"]) == []


@pytest.mark.one_kind(
    "the calls of test_delete_answers_with_the_number_of_rows_and_records_the_users_words; this adds values"
)
def test_delete_that_matches_nothing_makes_no_version(spark, builder):
    assert delete(spark, builder, "WHERE id > 100") == 0
    assert versions(builder) == 1


def test_history_and_detail_are_tables(spark, builder):
    delete(spark, builder, "WHERE id = 1")
    history = ebbtide.sql(spark, f"DESCRIBE HISTORY delta.`{builder.path}` LIMIT 1").collect()
    assert [(row.version, row.operation) for row in history] == [(1, "DELETE")]
    (detail,) = ebbtide.sql(spark, f"DESC DETAIL delta.`{builder.path}`").collect()
    assert (detail.numFiles, detail.partitionColumns) == (2, ["part"])


@pytest.mark.one_kind("refused before Spark is asked")
def test_missing_table_and_unknown_statement_are_our_errors(spark, tmp_path):
    with pytest.raises(TableNotFoundError):
        ebbtide.sql(spark, f"DELETE FROM delta.`{tmp_path}/nowhere`")
    with pytest.raises(RequestError, match="does not know the statement"):
        ebbtide.sql(spark, "SHOW TABLES")


# --- conditions that are no good --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("rand() < 0.5", InvalidPredicateError),
        ("id + rand() < 0.5", InvalidPredicateError),
        ("uuid() = name", InvalidPredicateError),
        ("count(*) > 1", InvalidPredicateError),
        ("max(id) = id", InvalidPredicateError),
        ("row_number() OVER (ORDER BY id) = 1", InvalidPredicateError),
        ("explode(array(id)) = 1", InvalidPredicateError),
        ("id", InvalidPredicateError),
        ("name", InvalidPredicateError),
        ("id + 1", InvalidPredicateError),
        ("nobody = 1", UnknownColumnError),
        ("name.first = 'x'", RequestError),
        ("t.id = 1", UnknownColumnError),
        ("id = = 1", InvalidPredicateError),
        ("id = 1 GROUP BY id", InvalidPredicateError),
        ("no_such_function(id)", RequestError),
        ("id IN (SELECT id FROM no_such_view)", RequestError),
        ("id IN (SELECT rand() FROM range(3))", InvalidPredicateError),
    ],
)
def test_bad_condition_is_refused_before_any_work_through_both_doors(spark, unreadable, condition, error):
    table = ebbtide.DeltaTable.forPath(spark, str(unreadable.path))
    for door in (lambda: delete(spark, unreadable, f"WHERE {condition}"), lambda: table.delete(condition)):
        with pytest.raises(error) as refused:
            door()
        assert condition.split()[0] in str(refused.value)
    assert versions(unreadable) == 1


@pytest.mark.parametrize("column", [lambda: F.rand() < 0.5, lambda: F.count("*") > 1, lambda: F.col("id") + 1])
def test_bad_column_is_refused_before_any_work(spark, builder, column):
    with pytest.raises(InvalidPredicateError):
        ebbtide.DeltaTable.forPath(spark, str(builder.path)).delete(column())
    assert versions(builder) == 1


def test_user_defined_function_that_is_not_deterministic_is_refused(spark, builder):
    name = "ebbtide_coin"
    spark.udf.register(name, F.udf(lambda: True, "boolean").asNondeterministic())
    with pytest.raises(InvalidPredicateError):
        delete(spark, builder, f"WHERE {name}() AND id > 1")
    assert versions(builder) == 1


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize("condition", ["", "   ", "-- nothing"])
def test_empty_condition_is_refused_and_never_means_every_row(spark, builder, condition):
    with pytest.raises(InvalidPredicateError):
        ebbtide.DeltaTable.forPath(spark, str(builder.path)).delete(condition)
    assert ids(spark, builder) == list(range(10))


# --- the session's switches -------------------------------------------------------------------------------------------

PERSISTENT = "spark.databricks.delta.delete.deletionVectors.persistent"
APP_ID, APP_VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
TARGET_SIZE = "spark.databricks.delta.deletionVectors.packing.targetSize"


@pytest.mark.one_value("the setting is read on both kinds; what follows from its value is not Spark's")
@pytest.mark.parametrize(("setting", "vectors"), [("true", 1), ("FALSE", 0), ("auto", 1)])
def test_session_says_whether_rows_are_marked(spark, builder, setting, vectors):
    with session_settings(spark, {PERSISTENT: setting}):
        assert delete(spark, builder, "WHERE id = 1") == 1
    adds = [action["add"] for action in last_commit(builder) if "add" in action]
    assert sum("deletionVector" in add for add in adds) == vectors
    assert ids(spark, builder) == [0, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.one_kind("test_session_says_whether_rows_are_marked reads settings on both kinds")
def test_argument_wins_over_the_session(spark, builder):
    with session_settings(spark, {PERSISTENT: "true", USER_METADATA: "session"}):
        table = ebbtide.DeltaTable.forPath(spark, str(builder.path))
        table.delete("id = 1", deletion_vectors="off", user_metadata="mine")
    assert info_of(builder)["userMetadata"] == "mine"
    assert not any("deletionVector" in action.get("add", {}) for action in last_commit(builder))


@pytest.mark.one_value("the same call for other values")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (PERSISTENT, "maybe"),
        (TARGET_SIZE, "large"),
        (TARGET_SIZE, "0"),
        (TARGET_SIZE, "2g"),
        (APP_VERSION, "one"),
        (APP_VERSION, "-1"),
    ],
)
def test_setting_that_cannot_be_used_is_named_with_its_value(spark, builder, key, value):
    with session_settings(spark, {key: value}), pytest.raises(RequestError) as refused:
        delete(spark, builder, "WHERE id = 1")
    assert key in str(refused.value)
    assert f"'{value}'" in str(refused.value)
    assert versions(builder) == 1


@pytest.mark.one_kind(
    "about what lies in storage; test_setting_that_cannot_be_used_is_named_with_its_value reads the setting on both kinds"
)
def test_small_target_size_puts_every_vector_into_its_own_file(spark, builder):
    with session_settings(spark, {TARGET_SIZE: "1b"}):
        delete(spark, builder, "WHERE id IN (1, 6)")
    assert len(list(builder.path.glob("*.bin"))) == 2


def test_application_transaction_lands_once_however_often_it_is_sent(spark, builder):
    with session_settings(spark, {APP_ID: "job", APP_VERSION: "7", USER_METADATA: "nightly"}):
        assert delete(spark, builder, "WHERE id = 1") == 1
        assert delete(spark, builder, "WHERE id = 2") == 0
    assert versions(builder) == 2
    assert info_of(builder)["userMetadata"] == "nightly"
    assert [action["txn"]["version"] for action in last_commit(builder) if "txn" in action] == [7]
    table = ebbtide.DeltaTable.forPath(spark, str(builder.path))
    assert table.delete("id = 2", txn_app_id="job", txn_version=7).version is None
    assert table.delete("id = 2", txn_app_id="job", txn_version=8).version == 2
    assert ids(spark, builder) == [0, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.one_kind(
    "test_application_transaction_lands_once_however_often_it_is_sent reads these settings on both kinds"
)
def test_half_an_application_transaction_is_refused(spark, builder):
    with session_settings(spark, {APP_ID: "job"}), pytest.raises(RequestError, match="txnVersion"):
        delete(spark, builder, "WHERE id = 1")
    with pytest.raises(RequestError, match="both"):
        ebbtide.DeltaTable.forPath(spark, str(builder.path)).delete("id = 1", txn_version=1)


# --- more than one table ----------------------------------------------------------------------------------------------


@pytest.fixture
def others(tmp_path):
    """Ids 1, 2 and 6, of which 2 is deleted."""
    builder = TableBuilder(tmp_path / "the others;", pa.schema({"id": pa.int64(), "note": pa.string()}))
    rows = [{"id": number, "note": "FROM delta.`x`"} for number in (1, 2, 6)]
    return builder.deletion_vectors().file(rows, deleted=[1]).commit()


@pytest.mark.one_value("Spark's SQL is the same on both kinds")
@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("id IN (SELECT id FROM delta.`{others}`)", [0, 2, 3, 4, 5, 7, 8, 9]),
        ("id NOT IN (SELECT id FROM delta.`{others}`)", [1, 6]),
        ("EXISTS (SELECT 1 FROM delta.`{others}` o WHERE o.id = t.id AND t.part = 'b')", [0, 1, 2, 3, 4, 5, 7, 8, 9]),
        ("id > (SELECT max(id) FROM delta.`{others}`)", [0, 1, 2, 3, 4, 5, 6]),
        ("id = (SELECT max(id) FROM delta.`{target}`)", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("part = 'a' AND id IN (SELECT id FROM people_view)", [0, 1, 2, 5, 6, 7, 8, 9]),
        ("id IN (VALUES 1, 8)", [0, 2, 3, 4, 5, 6, 7, 9]),
        ("EXISTS (TABLE delta.`{others}`) AND id = 3", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
        ("part IN (SELECT 'b' FROM delta.`{others}` WHERE note = 'FROM delta.`x`')", [0, 1, 2, 3, 4]),
    ],
)
@pytest.mark.parametrize("door", ["sql", "python"])
def test_condition_may_read_views_and_delta_tables(spark, builder, others, condition, left, door):
    spark.range(3, 6).createOrReplaceTempView("people_view")
    text = condition.format(others=others.path, target=builder.path)
    if door == "sql":
        delete(spark, builder, f"AS t WHERE {text}")
    else:
        ebbtide.DeltaTable.forPath(spark, str(builder.path)).alias("t").delete(text)
    assert ids(spark, builder) == left
    assert json.loads(info_of(builder)["operationParameters"]["predicate"]) == [text]
    assert [table.name for table in spark.catalog.listTables() if "ebbtide" in table.name] == []


@pytest.mark.one_kind("pruning reads the log; test_condition_may_read_views_and_delta_tables runs on both kinds")
def test_files_that_the_rest_of_the_condition_rules_out_are_not_opened(spark, builder, others):
    next(builder.path.glob("part=b/*.parquet")).unlink()
    assert delete(spark, builder, f"WHERE part = 'a' AND id IN (SELECT id FROM delta.`{others.path}`)") == 1


def test_subquery_sees_the_target_as_the_command_began_whoever_commits_meanwhile(spark, builder):
    store = open_store(str(builder.path))
    began = load_snapshot(store)
    builder.mark(builder.files[1], [4]).commit()
    request = DeleteRequest(store, f"id = (SELECT max(id) FROM delta.`{builder.path}`)")
    with condition_tables(spark, began, request) as rewritten:
        assert spark.range(20).where(rewritten.condition).first().id == 9
        assert (rewritten.display_text, rewritten.options.conflicts) == (request.condition, "abort")


def test_views_are_dropped_when_the_command_fails(spark, builder, others):
    with pytest.raises(RequestError):
        delete(spark, builder, f"WHERE nobody IN (SELECT id FROM delta.`{others.path}`)")
    assert [table.name for table in spark.catalog.listTables() if "ebbtide" in table.name] == []


@pytest.mark.one_kind("refused before Spark is asked")
def test_table_in_a_condition_that_is_not_there_is_named(spark, builder, tmp_path):
    with pytest.raises(TableNotFoundError, match="nowhere"):
        delete(spark, builder, f"WHERE id IN (SELECT id FROM delta.`{tmp_path}/nowhere`)")


def test_rows_are_deleted_by_the_keys_of_a_frame(spark, builder):
    keys = spark.createDataFrame([(1, "a"), (6, "a"), (7, "b"), (None, "b")], "id BIGINT, part STRING")
    result = ebbtide.DeltaTable.forPath(spark, str(builder.path)).delete_matching(keys, on=["id", "part"])
    assert (result.num_affected_rows, ids(spark, builder)) == (2, [0, 2, 3, 4, 5, 6, 8, 9])


def test_alias_names_the_table_in_frames_too(spark, builder):
    table = ebbtide.DeltaTable.forPath(spark, str(builder.path)).alias("t")
    assert table.toDF().where("t.id = 3").count() == 1
