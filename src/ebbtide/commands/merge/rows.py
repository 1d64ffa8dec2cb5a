"""What has a MERGE done to a table, and how does that follow a concurrent writer?

When another writer wins the race without changing a file that we searched, adds none that we would have searched, and
hands out no number that we gave to a row, what was written stands. Otherwise the merge is done again
(`merge.performing`), with the same source, on what the winner left, and the files of the first attempt are deleted. The
result is that of a merge which started after the winner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundClause, bind_merge
from ebbtide.commands.merge.performing import MergeOutcome, MergePlan, perform_merge
from ebbtide.commands.merge.pruning import Candidates
from ebbtide.commands.merge.results import MergeMetrics
from ebbtide.commands.merge.strategy import choose_strategy
from ebbtide.commands.row_level.counters import now_ms, partition_count, table_partition_count, total_bytes
from ebbtide.commands.row_level.work import FileWork
from ebbtide.errors import ConcurrentAppendException
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.protocol.identity_columns import advance_marks, keep_marks
from ebbtide.transaction import Lost
from ebbtide.transaction.table_changes import property_changes

__all__ = ["RowMerge"]


@dataclass(slots=True)
class RowMerge:
    """The work of one merge on one snapshot; `follow` moves it to a newer one."""

    plan: MergePlan
    candidates: Candidates
    outcome: MergeOutcome
    source_time_ms: int
    # How often it was done again after a lost race.
    attempts: int = 0

    @property
    def snapshot(self) -> Snapshot:
        return self.plan.snapshot

    @property
    def keeps_row_ids(self) -> bool:
        return self.snapshot.properties.enable_row_tracking

    # --- what came of it ----------------------------------------------------------------------------------------------

    def actions(self) -> tuple[Action, ...]:
        changes: list[Action] = []
        before = self.snapshot.metadata
        # Other writers may have counted on in an identity column since the merge was bound.
        metadata = advance_marks(keep_marks(self.plan.merge.metadata, before), self.outcome.used.marks)
        if metadata is not before and metadata != before:
            changes = [*property_changes(self.snapshot.protocol, metadata), metadata]
        return (*changes, *self.outcome.work.actions(now_ms()))

    def metrics(self) -> MergeMetrics:
        outcome, matches, source = self.outcome, self.outcome.matches, self.plan.source
        work, written, files = outcome.work, outcome.work.written, self.plan.files
        marks = work.marks
        gone = [file.file_log_entry for file in work.marked if file.is_fully_replaced()]
        removed = [*work.replaced, *gone]
        adds = () if written is None else written.adds
        return MergeMetrics(
            num_source_rows=source.num_rows,
            num_source_rows_in_second_scan=0 if written is None else source.num_rows,
            operation_num_source_rows=source.num_rows,
            num_target_rows_copied=outcome.num_copied_rows,
            num_target_rows_inserted=outcome.num_inserted,
            num_target_rows_matched_updated=matches.count("matched_updated"),
            num_target_rows_not_matched_by_source_updated=matches.count("missing_updated"),
            num_target_rows_matched_deleted=matches.count("matched_deleted"),
            num_target_rows_not_matched_by_source_deleted=matches.count("missing_deleted"),
            num_target_files_before_skipping=self.snapshot.num_files,
            num_target_files_after_skipping=files.num_rows,
            num_target_files_removed=len(removed),
            num_target_files_added=len(adds),
            num_target_change_files_added=0 if written is None else len(written.change_files),
            num_target_change_file_bytes=0 if written is None else written.num_change_bytes,
            num_target_bytes_before_skipping=self.snapshot.size_in_bytes,
            num_target_bytes_after_skipping=total_bytes(files),
            num_target_bytes_removed=sum(add.size for add in removed),
            num_target_bytes_added=sum(add.size for add in adds),
            num_target_partitions_after_skipping=table_partition_count(self.snapshot, files),
            num_target_partitions_removed_from=partition_count(self.snapshot, removed),
            num_target_partitions_added_to=partition_count(self.snapshot, adds),
            materialize_source_time_ms=self.source_time_ms,
            scan_time_ms=outcome.scan_time_ms,
            rewrite_time_ms=outcome.rewrite_time_ms,
            num_target_deletion_vectors_added=marks.num_deletion_vectors_added,
            num_target_deletion_vectors_removed=marks.num_deletion_vectors_removed + work.num_replaced_vectors,
            num_target_deletion_vectors_updated=marks.num_deletion_vectors_updated,
        )

    def parameters(self) -> Mapping[str, str]:
        merge = self.plan.merge
        return {
            "predicate": orjson.dumps([merge.display_text]).decode(),
            "matchedPredicates": _record_clauses(merge.matched),
            "notMatchedPredicates": _record_clauses(merge.not_matched),
            "notMatchedBySourcePredicates": _record_clauses(merge.by_source),
        }

    def discard(self) -> None:
        """Delete what was written, once. Only if no commit can have named it."""
        work, self.outcome = self.outcome.work, replace(self.outcome, work=FileWork())
        work.discard(self.snapshot.store)

    # --- following a winner -------------------------------------------------------------------------------------------

    def follow(self, lost: Lost, /) -> RowMerge:
        """This merge on top of the winners."""
        newest = lost.newest
        changes = lost.file_changes()
        if not changes.is_empty and self.reads_target():
            # The source was read before the winner wrote, so this merge cannot act as if it had begun afterwards.
            raise lost.conflict() or ConcurrentAppendException(
                f"The source of the merge reads the table at {newest.store.url} itself, and another writer changed the "
                "table meanwhile. Nothing was changed. Run the merge again."
            )
        plan = self.plan
        files = self.candidates.files(plan.spark, newest)
        stands = changes.leaves_alone(plan.files["path"].to_pylist()) and not changes.unseen(files).num_rows
        collides = self.outcome.used.collide_with(newest.metadata)
        if lost.is_same_definition and stands and not collides:
            adds_no_column = plan.merge.metadata == plan.snapshot.metadata
            merge = replace(plan.merge, metadata=newest.metadata) if adds_no_column else plan.merge
            return replace(self, plan=replace(plan, merge=merge, snapshot=newest, files=files))
        used, attempts = self.outcome.used, self.attempts + 1
        self.discard()
        merge = bind_merge(plan.spark, newest, plan.request, plan.source)
        strategy = choose_strategy(plan.request, merge, plan.source, newest, plan.strategy.thresholds)
        skipped = used.choose_gap(attempts) if collides else 0
        anew = replace(plan, merge=merge, strategy=strategy, snapshot=newest, files=files, skipped=skipped)
        return RowMerge(anew, self.candidates, perform_merge(anew), self.source_time_ms, attempts)

    def reads_target(self) -> bool:
        """Whether the source reads data files of the table itself."""
        root = f"{self.plan.request.store.spark_path.rstrip('/')}/"
        with border.spark_errors("listing the files of the source"):
            names = border.input_files(self.plan.request.source)
        return any(border.file_path_of(name).startswith(root) for name in names)


def _record_clauses(clauses: Sequence[BoundClause]) -> str:
    return orjson.dumps(
        [
            {**({} if clause.display_text is None else {"predicate": clause.display_text}), "actionType": clause.kind}
            for clause in clauses
        ]
    ).decode()
