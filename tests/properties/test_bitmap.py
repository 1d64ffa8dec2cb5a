"""Does a RowIndexSet behave as Python's own set does, whatever the rows and in whatever order they come?"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from pyroaring import BitMap64

from ebbtide.deletion_vectors import MAX_ROW_INDEX, RowIndexSet
from ebbtide.errors import CorruptDeletionVectorError

# Rows crowd where formats change: words, Spark's bitmaps, containers, buckets, and the limit itself.
BORDERS = (0, 64, 32768, 65536, 3 * 65536, 2**32, 2**33, MAX_ROW_INDEX)
ROWS = st.one_of(
    st.integers(0, 200),
    st.tuples(st.sampled_from(BORDERS), st.integers(-3, 3)).map(sum).filter(lambda row: 0 <= row <= MAX_ROW_INDEX),
    st.integers(0, 10**6),
    st.integers(0, MAX_ROW_INDEX),
)
SPARSE = st.sets(ROWS, max_size=60)
# (start, length, step) makes arrays, runs and plain bits.
STRETCHES = st.tuples(st.integers(0, 200_000), st.integers(0, 70_000), st.integers(1, 40))
DENSE = st.lists(STRETCHES, max_size=4).map(
    lambda stretches: {row for start, length, step in stretches for row in range(start, start + length, step)}
)
SETS = st.one_of(SPARSE, DENSE)


@given(SETS)
@settings(deadline=None)
def test_serialized_rows_come_back(rows):
    payload = RowIndexSet(rows).serialize()
    assert set(RowIndexSet.deserialize(payload)) == rows
    assert RowIndexSet.deserialize(payload).serialize() == payload


@given(SETS, SETS)
@settings(deadline=None)
def test_operators_agree_with_sets(left, right):
    ours, theirs = RowIndexSet(left), RowIndexSet(right)
    assert set(ours | theirs) == left | right
    assert set(ours - theirs) == left - right
    assert set(ours & theirs) == left & right
    assert (ours == theirs) == (left == right)
    assert ours.issubset(theirs) == left.issubset(right)
    assert ours.isdisjoint(theirs) == left.isdisjoint(right)
    assert set(ours) == left


@given(SETS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_words_as_spark_folds_them_become_the_rows(rows, rng):
    words = {}
    for row in rows:
        words[row >> 6] = words.get(row >> 6, 0) | 1 << (row & 63)
    pairs = list(words.items())
    rng.shuffle(pairs)
    numbers = pa.array([number for number, _ in pairs], pa.int64())
    bits = pa.array([word - (1 << 64) if word >> 63 else word for _, word in pairs], pa.int64())
    assert set(RowIndexSet.from_numbered_words(numbers, bits)) == rows


@given(SETS)
@settings(deadline=None)
def test_blocks_hold_exactly_the_rows(rows):
    expected = {}
    for row in rows:
        block, position = divmod(row, 65536)
        expected.setdefault(block, bytearray(8192))[position // 8] |= 1 << position % 8
    blocks = list(RowIndexSet(rows).to_blocks())
    assert blocks == sorted(blocks)
    assert dict(blocks) == expected


@given(st.binary(max_size=200), st.sampled_from([b"", b"\xd1\xd3\x39\x64", b"\xd0\xd3\x39\x64"]))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_set_or_a_typed_error(data, magic):
    try:
        rows = RowIndexSet.deserialize(magic + data)
    except CorruptDeletionVectorError:
        return
    assert RowIndexSet.deserialize(rows.serialize()) == rows


@given(SETS, st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_bytes_mean_what_croaring_takes_them_for_or_are_refused(rows, data):
    payload = bytearray(RowIndexSet(rows).serialize())
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(4, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        accepted = RowIndexSet.deserialize(bytes(payload))
    except CorruptDeletionVectorError:
        return
    reference = BitMap64.deserialize(bytes(payload[4:]))
    assert len(accepted) == len(reference)
    assert accepted.max() == (reference.max() if reference else None)
    assert RowIndexSet.deserialize(accepted.serialize()) == accepted


class SetsInParallel(RuleBasedStateMachine):
    """Grows RowIndexSets beside plain sets by the same steps and compares them after each."""

    pairs = Bundle("pairs")

    def __init__(self):
        super().__init__()
        self.last = (RowIndexSet(), set())

    @initialize(target=pairs, rows=SPARSE)
    def start(self, rows):
        return self._keep(RowIndexSet(rows), set(rows))

    @rule(target=pairs, pair=pairs, start=st.integers(0, 140_000), length=st.integers(0, 5000))
    def add_range(self, pair, start, length):
        ours, model = pair[0].copy(), set(pair[1])
        ours.add_range(start, start + length)
        return self._keep(ours, model | set(range(start, start + length)))

    @rule(target=pairs, left=pairs, right=pairs)
    def unite(self, left, right):
        return self._keep(left[0] | right[0], left[1] | right[1])

    @rule(target=pairs, left=pairs, right=pairs)
    def subtract(self, left, right):
        return self._keep(left[0] - right[0], left[1] - right[1])

    @rule(target=pairs, left=pairs, right=pairs)
    def intersect(self, left, right):
        return self._keep(left[0] & right[0], left[1] & right[1])

    @rule(target=pairs, pair=pairs)
    def go_through_bytes(self, pair):
        return self._keep(RowIndexSet.deserialize(pair[0].serialize()), set(pair[1]))

    def _keep(self, ours, model):
        self.last = (ours, model)
        return ours, model

    @invariant()
    def rows_are_the_same(self):
        ours, model = self.last
        assert len(ours) == len(model)
        assert set(ours) == model
        assert (ours.min(), ours.max()) == (min(model, default=None), max(model, default=None))


TestSetsInParallel = SetsInParallel.TestCase
TestSetsInParallel.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
