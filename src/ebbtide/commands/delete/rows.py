"""How are single rows deleted from files, and how does that follow a concurrent writer?

Candidates are scanned for matches once. Matches are marked in deletion vectors, or their files are rewritten, as the
table and the request say. When another writer won the race, only what that writer changed is looked at again:

- files unchanged: what we did stands;
- a vector that only grew: ours is united with it on the driver, and a row both deleted counts for the winner;
- files added, or a vector that shrank (a restore): these are scanned, and only these;
- a file that we rewrote was changed: our new files hold rows of its old state, so what was rewritten together is
  rewritten once more; which rows must go is still known.

The result is what the deletion would have been had it started after the winner. What was written and is not needed any
more is deleted: no commit has named it. A file of vectors goes only when none of its vectors is needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ebbtide.commands.delete.results import DeleteMetrics
from ebbtide.commands.requests import VectorMode, WriteOptions
from ebbtide.commands.row_level.conditions import Matcher
from ebbtide.commands.row_level.counters import elapsed_ms, now_ms, partition_count, skipping_metrics
from ebbtide.commands.row_level.physical_row_counts import with_row_counts
from ebbtide.commands.row_level.rewriting import rewrite_without
from ebbtide.commands.row_level.touched_files import (
    TouchedActions,
    TouchedFileWithDV,
    mark_or_discard,
    matched_row_sets,
    process_unmodified_data,
)
from ebbtide.deletion_vectors import RowIndexSet, load
from ebbtide.errors import InternalError
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.features import deletion_vectors_writable
from ebbtide.protocol.paths import canonical_path
from ebbtide.protocol.statistics import num_records, only_num_records
from ebbtide.scan import ScanFile, resolve_files, without_rows
from ebbtide.spark_border import search_settings
from ebbtide.transaction import Lost
from ebbtide.transaction.file_changes import live_files_at
from ebbtide.write import WrittenFiles
from ebbtide.write.abandoned import discard

__all__ = ["RowDeletion", "ends_mostly_deleted", "vector_mode"]

Matched = Sequence[tuple[ScanFile, RowIndexSet]]

# With `auto`, a file of which more than this share would be marked is rewritten instead.
_MOSTLY_DELETED = 0.5


def vector_mode(snapshot: Snapshot, wanted: VectorMode) -> VectorMode:
    """How rows of this table are deleted: as wanted, if the table allows vectors at all."""
    if wanted == "off" or not deletion_vectors_writable(snapshot.protocol, snapshot.metadata):
        return "off"
    if wanted == "auto" and snapshot.properties.enable_change_data_feed:
        # One commit either writes its change data or leaves all of it to be inferred; a mixture would lose changes.
        return "on"
    return wanted


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Files that were replaced by new ones."""

    matched: Matched
    written: WrittenFiles
    # Whether the rows took their ids along: those of a table that tracked rows when they were written.
    keeps_row_ids: bool

    @property
    def inputs(self) -> list[AddFile]:
        return [file.add for file, _ in self.matched]


@dataclass(frozen=True, slots=True)
class _Standing:
    """What winners left of the files that we read. Paths are canonical: two writers may spell one path differently."""

    table_url: str
    # Of files that are not as we read them.
    changed: frozenset[str]
    # Those of them in which no row came back: as they are now.
    known: Mapping[str, AddFile]
    # Candidates with rows that we have not looked at.
    unknown: pa.Table

    def now(self, add: AddFile) -> AddFile | None:
        """The file as it is now, if all its rows were seen by us: the very same object when nobody changed it."""
        path = canonical_path(add.path, self.table_url)
        return self.known.get(path) if path in self.changed else add


@dataclass(slots=True)
class RowDeletion:
    """The work of one deletion on one snapshot; `follow` moves it to a newer one."""

    spark: SparkSession
    matcher: Matcher
    options: WriteOptions
    snapshot: Snapshot
    candidates: pa.Table
    touched: list[TouchedFileWithDV] = field(default_factory=list)
    rewrites: list[_Rewrite] = field(default_factory=list)
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0

    @classmethod
    def perform(
        cls, spark: SparkSession, matcher: Matcher, options: WriteOptions, snapshot: Snapshot, candidates: pa.Table
    ) -> RowDeletion:
        """Find the matching rows of the candidates and write what marks or replaces them; an error leaves nothing."""
        work = cls(spark, matcher, options, snapshot, candidates)
        try:
            work.delete_from(candidates)
        except BaseException:
            work.discard()
            raise
        return work

    @property
    def mode(self) -> VectorMode:
        return vector_mode(self.snapshot, self.options.deletion_vectors)

    @property
    def keeps_row_ids(self) -> bool:
        return all(rewrite.keeps_row_ids for rewrite in self.rewrites)

    # --- what came of it ----------------------------------------------------------------------------------------------

    def actions(self) -> tuple[Action, ...]:
        now = now_ms()
        actions: list[Action] = list(self._marked(now).actions)
        for rewrite in self.rewrites:
            actions += [replace(add.remove(now), stats=only_num_records(add.stats)) for add in rewrite.inputs]
            actions += [*rewrite.written.adds, *rewrite.written.changes]
        return tuple(actions)

    def metrics(self) -> DeleteMetrics:
        marked = self._marked(now_ms())
        removed = [add for rewrite in self.rewrites for add in rewrite.inputs]
        written = [rewrite.written for rewrite in self.rewrites]
        adds = [add for files in written for add in files.adds]
        changes = [change for files in written for change in files.changes]
        rewritten_away = sum(len(rows) for rewrite in self.rewrites for _, rows in rewrite.matched)
        copied = sum(files.num_rows for files in written)
        return replace(
            skipping_metrics(self.snapshot, list(add_files(self.candidates))),
            num_deleted_rows=marked.num_modified_rows + rewritten_away,
            num_removed_files=marked.num_removed_files + len(removed),
            num_removed_bytes=sum(add.size for add in removed),
            num_added_files=len(adds),
            num_added_bytes=sum(add.size for add in adds),
            num_added_change_files=len(changes),
            change_file_bytes=sum(change.size for change in changes),
            num_copied_rows=copied,
            num_touched_rows=copied + rewritten_away if removed else 0,
            num_deletion_vectors_added=marked.num_deletion_vectors_added,
            num_deletion_vectors_removed=marked.num_deletion_vectors_removed
            + sum(1 for add in removed if add.deletion_vector is not None),
            num_deletion_vectors_updated=marked.num_deletion_vectors_updated,
            num_partitions_removed_from=partition_count(self.snapshot, removed),
            num_partitions_added_to=partition_count(self.snapshot, adds),
            scan_time_ms=self.scan_time_ms if self.rewrites else 0,
            rewrite_time_ms=self.rewrite_time_ms,
        )

    def _marked(self, timestamp_ms: int) -> TouchedActions:
        return process_unmodified_data(self.touched, timestamp_ms=timestamp_ms)

    def discard(self, *, keeping: RowDeletion | None = None) -> None:
        """Delete what was written, except what `keeping` uses. Only for work that no commit has named, or may have."""
        kept = [] if keeping is None else keeping.rewrites
        needed = set() if keeping is None else {vector.relative_path for vector in keeping.new_vectors()}
        written = [rewrite.written for rewrite in self.rewrites if not any(rewrite is other for other in kept)]
        discard(
            self.snapshot.store,
            written,
            [vector for vector in self.new_vectors() if vector.relative_path not in needed],
        )

    def new_vectors(self) -> list[DeletionVectorDescriptor]:
        """The vectors that were written for this deletion."""
        vectors = (file.new_deletion_vector for file in self.touched)
        return [vector for vector in vectors if vector is not None and vector.is_relative]

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete_from(self, candidates: pa.Table, *, rewritten: Matched = ()) -> None:
        """Find the matching rows of these files of the snapshot and write what marks or replaces them.

        `rewritten` are further files, whose matches are known and which are rewritten in the same go.
        """
        files = resolve_files(self.snapshot, candidates, storage_options=self.options.storage_options)
        started = time.monotonic()
        matched = matched_row_sets(self.spark, self.snapshot, files, self.matcher.matching)
        settings = search_settings(self.spark, few_shuffles=self.matcher.is_row_local)
        if self.mode == "on":
            # A stream: the driver holds the bitmaps of one file of vectors at a time.
            with settings:
                self._mark(matched)
            return
        with settings:
            pairs = list(matched)
        self.scan_time_ms += elapsed_ms(started)
        is_rewritten = [self.mode == "off" or ends_mostly_deleted(*pair) for pair in pairs]
        self._mark(pair for pair, away in zip(pairs, is_rewritten, strict=True) if not away)
        self._rewrite([*rewritten, *(pair for pair, away in zip(pairs, is_rewritten, strict=True) if away)])

    def _mark(self, matched: Iterable[tuple[ScanFile, RowIndexSet]]) -> None:
        add_of_path: dict[str, AddFile] = {}
        counted = with_row_counts(self.snapshot, matched, add_of_path, storage_options=self.options.storage_options)
        self.touched += mark_or_discard(self.snapshot, counted, add_of_path, config=self.options.config)

    def _rewrite(self, matched: Matched) -> None:
        if not matched:
            return
        started = time.monotonic()
        written = rewrite_without(self.spark, self.snapshot, matched)
        self.rewrites.append(_Rewrite(matched, written, self.snapshot.properties.enable_row_tracking))
        self.rewrite_time_ms += elapsed_ms(started)

    # --- following a winner -------------------------------------------------------------------------------------------

    def follow(self, lost: Lost) -> RowDeletion:
        """This deletion on top of the winners."""
        newest = lost.newest
        candidates = self.matcher.candidates(self.spark, newest)
        if self.mode != vector_mode(newest, self.options.deletion_vectors):
            moved = RowDeletion.perform(self.spark, self.matcher, self.options, newest, candidates)
        else:
            moved = self._moved(newest, candidates, self._standing(lost, candidates))
        self.discard(keeping=moved)
        return moved

    def _moved(self, newest: Snapshot, candidates: pa.Table, standing: _Standing) -> RowDeletion:
        moved = replace(self, snapshot=newest, candidates=candidates, touched=[], rewrites=[])
        try:
            moved.take_over_marks(self.touched, standing)
            rewritten = moved.take_over_rewrites(self.rewrites, standing)
            moved.delete_from(standing.unknown, rewritten=rewritten)
        except BaseException:
            # What it took over is still ours, and goes with us.
            moved.discard(keeping=self)
            raise
        return moved

    def _standing(self, lost: Lost, candidates: pa.Table) -> _Standing:
        changes = lost.changes()
        table_url = changes.table_url
        restated = {canonical_path(add.path, table_url): add for add in add_files(changes.restated)}
        # A file that a fresh start would not look at holds nothing of ours any more.
        regarded = _among(changes.vector_changed, candidates)
        now = {canonical_path(add.path, table_url): add for add in add_files(regarded)}
        before = live_files_at(lost.read, set(now))
        grown = {
            path: now[path]
            for path, old in zip(before.paths, add_files(before.files), strict=True)
            if self._rows_of(old).issubset(self._rows_of(now[path]))
        }
        gone = (canonical_path(path, table_url) for path in changes.gone["path"].to_pylist())
        vector_changed = (canonical_path(path, table_url) for path in changes.vector_changed["path"].to_pylist())
        shrunk = [add.path for path, add in now.items() if path not in grown]
        return _Standing(
            table_url,
            changed=frozenset((*gone, *vector_changed, *restated)),
            known={**restated, **grown},
            unknown=pa.concat_tables(
                [_among(changes.added, candidates), _of_paths(regarded, pa.array(shrunk, pa.string()))]
            ),
        )

    def take_over_marks(self, touched: Sequence[TouchedFileWithDV], standing: _Standing) -> None:
        """Keep what was marked before the race was lost, as far as it still holds."""
        united: list[tuple[ScanFile, RowIndexSet]] = []
        for file in touched:
            now = standing.now(file.file_log_entry)
            if now is None:
                continue
            if now.dv_id == file.file_log_entry.dv_id and num_records(now.stats) is not None:
                self.touched.append(replace(file, file_log_entry=now))
            else:
                united += self._rows_still_ours(file, now)
        self._mark(united)

    def take_over_rewrites(self, rewrites: Sequence[_Rewrite], standing: _Standing) -> Matched:
        """Keep the rewrites whose files stand as they were; the answer is what must be rewritten again."""
        again: list[tuple[ScanFile, RowIndexSet]] = []
        for rewrite in rewrites:
            if all(standing.now(add) is add for add in rewrite.inputs):
                self.rewrites.append(rewrite)
                continue
            for file, rows in rewrite.matched:
                now = standing.now(file.add)
                if now is None:
                    continue
                marks = file.marks if now.dv_id == file.add.dv_id else self._rows_of(now) or None
                left = rows if marks is None else rows - marks
                if left:
                    again.append((replace(file, add=now, keeps=without_rows(marks)), left))
        return again

    def _rows_still_ours(self, file: TouchedFileWithDV, now: AddFile) -> list[tuple[ScanFile, RowIndexSet]]:
        """The rows that we mark and the winner does not, in the file as the winner left it."""
        old, winners = self._rows_of(file.file_log_entry), self._rows_of(now)
        if file.new_deletion_vector is not None:
            ours = self._load(file.new_deletion_vector, file.file_log_entry) - old
        else:
            physical = num_records(file.file_log_entry.stats)
            if physical is None:
                raise InternalError(f"'{file.input_file_path}' was deleted whole without a known row count.")
            ours = RowIndexSet.from_range(0, physical) - old
        left = ours - winners
        scanned = ScanFile(now, file.input_file_path, None, without_rows(winners))
        return [(scanned, left)] if left else []

    def _rows_of(self, add: AddFile) -> RowIndexSet:
        return RowIndexSet() if add.deletion_vector is None else self._load(add.deletion_vector, add)

    def _load(self, descriptor: DeletionVectorDescriptor, add: AddFile) -> RowIndexSet:
        return load(
            self.snapshot.store,
            self.snapshot.store.url,
            descriptor,
            num_records=num_records(add.stats),
            config=self.options.config,
            storage_options=self.options.storage_options,
        )


def ends_mostly_deleted(file: ScanFile, rows: RowIndexSet) -> bool:
    """Whether more than half of the file's rows, but not all, would be marked once `rows` are."""
    physical = num_records(file.add.stats)
    already = file.add.deletion_vector.cardinality if file.add.deletion_vector is not None else 0
    gone = already + len(rows)
    return physical is not None and physical > gone > _MOSTLY_DELETED * physical


def _of_paths(files: pa.Table, paths: pa.Array) -> pa.Table:
    return files.filter(pc.is_in(files["path"], value_set=paths))


def _among(files: pa.Table, candidates: pa.Table) -> pa.Table:
    return _of_paths(files, candidates["path"].combine_chunks())
