"""Do the blocks of the join hold exactly the marked rows, and can two files never share a key?

The Spark expressions of `scan.mark_join` are run in `tests/spark/scan`; here the same arithmetic is done in Python.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError, UnsupportedFeatureError
from ebbtide.scan.mark_join import block_table, file_prefixes, labelled_block_table

ROWS = [0, 1, 63, 64, 65_535, 65_536, 65_599, 1_000_000, 2**32 - 1, 2**32, 8_589_934_591]
LOW_BITS = (1 << 27) - 1


def made(*sets, numbers=None, **options):
    return block_table(
        [RowIndexSet(rows) for rows in sets], numbers or range(5, 5 + len(sets)), key="k", word="w", **options
    )


def marked_rows(blocks, number):
    """The rows that the bit test of `BlockTable.is_marked` would find for a file."""
    prefix = (number << blocks.prefix_shift) & ~LOW_BITS
    keys, words = (blocks.table.column(at).to_pylist() for at in range(2))
    for key, word in zip(keys, words, strict=True):
        if key & ~LOW_BITS == prefix:
            yield from (((key & LOW_BITS) << 6) + bit for bit in range(64) if word >> bit & 1)


@pytest.mark.parametrize("rows", [ROWS, [0], range(200), range(0, 70_000, 3), range(65_000, 66_000)])
def test_blocks_hold_exactly_the_marked_rows(rows):
    blocks = made(rows, [7])
    assert list(marked_rows(blocks, 5)) == list(rows)
    assert list(marked_rows(blocks, 6)) == [7]


def test_keys_of_a_negative_number_are_told_apart_too():
    blocks = made([3, 70_000], numbers=[-(1 << 63)])
    assert list(marked_rows(blocks, -(1 << 63))) == [3, 70_000]


def test_there_is_one_small_entry_for_each_64_rows_with_a_mark():
    rows = [block << 16 for block in range(5_000)]
    blocks = made(rows)
    assert blocks.table.num_rows == len(rows)
    assert blocks.table.nbytes <= 24 * len(rows)


def test_every_key_is_there_once():
    keys = made(range(0, 200_000, 5), range(0, 200_000, 7)).table.column("k").to_pylist()
    assert len(set(keys)) == len(keys)


def test_columns_have_the_names_and_types_that_the_join_expects():
    assert made([1]).table.schema == pa.schema([("k", pa.int64()), ("w", pa.int64())])


def test_row_beyond_the_room_of_a_key_is_an_error_and_not_another_row():
    with pytest.raises(InternalError, match="beyond what a scan can address"):
        made([1 << 33])


def test_more_blocks_than_can_be_broadcast_are_refused():
    rows = range(0, 640, 64)
    assert made(rows, most_blocks=10).table.num_rows == 10
    with pytest.raises(UnsupportedFeatureError, match="more than 9 blocks"):
        made(rows, most_blocks=9)


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1 << 27, -1, -(1 << 63), (1 << 63) - 1],
        [5, 6, 7],  # alike in the upper 37 bits
        [(1 << 30) | 1, (1 << 30) | 2, (1 << 31) | 1],
        [LOW_BITS, LOW_BITS - 1, -LOW_BITS],
    ],
)
def test_prefixes_are_from_a_window_in_which_all_files_differ(numbers):
    _, prefixes = file_prefixes(numbers)
    assert len(set(prefixes)) == len(numbers)
    assert all(prefix & LOW_BITS == 0 for prefix in prefixes)


@pytest.mark.parametrize("numbers", [[1, 2, 1], [0, 1, -(1 << 63)]])
def test_numbers_that_differ_in_no_single_window_are_refused_rather_than_mixed_up(numbers):
    # In the second list one pair differs only in the lowest bit, another only in the highest; no 37 bits hold both.
    with pytest.raises(InternalError, match="same number"):
        file_prefixes(numbers)


def test_blocks_of_several_sets_of_one_file_say_which_set_they_belong_to():
    sets = [RowIndexSet([1, 70]), RowIndexSet([1]), RowIndexSet([200])]
    blocks = labelled_block_table(sets, [5, 5, 9], key="k", word="w", label="l")
    assert blocks.table.column("l").to_pylist() == [0, 0, 1, 2]
    keys = blocks.table.column("k").to_pylist()
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3


def test_limit_counts_the_blocks_of_all_sets_together():
    sets = [RowIndexSet([1, 70]), RowIndexSet([1])]
    assert labelled_block_table(sets, [5, 5], key="k", word="w", label="l", most_blocks=3).table.num_rows == 3
    with pytest.raises(UnsupportedFeatureError, match="more than 2 blocks"):
        labelled_block_table(sets, [5, 5], key="k", word="w", label="l", most_blocks=2)
