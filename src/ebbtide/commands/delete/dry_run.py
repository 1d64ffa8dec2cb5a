"""What would a DELETE do, and what would it cost?

The same snapshot, condition and scan as the real DELETE, up to the point where something would be written. So the rows
are counted exactly; the bytes to write are exact for deletion vectors and an estimate for rewritten files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.counters import marked_rows, physical_rows, total_bytes
from ebbtide.commands.row_level.plan import RowPlan, WholeFiles, WholeTable
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.deletion_vectors.container import frame
from ebbtide.log import Snapshot
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
    # Files whose data must be read; none when the log alone decides.
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
    command = DeleteCommand(spark, request, on_phase=on_phase)
    with command.open_plan() as (snapshot, plan):
        if isinstance(plan, WholeTable | WholeFiles):
            return _without_files(snapshot, plan.files)
        return _without_rows(command, snapshot, plan)


def _without_files(snapshot: Snapshot, files: pa.Table) -> DeleteForecast:
    untouched = _forecast_of_nothing(snapshot)
    physical, marked = physical_rows(files), marked_rows(files)
    return replace(
        untouched,
        num_deleted_rows=_minus(physical, marked),
        num_removed_files=files.num_rows,
        num_marked_rows_after=untouched.num_marked_rows_before - marked,
        num_physical_rows_after=_minus(untouched.num_physical_rows_before, physical),
    )


def _without_rows(command: DeleteCommand, snapshot: Snapshot, plan: RowPlan) -> DeleteForecast:
    files = resolve_files(snapshot, plan.files, storage_options=command.request.options.storage_options)
    untouched = _forecast_of_nothing(snapshot)
    tally = _Tally(plan)
    for file, rows in command.search().matches(snapshot, files, plan.matcher):
        tally.add(file, rows)
    return replace(
        untouched,
        num_scanned_files=len(files),
        num_scanned_bytes=total_bytes(plan.files),
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

    plan: RowPlan
    num_deleted_rows: int = 0
    num_removed_files: int = 0
    num_marked_files: int = 0
    num_rewritten_files: int = 0
    num_vector_bytes: int = 0
    num_rewritten_bytes: int = 0
    num_more_marked_rows: int = 0
    num_fewer_physical_rows: int = 0

    def add(self, file: ScanFile, rows: RowIndexSet) -> None:
        physical, marked = num_records(file.add.stats), file.add.num_marked_rows
        self.num_deleted_rows += len(rows)
        if physical is not None and marked + len(rows) == physical:
            self.num_removed_files += 1
            self.num_more_marked_rows -= marked
            self.num_fewer_physical_rows += physical
        elif self.plan.rewrites(file, rows):
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


def _forecast_of_nothing(snapshot: Snapshot) -> DeleteForecast:
    marked, physical = marked_rows(snapshot.files), physical_rows(snapshot.files)
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


def _minus(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part


def _share(part: int, whole: int | None) -> float | None:
    return None if whole is None else min(part / max(whole, 1), 1.0)
