"""When are marked rows listed in the condition itself? `tests/spark/scan` shows that the rows are right."""

from __future__ import annotations

import pytest

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.protocol.actions import AddFile
from ebbtide.scan.files import ScanFile
from ebbtide.scan.kept_rows import without_rows
from ebbtide.scan.mark_list import has_few_marks, is_one_of


def file(*, rows, marks):
    add = AddFile("f", {}, 1000, 0, True, stats=f'{{"numRecords":{rows}}}')
    return ScanFile(add, "file:/f", "f", without_rows(RowIndexSet(range(marks))), size_is_checked=True)


@pytest.mark.parametrize(
    ("files", "few"),
    [
        ([file(rows=1000, marks=64)], True),
        ([file(rows=1000, marks=65)], False),
        ([file(rows=1000, marks=40), file(rows=1000, marks=30)], False),
        ([file(rows=200_000, marks=1)], True),
        ([file(rows=200_001, marks=1)], False),
        ([file(rows=10, marks=1)] * 16, True),
        ([file(rows=10, marks=1)] * 17, False),
    ],
)
def test_few_marks_of_small_files_are_listed(files, few):
    assert has_few_marks(files) is few


def test_list_is_sql():
    assert is_one_of("row", RowIndexSet([3, 1 << 40])) == f"row IN (3L, {1 << 40}L)"
    assert is_one_of("row", RowIndexSet()) == "false"
