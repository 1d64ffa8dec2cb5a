"""Do other engines see the rows of every table that a Spark test left behind?

In the classic run, after each test: DuckDB, Polars and deltalake read the newest version of whatever Ebbtide wrote below the
test's `tmp_path` (`tests/support/peer_agreement.py`). The Connect run makes the same tables, so it does not ask again. Tests
with directories of their own call `assert_peers_agree` themselves.
"""

from __future__ import annotations

import pytest
from tests.support.peer_agreement import assert_peers_agree

# What Ebbtide wrote there is damaged before the test ends, and nobody can read it.
DAMAGED = {
    "test_wrong_commit_is_noticed": "its newest commit is made wrong on purpose",
    "test_files_that_the_rest_of_the_condition_rules_out_are_not_opened": "deletes a data file, to see that nobody opens it",
}


@pytest.fixture(autouse=True)
def peers_see_our_rows(request, spark_kind):
    """What is set up first is torn down last, so whatever the test replaced is in its place again."""
    directory = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if spark_kind == "classic" and directory is not None and request.node.originalname not in DAMAGED:
        assert_peers_agree(directory)
