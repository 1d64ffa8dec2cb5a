"""How does Spark drop a handful of marked rows of small files?

By a list in the condition itself. The arrays of `scan.mark_lookup` are quicker per row, but take longer to build
than a small file takes to read:

    CASE file WHEN 4711 THEN row IN (1, 5) WHEN 4712 THEN false ELSE raise_error(...) END
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.scan.files import ScanFile
from ebbtide.scan.kept_rows import AllRows, KeptRows
from ebbtide.scan.mark_lookup import CHANGED_FILE

__all__ = ["has_few_marks", "is_listed", "is_one_of"]

_MOST_MARKS = 64
_MOST_FILES = 16
_MOST_ROWS = 200_000


def has_few_marks(files: Sequence[ScanFile]) -> bool:
    """Whether a list of rows is good enough for these files, each of which shows only some of its rows."""
    return (
        len(files) <= _MOST_FILES
        and sum(_num_listed(file.keeps) for file in files) <= _MOST_MARKS
        and sum(file.most_rows for file in files) <= _MOST_ROWS
    )


def _num_listed(keeps: KeptRows) -> int:
    return 0 if isinstance(keeps, AllRows) else len(keeps.rows)


def is_listed(marks: Sequence[RowIndexSet], file_numbers: Sequence[int], file_number: str, row_index: str) -> Column:
    """True for a marked row, false for any other; never null. The last two arguments are SQL for a long."""
    cases = [
        f"WHEN {number}L THEN {is_one_of(row_index, rows)}" for number, rows in zip(file_numbers, marks, strict=True)
    ]
    # A row of an unknown file is an error, never a guess.
    otherwise = f"CAST(raise_error('{CHANGED_FILE}') AS BOOLEAN)"
    return F.expr(f"CASE {file_number} {' '.join(cases)} ELSE {otherwise} END")


def is_one_of(value: str, members: Iterable[int]) -> str:
    """SQL that is true if the value is one of the members."""
    texts = ", ".join(f"{member}L" for member in members)
    return f"{value} IN ({texts})" if texts else "false"
