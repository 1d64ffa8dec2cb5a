"""How does Spark drop marked rows when there are too many marks for two constant arrays?

The other form is `scan.mark_lookup`. Here the marks are a table of blocks of 64 rows: a key (file and block number in
one 64-bit integer) and the block's bits. It is broadcast, left-joined, and one bit test decides. Blocks
without a marked row are left out, so there is at most one small entry per marked row.

    key = prefix of the file (upper 37 bits) | row_index >> 6
    bit = row_index & 63
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError, UnsupportedFeatureError

__all__ = ["BlockTable", "block_table", "file_prefixes", "labelled_block_table"]

_BLOCK_BITS = 27  # 2^27 blocks of 64 rows: 8.6 billion rows per file
_BLOCK_MASK = (1 << _BLOCK_BITS) - 1
_WORDS_PER_WIDE_BLOCK = 1024
# Above this many blocks (about 20 bytes each) Spark could not broadcast the table anyway. A few bytes of a hostile
# vector can claim billions of rows; this is where that stops.
_MOST_BLOCKS = 1 << 25


@dataclass(frozen=True, slots=True)
class BlockTable:
    """The blocks of all files as columns `key` and `word`, and how to find the block of a row."""

    table: pa.Table
    prefix_shift: int

    @property
    def spark_schema(self) -> T.StructType:
        return T.StructType([T.StructField(name, T.LongType()) for name in self.table.schema.names])

    def key(self, file_number: str, row_index: str) -> Column:
        """The block that a row is in. All arguments are SQL for a long."""
        return F.expr(f"shiftleft({file_number}, {self.prefix_shift}) & {~_BLOCK_MASK}L | shiftright({row_index}, 6)")

    def is_marked(self, word: str, row_index: str) -> Column:
        """True for a marked row; a row without a block (a null word) is not marked."""
        return F.expr(f"{word} IS NOT NULL AND getbit({word}, CAST({row_index} & 63 AS INT)) = 1")


def block_table(
    marks: Sequence[RowIndexSet],
    file_numbers: Sequence[int],
    *,
    key: str,
    word: str,
    most_blocks: int = _MOST_BLOCKS,
) -> BlockTable:
    """The blocks of all files' marks; `UnsupportedFeatureError` when they are too many to broadcast."""
    shift, prefixes = file_prefixes(file_numbers)
    schema = pa.schema([(key, pa.int64()), (word, pa.int64())])
    return BlockTable(_stack_blocks(zip(marks, prefixes, strict=True), schema, most_blocks), shift)


def labelled_block_table(
    marks: Sequence[RowIndexSet],
    file_numbers: Sequence[int],
    *,
    key: str,
    word: str,
    label: str,
    most_blocks: int = _MOST_BLOCKS,
) -> BlockTable:
    """Several sets may belong to one file: the `label` of each block is the index of its set."""
    distinct = tuple(dict.fromkeys(file_numbers))
    shift, prefixes = file_prefixes(distinct)
    prefix_of = dict(zip(distinct, prefixes, strict=True))
    schema = pa.schema([(key, pa.int64()), (word, pa.int64())])
    tables = []
    count = 0
    for index, (rows, number) in enumerate(zip(marks, file_numbers, strict=True)):
        table = _stack_blocks([(rows, prefix_of[number])], schema, most_blocks, count)
        count += table.num_rows
        tables.append(table.append_column(label, pa.repeat(pa.scalar(index, pa.int64()), table.num_rows)))
    return BlockTable(pa.concat_tables(tables), shift)


def file_prefixes(file_numbers: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """How far to shift the numbers so that their upper 37 bits differ, and those bits."""
    for shift in range(_BLOCK_BITS + 1):
        prefixes = tuple(_to_signed((number << shift) & ~_BLOCK_MASK) for number in file_numbers)
        if len(set(prefixes)) == len(prefixes):
            return shift, prefixes
    raise InternalError(
        f"Among {len(file_numbers)} data files with deletion vectors, two have the same number wherever one looks. "
        "Read fewer files at once (`where=`) or rewrite the table without its vectors; please report it."
    )


def _stack_blocks(
    marks: Iterable[tuple[RowIndexSet, int]], schema: pa.Schema, most_blocks: int, count: int = 0
) -> pa.Table:
    """The blocks of these marks. `count` other blocks exist already and count towards the limit."""
    batches: list[pa.RecordBatch] = []
    for rows, prefix in marks:
        for columns in _blocks(rows, prefix):
            batches.append(pa.record_batch(columns, schema=schema))
            count += batches[-1].num_rows
            if count > most_blocks:
                raise UnsupportedFeatureError(
                    f"The deletion vectors of one read mark rows in more than {most_blocks} blocks of 64 rows. "
                    "Read fewer files at once (`where=`) or rewrite the table without its marked rows.",
                    error_class="",
                )
    return pa.Table.from_batches(batches, schema)


def _blocks(rows: RowIndexSet, prefix: int) -> Iterator[list[pa.Array]]:
    for block, bits in rows.to_blocks():
        if (block + 1) * _WORDS_PER_WIDE_BLOCK > _BLOCK_MASK + 1:
            raise InternalError(f"A deletion vector marks row {block << 16}, beyond what a scan can address.")
        words = pa.Array.from_buffers(pa.int64(), _WORDS_PER_WIDE_BLOCK, [None, pa.py_buffer(bits)])
        used = pc.indices_nonzero(words)
        numbers = pc.add(used.cast(pa.int64()), block * _WORDS_PER_WIDE_BLOCK)
        yield [pc.bit_wise_or(numbers, prefix), words.take(used)]


def _to_signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value
