"""How do rows get new values, and how does that follow a concurrent writer?

Candidates are scanned for matches once, and what was found are positions. Then, in one write:

    vectors on    the matched rows with their new values; in the old files they are marked
    vectors off   all rows of the files that hold a match, which are removed

When partition values alone decide, or nothing does, every row of the candidates is updated and no match is looked for.
With a change data feed every updated row is written three times: as it was, as it is now, and as data.

When another writer won the race and left every file that we touched as it was, what was written stands, and only files
that came, or got rows back, are looked at. Otherwise the update is done anew on what the winner left, and the files of
the first attempt are deleted. Either way the result is that of an update which started after the winner.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.delete.rows import ends_mostly_deleted, vector_mode
from ebbtide.commands.requests import VectorMode, WriteOptions
from ebbtide.commands.row_level.assignments import BoundAssignments
from ebbtide.commands.row_level.conditions import Matcher
from ebbtide.commands.row_level.counters import elapsed_ms, logical_rows, now_ms
from ebbtide.commands.row_level.physical_row_counts import with_row_counts
from ebbtide.commands.row_level.touched_files import (
    TouchedFileWithDV,
    mark_or_discard,
    matched_row_sets,
    process_unmodified_data,
)
from ebbtide.commands.update.results import UpdateMetrics
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.protocol.paths import canonical_path
from ebbtide.protocol.statistics import only_num_records
from ebbtide.scan import RowIdColumns, ScanFile, resolve_files, scan_files
from ebbtide.scan.flagged_rows import scan_flagged
from ebbtide.transaction import Lost
from ebbtide.transaction.file_changes import FileChanges
from ebbtide.write import WriteTarget, WrittenFiles, completed, enforced, generated_columns, write_files
from ebbtide.write.abandoned import discard

__all__ = ["RowUpdate"]

Matched = Sequence[tuple[ScanFile, RowIndexSet]]

_PREIMAGE, _POSTIMAGE = "update_preimage", "update_postimage"


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows to write; `chosen` names a column that is true for those to update. None: all of them."""

    frame: DataFrame
    chosen: str | None = None


@dataclass(frozen=True, slots=True)
class _Batch:
    """Files that were updated in one write."""

    # Files of which every row is in `written` now.
    replaced: tuple[AddFile, ...]
    # Files that stay, with the updated rows marked.
    marked: tuple[TouchedFileWithDV, ...]
    written: WrittenFiles
    updated_rows: int
    # Every row was updated, so no match was looked for.
    is_whole: bool
    keeps_row_ids: bool

    @property
    def touched(self) -> list[AddFile]:
        return [*self.replaced, *(file.file_log_entry for file in self.marked)]


@dataclass(slots=True)
class RowUpdate:
    """The work of one update on one snapshot; `follow` moves it to a newer one. `matcher` None: every row."""

    spark: SparkSession
    matcher: Matcher | None
    assignments: BoundAssignments
    options: WriteOptions
    snapshot: Snapshot
    batches: list[_Batch] = field(default_factory=list)
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0

    @property
    def mode(self) -> VectorMode:
        return vector_mode(self.snapshot, self.options.deletion_vectors)

    @property
    def updates_whole_files(self) -> bool:
        return self.matcher is None or self.matcher.is_partition_only

    @property
    def keeps_row_ids(self) -> bool:
        return all(batch.keeps_row_ids for batch in self.batches)

    # --- what came of it ----------------------------------------------------------------------------------------------

    def actions(self) -> tuple[Action, ...]:
        now = now_ms()
        actions: list[Action] = []
        for batch in self.batches:
            actions += process_unmodified_data(batch.marked, timestamp_ms=now).actions
            actions += [replace(add.remove(now), stats=only_num_records(add.stats)) for add in batch.replaced]
            actions += [*batch.written.adds, *batch.written.changes]
        return tuple(actions)

    def metrics(self) -> UpdateMetrics:
        written = [batch.written for batch in self.batches]
        marked = [process_unmodified_data(batch.marked, timestamp_ms=0) for batch in self.batches]
        updated = sum(batch.updated_rows for batch in self.batches)
        touched_rows = sum(files.num_rows for files in written)
        change_bytes = sum(files.num_change_bytes for files in written)
        # Removed bytes are those of files that were rewritten in whole for lack of vectors. Change data is counted here
        # as well, as the reference does.
        rewritten = [
            add for batch in self.batches for add in batch.replaced if self.mode == "off" or not batch.is_whole
        ]
        return UpdateMetrics(
            num_added_files=sum(len(files.adds) for files in written),
            num_added_bytes=sum(files.num_bytes for files in written),
            num_removed_files=sum(len(batch.touched) for batch in self.batches),
            num_removed_bytes=sum(add.size for add in rewritten) + change_bytes,
            num_updated_rows=updated,
            num_copied_rows=touched_rows - updated,
            scan_time_ms=self.scan_time_ms,
            rewrite_time_ms=self.rewrite_time_ms,
            num_added_change_files=sum(len(files.changes) for files in written),
            change_file_bytes=change_bytes,
            num_touched_rows=touched_rows,
            num_deletion_vectors_added=sum(actions.num_deletion_vectors_added for actions in marked),
            num_deletion_vectors_removed=sum(actions.num_deletion_vectors_removed for actions in marked),
            num_deletion_vectors_updated=sum(actions.num_deletion_vectors_updated for actions in marked),
        )

    def discard(self) -> None:
        """Delete what was written. Only for work that no commit has named, or may have."""
        vectors = [file.new_deletion_vector for batch in self.batches for file in batch.marked]
        written = [batch.written for batch in self.batches]
        discard(self.snapshot.store, written, [vector for vector in vectors if vector is not None])

    # --- updating -----------------------------------------------------------------------------------------------------

    def candidates(self, snapshot: Snapshot) -> pa.Table:
        return snapshot.files if self.matcher is None else self.matcher.candidates(self.spark, snapshot)

    def update_from(self, candidates: pa.Table) -> None:
        """Update the matching rows of these files of the snapshot."""
        if not candidates.num_rows:
            return
        files = resolve_files(self.snapshot, candidates, storage_options=self.options.storage_options)
        if self.updates_whole_files:
            self._update_whole(files)
        else:
            self._update_matched(self._matched(files))

    def _matched(self, files: Sequence[ScanFile]) -> Matched:
        assert self.matcher is not None
        started = time.monotonic()
        with border.search_settings(self.spark, few_shuffles=self.matcher.is_row_local):
            matched = list(matched_row_sets(self.spark, self.snapshot, files, self.matcher.matching))
        self.scan_time_ms += elapsed_ms(started)
        return matched

    def _update_whole(self, files: Sequence[ScanFile]) -> None:
        started = time.monotonic()
        ids = RowIdColumns.of(self.snapshot)
        written = self._write([_Rows(scan_files(self.spark, self.snapshot, files, row_ids=ids))], ids)
        adds = tuple(file.add for file in files)
        expected = logical_rows(adds)
        if expected is not None and expected != written.num_rows:
            raise self._mismatch(written, expected)
        self.batches.append(_Batch(adds, (), written, written.num_rows, True, ids is not None))
        self.rewrite_time_ms += elapsed_ms(started)

    def _update_matched(self, matched: Matched) -> None:
        if not matched:
            return
        started = time.monotonic()
        ids = RowIdColumns.of(self.snapshot)
        mode = self.mode
        is_rewritten = [mode == "off" or (mode == "auto" and ends_mostly_deleted(*pair)) for pair in matched]
        rewritten = [pair for pair, away in zip(matched, is_rewritten, strict=True) if away]
        marked = [pair for pair, away in zip(matched, is_rewritten, strict=True) if not away]
        # Rows first: if one of them breaks a rule of the table, no vector has been written.
        written = self._write(self._scanned(marked, rewritten, ids), ids)
        updated_rows = sum(len(rows) for _, rows in matched)
        if written.num_rows < updated_rows or (not rewritten and written.num_rows != updated_rows):
            raise self._mismatch(written, updated_rows)
        touched = self._mark(marked, written)
        replaced = tuple(file.add for file, _ in rewritten)
        self.batches.append(_Batch(replaced, touched, written, updated_rows, False, ids is not None))
        self.rewrite_time_ms += elapsed_ms(started)

    def _scanned(self, marked: Matched, rewritten: Matched, ids: RowIdColumns | None) -> list[_Rows]:
        """The rows to write: of files that stay the matched ones, of the others all."""
        found = []
        if marked:
            files = [file.only(rows) for file, rows in marked]
            found.append(_Rows(scan_files(self.spark, self.snapshot, files, row_ids=ids)))
        if rewritten:
            scan = scan_flagged(self.spark, self.snapshot, rewritten, row_ids=ids)
            found.append(_Rows(scan.frame, scan.flag))
        return found

    def _mark(self, matched: Matched, written: WrittenFiles) -> tuple[TouchedFileWithDV, ...]:
        add_of_path: dict[str, AddFile] = {}
        options = self.options
        counted = with_row_counts(self.snapshot, matched, add_of_path, storage_options=options.storage_options)
        return mark_or_discard(self.snapshot, counted, add_of_path, written, config=options.config)

    def _write(self, scanned: Sequence[_Rows], ids: RowIdColumns | None) -> WrittenFiles:
        target = WriteTarget.of(self.snapshot)
        taken = [name for rows in scanned for name in rows.frame.columns]
        has_feed = self.snapshot.properties.enable_change_data_feed
        old_row = border.HelperNames(taken).pick("old_row") if has_feed else None
        parts = [self._with_new_values(rows, target, ids, old_row) for rows in scanned]
        rows = enforced(reduce(DataFrame.unionAll, parts), target)
        change_type = None
        if old_row is not None:
            change_type = border.HelperNames(rows.columns).pick("change_type")
            rows = _with_changes(rows, self.snapshot.schema.names, old_row, change_type)
        extra = None if ids is None else ids.in_files
        return write_files(self.spark, rows, target, change_type_column=change_type, extra_columns=extra)

    def _with_new_values(
        self, rows: _Rows, target: WriteTarget, ids: RowIdColumns | None, old_row: str | None
    ) -> DataFrame:
        """The table's columns as they are now, the row ids, and the old row where it is asked for."""
        frame = self.assignments.applied(rows.frame, only=rows.chosen, old_row=old_row)
        computed = [name for name in generated_columns(target) if name.lower() not in self.assignments.columns]
        if computed:
            frame = _with_computed(frame, target, computed, rows.chosen)
        if ids is not None:
            frame = ids.of_updated_rows(frame, only=rows.chosen)
        return frame if rows.chosen is None else frame.drop(rows.chosen)

    def _mismatch(self, written: WrittenFiles, expected: int) -> InternalError:
        discard(self.snapshot.store, [written])
        return InternalError(
            f"UPDATE of {self.snapshot.store.url} wrote {written.num_rows} rows where {expected} were expected; "
            "nothing was committed",
            error_class="DELTA_NUM_RECORDS_MISMATCH",
        )

    # --- following a winner -------------------------------------------------------------------------------------------

    def follow(self, lost: Lost) -> RowUpdate:
        """This update on top of the winners."""
        newest = lost.newest
        candidates = self.candidates(newest)
        changes = lost.changes()
        is_same_table = lost.read.metadata == newest.metadata and lost.read.protocol == newest.protocol
        if not is_same_table or not self._stands(changes):
            self.discard()
            self.batches.clear()
            anew = replace(self, snapshot=newest, batches=[])
            anew.update_from(candidates)
            return anew
        # Rows of files that lost some cannot have begun to match, but looking is cheaper than telling these from files
        # that got rows back.
        unknown = pa.concat_tables([changes.added, changes.vector_changed])
        paths = candidates["path"].combine_chunks()
        moved = replace(self, snapshot=newest, batches=list(self.batches))
        moved.update_from(unknown.filter(pc.is_in(unknown["path"], value_set=paths)))
        return moved

    def _stands(self, changes: FileChanges) -> bool:
        """Every file that we touched is as it was, to the letter."""
        changed = {
            canonical_path(path, changes.table_url)
            for table in (changes.gone, changes.vector_changed, changes.restated)
            for path in table["path"].to_pylist()
        }
        touched = (add.path for batch in self.batches for add in batch.touched)
        return not any(canonical_path(path, changes.table_url) in changed for path in touched)


def _with_changes(rows: DataFrame, columns: Sequence[str], old_row: str, change_type: str) -> DataFrame:
    """Each updated row as data, and before and after as change data. A row without an old one was not updated."""
    was_updated = border.column(old_row).isNotNull()
    nothing = F.lit(None).cast("string")
    kinds = F.when(was_updated, F.array(F.lit(_PREIMAGE), F.lit(_POSTIMAGE), nothing)).otherwise(F.array(nothing))
    told = rows.select(*(border.column(name) for name in rows.columns), F.explode(kinds).alias(change_type))
    is_before = border.column(change_type).eqNullSafe(F.lit(_PREIMAGE))
    old = border.column(old_row)
    shown = [
        F.when(is_before, old.getField(name)).otherwise(border.column(name)).alias(name)
        if name in columns
        else border.column(name)
        for name in told.columns
        if name != old_row
    ]
    return told.select(*shown)


def _with_computed(frame: DataFrame, target: WriteTarget, computed: Sequence[str], chosen: str | None) -> DataFrame:
    """Generated columns follow the new values; rows that are only copied keep what they have."""
    given = {name.lower() for name in target.schema.names} - {name.lower() for name in computed}
    if chosen is None:
        return completed(frame, target, given=given)
    names = border.HelperNames(frame.columns)
    kept = {name: names.pick(f"kept_{place}") for place, name in enumerate(computed)}
    before = frame.select(
        *(border.column(name) for name in frame.columns), *(border.column(name).alias(kept[name]) for name in computed)
    )
    now = completed(before, target, given=given)
    is_updated = border.column(chosen)
    values = {
        name: F.when(is_updated, border.column(name)).otherwise(border.column(kept[name])).alias(name)
        for name in computed
    }
    return now.select(*(values.get(name, border.column(name)) for name in frame.columns))
