"""Does `maintain` do with Spark what it said without, and change no row?"""

from __future__ import annotations

import pytest
from tests.support.command_line import ebbtide
from tests.support.log_reading import actions_of, commit_info, data_file, log_state, newest_version
from tests.support.races import ID_SCHEMA, ids_at
from tests.support.table_builder import TableBuilder

from ebbtide import DeltaTable
from ebbtide.errors import MissingDataFileError

pytestmark = pytest.mark.spark


@pytest.fixture
def table(tmp_path):
    """Five small files, one of them with a single marked row of a hundred."""
    table = (
        TableBuilder(tmp_path / "t", ID_SCHEMA).deletion_vectors().table_property("delta.checkpointInterval", "1000")
    )
    table.file([{"id": number} for number in range(100)], deleted=[7])
    for start in range(100, 500, 100):
        table.file([{"id": number} for number in range(start, start + 100)])
    return table.commit()


def statuses(result):
    return {step.step: step.status for step in result.steps}


def test_small_files_are_put_together_and_nothing_is_left_to_do(spark, table):
    before = ids_at(table.path)
    delta = DeltaTable.forPath(spark, table.path)
    plan = delta.maintain(dry_run=True)
    assert (statuses(plan), plan.version, newest_version(table.path)) == ({"optimize": "planned"}, None, 0)
    result = delta.maintain(user_metadata="nightly")
    assert result.findings == plan.findings
    assert (statuses(result), result.version, result.is_complete) == ({"optimize": "done"}, 1, True)
    assert result.steps[0].outcome == "5 files became 1; 1 deleted row left out"
    assert (commit_info(table.path, 1)["operation"], commit_info(table.path, 1)["userMetadata"]) == (
        "OPTIMIZE",
        "nightly",
    )
    assert ids_at(table.path) == before
    assert delta.maintain().steps == ()
    assert newest_version(table.path) == 1


@pytest.mark.one_kind("the rewrite is PURGE's, whose tests run on both kinds")
def test_purge_takes_out_what_is_below_the_threshold_of_optimize(spark, table):
    before = ids_at(table.path)
    result = DeltaTable.forPath(spark, table.path).maintain(purge=True, min_small_files=6)
    assert statuses(result) == {"purge": "done"}
    assert commit_info(table.path, 1)["operation"] == "REORG"
    assert all("deletionVector" not in add for add in log_state(table.path).adds)
    assert len(actions_of(table.path, 1, "remove")) == 1
    assert ids_at(table.path) == before


@pytest.mark.one_kind("the failure is found before Spark is asked")
def test_file_that_is_gone_fails_the_rewrite_and_the_checkpoint_is_still_written(spark, table):
    data_file(table.path, log_state(table.path).adds[0]).unlink()
    table.transaction("app", 1).commit()
    result = DeltaTable.forPath(spark, table.path).maintain(max_commits=1)
    assert statuses(result) == {"optimize": "failed", "checkpoint": "done"}
    assert isinstance(result.steps[0].error, MissingDataFileError)
    assert newest_version(table.path) == 1
    assert list(table.log.glob("*1.checkpoint.parquet"))


@pytest.mark.one_kind("the same request as in Python")
def test_command_line_says_what_it_does_and_does_it(spark, table):
    before = ids_at(table.path)
    result = ebbtide("maintain", table.path)
    assert result.exit_code == 0
    assert "  OPTIMIZE     5 files (" in result.stdout
    assert result.stdout.endswith("done  OPTIMIZE  5 files became 1; 1 deleted row left out\n")
    assert ids_at(table.path) == before
