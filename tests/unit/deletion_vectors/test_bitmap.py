"""Is a RowIndexSet a set, and does it turn into bytes and bits and back without losing a row?"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.support.roaring_bytes import bitmap32, portable, runs

from ebbtide.deletion_vectors import MAX_ROW_INDEX, RowIndexSet
from ebbtide.errors import CorruptDeletionVectorError, RequestError

# Where containers, Spark's bitmaps, words and buckets begin and end.
BORDERS = [0, 1, 63, 64, 32767, 32768, 65535, 65536, 131071, 131072, 2**32 - 1, 2**32, 2**32 + 65536, 5 * 2**32 + 7]


def numbered_words(rows):
    """What folding in Spark gives for the rows, computed the slow way: word numbers, and words as signed integers."""
    words = {}
    for row in rows:
        words[row >> 6] = words.get(row >> 6, 0) | 1 << (row & 63)
    pairs = list(words.items())
    random.Random(3).shuffle(pairs)
    signed = [word - (1 << 64) if word >> 63 else word for _, word in pairs]
    return pa.array([number for number, _ in pairs], pa.int64()), pa.array(signed, pa.int64())


def shapes():
    rng = random.Random(5)
    yield "empty", []
    yield "first row", [0]
    yield "borders below two blocks", [row for row in BORDERS if row < 2**18]
    yield "sparse", rng.sample(range(10**6), 500)
    yield "4096 in a block", rng.sample(range(65536), 4096)
    yield "4097 in a block", rng.sample(range(65536), 4097)
    yield "dense", rng.sample(range(200_000), 120_000)
    yield "every row", range(150_000)
    yield "all but one row", [row for row in range(131072) if row != 65536]
    yield "runs", [row for row in range(200_000) if row % 100 < 40]
    yield "every odd row", range(1, 200_000, 2)
    yield "every even row", range(0, 200_000, 2)


SHAPES = [pytest.param(sorted(rows), id=name) for name, rows in shapes()]


def test_set_is_made_of_any_iterable_once():
    rows = RowIndexSet.from_iterable(iter([5, 3, 5, 3]))
    assert list(rows) == [3, 5]
    assert len(rows) == 2
    assert 3 in rows
    assert 4 not in rows
    assert -1 not in rows
    assert 2**64 not in rows


def test_empty_set_is_false_and_has_no_ends():
    rows = RowIndexSet()
    assert not rows
    assert len(rows) == 0
    assert rows.min() is None
    assert rows.max() is None
    assert rows == RowIndexSet([])


def test_ends_are_min_and_max():
    rows = RowIndexSet(BORDERS)
    assert (rows.min(), rows.max()) == (0, 5 * 2**32 + 7)


def test_operators_make_new_sets():
    left, right = RowIndexSet([1, 2, 3]), RowIndexSet([3, 4])
    assert list(left | right) == [1, 2, 3, 4]
    assert list(left - right) == [1, 2]
    assert list(left & right) == [3]
    assert list(left) == [1, 2, 3]
    assert not left.isdisjoint(right)
    assert left.isdisjoint(RowIndexSet([9]))
    assert RowIndexSet([3]).issubset(left)
    assert not right.issubset(left)


def test_copy_does_not_follow_its_original():
    original = RowIndexSet([1])
    copy = original.copy()
    original.add_range(5, 7)
    assert list(copy) == [1]
    assert list(original) == [1, 5, 6]


@pytest.mark.parametrize("start", [0, 65535, 65536, 2**32 - 1, 2**32])
def test_range_ends_before_its_stop(start):
    rows = RowIndexSet.from_range(start, start + 3)
    assert list(rows) == [start, start + 1, start + 2]


def test_empty_range_adds_nothing():
    assert not RowIndexSet.from_range(7, 7)


def test_range_may_end_with_the_highest_row():
    assert list(RowIndexSet.from_range(MAX_ROW_INDEX, MAX_ROW_INDEX + 1)) == [MAX_ROW_INDEX]


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, MAX_ROW_INDEX + 2)])
def test_range_outside_the_limits_is_refused(start, stop):
    with pytest.raises(RequestError, match="not a range"):
        RowIndexSet.from_range(start, stop)


@pytest.mark.parametrize("row", [-1, MAX_ROW_INDEX + 1, 2**63, 2**64, "7", None, 1.5])
def test_row_that_is_no_row_index_is_refused(row):
    with pytest.raises(RequestError):
        RowIndexSet([row])


def test_sets_are_equal_by_their_rows():
    assert RowIndexSet(range(100)) == RowIndexSet.from_range(0, 100)
    assert RowIndexSet([1]) != RowIndexSet([2])
    assert RowIndexSet([1]) != {1}
    with pytest.raises(TypeError):
        hash(RowIndexSet())


def test_repr_stays_short_for_any_set():
    assert repr(RowIndexSet.from_range(0, 10**9)) == "<RowIndexSet of 1000000000 rows, 0 to 999999999>"
    assert repr(RowIndexSet()) == "<RowIndexSet, empty>"


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "payload"),
    [
        ([0, 9], "d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0000 0900"),
        ([0, 1, 2], "d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0200 10000000 0000 0100 0200"),
        ([], "d1d33964 0000000000000000"),
    ],
)
def test_payload_has_the_published_bytes(rows, payload):
    assert RowIndexSet(rows).serialize() == bytes.fromhex(payload)


@pytest.mark.parametrize("rows", [*SHAPES, pytest.param(BORDERS, id="borders")])
def test_payload_round_trips(rows):
    assert list(RowIndexSet.deserialize(RowIndexSet(rows).serialize())) == list(rows)


def test_payload_of_a_range_is_small():
    assert len(RowIndexSet.from_range(0, 65536).serialize()) < 40


# --- bits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", SHAPES)
def test_blocks_hold_a_bit_for_each_row(rows):
    found = [
        (block << 16) + place
        for block, bits in RowIndexSet(rows).to_blocks()
        for place in range(65536)
        if bits[place >> 3] >> (place & 7) & 1
    ]
    assert found == list(rows)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (pa.array([0], pa.int64()), pa.array([1], pa.int32())),
        (pa.array(range(20), pa.int64()), pa.array([None, *range(1, 20)], pa.int64())),
    ],
)
def test_words_that_are_no_64_bit_integers_are_refused(numbers, words):
    with pytest.raises(RequestError, match="64-bit integers"):
        RowIndexSet.from_numbered_words(numbers, words)


def test_marked_row_beyond_the_file_is_refused():
    RowIndexSet([63]).check_rows_below(64)
    with pytest.raises(CorruptDeletionVectorError) as refused:
        RowIndexSet([64]).check_rows_below(64)
    assert refused.value.error_class == "DELTA_DELETION_VECTOR_INVALID_ROW_INDEX"


def test_blocks_are_only_those_that_hold_rows():
    rows = [3, 2**50, 2**50 + 65536]
    blocks = dict(RowIndexSet(rows).to_blocks())
    assert list(blocks) == [0, 2**34, 2**34 + 1]
    assert blocks[0] == b"\x08" + bytes(8191)


def test_runs_that_no_writer_would_choose_are_spelled_out():
    every_odd_row = [(row, row) for row in range(1, 65536, 2)]
    rows = RowIndexSet.deserialize(portable([(0, bitmap32([runs(0, every_odd_row)]))]))
    assert dict(rows.to_blocks()) == {0: b"\xaa" * 8192}


@pytest.mark.parametrize("rows", [*SHAPES, pytest.param(BORDERS, id="borders")])
def test_numbered_words_become_the_same_rows(rows):
    assert list(RowIndexSet.from_numbered_words(*numbered_words(rows))) == list(rows)


@pytest.mark.parametrize("number", [-1, (MAX_ROW_INDEX >> 6) + 1])
def test_word_that_no_file_can_have_is_refused(number):
    with pytest.raises(RequestError, match="no row of a file"):
        RowIndexSet.from_numbered_words(pa.array([0, number], pa.int64()), pa.array([1, 1], pa.int64()))


def test_many_sparse_blocks_are_spelled_out_in_batches():
    rows = list(range(0, 1500 * 65536, 65536))
    assert list(RowIndexSet.from_numbered_words(*numbered_words(rows))) == rows
    assert [block for block, _ in RowIndexSet(rows).to_blocks()] == list(range(1500))
