"""Does a DELETE report what Delta users expect: 22 counters, the right ones in the history, and a form for people?"""

from __future__ import annotations

import pytest

from ebbtide.commands.delete.results import DeleteMetrics, DeleteResult
from ebbtide.commands.results import named_metrics

NAMES = {
    "numRemovedFiles",
    "numAddedFiles",
    "numDeletedRows",
    "numFilesBeforeSkipping",
    "numBytesBeforeSkipping",
    "numFilesAfterSkipping",
    "numBytesAfterSkipping",
    "numPartitionsAfterSkipping",
    "numPartitionsAddedTo",
    "numPartitionsRemovedFrom",
    "numCopiedRows",
    "numAddedBytes",
    "numRemovedBytes",
    "executionTimeMs",
    "scanTimeMs",
    "rewriteTimeMs",
    "numAddedChangeFiles",
    "changeFileBytes",
    "numTouchedRows",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
}
IN_HISTORY = {
    "numAddedFiles",
    "numRemovedFiles",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
    "numAddedChangeFiles",
    "numDeletedRows",
    "numCopiedRows",
    "executionTimeMs",
    "scanTimeMs",
    "rewriteTimeMs",
    "numRemovedBytes",
    "numAddedBytes",
}


def test_counters_have_the_names_of_the_reference():
    assert set(named_metrics(DeleteMetrics())) == NAMES
    assert set(named_metrics(DeleteMetrics()).values()) == {0}


def test_history_shows_thirteen_of_them():
    assert set(DeleteMetrics().operation_metrics) == IN_HISTORY


def test_updated_vector_counts_as_added_and_removed_in_the_history():
    metrics = DeleteMetrics(
        num_deleted_rows=4,
        num_deletion_vectors_added=2,
        num_deletion_vectors_removed=1,
        num_deletion_vectors_updated=3,
    )
    shown = metrics.operation_metrics
    assert (shown["numDeletionVectorsAdded"], shown["numDeletionVectorsRemoved"]) == (5, 4)
    assert shown["numDeletionVectorsUpdated"] == 3
    assert named_metrics(metrics)["numDeletionVectorsAdded"] == 2


def test_rows_that_nobody_counted_are_left_out_of_the_history():
    shown = DeleteMetrics(num_removed_files=2).operation_metrics
    assert set(shown) == IN_HISTORY - {"numDeletedRows", "numCopiedRows", "numAddedFiles"}


@pytest.mark.parametrize(
    ("metrics", "affected"),
    [
        (DeleteMetrics(), 0),
        (DeleteMetrics(num_deleted_rows=7), 7),
        (DeleteMetrics(num_deleted_rows=7, num_removed_files=2), 7),
        (DeleteMetrics(num_removed_files=2), -1),
    ],
)
def test_affected_rows_are_minus_one_only_where_files_went_uncounted(metrics, affected):
    assert metrics.num_affected_rows == affected
    assert DeleteResult(1, metrics, "file:///t").num_affected_rows == affected


def test_result_says_in_words_what_was_done():
    marked = DeleteMetrics(num_deleted_rows=1, num_deletion_vectors_added=1, num_removed_files=2)
    assert repr(DeleteResult(4, marked, "file:///t")) == (
        "<DeleteResult version 4: 1 row deleted; 1 file marked, not rewritten; 2 files removed>"
    )
    rewritten = DeleteMetrics(num_deleted_rows=1500, num_removed_files=1, num_added_files=1, num_copied_rows=2)
    assert "1,500 rows deleted; 1 file removed; 1 file written with 2 rows" in repr(
        DeleteResult(4, rewritten, "file:///t")
    )
    assert "an unknown number of rows" in repr(DeleteResult(4, DeleteMetrics(num_removed_files=1), "file:///t"))
    assert "nothing matched" in repr(DeleteResult(None, DeleteMetrics(), "file:///t"))


def test_result_in_a_notebook_lists_the_counters_and_escapes_the_path():
    html = DeleteResult(4, DeleteMetrics(num_deleted_rows=1234), "file:///<t>")._repr_html_()
    assert "1,234" in html
    assert "numDeletedRows" in html
    assert "&lt;t&gt;" in html
    assert "<t>" not in html
