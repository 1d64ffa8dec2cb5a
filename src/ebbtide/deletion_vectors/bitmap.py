"""Which rows of a file are marked?

`RowIndexSet` is a set of physical row positions (0-based, in file order, counted before anything was deleted) and the
only form in which the engine holds a deletion vector. It turns into the protocol's bytes and back, and into the plain
bits that Spark's expressions understand. It knows nothing about files or logs.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from ebbtide.deletion_vectors import bit_blocks
from ebbtide.deletion_vectors.roaring_format import (
    BITMAP_BYTES,
    PORTABLE_MAGIC,
    Bucket,
    read_buckets,
)
from ebbtide.errors import CorruptDeletionVectorError, InternalError, RequestError

__all__ = ["MAX_ROW_INDEX", "RowIndexSet"]

# The reference's limit: the highest bucket that it can address, and half of that bucket.
MAX_ROW_INDEX = 0x7FFFFFFE_80000000

_WORDS_PER_BLOCK = BITMAP_BYTES // 8
_BLOCKS_AT_A_TIME = 8192  # 64 MiB when spelled out
_WORDS_AT_A_TIME = 8192  # at worst each is in a block of its own
# With fewer words per block, reading their bits one by one is faster than spelling the block out.
_FEW_WORDS_PER_BLOCK = 16
_ALL_BITS = (1 << 64) - 1


class RowIndexSet:
    """A set of row indexes from 0 to `MAX_ROW_INDEX`.

    - `add_range` is the only method that changes it; the operators make new sets.
    - Equality is equality of rows, however they are spelled.
    - `deserialize` never trusts a number in the bytes, and what it returns has exactly the rows the bytes say.
    """

    __slots__ = ("_bitmap",)
    __hash__ = None  # type: ignore[assignment]  # add_range changes the rows; object declares a method here

    def __init__(self, rows: Iterable[int] = ()) -> None:
        try:
            # An array passes all values at once; an iterable would go through Python objects one by one.
            values = array("Q", rows)
        except (OverflowError, TypeError) as error:
            raise RequestError(f"A row index must be an integer from 0 to {MAX_ROW_INDEX}: {error}") from error
        self._bitmap = BitMap64(values)
        if values and self._bitmap.max() > MAX_ROW_INDEX:
            raise RequestError(f"Row index {self._bitmap.max()} is above the limit of {MAX_ROW_INDEX}.")

    # --- making one ---------------------------------------------------------------------------------------------------

    @classmethod
    def from_iterable(cls, rows: Iterable[int]) -> RowIndexSet:
        return cls(rows)

    @classmethod
    def from_range(cls, start: int, stop: int) -> RowIndexSet:
        """The rows from `start` up to, not including, `stop`."""
        result = cls()
        result.add_range(start, stop)
        return result

    @classmethod
    def from_numbered_words(cls, numbers: pa.Array, words: pa.Array) -> RowIndexSet:
        """The rows of some 64-bit words in any order, each with its number: bit `i` of word `w` is row `64 * w + i`.

        Numbers must differ. Memory depends on the number of words, not on the highest row.
        """
        if words.type != pa.int64() or words.null_count:
            raise RequestError(f"Words must be 64-bit integers without nulls, not {words.type}.")
        if len(numbers) and not 0 <= pc.min(numbers).as_py() <= pc.max(numbers).as_py() <= MAX_ROW_INDEX >> 6:
            raise RequestError("A word has a number that no row of a file can have.")
        blocks = pc.count_distinct(pc.shift_right(numbers, 10)).as_py()
        # Unsorted, every part would hold some words of each block, so words are sorted when they are split into parts.
        part = _WORDS_AT_A_TIME if blocks > _BLOCKS_AT_A_TIME else max(len(numbers), 1)
        order = pc.array_sort_indices(numbers) if part < len(numbers) else None
        numbers, words = (values if order is None else values.take(order) for values in (numbers, words))
        result = BitMap64()
        for at in range(0, len(numbers), part):
            result |= _bitmap_of_words(numbers.slice(at, part), words.slice(at, part))
        return cls._wrap(result)

    @classmethod
    def deserialize(cls, data: bytes) -> RowIndexSet:
        """The set in a payload (magic number included); `CorruptDeletionVectorError` when it is not sound.

        Reads the portable format and the legacy native one.
        """
        bitmap = _decode(_portable_body(data, read_buckets(data)))
        if bitmap and bitmap.max() > MAX_ROW_INDEX:
            raise CorruptDeletionVectorError(
                f"Not a deletion vector: row index {bitmap.max()} is above the limit of {MAX_ROW_INDEX}."
            )
        return cls._wrap(bitmap)

    @classmethod
    def _wrap(cls, bitmap: BitMap64) -> RowIndexSet:
        result = cls()
        result._bitmap = bitmap
        return result

    # --- as a set -----------------------------------------------------------------------------------------------------

    def add_range(self, start: int, stop: int) -> None:
        """Marks the rows from `start` up to, not including, `stop`."""
        if not 0 <= start <= stop <= MAX_ROW_INDEX + 1:
            raise RequestError(f"Rows {start} to {stop} are not a range between 0 and {MAX_ROW_INDEX}.")
        if start < stop:
            self._bitmap.add_range(start, stop)

    def union(self, other: RowIndexSet) -> RowIndexSet:
        return self._wrap(self._bitmap | other._bitmap)

    def difference(self, other: RowIndexSet) -> RowIndexSet:
        return self._wrap(self._bitmap - other._bitmap)

    def intersection(self, other: RowIndexSet) -> RowIndexSet:
        return self._wrap(self._bitmap & other._bitmap)

    __or__ = union
    __sub__ = difference
    __and__ = intersection

    def isdisjoint(self, other: RowIndexSet) -> bool:
        return not self._bitmap.intersect(other._bitmap)

    def issubset(self, other: RowIndexSet) -> bool:
        return bool(self._bitmap.difference_cardinality(other._bitmap) == 0)

    def copy(self) -> RowIndexSet:
        return self._wrap(self._bitmap.copy())

    def renumber(self, left_out: RowIndexSet, *, first: int) -> RowIndexSet:
        """Where these rows of a file are in a copy that begins at position `first` and leaves rows out.

        None of these rows may be left out. A row moves up by the number of rows left out before it.
        """
        if not self.isdisjoint(left_out):
            raise InternalError("A row that is left out of a copy has no position in it.")
        if not left_out:
            return self._wrap(self._bitmap.shift(first))
        rank = left_out._bitmap.rank
        return type(self)(first + row - rank(row) for row in self._bitmap)

    def part(self, start: int, stop: int) -> RowIndexSet:
        """The rows from `start` up to, not including, `stop`, counted from `start`."""
        wanted = BitMap64()
        wanted.add_range(start, stop)
        return self._wrap((self._bitmap & wanted).shift(-start))

    def min(self) -> int | None:
        return int(self._bitmap.min()) if self._bitmap else None

    def max(self) -> int | None:
        return int(self._bitmap.max()) if self._bitmap else None

    def __len__(self) -> int:
        return len(self._bitmap)

    def __bool__(self) -> bool:
        return bool(self._bitmap)

    def __contains__(self, row: int) -> bool:
        return 0 <= row <= MAX_ROW_INDEX and row in self._bitmap

    def __iter__(self) -> Iterator[int]:
        return iter(self._bitmap)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowIndexSet):
            return NotImplemented
        return bool(self._bitmap == other._bitmap)

    def __repr__(self) -> str:
        return f"<RowIndexSet of {len(self)} rows, {self.min()} to {self.max()}>" if self else "<RowIndexSet, empty>"

    # --- as bytes -----------------------------------------------------------------------------------------------------

    def serialize(self) -> bytes:
        """The portable payload, magic number included, as small as the format allows."""
        self._bitmap.run_optimize()
        return struct.pack("<I", PORTABLE_MAGIC) + bytes(self._bitmap.serialize())

    def to_blocks(self) -> Iterator[tuple[int, bytes]]:
        """The blocks of 65,536 rows that hold a marked one, as (block number, 8,192 bytes of bits), ascending.

        The right form for sparse sets: memory depends on the blocks that exist, not on the highest row.
        """
        return bit_blocks.blocks_of(self._bitmap)

    def check_rows_below(self, num_rows: int) -> None:
        """`CorruptDeletionVectorError` when a row is marked that a file of `num_rows` physical rows does not have."""
        highest = self.max()
        if highest is not None and highest >= num_rows:
            raise CorruptDeletionVectorError(
                f"A deletion vector marks row {highest} of a file that has {num_rows} rows.",
                error_class="DELTA_DELETION_VECTOR_INVALID_ROW_INDEX",
            )


def _portable_body(payload: bytes, buckets: list[Bucket]) -> bytes:
    """What CRoaring reads: no magic number, and no empty buckets (the reference writes them, others do not)."""
    parts = [struct.pack("<Q", len(buckets))]
    for bucket in buckets:
        parts += (struct.pack("<I", bucket.key), payload[bucket.start : bucket.stop])
    return b"".join(parts)


def _decode(portable_body: bytes) -> BitMap64:
    try:
        return BitMap64.deserialize(portable_body)
    except ValueError as error:
        raise CorruptDeletionVectorError(f"Not a deletion vector: {error}") from error


def _bitmap_of_words(numbers: pa.Array, words: pa.Array) -> BitMap64:
    blocks = pc.shift_right(numbers, 10).dictionary_encode()
    if len(words) < _FEW_WORDS_PER_BLOCK * len(blocks.dictionary):
        return BitMap64(array("Q", _rows_of_words(numbers.to_pylist(), words.to_pylist())))
    first_words = pc.multiply(blocks.indices.cast(pa.int64()), _WORDS_PER_BLOCK)
    # Where each word is when the blocks are spelled out one after the other; below, which word is at each place.
    places = pc.add(first_words, pc.bit_wise_and(numbers, _WORDS_PER_BLOCK - 1))
    everywhere = pa.array(range(len(blocks.dictionary) * _WORDS_PER_BLOCK), pa.int64())
    data = _word_bytes(words.take(pc.index_in(everywhere, value_set=places)).fill_null(0))
    starts = range(0, len(data), BITMAP_BYTES)
    bits = (int.from_bytes(data[start : start + BITMAP_BYTES], "little") for start in starts)
    return bit_blocks.bitmap_from_blocks(zip(blocks.dictionary.to_pylist(), bits, strict=True))


def _rows_of_words(numbers: Iterable[int], words: Iterable[int]) -> Iterator[int]:
    for number, signed in zip(numbers, words, strict=True):
        word = signed & _ALL_BITS
        while word:
            yield number << 6 | (word & -word).bit_length() - 1
            word &= word - 1


def _word_bytes(words: pa.Array) -> bytes:
    data = words.buffers()[1]
    return bytes(data.slice(words.offset * 8, len(words) * 8)) if data is not None else b""
