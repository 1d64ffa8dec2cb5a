"""How is a table changed by a source?

    insert only     source rows without a match are written; nothing else is touched
    otherwise       first the rows to change are found (`merge.matching`), then everything new is written at once
                    (`merge.writing`). With deletion vectors the changed rows are marked in their files and nothing else
                    is written; without, the files are replaced.
    upsert          where all source rows are written unchanged, with or without a match, the write does not wait for
                    the matches

The strategy says which of these it is. Every stage gives a value to the next; an error leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundMerge
from ebbtide.commands.merge.matching import Matches, find_matches
from ebbtide.commands.merge.request import MergeRequest
from ebbtide.commands.merge.source import Source
from ebbtide.commands.merge.strategy import MergeStrategy
from ebbtide.commands.merge.writing import MergeWriter, RewrittenFile
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.counters import elapsed_ms, logical_rows
from ebbtide.commands.row_level.physical_row_counts import explain_mismatch
from ebbtide.commands.row_level.work import FileWork
from ebbtide.log import Snapshot
from ebbtide.scan import ScanFile, resolve_files
from ebbtide.write import UsedNumbers

__all__ = ["MergeOutcome", "MergePlan", "perform_merge"]


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Everything that a merge of one snapshot needs. The source is computed, and `files` are those that can matter."""

    spark: SparkSession
    request: MergeRequest
    merge: BoundMerge
    source: Source
    strategy: MergeStrategy
    snapshot: Snapshot
    files: pa.Table
    # SQL over the target that is true for every row that a clause can change; None: any row.
    relevant: str | None
    # Numbers of identity columns that are left to other writers.
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """What a merge has found and written, but not committed yet."""

    matches: Matches = field(default_factory=Matches)
    work: FileWork = field(default_factory=FileWork)
    num_inserted: int = 0
    used: UsedNumbers = field(default_factory=UsedNumbers)
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0

    @property
    def num_new_rows(self) -> int:
        """Rows that were written and are not copies."""
        return self.num_inserted + self.matches.num_updated

    @property
    def num_written_rows(self) -> int:
        return 0 if self.work.written is None else self.work.written.num_rows

    @property
    def num_copied_rows(self) -> int:
        return self.num_written_rows - self.num_new_rows if self.work.replaced and self.work.written else 0


def perform_merge(plan: MergePlan) -> MergeOutcome:
    """Find what changes and write it."""
    options, strategy = plan.request.options, plan.strategy
    found = resolve_files(plan.snapshot, plan.files, storage_options=options.storage_options)
    with border.search_settings(plan.spark, few_shuffles=strategy.shuffles_little):
        if strategy.writes_source_ahead:
            return _upsert(plan, found)
        searched = _SearchResult(plan.source) if strategy.inserts_only else _search(plan, found)
        return _write(plan, searched, found)


@dataclass(frozen=True, slots=True)
class _SearchResult:
    """What the search found; `source` may know its keys now."""

    source: Source
    matches: Matches = field(default_factory=Matches)
    time_ms: int = 0


def _search(plan: MergePlan, found: Sequence[ScanFile]) -> _SearchResult:
    started = time.monotonic()
    source, strategy = plan.source, plan.strategy
    if strategy.looks_up_keys:
        source = source.gather_keys(allows_many=strategy.allows_several_partners)
    matches = find_matches(
        plan.spark, plan.snapshot, found, plan.merge, source, strategy=strategy, relevant=plan.relevant
    )
    if matches.files:
        assert_not_append_only(plan.snapshot)
    return _SearchResult(source, matches, elapsed_ms(started))


def _upsert(plan: MergePlan, found: Sequence[ScanFile]) -> MergeOutcome:
    """Write the source while its matches are searched for."""
    started = time.monotonic()
    writer = MergeWriter.of(plan.spark, plan.snapshot, plan.merge, plan.source, plan.strategy)
    written = None
    with writer.write_source_ahead() as ahead:
        searched = _search(plan, found)
        if searched.matches.partners_are_single:
            written = ahead.take()
    partners = searched.matches.partners
    if written is None or partners is None:
        return _write(plan, searched, found)
    inserted = plan.source.num_rows - partners.count
    work = FileWork(written=written)
    outcome = MergeOutcome(searched.matches, work, inserted, scan_time_ms=searched.time_ms)
    return replace(_finish(plan, outcome, []), rewrite_time_ms=elapsed_ms(started))


def _write(plan: MergePlan, searched: _SearchResult, found: Sequence[ScanFile]) -> MergeOutcome:
    started = time.monotonic()
    matches = searched.matches
    rewritten = [] if plan.strategy.marks_rows else _files_to_rewrite(plan, matches, found)
    # Rows first: if one of them breaks a rule of the table, no vector has been written.
    writer = MergeWriter.of(plan.spark, plan.snapshot, plan.merge, searched.source, plan.strategy, skipped=plan.skipped)
    merged = writer.write(matches, rewritten, found)
    work = FileWork(written=merged.files)
    outcome = MergeOutcome(matches, work, merged.num_inserted, merged.used, searched.time_ms)
    if rewritten and not matches.files and not merged.num_inserted:
        # Nothing but copies: no clause's condition was true for any row.
        outcome.work.discard(plan.snapshot.store)
        outcome, rewritten = replace(outcome, work=FileWork()), []
    return replace(_finish(plan, outcome, rewritten), rewrite_time_ms=elapsed_ms(started))


def _finish(plan: MergePlan, outcome: MergeOutcome, rewritten: Sequence[RewrittenFile]) -> MergeOutcome:
    """Mark or replace the files, now that the rows are written."""
    _check_rows(plan, outcome, rewritten)
    work = replace(outcome.work, replaced=tuple(file.add for file, _ in rewritten))
    if plan.strategy.marks_rows:
        pairs = ((item.file, item.changed_rows) for item in outcome.matches.files)
        work = work.with_marks(plan.snapshot, pairs, options=plan.request.options)
    return replace(outcome, work=work)


def _files_to_rewrite(plan: MergePlan, matches: Matches, found: Sequence[ScanFile]) -> list[RewrittenFile]:
    """The files to replace, with the rows not to copy.

    As in the reference these are all files with a row that matched, or all candidates where rows without a match
    matter.
    """
    if not matches.files and not _replaces_unchanged_files(plan, matches):
        return []
    paths = matches.paired | {item.file.spark_path for item in matches.files}
    return matches.changed_rows([file for file in found if plan.merge.by_source or file.spark_path in paths])


def _replaces_unchanged_files(plan: MergePlan, matches: Matches) -> bool:
    """Whether files are copied although none of their rows change: where rows are inserted, as in the reference.

    An append-only table allows no replacement, and there the copy can be skipped without a difference.
    """
    partners = matches.partners
    may_insert = plan.merge.not_matched and (partners is None or partners.count < plan.source.num_rows)
    return bool(may_insert) and not plan.snapshot.properties.append_only


def _check_rows(plan: MergePlan, outcome: MergeOutcome, rewritten: Sequence[RewrittenFile]) -> None:
    """Check that the written rows are those that were found: else the commit would lose or repeat rows."""
    rows, new_rows = outcome.num_written_rows, outcome.num_new_rows
    before = logical_rows([file.add for file, _ in rewritten])
    copied = None if before is None else before - sum(len(changed) for _, changed in rewritten)
    if rows < new_rows if copied is None else rows != new_rows + copied:
        outcome.work.discard(plan.snapshot.store)
        raise explain_mismatch(
            plan.snapshot,
            [file.add for file, _ in rewritten],
            f"MERGE into {plan.snapshot.store.url} wrote {rows} rows, of which {new_rows} should be new; nothing was "
            "committed.",
            storage_options=plan.request.options.storage_options,
        )
