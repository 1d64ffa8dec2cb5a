"""How is a table changed by a source, and how does that follow a concurrent writer?

    insert only     rows of the source without a partner are written; nothing else is touched
    otherwise       first the rows to change are found (`merge_matching`), then everything new is written in one go
                    (`merge_writing`). With deletion vectors the changed rows are marked in their files and nothing else
                    is written; without, the files are replaced.
    upsert          where all rows of the source are written as they are, whoever finds a partner, the write does not
                    wait for the matches

When another writer won the race and left the files that we looked at as they were, and brought none that we would have
looked at, what was written stands. Otherwise the merge is done anew, with the same source, on what the winner left, and
the files of the first attempt are deleted. The result is that of a merge which started after the winner.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundClause, BoundMerge, bind_merge
from ebbtide.commands.merge.matching import Matches, find_matches
from ebbtide.commands.merge.pruning import Candidates
from ebbtide.commands.merge.request import MergeRequest
from ebbtide.commands.merge.results import MergeMetrics
from ebbtide.commands.merge.source import Source
from ebbtide.commands.merge.writing import MergeWriter, RewrittenFile
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.counters import (
    elapsed_ms,
    logical_rows,
    now_ms,
    partition_count,
    table_partition_count,
    total_bytes,
)
from ebbtide.commands.row_level.plan import should_write_persistent_deletion_vectors
from ebbtide.commands.row_level.touched_files import mark_rows, process_unmodified_data
from ebbtide.commands.row_level.work import FileWork
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import ConcurrentAppendException, InternalError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.scan import RowIdColumns, ScanFile, resolve_files
from ebbtide.transaction import Lost
from ebbtide.transaction.table_changes import property_changes
from ebbtide.write.ahead import writing_ahead

__all__ = ["RowMerge"]


@dataclass(slots=True)
class RowMerge:
    """The work of one merge on one snapshot; `follow` moves it to a newer one."""

    spark: SparkSession
    request: MergeRequest
    merge: BoundMerge
    source: Source
    candidates: Candidates
    snapshot: Snapshot
    files: pa.Table
    source_time_ms: int = 0
    matches: Matches = field(default_factory=Matches)
    work: FileWork = field(default_factory=FileWork)
    inserted: int = 0
    keeps_row_ids: bool = True
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0

    @property
    def uses_vectors(self) -> bool:
        return should_write_persistent_deletion_vectors(self.snapshot, self.request.options.deletion_vectors)

    # --- what came of it ----------------------------------------------------------------------------------------------

    def actions(self) -> tuple[Action, ...]:
        metadata: list[Action] = []
        if self.merge.metadata is not self.snapshot.metadata and self.merge.metadata != self.snapshot.metadata:
            metadata = [*property_changes(self.snapshot.protocol, self.merge.metadata), self.merge.metadata]
        return (*metadata, *self.work.actions(now_ms()))

    def metrics(self) -> MergeMetrics:
        work, written = self.work, self.work.written
        marks = process_unmodified_data(work.marked, timestamp_ms=0)
        gone = [file.file_log_entry for file in work.marked if file.is_fully_replaced()]
        removed = [*work.replaced, *gone]
        adds = () if written is None else written.adds
        copied = 0 if written is None or not work.replaced else written.num_rows - self._fresh
        return MergeMetrics(
            num_source_rows=self.source.num_rows,
            num_source_rows_in_second_scan=0 if written is None else self.source.num_rows,
            operation_num_source_rows=self.source.num_rows,
            num_target_rows_copied=copied,
            num_target_rows_inserted=self.inserted,
            num_target_rows_matched_updated=self.matches.count("matched_updated"),
            num_target_rows_not_matched_by_source_updated=self.matches.count("missing_updated"),
            num_target_rows_matched_deleted=self.matches.count("matched_deleted"),
            num_target_rows_not_matched_by_source_deleted=self.matches.count("missing_deleted"),
            num_target_files_before_skipping=self.snapshot.num_files,
            num_target_files_after_skipping=self.files.num_rows,
            num_target_files_removed=len(removed),
            num_target_files_added=len(adds),
            num_target_change_files_added=0 if written is None else len(written.changes),
            num_target_change_file_bytes=0 if written is None else written.num_change_bytes,
            num_target_bytes_before_skipping=self.snapshot.size_in_bytes,
            num_target_bytes_after_skipping=total_bytes(self.files),
            num_target_bytes_removed=sum(add.size for add in removed),
            num_target_bytes_added=sum(add.size for add in adds),
            num_target_partitions_after_skipping=table_partition_count(self.snapshot, self.files),
            num_target_partitions_removed_from=partition_count(self.snapshot, removed),
            num_target_partitions_added_to=partition_count(self.snapshot, adds),
            materialize_source_time_ms=self.source_time_ms,
            scan_time_ms=self.scan_time_ms,
            rewrite_time_ms=self.rewrite_time_ms,
            num_target_deletion_vectors_added=marks.num_deletion_vectors_added,
            num_target_deletion_vectors_removed=marks.num_deletion_vectors_removed + work.num_replaced_vectors,
            num_target_deletion_vectors_updated=marks.num_deletion_vectors_updated,
        )

    def parameters(self) -> Mapping[str, str]:
        merge = self.merge
        return {
            "predicate": orjson.dumps([merge.shown]).decode(),
            "matchedPredicates": _recorded(merge.matched),
            "notMatchedPredicates": _recorded(merge.not_matched),
            "notMatchedBySourcePredicates": _recorded(merge.by_source),
        }

    def discard(self) -> None:
        """Delete what was written, once. Only for work that no commit has named, or may have."""
        work, self.work = self.work, FileWork()
        work.discard(self.snapshot.store)

    # --- merging ------------------------------------------------------------------------------------------------------

    def perform(self) -> None:
        """Find what changes and write it; on any error nothing is left behind."""
        options = self.request.options
        found = resolve_files(self.snapshot, self.files, storage_options=options.storage_options)
        few_shuffles = self.source.is_small or (self.merge.updates_to_source_rows and self.source.has_small_keys)
        with border.search_settings(self.spark, few_shuffles=few_shuffles):
            if self.uses_vectors and self._writer.takes_whole_source:
                self._match_and_write(found)
            else:
                if not self.request.is_insert_only:
                    self._match(found)
                self._write(found)

    @property
    def _writer(self) -> MergeWriter:
        has_feed = self.snapshot.properties.enable_change_data_feed
        return MergeWriter.of(
            self.spark,
            self.snapshot,
            self.merge,
            self.source,
            writes_change_data=has_feed and not self.request.is_insert_only,
        )

    def _match_and_write(self, found: Sequence[ScanFile]) -> None:
        """Write the source while its partners are looked for."""
        started = time.monotonic()
        with writing_ahead(self.spark, self.snapshot.store, self._writer.write_source) as ahead:
            self._match(found)
            # As many partners as matched rows: none of them has two, for a matched row has one partner.
            partners = self.matches.partners
            if partners is not None and partners.count == self.matches.count("matched_updated"):
                self.work = FileWork(written=ahead.taken())
                self.inserted = self.source.num_rows - partners.count
        if self.work.written is None:
            self._write(found)
        else:
            self._finish([])
            self.rewrite_time_ms += elapsed_ms(started)

    def _match(self, found: Sequence[ScanFile]) -> None:
        started = time.monotonic()
        self.source = self.source.with_keys(allows_many=self.request.deletes_every_match)
        self.matches = find_matches(
            self.spark,
            self.snapshot,
            found,
            self.merge,
            self.source,
            regarded=self.candidates.regarded,
            allows_many=self.request.deletes_every_match,
            wants_paired=not self.uses_vectors and bool(self.merge.not_matched) and not self.merge.by_source,
        )
        self.scan_time_ms += elapsed_ms(started)
        if self.matches.files:
            assert_not_append_only(self.snapshot)

    def _write(self, found: Sequence[ScanFile]) -> None:
        started = time.monotonic()
        changed = self.matches.files
        rewritten = [] if self.uses_vectors else self._rewritten(found)
        # Rows first: if one of them breaks a rule of the table, no vector has been written.
        written, self.inserted = self._writer.write(changed, rewritten, found, self.matches.partners)
        self.work = FileWork(written=written)
        if rewritten and not changed and not self.inserted:
            # Nothing but copies: the conditions of all clauses turned out to hold nowhere.
            self.discard()
            rewritten = []
        self._finish(rewritten)
        self.rewrite_time_ms += elapsed_ms(started)

    def _finish(self, rewritten: Sequence[RewrittenFile]) -> None:
        """The rows are written: what becomes of the files that they come from."""
        self.work = replace(self.work, replaced=tuple(file.add for file, _ in rewritten))
        self.keeps_row_ids = RowIdColumns.of(self.snapshot) is not None
        self._check_rows(rewritten)
        if self.uses_vectors:
            pairs = ((item.file, item.changed) for item in self.matches.files)
            marked = mark_rows(self.snapshot, pairs, self.work.written, options=self.request.options)
            self.work = replace(self.work, marked=marked)

    def _rewritten(self, found: Sequence[ScanFile]) -> list[RewrittenFile]:
        """The files to replace, with the rows not to copy. As in the reference these are all files in which a row was
        looked at: paired with a row of the source, or any file where rows without a partner matter."""
        changed = {item.file.spark_path: item.changed for item in self.matches.files}
        if not changed and not self._replaces_unchanged_files:
            return []
        regarded = self.matches.paired | set(changed)
        if self.merge.by_source:
            regarded = {file.spark_path for file in found}
        return [(file, changed.get(file.spark_path, RowIndexSet())) for file in found if file.spark_path in regarded]

    @property
    def _replaces_unchanged_files(self) -> bool:
        """Whether files are copied although no row of theirs changes: where rows are inserted, as in the reference.

        A table that only takes appends lets nothing be replaced, and there it can be left out without a difference.
        """
        partners = self.matches.partners
        may_insert = self.merge.not_matched and (partners is None or partners.count < self.source.num_rows)
        return bool(may_insert) and not self.snapshot.properties.append_only

    @property
    def _fresh(self) -> int:
        """Rows that were written and are not copies."""
        return self.inserted + self.matches.count("matched_updated") + self.matches.count("missing_updated")

    def _check_rows(self, rewritten: Sequence[RewrittenFile]) -> None:
        """What was written is what was found, to the row: else the commit would lose rows or have them twice."""
        rows = 0 if self.work.written is None else self.work.written.num_rows
        before = logical_rows([file.add for file, _ in rewritten])
        if before is None:
            is_right = rows >= self._fresh
        else:
            is_right = rows == self._fresh + before - sum(len(changed) for _, changed in rewritten)
        if not is_right:
            self.discard()
            raise InternalError(
                f"MERGE into {self.snapshot.store.url} wrote {rows} rows, of which {self._fresh} should be new; "
                "nothing was committed.",
                error_class="DELTA_NUM_RECORDS_MISMATCH",
            )

    # --- following a winner -------------------------------------------------------------------------------------------

    def follow(self, lost: Lost, /) -> RowMerge:
        """This merge on top of the winners."""
        newest = lost.newest
        changes = lost.changes()
        if not changes.is_empty and self.reads_target():
            # The source was read before the winner wrote, so this merge cannot be as if it had begun afterwards.
            raise lost.conflict() or ConcurrentAppendException(
                f"The source of the merge reads the table at {newest.store.url} itself, and another writer changed the "
                "table meanwhile. Nothing was changed. Run the merge again."
            )
        files = self.candidates.files(self.spark, newest)
        stands = changes.leaves_alone(self.files["path"].to_pylist()) and not changes.unseen(files).num_rows
        if lost.is_same_definition and stands:
            return replace(self, snapshot=newest, files=files)
        self.discard()
        merge = bind_merge(self.spark, newest, self.request, self.source)
        anew = RowMerge(
            self.spark, self.request, merge, self.source, self.candidates, newest, files, self.source_time_ms
        )
        anew.perform()
        return anew

    def reads_target(self) -> bool:
        """Whether the source reads data files of the table itself."""
        root = f"{self.request.store.spark_path.rstrip('/')}/"
        with border.spark_errors("listing the files of the source"):
            names = border.input_files(self.request.source)
        return any(border.file_path_of(name).startswith(root) for name in names)


def _recorded(clauses: Sequence[BoundClause]) -> str:
    return orjson.dumps(
        [
            {**({} if clause.shown is None else {"predicate": clause.shown}), "actionType": clause.kind}
            for clause in clauses
        ]
    ).decode()
