"""Do block tables hold exactly the marked rows, and can two files never share a key?

The Spark expressions of `scan.marks` are run in `tests/spark/scan`; here the same arithmetic is done in Python.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError, UnsupportedFeatureError
from ebbtide.scan.marks import block_table

ROWS = [0, 1, 63, 64, 65_535, 65_536, 65_599, 1_000_000, 2**32 - 1, 2**32, 8_589_934_591]
PREFIX = 5 << 27


def marked_rows(blocks, prefix):
    """The rows that the bit test of `BlockTable.is_marked` would find for a file."""
    keys, words = (blocks.table.column(at).to_pylist() for at in range(2))
    for key, block_words in zip(keys, words, strict=True):
        if key & ~((1 << 27) - 1) == prefix:
            start = (key & ((1 << 27) - 1)) << blocks.rows_shift
            for at, word in enumerate(block_words):
                yield from (start + at * 64 + bit for bit in range(64) if word >> bit & 1)


def made(*sets, prefixes=None, **options):
    prefixes = prefixes or [(at + 5) << 27 for at in range(len(sets))]
    return block_table([RowIndexSet(rows) for rows in sets], prefixes, key="k", words="w", **options)


@pytest.mark.parametrize("most_wide_blocks", [4096, 0])
@pytest.mark.parametrize("rows", [ROWS, [0], range(200), range(0, 70_000, 3), range(65_000, 66_000)])
def test_blocks_hold_exactly_the_marked_rows(rows, most_wide_blocks):
    blocks = made(rows, [7], most_wide_blocks=most_wide_blocks)
    assert list(marked_rows(blocks, PREFIX)) == list(rows)
    assert list(marked_rows(blocks, 6 << 27)) == [7]


def test_keys_of_a_negative_prefix_are_told_apart_too():
    prefix = -(1 << 63)
    blocks = made([3, 70_000], prefixes=[prefix])
    assert list(marked_rows(blocks, prefix)) == [3, 70_000]


def test_few_blocks_are_wide_and_have_the_same_length():
    blocks = made([0, 65_536], [9])
    assert blocks.rows_shift == 16
    assert [len(words) for words in blocks.table.column("w").to_pylist()] == [1024] * 3


def test_blocks_become_thin_exactly_above_the_limit():
    rows = [block << 16 for block in range(10)]
    assert made(rows, most_wide_blocks=10).rows_shift == 16
    assert made(rows, most_wide_blocks=9).rows_shift == 6


def test_thin_blocks_hold_one_word_for_each_64_rows_with_a_mark():
    rows = [block << 16 for block in range(5_000)]
    blocks = made(rows)
    assert blocks.rows_shift == 6
    assert blocks.table.num_rows == len(rows)
    assert {len(words) for words in blocks.table.column("w").to_pylist()} == {1}
    assert blocks.table.nbytes <= 24 * len(rows)


def test_every_key_is_there_once():
    keys = made(range(0, 200_000, 5), range(0, 200_000, 7), most_wide_blocks=0).table.column("k").to_pylist()
    assert len(set(keys)) == len(keys)


def test_columns_have_the_names_and_types_that_the_join_expects():
    assert made([1]).table.schema == pa.schema([("k", pa.int64()), ("w", pa.list_(pa.int64()))])


def test_row_beyond_the_room_of_a_key_is_an_error_and_not_another_row():
    with pytest.raises(InternalError, match="beyond what a scan can address"):
        made([1 << 33])


def test_more_blocks_than_can_be_broadcast_are_refused():
    rows = range(0, 640, 64)
    assert made(rows, most_wide_blocks=0, most_thin_blocks=10).table.num_rows == 10
    with pytest.raises(UnsupportedFeatureError, match="more than 9 blocks"):
        made(rows, most_wide_blocks=0, most_thin_blocks=9)
