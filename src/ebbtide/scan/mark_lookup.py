"""How does Spark drop marked rows by two lookups in arrays, without a join?

The usual form (`scan.mark_join` is for more marks, `scan.mark_list` for a handful). All marks are one array of 64-bit
words, in blocks of 65,536 rows as roaring has them; a second, small array says where the block of a file and row
begins. Both reach Spark as scalar subqueries over a local row, so generated code reads them as constants, and nothing
is hashed or copied per row:

    slot   = a window of the file's number in which all files differ        (mask and shift, chosen on the driver)
    offset = offsets[slot << block_bits | least(row >> 16, last)]           blocks without marks share one of zeros
    marked = bit (row & 63) of words[offset | (row >> 6) & 1023]

Slots of no file hold -1: a row that claims to come from such a file fails the query instead of being guessed at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.deletion_vectors import RowIndexSet

__all__ = ["CHANGED_FILE", "MarkLookup", "mark_lookup"]

_WORDS_PER_BLOCK = 1024
# Both arrays travel with every task: 32 MiB of words, 4 MiB of offsets at most.
_MOST_BLOCKS = 4096
_MOST_OFFSETS_BITS = 20
_NO_FILE = -1
_NO_MARKS = 0
CHANGED_FILE = "A data file has another size than it had when its deletion vector was loaded; read the table again."


@dataclass(frozen=True, slots=True)
class MarkLookup:
    """`offsets` has 2^slot_bits * 2^block_bits places; `words` begins with the block of zeros."""

    offsets: pa.Array
    words: pa.Array
    shift: int
    slot_bits: int
    block_bits: int

    def is_marked(self, spark: SparkSession, file_number: str, row_index: str) -> Column:
        """True for a marked row, false for any other; never null. Both arguments are SQL for a long."""
        slot = f"shiftright({file_number}, {self.shift}) & {(1 << self.slot_bits) - 1}L"
        block = f"least(shiftright({row_index}, 16), {(1 << self.block_bits) - 1}L)"
        place = F.expr(f"CAST(shiftleft({slot}, {self.block_bits}) | {block} AS INT)")
        offset = F.get(_constant(spark, self.offsets, T.IntegerType()), place)
        inside = F.expr(f"CAST(shiftright({row_index}, 6) & {_WORDS_PER_BLOCK - 1} AS INT)")
        word = F.get(_constant(spark, self.words, T.LongType()), offset.bitwiseOR(inside))
        bit = F.getbit(word, F.expr(f"CAST({row_index} & 63 AS INT)"))
        # Outermost, so that no filter "the row index is not null" is inferred and pushed into Parquet.
        return F.coalesce(bit, F.expr(f"CAST(raise_error('{CHANGED_FILE}') AS TINYINT)")) == 1


def mark_lookup(
    marks: Sequence[RowIndexSet],
    file_numbers: Sequence[int],
    *,
    most_blocks: int = _MOST_BLOCKS,
    most_offsets_bits: int = _MOST_OFFSETS_BITS,
) -> MarkLookup | None:
    """The marks of all files as two arrays; None when they would be too large to send with every task."""
    blocks: list[tuple[int, int]] = []
    words = [bytes(8 * _WORDS_PER_BLOCK)]
    for file, rows in enumerate(marks):
        for block, bits in rows.to_blocks():
            if len(blocks) == most_blocks:
                return None
            blocks.append((file, block))
            words.append(bits)
    # One place more than the last block needs: it stands for all rows after that block.
    block_bits = (max((block for _, block in blocks), default=0) + 1).bit_length()
    found = _slots(file_numbers, most_offsets_bits - block_bits)
    if found is None:
        return None
    shift, slot_bits = found
    slots = [number >> shift & ((1 << slot_bits) - 1) for number in file_numbers]
    offsets = _offsets(slots, blocks, slot_bits, block_bits)
    buffer = pa.py_buffer(b"".join(words))
    all_words = pa.Array.from_buffers(pa.int64(), len(words) * _WORDS_PER_BLOCK, [None, buffer])
    return MarkLookup(offsets, all_words, shift, slot_bits, block_bits)


def _slots(file_numbers: Sequence[int], most_bits: int) -> tuple[int, int] | None:
    """The shift and the width of the narrowest window of bits in which all numbers differ."""
    for bits in range((len(file_numbers) - 1).bit_length(), most_bits + 1):
        mask = (1 << bits) - 1
        for shift in range(64 - bits):
            if len({number >> shift & mask for number in file_numbers}) == len(file_numbers):
                return shift, bits
    return None


def _offsets(slots: Sequence[int], blocks: Sequence[tuple[int, int]], slot_bits: int, block_bits: int) -> pa.Array:
    offsets = [_NO_FILE] * (1 << (slot_bits + block_bits))
    for slot in slots:
        start = slot << block_bits
        offsets[start : start + (1 << block_bits)] = [_NO_MARKS] * (1 << block_bits)
    for at, (file, block) in enumerate(blocks, start=1):
        offsets[slots[file] << block_bits | block] = at * _WORDS_PER_BLOCK
    return pa.array(offsets, pa.int32())


def _constant(spark: SparkSession, values: pa.Array, element: T.DataType) -> Column:
    """The array as a constant of the query, read where it is used and never a part of the plan's text."""
    row = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    schema = T.StructType([T.StructField("values", T.ArrayType(element, containsNull=False), nullable=False)])
    return border.frame_from_arrow(spark, pa.table({"values": row}), schema).scalar()
