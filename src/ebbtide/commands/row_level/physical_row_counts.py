"""How many physical rows does a file really have?

A file with a deletion vector must state `numRecords`. If the writer left it out, the Parquet footer has it. If the log
states a number, it is a claim: a command that would lose rows if it were false asks the footer first
(`with_row_counts`), and one whose rows do not add up asks who is wrong, the table or we (`explain_mismatch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import CorruptTableError, DeltaError, InternalError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile, RemoveFile
from ebbtide.protocol.statistics import num_records
from ebbtide.scan import ScanFile
from ebbtide.storage.prefetch import choose_read_ahead, prefetch
from ebbtide.write import footer_of, stats_from_footer

__all__ = ["NUM_RECORDS_MISMATCH", "explain_mismatch", "with_row_counts"]

NUM_RECORDS_MISMATCH: Final = "DELTA_NUM_RECORDS_MISMATCH"


def with_row_counts(
    snapshot: Snapshot,
    matched: Iterable[tuple[ScanFile, RowIndexSet]],
    add_of_path: dict[str, AddFile],
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[tuple[ScanFile, RowIndexSet]]:
    """The same pairs with complete statistics; each file's add is noted in `add_of_path` as it passes.

    CorruptTableError for a file of which all rows seem to be gone, or more, although it has another number of rows: it
    would be removed with rows that nobody deleted.
    """
    complete = partial(_complete, snapshot, storage_options)
    pairs, ahead = iter(matched), choose_read_ahead(snapshot.store)
    while batch := list(islice(pairs, ahead)):
        unsure = [file for file, rows in batch if _must_ask_footer(file.add, rows)]
        counted = dict(zip((file.spark_path for file in unsure), prefetch(complete, unsure, ahead=ahead), strict=True))
        for file, rows in batch:
            known = counted.get(file.spark_path, file)
            add_of_path[file.spark_path] = known.add
            yield known, rows


def explain_mismatch(
    snapshot: Snapshot,
    files: Iterable[AddFile | RemoveFile],
    problem: str,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DeltaError:
    """The error to raise when rows of these files do not add up; `problem` says how.

    The table's, if the log is wrong about one of the files; ours, if their footers confirm what the log says.
    """
    stated = [file for file in files if num_records(file.stats) is not None]
    read = partial(_rows_in_footer, snapshot, storage_options)
    for file, rows in zip(stated, prefetch(read, stated, ahead=choose_read_ahead(snapshot.store)), strict=True):
        if rows != num_records(file.stats):
            return _false_count(snapshot, file, rows)
    return InternalError(problem, error_class=NUM_RECORDS_MISMATCH)


def _must_ask_footer(add: AddFile, rows: RowIndexSet) -> bool:
    stated, last = num_records(add.stats), rows.max()
    if stated is None:
        return True
    return len(rows) + add.num_marked_rows >= stated or (last is not None and last >= stated)


def _complete(snapshot: Snapshot, storage_options: Mapping[str, str] | None, file: ScanFile) -> ScanFile:
    add, stated = file.add, num_records(file.add.stats)
    if stated is None:
        return replace(file, add=replace(add, stats=stats_from_footer(snapshot, add, storage_options=storage_options)))
    rows = _rows_in_footer(snapshot, storage_options, add)
    if rows != stated:
        raise _false_count(snapshot, add, rows)
    return file


def _rows_in_footer(snapshot: Snapshot, storage_options: Mapping[str, str] | None, file: AddFile | RemoveFile) -> int:
    return int(footer_of(snapshot, file, storage_options=storage_options).num_rows)


def _false_count(snapshot: Snapshot, file: AddFile | RemoveFile, rows: int) -> CorruptTableError:
    url = snapshot.store.url
    return CorruptTableError(
        f"The log of {url} says that the file '{file.path}' has {num_records(file.stats)} rows, but it has {rows}. "
        f"No row was changed. FSCK REPAIR TABLE delta.`{snapshot.store.spark_path}` (or: ebbtide fsck --repair) "
        "corrects what the log says of its files; then try again.",
        error_class=NUM_RECORDS_MISMATCH,
    )
