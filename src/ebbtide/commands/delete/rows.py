"""How are single rows deleted from files, and how does that follow a concurrent writer?

Candidates are scanned for matches once. Matches are marked in deletion vectors, or their files are rewritten, as the
plan says. When another writer wins the race, only what that writer changed is searched again:

- files unchanged: what we did stands;
- a vector that only grew: ours is united with it on the driver, and a row both deleted counts for the winner;
- files added, or a vector that shrank (a restore): these are scanned, and only these;
- a file that we rewrote was changed: our new files hold rows of its old state, so what was rewritten together is
  rewritten once more; which rows must go is still known.

The result is what the deletion would have been had it started after the winner. What was written but is no longer
needed is deleted: no commit has named it. A file of vectors is deleted only when none of its vectors is needed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide.commands.delete.results import DeleteMetrics, skipping_metrics
from ebbtide.commands.delete.standing import MarkedRows, Standing
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.counters import elapsed_ms, now_ms, partition_count
from ebbtide.commands.row_level.plan import Matched, RowPlan, is_same_way, plan_search, predicate_parameter
from ebbtide.commands.row_level.rewriting import rewrite_without
from ebbtide.commands.row_level.touched_files import (
    RowSearch,
    TouchedFileWithDV,
    find_touched_files,
    mark_rows,
    process_unmodified_data,
)
from ebbtide.commands.row_level.work import FileWork
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.protocol.statistics import num_records
from ebbtide.scan import ScanFile, resolve_files, without_rows
from ebbtide.transaction import Lost

__all__ = ["RowDeletion"]


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Files that were replaced by new ones."""

    matched: Matched
    work: FileWork
    # Whether the rows kept their ids: they do if the table tracked rows when they were written.
    keeps_row_ids: bool


@dataclass(slots=True)
class RowDeletion:
    """The work of one deletion on one snapshot; `follow` moves it to a newer one."""

    spark: SparkSession
    search: RowSearch
    options: WriteOptions
    snapshot: Snapshot
    plan: RowPlan
    marked: list[TouchedFileWithDV] = field(default_factory=list)
    rewrites: list[_Rewrite] = field(default_factory=list)
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0

    @classmethod
    def perform(
        cls, spark: SparkSession, search: RowSearch, options: WriteOptions, snapshot: Snapshot, plan: RowPlan
    ) -> RowDeletion:
        """Find the matching rows of the candidates and write what marks or replaces them; an error leaves nothing."""
        work = cls(spark, search, options, snapshot, plan)
        try:
            work.delete_from(plan.files)
        except BaseException:
            work.discard()
            raise
        return work

    @property
    def keeps_row_ids(self) -> bool:
        return all(rewrite.keeps_row_ids for rewrite in self.rewrites)

    # --- what came of it ----------------------------------------------------------------------------------------------

    @property
    def parts(self) -> list[FileWork]:
        return [FileWork(tuple(self.marked)), *(rewrite.work for rewrite in self.rewrites)]

    def actions(self) -> tuple[Action, ...]:
        now = now_ms()
        return tuple(action for part in self.parts for action in part.actions(now))

    def metrics(self) -> DeleteMetrics:
        marks = process_unmodified_data(self.marked, timestamp_ms=0)
        works = [rewrite.work for rewrite in self.rewrites]
        removed = [add for work in works for add in work.replaced]
        written = [work.written for work in works if work.written is not None]
        adds = [add for files in written for add in files.adds]
        rewritten_away = sum(len(rows) for rewrite in self.rewrites for _, rows in rewrite.matched)
        copied = sum(files.num_rows for files in written)
        return replace(
            skipping_metrics(self.snapshot, self.plan.files),
            num_deleted_rows=marks.num_modified_rows + rewritten_away,
            num_removed_files=marks.num_removed_files + len(removed),
            num_removed_bytes=sum(add.size for add in removed),
            num_added_files=len(adds),
            num_added_bytes=sum(add.size for add in adds),
            num_added_change_files=sum(len(files.change_files) for files in written),
            change_file_bytes=sum(files.num_change_bytes for files in written),
            num_copied_rows=copied,
            num_touched_rows=copied + rewritten_away if removed else 0,
            num_deletion_vectors_added=marks.num_deletion_vectors_added,
            num_deletion_vectors_removed=marks.num_deletion_vectors_removed
            + sum(work.num_replaced_vectors for work in works),
            num_deletion_vectors_updated=marks.num_deletion_vectors_updated,
            num_partitions_removed_from=partition_count(self.snapshot, removed),
            num_partitions_added_to=partition_count(self.snapshot, adds),
            scan_time_ms=self.scan_time_ms if self.rewrites else 0,
            rewrite_time_ms=self.rewrite_time_ms,
        )

    def parameters(self) -> Mapping[str, str]:
        return predicate_parameter(self.plan.matcher)

    def discard(self, *, keeping: RowDeletion | None = None) -> None:
        """Delete what was written, except what `keeping` uses. Only if no commit can have named it."""
        kept = [] if keeping is None else keeping.parts
        for part in self.parts:
            part.discard(self.snapshot.store, keeping=kept)

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete_from(self, candidates: pa.Table, *, rewritten: Matched = ()) -> None:
        """Find the matching rows of these files of the snapshot and write what marks or replaces them.

        `rewritten` are further files with known matches, rewritten in the same write.
        """
        files = resolve_files(self.snapshot, candidates, storage_options=self.options.storage_options)
        started = time.monotonic()

        def rewrite(marked: Matched, found: Matched) -> None:
            del marked
            self.scan_time_ms += elapsed_ms(started)
            self._rewrite([*rewritten, *found])

        touched = find_touched_files(
            self.search,
            self.snapshot,
            files,
            self.plan,
            "DELETE",
            options=self.options,
            write_rows=None if self.plan.marks_every_file else rewrite,
        )
        self.marked += touched.marked

    def _rewrite(self, matched: Matched) -> None:
        if not matched:
            return
        started = time.monotonic()
        written = rewrite_without(self.spark, self.snapshot, matched)
        work = FileWork(replaced=tuple(file.add for file, _ in matched), written=written)
        self.rewrites.append(_Rewrite(matched, work, self.snapshot.properties.enable_row_tracking))
        self.rewrite_time_ms += elapsed_ms(started)

    # --- following a winner -------------------------------------------------------------------------------------------

    def follow(self, lost: Lost) -> RowDeletion:
        """This deletion on top of the winners."""
        newest = lost.newest
        plan = plan_search(self.spark, newest, self.plan.matcher, self.options.deletion_vectors)
        if is_same_way(self.plan, plan):
            moved = self._move_to(newest, plan, Standing.of(lost, plan.files, MarkedRows(newest, self.options)))
        else:
            moved = RowDeletion.perform(self.spark, self.search, self.options, newest, plan)
        self.discard(keeping=moved)
        return moved

    def _move_to(self, newest: Snapshot, plan: RowPlan, standing: Standing) -> RowDeletion:
        moved = replace(self, snapshot=newest, plan=plan, marked=[], rewrites=[])
        try:
            moved.take_over_marks(self.marked, standing)
            rewritten = moved.take_over_rewrites(self.rewrites, standing)
            moved.delete_from(standing.unknown, rewritten=rewritten)
        except BaseException:
            # What it took over is still ours, and goes with us.
            moved.discard(keeping=self)
            raise
        return moved

    def take_over_marks(self, touched: Sequence[TouchedFileWithDV], standing: Standing) -> None:
        """Keep what was marked before the race was lost, as far as it still holds."""
        united: list[tuple[ScanFile, RowIndexSet]] = []
        for file in touched:
            now = standing.now(file.file_log_entry)
            if now is None:
                continue
            if now.dv_id == file.file_log_entry.dv_id and num_records(now.stats) is not None:
                self.marked.append(replace(file, file_log_entry=now))
            else:
                united += _rows_still_ours(file, now, standing.marked)
        self.marked += mark_rows(self.snapshot, united, options=self.options)

    def take_over_rewrites(self, rewrites: Sequence[_Rewrite], standing: Standing) -> Matched:
        """Keep the rewrites whose files did not change; return what must be rewritten again."""
        again: list[tuple[ScanFile, RowIndexSet]] = []
        for rewrite in rewrites:
            if all(standing.now(add) is add for add in rewrite.work.replaced):
                self.rewrites.append(rewrite)
                continue
            for file, rows in rewrite.matched:
                now = standing.now(file.add)
                if now is None:
                    continue
                marks = file.marks if now.dv_id == file.add.dv_id else standing.marked.of(now) or None
                left = rows if marks is None else rows - marks
                if left:
                    again.append((replace(file, add=now, keeps=without_rows(marks)), left))
        return again


def _rows_still_ours(file: TouchedFileWithDV, now: AddFile, marked: MarkedRows) -> list[tuple[ScanFile, RowIndexSet]]:
    """The rows that we mark and the winner does not, in the file as the winner left it."""
    old, winners = marked.of(file.file_log_entry), marked.of(now)
    if file.new_deletion_vector is not None:
        ours = marked.of(replace(file.file_log_entry, deletion_vector=file.new_deletion_vector)) - old
    else:
        physical = num_records(file.file_log_entry.stats)
        if physical is None:
            raise InternalError(f"'{file.input_file_path}' was deleted whole without a known row count.")
        ours = RowIndexSet.from_range(0, physical) - old
    left = ours - winners
    scanned = ScanFile(now, file.input_file_path, None, without_rows(winners))
    return [(scanned, left)] if left else []
