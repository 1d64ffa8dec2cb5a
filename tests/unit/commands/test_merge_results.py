"""Do a merge's counters add up the way the reference adds them?"""

from __future__ import annotations

import pytest

from ebbtide.commands.merge.request import DeleteClause, InsertClause, MergeRequest, UpdateClause
from ebbtide.commands.merge.results import MergeMetrics, MergeResult
from ebbtide.errors import RequestError


def test_updated_vectors_count_as_added_and_removed_in_the_commit():
    metrics = MergeMetrics(num_target_deletion_vectors_added=1, num_target_deletion_vectors_updated=2)
    shown = metrics.operation_metrics
    assert shown["numTargetDeletionVectorsAdded"] == 3
    assert shown["numTargetDeletionVectorsRemoved"] == shown["numTargetDeletionVectorsUpdated"] == 2


def test_output_rows_are_those_written():
    metrics = MergeMetrics(
        num_target_rows_copied=1,
        num_target_rows_inserted=2,
        num_target_rows_matched_updated=4,
        num_target_rows_not_matched_by_source_updated=8,
        num_target_rows_matched_deleted=16,
        num_target_rows_not_matched_by_source_deleted=32,
        operation_num_source_rows=5,
    )
    shown = metrics.operation_metrics
    assert (shown["numOutputRows"], shown["numTargetRowsUpdated"], shown["numTargetRowsDeleted"]) == (15, 12, 48)
    assert shown["numSourceRows"] == 5
    assert metrics.num_affected_rows == 62


def test_result_says_what_it_did():
    metrics = MergeMetrics(num_target_rows_inserted=1, num_target_rows_matched_deleted=2, num_target_files_added=1)
    result = MergeResult(3, metrics, "file:///t<>")
    assert repr(result) == "<MergeResult version 3: 2 rows deleted; 1 row inserted; 1 file written>"
    assert "t&lt;&gt;" in result._repr_html_()
    assert "no new version" in repr(MergeResult(None, MergeMetrics(), "file:///t"))


def test_star_cannot_update_rows_that_no_source_row_matches():
    with pytest.raises(RequestError, match="Name the columns"):
        MergeRequest(None, None, "true", not_matched_by_source=(UpdateClause(None),))


def test_kinds_of_merges_are_told_apart():
    delete = MergeRequest(None, None, "true", matched=(DeleteClause(),))
    insert = MergeRequest(None, None, "true", not_matched=(InsertClause(None),))
    assert (delete.deletes_every_match, delete.is_insert_only) == (True, False)
    assert (insert.deletes_every_match, insert.is_insert_only) == (False, True)
    assert not MergeRequest(None, None, "true", matched=(DeleteClause("a"),)).deletes_every_match
