"""Are the rows of the source that found a partner kept by part and place, whatever their numbers?"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.commands.merge.partners import Partners
from ebbtide.commands.merge.source import PLACE_BITS

numbers = st.builds(
    lambda part, place: part << PLACE_BITS | place,
    st.integers(0, 3) | st.integers(0, (1 << 30) - 1),
    st.integers(0, 200) | st.integers(0, (1 << PLACE_BITS) - 1),
)


def partners_of(rows):
    words = {}
    for row in rows:
        words[row >> 6] = words.get(row >> 6, 0) | 1 << (row & 63)
    signed = [word - (1 << 64) if word >> 63 else word for word in words.values()]
    return Partners.of_words(
        pa.chunked_array([pa.array(list(words), pa.int64())]), pa.chunked_array([pa.array(signed, pa.int64())])
    )


def rows_of(partners):
    return {part << PLACE_BITS | place for part, places in partners.places.items() for place in places}


@given(st.sets(numbers, max_size=50))
def test_every_row_is_kept_once(rows):
    assert rows_of(partners_of(rows)) == rows


@given(st.sets(numbers, max_size=20), st.sets(numbers, max_size=20))
def test_union_has_the_rows_of_both(rows, others):
    assert rows_of(partners_of(rows) | partners_of(others)) == rows | others


def test_nothing_found_is_nothing():
    assert not Partners().places
    assert not partners_of([]).places
