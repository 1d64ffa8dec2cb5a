"""How do rows get new values, and how does that follow a concurrent writer?

Candidates are scanned once for the positions of matches. Then, in one write:

    vectors on    the matched rows with their new values; in the old files they are marked
    vectors off   all rows of the files that hold a match, which are removed

When partition values alone decide, or there is no condition, every row of the candidates is updated without a search.
With a change data feed every updated row is written three times: as it was, as it is now, and as data.

When another writer wins the race without changing a file that we touched, what was written stands, and only files that
were added, or got rows back, are searched. Otherwise the update is done again on what the winner left, and the files of
the first attempt are deleted. Either way the result is that of an update which started after the winner.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NoReturn

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.assignments import BoundAssignments
from ebbtide.commands.row_level.counters import elapsed_ms, logical_rows, now_ms
from ebbtide.commands.row_level.new_rows import with_generated, with_update_changes
from ebbtide.commands.row_level.physical_row_counts import explain_mismatch
from ebbtide.commands.row_level.plan import (
    Matched,
    Plan,
    RowPlan,
    WholeFiles,
    WholeTable,
    plan_rows,
    predicate_parameter,
    should_write_persistent_deletion_vectors,
)
from ebbtide.commands.row_level.touched_files import RowSearch, find_touched_files
from ebbtide.commands.row_level.work import FileWork
from ebbtide.commands.update.results import UpdateMetrics
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.scan import RowIdColumns, resolve_files, scan_files, scan_flagged
from ebbtide.transaction import Lost
from ebbtide.write import WriteTarget, WrittenFiles, discard, enforce_rules, generated_columns, write_files

__all__ = ["RowUpdate"]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows to write; `chosen` names a column that is true for those to update. None: all of them."""

    frame: DataFrame
    chosen: str | None = None


@dataclass(frozen=True, slots=True)
class _Batch:
    """Files that were updated in one write."""

    work: FileWork
    updated_rows: int
    # Every row was updated, without a search.
    is_whole: bool
    keeps_row_ids: bool


@dataclass(slots=True)
class RowUpdate:
    """The work of one update on one snapshot; `follow` moves it to a newer one."""

    spark: SparkSession
    search: RowSearch
    assignments: BoundAssignments
    options: WriteOptions
    snapshot: Snapshot
    plan: Plan
    batches: list[_Batch] = field(default_factory=list)
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0

    @property
    def keeps_row_ids(self) -> bool:
        return all(batch.keeps_row_ids for batch in self.batches)

    # --- what came of it ----------------------------------------------------------------------------------------------

    @property
    def parts(self) -> list[FileWork]:
        return [batch.work for batch in self.batches]

    def actions(self) -> tuple[Action, ...]:
        now = now_ms()
        return tuple(action for part in self.parts for action in part.actions(now))

    def metrics(self) -> UpdateMetrics:
        written = [part.written for part in self.parts if part.written is not None]
        marks = [part.marks for part in self.parts]
        updated = sum(batch.updated_rows for batch in self.batches)
        touched_rows = sum(files.num_rows for files in written)
        change_bytes = sum(files.num_change_bytes for files in written)
        # Removed bytes are those of files that were rewritten in whole for lack of vectors. Change data is counted here
        # as well, as the reference does.
        uses_vectors = should_write_persistent_deletion_vectors(self.snapshot, self.options.deletion_vectors)
        rewritten = [
            add for batch in self.batches for add in batch.work.replaced if not uses_vectors or not batch.is_whole
        ]
        return UpdateMetrics(
            num_added_files=sum(len(files.adds) for files in written),
            num_added_bytes=sum(files.num_bytes for files in written),
            num_removed_files=sum(len(part.touched_files) for part in self.parts),
            num_removed_bytes=sum(add.size for add in rewritten) + change_bytes,
            num_updated_rows=updated,
            num_copied_rows=touched_rows - updated,
            scan_time_ms=self.scan_time_ms,
            rewrite_time_ms=self.rewrite_time_ms,
            num_added_change_files=sum(len(files.change_files) for files in written),
            change_file_bytes=change_bytes,
            num_touched_rows=touched_rows,
            num_deletion_vectors_added=sum(part.num_deletion_vectors_added for part in marks),
            num_deletion_vectors_removed=sum(part.num_deletion_vectors_removed for part in marks),
            num_deletion_vectors_updated=sum(part.num_deletion_vectors_updated for part in marks),
        )

    def parameters(self) -> Mapping[str, str]:
        return predicate_parameter(self.plan.matcher)

    def discard(self) -> None:
        """Delete what was written. Only if no commit can have named it."""
        for part in self.parts:
            part.discard(self.snapshot.store)

    # --- updating -----------------------------------------------------------------------------------------------------

    def update_from(self, candidates: pa.Table) -> None:
        """Update the rows that the plan chooses in these files of the snapshot."""
        if not candidates.num_rows:
            return
        if isinstance(self.plan, WholeTable | WholeFiles):
            self._update_whole(candidates)
        else:
            self._update_matched(candidates, self.plan)

    def _update_whole(self, candidates: pa.Table) -> None:
        started = time.monotonic()
        files = resolve_files(self.snapshot, candidates, storage_options=self.options.storage_options)
        ids = RowIdColumns.of(self.snapshot)
        written = self._write([_Rows(scan_files(self.spark, self.snapshot, files, row_ids=ids))], ids)
        adds = tuple(file.add for file in files)
        expected = logical_rows(adds)
        if expected is not None and expected != written.num_rows:
            self._refuse(written, expected, adds)
        work = FileWork(replaced=adds, written=written)
        self.batches.append(_Batch(work, written.num_rows, is_whole=True, keeps_row_ids=ids is not None))
        self.rewrite_time_ms += elapsed_ms(started)

    def _update_matched(self, candidates: pa.Table, plan: RowPlan) -> None:
        files = resolve_files(self.snapshot, candidates, storage_options=self.options.storage_options)
        ids = RowIdColumns.of(self.snapshot)
        started = time.monotonic()
        rows_started = started
        updated_rows = 0

        def write_rows(marked: Matched, rewritten: Matched) -> WrittenFiles | None:
            nonlocal rows_started, updated_rows
            rows_started = time.monotonic()
            updated_rows = sum(len(rows) for _, rows in (*marked, *rewritten))
            return self._write_matched(marked, rewritten, ids) if updated_rows else None

        touched = find_touched_files(
            self.search, self.snapshot, files, plan, "UPDATE", options=self.options, write_rows=write_rows
        )
        self.scan_time_ms += int((rows_started - started) * 1000)
        if touched.written is None:
            return
        work = FileWork(touched.marked, tuple(file.add for file, _ in touched.rewritten), touched.written)
        self.batches.append(_Batch(work, updated_rows, is_whole=False, keeps_row_ids=ids is not None))
        self.rewrite_time_ms += elapsed_ms(rows_started)

    def _write_matched(self, marked: Matched, rewritten: Matched, ids: RowIdColumns | None) -> WrittenFiles:
        """Write the matched rows of files that stay, and all rows of the others."""
        found = []
        if marked:
            only = [file.only(rows) for file, rows in marked]
            found.append(_Rows(scan_files(self.spark, self.snapshot, only, row_ids=ids)))
        if rewritten:
            scan = scan_flagged(self.spark, self.snapshot, rewritten, row_ids=ids)
            found.append(_Rows(scan.frame, scan.flag))
        written = self._write(found, ids)
        expected = sum(len(rows) for _, rows in (*marked, *rewritten))
        if written.num_rows < expected or (not rewritten and written.num_rows != expected):
            self._refuse(written, expected, [file.add for file, _ in (*marked, *rewritten)])
        return written

    def _write(self, scanned: Sequence[_Rows], ids: RowIdColumns | None) -> WrittenFiles:
        target = WriteTarget.of(self.snapshot)
        taken = [name for rows in scanned for name in rows.frame.columns]
        has_feed = self.snapshot.properties.enable_change_data_feed
        old_row = border.HelperNames(taken).pick("old_row") if has_feed else None
        parts = [self._with_new_values(rows, target, ids, old_row) for rows in scanned]
        rows = enforce_rules(reduce(DataFrame.unionAll, parts), target)
        change_type = None
        if old_row is not None:
            change_type = border.HelperNames(rows.columns).pick("change_type")
            rows = with_update_changes(rows, self.snapshot.schema.names, old_row=old_row, change_type=change_type)
        extra = None if ids is None else ids.in_files
        return write_files(self.spark, rows, target, change_type_column=change_type, extra_columns=extra)

    def _with_new_values(
        self, rows: _Rows, target: WriteTarget, ids: RowIdColumns | None, old_row: str | None
    ) -> DataFrame:
        """The table's columns as they are now, the row ids, and the old row if requested."""
        frame = self.assignments.apply(rows.frame, only=rows.chosen, old_row=old_row)
        computed = [name for name in generated_columns(target) if name.lower() not in self.assignments.columns]
        # Rows that are only copied keep what they have.
        is_copied = None if rows.chosen is None else ~border.column(rows.chosen)
        frame = with_generated(frame, target, dict.fromkeys(computed, is_copied))
        if ids is not None:
            frame = ids.of_updated_rows(frame, only=rows.chosen)
        return frame if rows.chosen is None else frame.drop(rows.chosen)

    def _refuse(self, written: WrittenFiles, expected: int, adds: Sequence[AddFile]) -> NoReturn:
        discard(self.snapshot.store, [written])
        raise explain_mismatch(
            self.snapshot,
            adds,
            f"UPDATE of {self.snapshot.store.url} wrote {written.num_rows} rows where {expected} were expected; "
            "nothing was committed",
            storage_options=self.options.storage_options,
        )

    # --- following a winner -------------------------------------------------------------------------------------------

    def follow(self, lost: Lost, /) -> RowUpdate:
        """This update on top of the winners."""
        newest = lost.newest
        plan = plan_rows(self.spark, newest, self.plan.matcher, self.options.deletion_vectors)
        changes = lost.file_changes()
        touched = (add.path for part in self.parts for add in part.touched_files)
        if lost.is_same_definition and changes.leaves_alone(touched):
            moved = replace(self, snapshot=newest, plan=plan, batches=list(self.batches))
            # Rows of files that lost some cannot have begun to match, but a search is cheaper than telling these from
            # files that got rows back.
            moved.update_from(changes.unseen(plan.files))
            return moved
        self.discard()
        # What was abandoned must not be deleted a second time if the new attempt fails.
        self.batches.clear()
        anew = replace(self, snapshot=newest, plan=plan, batches=[])
        anew.update_from(plan.files)
        return anew
