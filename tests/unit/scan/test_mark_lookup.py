"""Do the two arrays of the lookup answer for exactly the marked rows of each file?

The Spark expression of `scan.mark_lookup` is run in `tests/spark/scan`; here the same arithmetic is done in Python.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.scan.mark_lookup import mark_lookup

ROWS = [0, 1, 63, 64, 65_535, 65_536, 65_599, 1_000_000]


def is_marked(lookup, number, row):
    """What `MarkLookup.is_marked` computes; None where Spark would raise."""
    slot = number >> lookup.shift & ((1 << lookup.slot_bits) - 1)
    block = min(row >> 16, (1 << lookup.block_bits) - 1)
    offset = lookup.offsets[slot << lookup.block_bits | block].as_py()
    if offset < 0:
        return None
    return bool(lookup.words[offset | (row >> 6) & 1023].as_py() >> (row & 63) & 1)


def made(sets, numbers, **options):
    return mark_lookup([RowIndexSet(rows) for rows in sets], numbers, **options)


def test_marked_rows_are_found_in_the_right_file_and_nowhere_else():
    lookup = made([ROWS, [7]], [1000, 2000])
    for row in [*ROWS, 2, 7, 62, 65, 65_537, 999_999, 1_000_001, 5_000_000, 2**40]:
        assert is_marked(lookup, 1000, row) == (row in ROWS)
        assert is_marked(lookup, 2000, row) == (row == 7)


@given(
    st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.sets(st.integers(0, 300_000), max_size=20), min_size=1),
    st.lists(st.integers(0, 2**41), max_size=20),
)
@settings(deadline=None, max_examples=100)
def test_lookup_says_what_the_sets_say(marks, rows):
    lookup = made(list(marks.values()), list(marks))
    if lookup is None:  # numbers that differ in no window of twenty bits
        return
    for number, marked in marks.items():
        for row in [*rows, *marked]:
            assert is_marked(lookup, number, row) == (row in marked)


def test_row_of_no_known_file_is_an_error_and_not_a_guess():
    lookup = made([[1], [1], [1]], [0, 1, 2])
    assert lookup.slot_bits == 2
    assert is_marked(lookup, 3, 1) is None


def test_blocks_without_marks_share_one_block_of_zeros():
    lookup = made([[0], [10 << 16]], [1, 2])
    assert len(lookup.words) == 3 * 1024
    assert lookup.words.slice(0, 1024).to_pylist() == [0] * 1024


def test_too_many_blocks_are_left_to_the_join():
    rows = [block << 16 for block in range(10)]
    assert made([rows], [1], most_blocks=10) is not None
    assert made([rows], [1], most_blocks=9) is None


def test_files_too_many_for_the_small_array_are_left_to_the_join():
    numbers = list(range(64))
    assert made([[1]] * 64, numbers, most_offsets_bits=7) is not None
    assert made([[1]] * 64, numbers, most_offsets_bits=6) is None


@pytest.mark.parametrize("row", [1 << 37, 1 << 43, 1 << 60])
def test_mark_at_an_enormous_row_costs_no_memory(row):
    assert made([[row]], [1]) is None
