"""How will a DELETE or an UPDATE go about it?

A `Plan` is made once, from a snapshot, a matcher and the request, before any data is read. It is
used by the command itself, the dry run, EXPLAIN, the rebase, and a write that replaces rows.

    WholeTable      no condition: every file; none is searched
    WholeFiles      partition values decide: the files they choose; none is searched
    MarkRows        candidates are searched; matching rows are marked in deletion vectors
    RewriteFiles    candidates are searched; files with a match are rewritten
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide.commands.requests import VectorMode
from ebbtide.commands.row_level.conditions import Matcher
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.protocol.features import deletion_vectors_writable
from ebbtide.protocol.statistics import num_records
from ebbtide.scan import ScanFile
from ebbtide.transaction import ReadPredicate

__all__ = [
    "MarkRows",
    "Matched",
    "Plan",
    "RewriteFiles",
    "RowPlan",
    "WholeFiles",
    "WholeTable",
    "divide_matched",
    "is_same_way",
    "plan_rows",
    "plan_search",
    "predicate_parameter",
    "record_reads",
    "should_write_persistent_deletion_vectors",
]

# Files, each with its matching rows.
Matched = Sequence[tuple[ScanFile, RowIndexSet]]

# With `auto`, a file is rewritten instead if more than this share of it would be marked.
_MOSTLY_MARKED = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class WholeTable:
    """Every row of every file."""

    files: pa.Table

    @property
    def matcher(self) -> None:
        return None

    def on(self, spark: SparkSession, snapshot: Snapshot) -> WholeTable:
        """The same plan for another snapshot of the table."""
        del spark
        return WholeTable(snapshot.files)


@dataclass(frozen=True, slots=True, eq=False)
class WholeFiles:
    """Every row of the files that partition values choose."""

    matcher: Matcher
    files: pa.Table

    def on(self, spark: SparkSession, snapshot: Snapshot) -> WholeFiles:
        """The same plan for another snapshot of the table."""
        return WholeFiles(self.matcher, self.matcher.candidates(spark, snapshot))


@dataclass(frozen=True, slots=True, eq=False)
class MarkRows:
    """Matching rows of the candidates are marked.

    `rewrites_mostly_marked`: a file that would end up with most of its rows marked is rewritten instead.
    """

    matcher: Matcher
    files: pa.Table
    rewrites_mostly_marked: bool = False

    @property
    def marks_every_file(self) -> bool:
        return not self.rewrites_mostly_marked

    def rewrites(self, file: ScanFile, rows: RowIndexSet) -> bool:
        """Whether this file is rewritten, given its matching rows."""
        return self.rewrites_mostly_marked and _ends_mostly_marked(file, rows)


@dataclass(frozen=True, slots=True, eq=False)
class RewriteFiles:
    """Candidates with a matching row are rewritten: the table has no deletion vectors, or the request wants none."""

    matcher: Matcher
    files: pa.Table

    @property
    def marks_every_file(self) -> bool:
        return False

    def rewrites(self, file: ScanFile, rows: RowIndexSet) -> bool:
        del file, rows
        return True


# Plans for which data files must be searched.
RowPlan = MarkRows | RewriteFiles
Plan = WholeTable | WholeFiles | RowPlan


class _Reader(Protocol):
    """What records reads: a transaction."""

    @property
    def snapshot(self) -> Snapshot: ...

    def record_read(self, predicate: ReadPredicate, files: pa.Table) -> None: ...

    def record_read_whole_table(self) -> None: ...


def plan_rows(spark: SparkSession, snapshot: Snapshot, matcher: Matcher | None, wanted: VectorMode) -> Plan:
    """The cheapest plan that the matcher (None: every row), the table and the request allow."""
    if matcher is None:
        return WholeTable(snapshot.files)
    if matcher.is_partition_only:
        return WholeFiles(matcher, matcher.candidates(spark, snapshot))
    return plan_search(spark, snapshot, matcher, wanted)


def plan_search(spark: SparkSession, snapshot: Snapshot, matcher: Matcher, wanted: VectorMode) -> RowPlan:
    """The plan for a matcher that data files must be read for."""
    files = matcher.candidates(spark, snapshot)
    if not should_write_persistent_deletion_vectors(snapshot, wanted):
        return RewriteFiles(matcher, files)
    # A commit either writes all its change data or leaves all of it to be inferred; a mixture would lose changes.
    has_feed = snapshot.properties.enable_change_data_feed
    return MarkRows(matcher, files, rewrites_mostly_marked=wanted == "auto" and not has_feed)


def should_write_persistent_deletion_vectors(snapshot: Snapshot, wanted: VectorMode) -> bool:
    """Whether rows of this table are marked: the request allows vectors, and so does the table."""
    return wanted != "off" and deletion_vectors_writable(snapshot.protocol, snapshot.metadata)


def record_reads(spark: SparkSession, transaction: _Reader, plan: Plan) -> None:
    """Tell the transaction what the plan looks at, for the check against concurrent writers."""
    if plan.matcher is None:
        transaction.record_read_whole_table()
    else:
        transaction.record_read(plan.matcher.read_predicate(spark, transaction.snapshot), plan.files)


def predicate_parameter(matcher: Matcher | None) -> dict[str, str]:
    """What the history shows of the condition: JSON text inside a string, as Delta does it."""
    return {"predicate": orjson.dumps([] if matcher is None else [matcher.display_text]).decode()}


def is_same_way(one: RowPlan, other: RowPlan) -> bool:
    """Whether work done by one plan can be carried over to the other, whatever their files."""
    match one, other:
        case MarkRows(), MarkRows():
            return one.rewrites_mostly_marked == other.rewrites_mostly_marked
        case RewriteFiles(), RewriteFiles():
            return True
    return False


def divide_matched(plan: RowPlan, matched: Iterable[tuple[ScanFile, RowIndexSet]]) -> tuple[Matched, Matched]:
    """The files whose rows are marked, and those that are rewritten."""
    marked: list[tuple[ScanFile, RowIndexSet]] = []
    rewritten: list[tuple[ScanFile, RowIndexSet]] = []
    for file, rows in matched:
        (rewritten if plan.rewrites(file, rows) else marked).append((file, rows))
    return marked, rewritten


def _ends_mostly_marked(file: ScanFile, rows: RowIndexSet) -> bool:
    """Whether more than half of the file's rows, but not all, would be marked once `rows` are."""
    physical = num_records(file.add.stats)
    marked = file.add.num_marked_rows + len(rows)
    return physical is not None and physical > marked > _MOSTLY_MARKED * physical
