"""Is the place of a row in the copy the place at which the copy has that row?

The model is a list: old files are lists of values, the copy is what is left of them one after the other. A row that is
marked after the copy was made must be marked at the index at which the list has its value.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.commands.optimize.positions import CopiedFile, carry_over, squared_shifts
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import CorruptDeletionVectorError, InternalError

NOTHING = RowIndexSet()


@st.composite
def copies(draw):
    """Old files with what was marked before and what is marked after the copy, and the sizes of the new files."""
    files = []
    for rows in draw(st.lists(st.integers(0, 12), max_size=6)):
        every = st.sets(st.integers(0, rows - 1)) if rows else st.just(set())
        before = draw(every)
        files.append((rows, before, before | draw(every)))
    total = sum(rows - len(before) for rows, before, _ in files)
    cuts = sorted(draw(st.lists(st.integers(0, total), max_size=3)))
    sizes = [stop - start for start, stop in zip([0, *cuts], [*cuts, total], strict=True)]
    return files, sizes


@given(copies())
def test_marks_are_carried_to_the_same_rows(drawn):
    files, sizes = drawn
    copied = [
        (number, row) for number, (rows, before, _) in enumerate(files) for row in range(rows) if row not in before
    ]
    expected, start = [], 0
    for size in sizes:
        held = copied[start : start + size]
        expected.append({place for place, (number, row) in enumerate(held) if row in files[number][2]})
        start += size
    found = carry_over([CopiedFile(rows, RowIndexSet(before), RowIndexSet(now)) for rows, before, now in files], sizes)
    assert [set(rows) for rows in found] == expected


@pytest.mark.parametrize("border", [63, 64, 65_535, 65_536, 2**32 - 1, 2**32])
def test_places_beyond_the_borders_of_the_format_are_exact(border):
    first = CopiedFile(border, RowIndexSet([0]), RowIndexSet([0, border - 1]))
    second = CopiedFile(5, NOTHING, RowIndexSet([0, 4]))
    [found] = carry_over([first, second], [border + 4])
    assert list(found) == [border - 2, border - 1, border + 3]


def test_copy_with_another_number_of_rows_is_refused():
    with pytest.raises(InternalError, match="Nothing was committed"):
        carry_over([CopiedFile(5, RowIndexSet([1]), RowIndexSet([1, 2]))], [5])


def test_mark_behind_the_end_of_a_file_is_refused():
    with pytest.raises(CorruptDeletionVectorError):
        carry_over([CopiedFile(5, NOTHING, RowIndexSet([5]))], [5])


def test_row_that_was_left_out_has_no_place():
    with pytest.raises(InternalError):
        RowIndexSet([1, 2]).renumber(RowIndexSet([2]), first=0)


# --- is the copy in order? --------------------------------------------------------------------------------------------


@given(copies(), st.randoms(use_true_random=False))
def test_sum_of_squared_shifts_belongs_to_the_ascending_order_alone(drawn, chance):
    files, _ = drawn
    starts = [sum(rows for rows, _, _ in files[:at]) for at in range(len(files))]
    live = [
        start + row
        for start, (rows, before, _) in zip(starts, files, strict=True)
        for row in range(rows)
        if row not in before
    ]
    expected = squared_shifts([(rows, RowIndexSet(before)) for rows, before, _ in files])
    assert sum((place - number) ** 2 for place, number in enumerate(live)) == expected
    shuffled = chance.sample(live, len(live))
    is_same = sum((place - number) ** 2 for place, number in enumerate(shuffled)) == expected
    assert is_same == (shuffled == live)
