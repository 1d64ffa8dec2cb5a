"""What does EXPLAIN say of a command that changes rows, and is it the plan that the command carries out?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.log_reading import newest_version
from tests.support.table_builder import TableBuilder

from ebbtide.commands.delete.explanation import explain_delete
from ebbtide.commands.merge.explanation import explain_merge
from ebbtide.commands.merge.request import DeleteClause, InsertClause, MergeRequest, UpdateClause
from ebbtide.commands.requests import DeleteRequest, UpdateRequest, WriteOptions
from ebbtide.commands.update.explanation import explain_update
from ebbtide.errors import UnknownColumnError
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Ids 0-4 in part a, 5-9 in part b."""
    builder = TableBuilder(tmp_path_factory.mktemp("explained") / "t", SCHEMA).partitioned_by("part")
    builder.deletion_vectors().file([{"id": number, "part": "a"} for number in range(5)])
    builder.file([{"id": number, "part": "b"} for number in range(5, 10)]).commit()
    return open_store(str(builder.path))


def lines_of(plan):
    """The lines behind the heading, by their first word; several of one word are joined."""
    heading, title, *rest = plan
    assert heading == "== Plan of Ebbtide =="
    found = {"title": title.partition(" ")[0]}
    for line in rest:
        word, _, text = line.removeprefix("+- ").partition(": ")
        found[word] = text
    return found


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize(
    ("condition", "mode", "how", "counted"),
    [
        (None, "on", "whole files are removed; the log alone decides", ("removed", "2 of 2 files")),
        ("part = 'b'", "on", "whole files are removed; the log alone decides", ("removed", "1 of 2 files")),
        ("id = 7", "on", "matching rows are marked in deletion vectors", ("scanned", "1 of 2 files")),
        ("id = 7", "off", "files with matching rows are rewritten without them", ("scanned", "1 of 2 files")),
        ("id > 3", "auto", "files of which most would be marked are rewritten", ("scanned", "2 of 2 files")),
    ],
)
def test_delete_shows_its_plan(spark, store, condition, mode, how, counted):
    plan = explain_delete(spark, DeleteRequest(store, condition, options=WriteOptions(deletion_vectors=mode)))
    lines = lines_of(plan)
    assert lines["title"] == "DeltaDelete"
    assert lines["condition"] == (condition or "none, every row")
    assert how in lines["how"]
    assert lines[counted[0]].startswith(counted[1])


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize(
    ("condition", "mode", "how", "counted"),
    [
        (None, "on", "every row of the chosen files is rewritten", ("rewritten", "2 of 2 files")),
        ("part = 'b'", "on", "every row of the chosen files is rewritten", ("rewritten", "1 of 2 files")),
        ("id = 7", "on", "marked in deletion vectors and written with their new values", ("scanned", "1 of 2 files")),
        ("id = 7", "off", "files with matching rows are rewritten", ("scanned", "1 of 2 files")),
    ],
)
def test_update_shows_its_plan(spark, store, condition, mode, how, counted):
    options = WriteOptions(deletion_vectors=mode)
    lines = lines_of(explain_update(spark, UpdateRequest(store, condition, [("id", "id + 1")], options=options)))
    assert lines["title"] == "DeltaUpdate"
    assert lines["set"] == "id"
    assert how in lines["how"]
    assert lines[counted[0]].startswith(counted[1])


def merge_of(spark, store, **clauses):
    source = spark.createDataFrame([(7, "b")], "id long, part string").alias("s")
    on = "t.id = s.id AND t.part = 'b'"
    mode = clauses.pop("mode", "on")
    return MergeRequest(store, source, on, target_alias="t", options=WriteOptions(deletion_vectors=mode), **clauses)


def test_merge_shows_its_clauses_and_the_files_that_on_leaves(spark, store):
    clauses = {
        "matched": (DeleteClause("s.id = 1"), UpdateClause((("id", "s.id"),))),
        "not_matched": (InsertClause(None),),
    }
    lines = lines_of(explain_merge(spark, merge_of(spark, store, **clauses)))
    assert lines["title"] == "DeltaMergeInto"
    assert lines["on"] == "t.id = s.id AND t.part = 'b'"
    assert lines["when matched and s.id = 1"] == "delete"
    assert lines["when matched"] == "update"
    assert lines["when not matched"] == "insert"
    assert "marked in deletion vectors" in lines["how"]
    assert lines["scanned"].startswith("1 of 2 files")
    assert lines["scanned"].endswith("the keys of the source (t.id) may rule out more")


@pytest.mark.one_kind(
    "the calls of test_merge_shows_its_clauses_and_the_files_that_on_leaves, which runs on both kinds"
)
@pytest.mark.parametrize(
    ("clauses", "how"),
    [
        ({"matched": (DeleteClause(),), "mode": "off"}, "files with a matched row are rewritten"),
        ({"not_matched": (InsertClause(None),)}, "no file is changed"),
    ],
)
def test_merge_says_whether_it_rewrites_or_only_adds(spark, store, clauses, how):
    assert how in lines_of(explain_merge(spark, merge_of(spark, store, **clauses)))["how"]


def test_explanation_raises_what_the_command_would_and_commits_nothing(spark, store):
    with pytest.raises(UnknownColumnError):
        explain_update(spark, UpdateRequest(store, "nobody = 1", [("id", "1")]))
    with pytest.raises(UnknownColumnError):
        explain_update(spark, UpdateRequest(store, "id = 1", [("nobody", "1")]))
    with pytest.raises(UnknownColumnError):
        explain_delete(spark, DeleteRequest(store, "nobody = 1"))
    assert newest_version(Path(store.spark_path.removeprefix("file:"))) == 0
