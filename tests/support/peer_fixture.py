"""Do other engines see the rows of every table that a test left behind?

A folder whose tests write tables imports `peers_see_our_rows` in its conftest. After each test DuckDB, Polars and deltalake
then read the newest version of whatever Ebbtide wrote below the test's `tmp_path` (`tests/support/peer_agreement.py`). The
Connect run makes the same tables as the classic one, so only `tests/connect` is asked about there. Tests with directories of
their own call `assert_peers_agree` themselves.
"""

from __future__ import annotations

import pytest
from tests.support.peer_agreement import assert_peers_agree

__all__ = ["peers_see_our_rows"]

# What Ebbtide wrote there cannot be read by anybody, or not in one way, for a reason of the test's own.
EXCEPTED = {
    "test_wrong_commit_is_noticed": "its newest commit is made wrong on purpose",
    "test_files_that_the_rest_of_the_condition_rules_out_are_not_opened": "deletes a data file, to see that nobody opens it",
    "test_crash_on_disk_leaves_the_table_old_or_new": "its log names data files that never were",
    "test_every_one_of_many_writers_on_disk_lands_exactly_once": "its log names data files that never were",
    "test_markings_of_one_file_by_many_writers_on_disk_are_all_kept": "its log names data files that never were",
    "test_file_that_was_only_stated_again_keeps_what_the_loser_did": "one path is spelled in two ways by hand; others compare paths as written",
    "test_a_table_without_columns_reads_as_an_empty_frame": "other engines do not read a table without columns",
    "test_create_table_in_sql_needs_no_columns": "other engines do not read a table without columns",
    "test_message_about_a_table_without_columns_ends_in_an_empty_list": "other engines do not read a table without columns",
    "test_rows_without_schema_evolution_are_refused_as_in_the_reference": "other engines do not read a table without columns",
    "test_metadata_of_a_column_that_spark_cannot_read_does_not_reach_it": "such metadata ends the process in DuckDB",
    "test_model_notices_a_live_file_that_a_vacuum_deleted": "moves a live file away",
    "test_commands_that_need_no_spark_leave_the_rows": "peers are asked before and after: not every golden table can be read by all",
    "test_compaction_and_purge_leave_the_rows": "peers are asked before and after: not every golden table can be read by all",
}  # fmt: skip


@pytest.fixture(autouse=True)
def peers_see_our_rows(request):
    """What is set up first is torn down last, so whatever the test replaced is in its place again."""
    directory = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    is_asked = request.config.getoption("--spark") != "connect" or request.node.nodeid.startswith("tests/connect/")
    if is_asked and directory is not None and request.node.originalname not in EXCEPTED:
        assert_peers_agree(directory)
