"""Which files does a change touch, which of their rows does it mark, and what must the log say about it?

The reference calls this subject `DMLWithDeletionVectorsHelper`; the names here are its names. Candidate files are
scanned with their positions, matches are folded into bitmaps inside Spark, united with each file's old vector on the
driver, and written. No row passes through Python: what arrives is one 64-bit word per 64 rows that hold a match.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.conditions import Matcher
from ebbtide.commands.row_level.physical_row_counts import with_row_counts
from ebbtide.commands.row_level.plan import Matched, RowPlan, divide_matched
from ebbtide.config import EngineConfig
from ebbtide.deletion_vectors import NewMarks, RowIndexSet, write_deletion_vectors
from ebbtide.errors import CorruptTableError, InternalError, RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile, RemoveFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.statistics import num_records, only_num_records, widen
from ebbtide.scan import PositionedScan, ScanFile, scan_with_positions
from ebbtide.write import WrittenFiles
from ebbtide.write.abandoned import discard

__all__ = [
    "ONE_TASK_ROWS",
    "DeletionVectorResult",
    "RowSearch",
    "TouchedActions",
    "TouchedFileWithDV",
    "TouchedFiles",
    "block_and_bit",
    "chunks_of",
    "create_target_df_for_scanning_for_matches",
    "find_files_with_matching_rows",
    "find_touched_files",
    "fold_matches",
    "mark_rows",
    "process_unmodified_data",
    "replace_file_index",
    "row_sets",
    "store_matched_rows",
    "tombstone",
    "with_new_vector",
    "words_by_file",
    "total_rows",
]

SUPPORTED_DML_COMMANDS = ("DELETE", "UPDATE")

# Candidates of one Spark job. A word of sixteen bytes stands for 64 rows, so this bounds the driver to 512 MiB however
# many rows match.
_MAX_ROWS_PER_JOB = 1 << 31
# Below this many rows one task folds everything, and no shuffle (and no second job) is needed.
ONE_TASK_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class TouchedFileWithDV:
    """A file with matching rows. `new_deletion_vector` is None when the file has lost every row.

    `deleted_rows` are the rows that this operation newly marks.
    """

    input_file_path: str
    file_log_entry: AddFile
    new_deletion_vector: DeletionVectorDescriptor | None
    deleted_rows: int

    @property
    def number_of_modified_rows(self) -> int:
        if self.new_deletion_vector is None:
            return self.deleted_rows
        return self.new_deletion_vector.cardinality - self.file_log_entry.num_marked_rows

    @property
    def is_unchanged(self) -> bool:
        return self.number_of_modified_rows == 0

    def is_fully_replaced(self) -> bool:
        """Whether every visible row was modified. False if the file does not state its row count."""
        physical = num_records(self.file_log_entry.stats)
        return physical is not None and physical - self.file_log_entry.num_marked_rows == self.number_of_modified_rows


@dataclass(frozen=True, slots=True)
class DeletionVectorResult:
    """What one operation matched in one file; `deletion_vector` is None when it matched every row of the file."""

    file_path: str
    deletion_vector: DeletionVectorDescriptor | None
    matched_row_count: int


@dataclass(frozen=True, slots=True)
class TouchedActions:
    """What the log must say, and the five metrics."""

    actions: tuple[AddFile | RemoveFile, ...]
    num_modified_rows: int
    num_removed_files: int
    num_deletion_vectors_added: int
    num_deletion_vectors_removed: int
    num_deletion_vectors_updated: int


# --- scanning for matches ---------------------------------------------------------------------------------------------


def create_target_df_for_scanning_for_matches(
    spark: SparkSession, snapshot: Snapshot, files: Sequence[ScanFile]
) -> PositionedScan:
    """The still-live rows of the candidates with file and physical row index beside the table's columns."""
    return scan_with_positions(spark, snapshot, files)


def replace_file_index(
    spark: SparkSession, snapshot: Snapshot, scan: PositionedScan, files: Sequence[ScanFile]
) -> PositionedScan:
    """The same scan over other files: columns and helper columns stay, only the list of files is exchanged."""
    replaced = scan_with_positions(spark, snapshot, files)
    if replaced.columns != scan.columns:
        raise InternalError("The scan changed its columns while its files were exchanged.")
    return replaced


class RowSearch(Protocol):
    """Looks for rows in data files: Spark (`row_level.search`), or a test without a JVM."""

    def matches(
        self, snapshot: Snapshot, files: Sequence[ScanFile], matcher: Matcher
    ) -> Generator[tuple[ScanFile, RowIndexSet], None, None]:
        """The rows of each file that match, one file at a time; a file without a match is left out."""


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """The files with matching rows: those whose rows were marked, and those that were rewritten."""

    marked: tuple[TouchedFileWithDV, ...]
    rewritten: Matched
    written: WrittenFiles | None = None


def find_touched_files(
    search: RowSearch,
    snapshot: Snapshot,
    candidates: Sequence[ScanFile],
    plan: RowPlan,
    operation: str,
    *,
    options: WriteOptions,
    write_rows: Callable[[Matched, Matched], WrittenFiles | None] | None = None,
) -> TouchedFiles:
    """Search the candidates, and mark the rows that match where the plan says so.

    `write_rows` gets the files whose rows will be marked and those to rewrite; either may be empty. It writes what must
    exist before anything is marked: a row that breaks a rule of the table then leaves no vector behind. Only a plan
    that marks every file may leave it out. Then matches are marked as they are found, and the driver holds the bitmaps
    of one file of vectors at a time.
    """
    if operation not in SUPPORTED_DML_COMMANDS:
        raise RequestError(f"'{operation}' does not find touched files; expected one of {SUPPORTED_DML_COMMANDS}.")
    with closing(search.matches(snapshot, candidates, plan.matcher)) as matches:
        if write_rows is None:
            return TouchedFiles(mark_rows(snapshot, matches, options=options), ())
        marked, rewritten = divide_matched(plan, matches)
    written = write_rows(marked, rewritten)
    return TouchedFiles(mark_rows(snapshot, marked, written, options=options), rewritten, written)


def find_files_with_matching_rows(
    add_file_of_path: Mapping[str, AddFile], results: Iterable[DeletionVectorResult]
) -> list[TouchedFileWithDV]:
    """The results as touched files, without those in which nothing new was marked."""
    touched = []
    for result in results:
        add = add_file_of_path.get(result.file_path)
        if add is None:
            raise CorruptTableError(
                f"Rows of '{result.file_path}' matched, but the file is not among the candidates.",
                error_class="DELTA_FILE_TO_OVERWRITE_NOT_FOUND",
            )
        file = TouchedFileWithDV(result.file_path, add, result.deletion_vector, result.matched_row_count)
        if not file.is_unchanged:
            touched.append(file)
    return touched


def store_matched_rows(
    snapshot: Snapshot, matched: Iterable[tuple[ScanFile, RowIndexSet]], *, config: EngineConfig
) -> Iterator[DeletionVectorResult]:
    """Write the union of old and new marks of each file. A file that loses its last row needs no vector."""
    gone: list[DeletionVectorResult] = []
    properties = snapshot.properties
    stored = write_deletion_vectors(
        snapshot.store,
        _marks_to_store(matched, gone),
        target_bytes=config.deletion_vector_target_bytes,
        prefix_length=properties.random_prefix_length if properties.randomize_file_prefixes else 0,
    )
    for result in stored:
        yield DeletionVectorResult(result.key, result.descriptor, result.matched_row_count)
    yield from gone


def mark_rows(
    snapshot: Snapshot,
    matched: Iterable[tuple[ScanFile, RowIndexSet]],
    written: WrittenFiles | None = None,
    *,
    options: WriteOptions,
) -> tuple[TouchedFileWithDV, ...]:
    """Write the marks that go with the rows in `written`, if any. On an error, both are deleted."""
    touched: list[TouchedFileWithDV] = []
    add_of_path: dict[str, AddFile] = {}
    counted = with_row_counts(snapshot, matched, add_of_path, storage_options=options.storage_options)
    try:
        for result in store_matched_rows(snapshot, counted, config=options.config):
            # One by one: if a later file of vectors fails, the earlier ones are known.
            touched += find_files_with_matching_rows(add_of_path, [result])
    except BaseException:
        vectors = [file.new_deletion_vector for file in touched if file.new_deletion_vector is not None]
        discard(snapshot.store, [] if written is None else [written], vectors)
        raise
    return tuple(touched)


# --- what the log must say --------------------------------------------------------------------------------------------


def process_unmodified_data(touched: Sequence[TouchedFileWithDV], *, timestamp_ms: int) -> TouchedActions:
    """Removes for files that lost every row; for the others an add with the new vector and a remove of the old state.

    Statistics are widened under the *old* vector: a null count says "all null" in terms of the rows visible before.
    """
    replaced = [file for file in touched if file.is_fully_replaced()]
    others = [file for file in touched if not file.is_fully_replaced()]
    adds = [with_new_vector(file) for file in others]
    removes = [tombstone(file.file_log_entry, timestamp_ms) for file in others]
    had_vector = [file.file_log_entry.deletion_vector is not None for file in others]
    return TouchedActions(
        actions=(*(tombstone(file.file_log_entry, timestamp_ms) for file in replaced), *adds, *removes),
        num_modified_rows=sum(file.number_of_modified_rows for file in touched),
        num_removed_files=len(replaced),
        num_deletion_vectors_added=had_vector.count(False),
        num_deletion_vectors_removed=sum(1 for file in replaced if file.file_log_entry.deletion_vector is not None),
        num_deletion_vectors_updated=had_vector.count(True),
    )


def with_new_vector(file: TouchedFileWithDV, *, data_change: bool = True) -> AddFile:
    """The file in its new state."""
    add, vector = file.file_log_entry, file.new_deletion_vector
    if vector is None:
        raise InternalError(f"'{file.input_file_path}' keeps rows but has no deletion vector.")
    if vector.cardinality < add.num_marked_rows:
        raise InternalError(f"The deletion vector of '{file.input_file_path}' would shrink.")
    stats = widen(add.stats, add.num_marked_rows)
    return replace(add, deletion_vector=replace(vector, max_row_index=None), data_change=data_change, stats=stats)


def tombstone(add: AddFile, timestamp_ms: int, *, data_change: bool = True) -> RemoveFile:
    """The remove of a file. Only the row count of its statistics stays, as in the reference."""
    return replace(add.remove(timestamp_ms, data_change=data_change), stats=only_num_records(add.stats))


# --- folding ----------------------------------------------------------------------------------------------------------


def fold_matches(scan: PositionedScan, matches: DataFrame, *, few_rows: bool) -> DataFrame:
    """One row per 64 rows of a file that hold a match: file, number of the 64, and a word with one bit per row.

    A word is a plain integer that Spark's hash aggregation folds in place; the built-in bitmap aggregate would sort.
    """
    # As text: building the same from columns takes fifty calls into the JVM.
    pairs = matches.selectExpr(
        f"{scan.file_column} AS file",
        *block_and_bit(scan.row_column),
    )
    if few_rows:
        pairs = pairs.coalesce(1)
    return pairs.groupBy("file", "block").agg(F.expr("bit_or(bit) AS word"))


def block_and_bit(number: str) -> tuple[str, str]:
    """SQL for the word that holds this number, and for its bit in the word; `number` is SQL for a long."""
    return f"shiftright({number}, 6) AS block", f"shiftleft(1L, CAST({number} & 63 AS INT)) AS bit"


def row_sets(scan: PositionedScan, words: pa.Table) -> Iterator[tuple[ScanFile, RowIndexSet]]:
    for file, part in words_by_file(scan, words):
        yield file, RowIndexSet.from_numbered_words(part["block"].chunk(0), part["word"].chunk(0))


def words_by_file(scan: PositionedScan, words: pa.Table) -> Iterator[tuple[ScanFile, pa.Table]]:
    """What was folded, one file at a time; `words` has a column `file` with the scan's numbers."""
    if not words.num_rows:
        return
    ordered = words.sort_by("file").combine_chunks()
    runs = pc.run_end_encode(ordered["file"].chunk(0), run_end_type=pa.int64())
    start = 0
    for number, stop in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield scan.files[number], ordered.slice(start, stop - start)
        start = stop


def _marks_to_store(
    matched: Iterable[tuple[ScanFile, RowIndexSet]], gone: list[DeletionVectorResult]
) -> Iterator[NewMarks[str]]:
    for file, rows in matched:
        physical = num_records(file.add.stats)
        already = file.add.num_marked_rows
        if physical is not None and len(rows) + already == physical:
            gone.append(DeletionVectorResult(file.spark_path, None, len(rows)))
        else:
            existing = file.add.deletion_vector if file.marks is not None else None
            yield NewMarks(file.spark_path, rows, existing, file.marks)


def chunks_of(files: Sequence[ScanFile]) -> Iterator[list[ScanFile]]:
    """The files of each Spark job, split so that the driver's memory stays small."""
    chunk: list[ScanFile] = []
    rows = 0
    for file in files:
        size = file.most_rows
        if chunk and rows + size > _MAX_ROWS_PER_JOB:
            yield chunk
            chunk, rows = [], 0
        chunk.append(file)
        rows += size
    if chunk:
        yield chunk


def total_rows(files: Sequence[ScanFile]) -> int:
    return sum(file.most_rows for file in files)
