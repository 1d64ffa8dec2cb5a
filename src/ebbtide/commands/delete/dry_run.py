"""What would a DELETE do, and what would it cost?

The same snapshot, condition and scan as the real thing, up to the point where something would be written. So the rows
are counted exactly; the bytes to write are exact for deletion vectors and an estimate for rewritten files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide.commands.delete.rows import ends_mostly_deleted, vector_mode
from ebbtide.commands.requests import DeleteRequest, VectorMode
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.conditions import Matcher, bind_matcher
from ebbtide.commands.row_level.counters import logical_rows
from ebbtide.commands.row_level.subqueries import condition_tables
from ebbtide.commands.row_level.touched_files import matched_row_sets
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.deletion_vectors.container import frame
from ebbtide.log import Snapshot, add_files, load_snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.features import ensure_writable
from ebbtide.protocol.statistics import num_records
from ebbtide.scan import ScanFile, resolve_files

__all__ = ["DeleteForecast", "forecast_delete"]


@dataclass(frozen=True, slots=True)
class DeleteForecast:
    """What a DELETE would do to one version of a table. Counts of rows are None where a file does not say."""

    table_url: str
    version: int
    num_files: int
    size_in_bytes: int
    # Files whose data must be looked at; none when the log alone decides.
    num_scanned_files: int
    num_scanned_bytes: int
    num_deleted_rows: int | None
    num_removed_files: int
    num_marked_files: int
    num_rewritten_files: int
    num_vector_bytes: int
    num_rewritten_bytes: int
    # Marked rows that stay in live files, and all physical rows of these, before and after.
    num_marked_rows_before: int
    num_marked_rows_after: int
    num_physical_rows_before: int | None
    num_physical_rows_after: int | None

    @property
    def num_touched_files(self) -> int:
        return self.num_removed_files + self.num_marked_files + self.num_rewritten_files

    @property
    def marked_share_before(self) -> float | None:
        return _share(self.num_marked_rows_before, self.num_physical_rows_before)

    @property
    def marked_share_after(self) -> float | None:
        return _share(self.num_marked_rows_after, self.num_physical_rows_after)


def forecast_delete(
    spark: SparkSession, request: DeleteRequest, *, on_phase: Callable[[str], None] = lambda _: None
) -> DeleteForecast:
    """Run the request without writing or committing anything; it raises what the real DELETE would raise so far."""
    on_phase("Reading the log")
    snapshot = load_snapshot(request.store, config=request.options.config, hint=request.hint)
    ensure_writable(snapshot.protocol, snapshot.metadata)
    assert_not_append_only(snapshot)
    with condition_tables(spark, snapshot, request) as rewritten:
        on_phase("Looking for matching rows")
        matcher = bind_matcher(spark, snapshot, rewritten)
        if matcher is None:
            return _without_files(snapshot, snapshot.files)
        candidates = matcher.candidates(spark, snapshot)
        if matcher.is_partition_only:
            return _without_files(snapshot, candidates)
        return _without_rows(spark, snapshot, candidates, matcher, rewritten)


def _without_files(snapshot: Snapshot, files: pa.Table) -> DeleteForecast:
    removed = list(add_files(files))
    untouched = _untouched(snapshot)
    return replace(
        untouched,
        num_deleted_rows=logical_rows(removed),
        num_removed_files=len(removed),
        num_marked_rows_after=untouched.num_marked_rows_before - sum(map(_marked, removed)),
        num_physical_rows_after=_minus(untouched.num_physical_rows_before, _physical(removed)),
    )


def _without_rows(
    spark: SparkSession, snapshot: Snapshot, candidates: pa.Table, matcher: Matcher, request: DeleteRequest
) -> DeleteForecast:
    files = resolve_files(snapshot, candidates, storage_options=request.options.storage_options)
    untouched = _untouched(snapshot)
    tally = _Tally(vector_mode(snapshot, request.options.deletion_vectors))
    for file, rows in matched_row_sets(spark, snapshot, files, matcher.matching):
        tally.add(file, rows)
    return replace(
        untouched,
        num_scanned_files=len(files),
        num_scanned_bytes=sum(file.add.size for file in files),
        num_deleted_rows=tally.num_deleted_rows,
        num_removed_files=tally.num_removed_files,
        num_marked_files=tally.num_marked_files,
        num_rewritten_files=tally.num_rewritten_files,
        num_vector_bytes=tally.num_vector_bytes,
        num_rewritten_bytes=tally.num_rewritten_bytes,
        num_marked_rows_after=untouched.num_marked_rows_before + tally.num_more_marked_rows,
        num_physical_rows_after=_minus(untouched.num_physical_rows_before, tally.num_fewer_physical_rows),
    )


@dataclass(slots=True)
class _Tally:
    """Counts what would happen to each file with matching rows."""

    mode: VectorMode
    num_deleted_rows: int = 0
    num_removed_files: int = 0
    num_marked_files: int = 0
    num_rewritten_files: int = 0
    num_vector_bytes: int = 0
    num_rewritten_bytes: int = 0
    num_more_marked_rows: int = 0
    num_fewer_physical_rows: int = 0

    def add(self, file: ScanFile, rows: RowIndexSet) -> None:
        physical, marked = num_records(file.add.stats), _marked(file.add)
        self.num_deleted_rows += len(rows)
        if physical is not None and marked + len(rows) == physical:
            self.num_removed_files += 1
            self.num_more_marked_rows -= marked
            self.num_fewer_physical_rows += physical
        elif self.mode == "off" or (self.mode == "auto" and ends_mostly_deleted(file, rows)):
            self.num_rewritten_files += 1
            self.num_more_marked_rows -= marked
            self.num_fewer_physical_rows += marked + len(rows)
            kept = 1.0 if not physical else (physical - marked - len(rows)) / physical
            self.num_rewritten_bytes += round(file.add.size * kept)
        else:
            self.num_marked_files += 1
            self.num_more_marked_rows += len(rows)
            united = file.without(rows).marks or rows
            self.num_vector_bytes += len(frame(united.serialize()))


def _untouched(snapshot: Snapshot) -> DeleteForecast:
    adds = list(add_files(snapshot.files))
    marked, physical = sum(map(_marked, adds)), _physical(adds)
    return DeleteForecast(
        table_url=snapshot.store.url,
        version=snapshot.version,
        num_files=snapshot.num_files,
        size_in_bytes=snapshot.size_in_bytes,
        num_scanned_files=0,
        num_scanned_bytes=0,
        num_deleted_rows=0,
        num_removed_files=0,
        num_marked_files=0,
        num_rewritten_files=0,
        num_vector_bytes=0,
        num_rewritten_bytes=0,
        num_marked_rows_before=marked,
        num_marked_rows_after=marked,
        num_physical_rows_before=physical,
        num_physical_rows_after=physical,
    )


def _marked(add: AddFile) -> int:
    return 0 if add.deletion_vector is None else add.deletion_vector.cardinality


def _physical(adds: Sequence[AddFile]) -> int | None:
    counts = [num_records(add.stats) for add in adds]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _minus(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part


def _share(part: int, whole: int | None) -> float | None:
    return None if whole is None else min(part / max(whole, 1), 1.0)
