"""Where does a row of the old files end up in the new ones?

A group's rows are written in one order: file after file, and in each file by physical position, without the rows that
were marked when the files were read. So the place of a row follows from counting:

    place of row r of file i  =  live rows of the files before i  +  r  -  rows of file i that were marked before r

The new files take these places in order, each as many as it has rows. How many rows a file has is what its footer
says, not what the log claims. Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError

__all__ = ["CopiedFile", "carry_over", "squared_shifts"]


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """An old file: its physical rows, those that were left out of the copy, and those that are marked now."""

    num_rows: int
    left_out: RowIndexSet
    marked_now: RowIndexSet

    @property
    def num_copied(self) -> int:
        return self.num_rows - len(self.left_out)

    @property
    def newly_marked(self) -> RowIndexSet:
        return self.marked_now - self.left_out


def carry_over(copied: Sequence[CopiedFile], rows_of_new_files: Sequence[int]) -> list[RowIndexSet]:
    """For each new file the rows that were marked in the old files after they were read.

    InternalError when the old files do not have exactly the rows that the new ones hold: then no place is certain.
    """
    total = sum(file.num_copied for file in copied)
    if total != sum(rows_of_new_files):
        raise InternalError(
            f"{len(copied)} files had {total} rows when they were copied, but the copies hold "
            f"{sum(rows_of_new_files)}. Nothing was committed.",
            error_class="DELTA_NUM_RECORDS_MISMATCH",
        )
    places = RowIndexSet()
    for first, file in _with_first_places(copied):
        gained = file.newly_marked
        gained.check_rows_below(file.num_rows)
        if gained:
            places = places | gained.renumber(file.left_out, first=first)
    return list(_shared_out(places, rows_of_new_files))


def _with_first_places(copied: Sequence[CopiedFile]) -> Iterator[tuple[int, CopiedFile]]:
    first = 0
    for file in copied:
        yield first, file
        first += file.num_copied


def _shared_out(places: RowIndexSet, rows_of_new_files: Sequence[int]) -> Iterator[RowIndexSet]:
    start = 0
    for count in rows_of_new_files:
        yield places.part(start, start + count)
        start += count


def squared_shifts(files: Sequence[tuple[int, RowIndexSet]]) -> int:
    """By how much rows move up in a copy: the squares of that, summed over all copied rows.

    Of each file its physical rows and those that are left out. A row moves up by the rows left out before it.
    """
    total = shift = 0
    for num_rows, left_out in files:
        start = 0
        for row in left_out:
            total += shift * shift * (row - start)
            shift, start = shift + 1, row + 1
        total += shift * shift * (num_rows - start)
    return total
