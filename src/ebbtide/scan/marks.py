"""How does Spark drop the rows that deletion vectors mark, without a row passing through Python?

The marks of all files become one small table of blocks of rows: a key (file and block number in one 64-bit integer) and
the block's bits as an array of 64-bit words. It is broadcast and joined from the left, and one bit test decides. Blocks
without a marked row are not in it. Blocks are as roaring has them, 65,536 rows, because rows that follow each other
then meet the same entry. When marks are so thinly spread that such blocks would swell the broadcast, blocks are 64
rows, and the table has at most one small entry a marked row.

    key = prefix of the file (upper 37 bits) | row_index >> 16 (or >> 6)
    bit = row_index & 63 of word (row_index >> 6) & 1023 (or 0)

A file's prefix comes from what the reader knows of every row: the file's size where sizes are known to be right and
tell the files apart, else a hash of its path. Prefixes are compared on the driver before the scan, so two files can
never share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError, UnsupportedFeatureError

__all__ = ["BlockTable", "FileKeys", "block_table", "hash_keys", "path_hash", "size_keys"]

_BLOCK_BITS = 27  # 2^27 blocks of 64 rows: 8.6 billion rows a file
_BLOCK_MASK = (1 << _BLOCK_BITS) - 1
_WORDS_PER_BLOCK = 1024
_WORD_TYPE = pa.list_(pa.int64())
# Above this many blocks of 65,536 rows (each 8 KiB of words) the thin form is used.
_MOST_WIDE_BLOCKS = 4096
# Above this many thin blocks (about 20 bytes each) Spark could not broadcast the table anyway. A few bytes of a hostile
# vector can claim billions of rows; this is where they end.
_MOST_THIN_BLOCKS = 1 << 25
_LARGEST_SIZE = 1 << (63 - _BLOCK_BITS)
# Spark's xxhash64() starts from this seed.
_SPARK_SEED = 42


def path_hash(reader_name: str) -> int:
    """What Spark's `xxhash64(_metadata.file_path)` gives for the file of this name."""
    return _signed(xxhash.xxh64_intdigest(reader_name.encode(), seed=_SPARK_SEED))


@dataclass(frozen=True, slots=True)
class FileKeys:
    """The prefix of each file, and the same prefix as a Spark expression."""

    prefixes: tuple[int, ...]
    expression: Column


def size_keys(sizes: Sequence[int], file_size: Column) -> FileKeys | None:
    """Keys from file sizes; None when two files are equally long or one is beyond the key's room."""
    if len(set(sizes)) != len(sizes) or max(sizes) >= _LARGEST_SIZE:
        return None
    return FileKeys(tuple(size << _BLOCK_BITS for size in sizes), F.shiftleft(file_size, _BLOCK_BITS))


def hash_keys(hashes: Sequence[int], file_hash: Column) -> FileKeys:
    """Keys from path hashes: the first window of 37 bits in which all of them differ."""
    for shift in range(_BLOCK_BITS + 1):
        prefixes = tuple(_signed((value << shift) & ~_BLOCK_MASK) for value in hashes)
        if len(set(prefixes)) == len(prefixes):
            moved = F.shiftleft(file_hash, shift) if shift else file_hash
            return FileKeys(prefixes, moved.bitwiseAND(F.lit(~_BLOCK_MASK)))
    raise InternalError(
        f"Among {len(hashes)} data files with deletion vectors, two have the same path hash wherever one looks. "
        "Read fewer files at once (`where=`) or rewrite the table without its vectors; please report it."
    )


@dataclass(frozen=True, slots=True)
class BlockTable:
    """The blocks of all files as columns `key` and `words`, and how a row finds its own."""

    table: pa.Table
    rows_shift: int

    @property
    def spark_schema(self) -> T.StructType:
        key, words = self.table.schema.names
        return T.StructType([T.StructField(key, T.LongType()), T.StructField(words, T.ArrayType(T.LongType()))])

    def key(self, keys: FileKeys, row_index: Column) -> Column:
        return keys.expression.bitwiseOR(F.shiftright(row_index, self.rows_shift))

    def is_marked(self, words: Column, row_index: Column) -> Column:
        """True for a marked row; a row without a block (null words) is not marked."""
        inside = F.lit((1 << (self.rows_shift - 6)) - 1)
        word = F.get(words, F.shiftright(row_index, 6).bitwiseAND(inside).cast("int"))
        return words.isNotNull() & (F.getbit(word, row_index.bitwiseAND(F.lit(63)).cast("int")) == 1)


def block_table(
    marks: Sequence[RowIndexSet],
    prefixes: Sequence[int],
    *,
    key: str,
    words: str,
    most_wide_blocks: int = _MOST_WIDE_BLOCKS,
    most_thin_blocks: int = _MOST_THIN_BLOCKS,
) -> BlockTable:
    """The blocks of all files' marks; `UnsupportedFeatureError` when they are too many to broadcast."""
    all_blocks = (block for rows in marks for block in rows.to_blocks())
    wide = sum(1 for _ in islice(all_blocks, most_wide_blocks + 1)) <= most_wide_blocks
    blocks_of = _wide_blocks if wide else _thin_blocks
    schema = pa.schema([(key, pa.int64()), (words, _WORD_TYPE)])
    batches: list[pa.RecordBatch] = []
    count = 0
    for rows, prefix in zip(marks, prefixes, strict=True):
        for columns in blocks_of(rows, prefix):
            batches.append(pa.record_batch(columns, schema=schema))
            count += batches[-1].num_rows
            if count > most_thin_blocks:
                raise UnsupportedFeatureError(
                    f"The deletion vectors of one read mark rows in more than {most_thin_blocks} blocks of 64 rows. "
                    "Read fewer files at once (`where=`) or rewrite the table without its marked rows.",
                    error_class="",
                )
    return BlockTable(pa.Table.from_batches(batches, schema), 16 if wide else 6)


def _wide_blocks(rows: RowIndexSet, prefix: int) -> Iterator[list[pa.Array]]:
    for block, words in _words(rows):
        yield [pa.array([prefix | block], pa.int64()), _lists(words, _WORDS_PER_BLOCK)]


def _thin_blocks(rows: RowIndexSet, prefix: int) -> Iterator[list[pa.Array]]:
    for block, words in _words(rows):
        used = pc.indices_nonzero(words)
        numbers = pc.add(used.cast(pa.int64()), block * _WORDS_PER_BLOCK)
        yield [pc.bit_wise_or(numbers, prefix), _lists(words.take(used), 1)]


def _words(rows: RowIndexSet) -> Iterator[tuple[int, pa.Array]]:
    for block, bits in rows.to_blocks():
        if (block + 1) * _WORDS_PER_BLOCK > _BLOCK_MASK + 1:
            raise InternalError(f"A deletion vector marks row {block << 16}, beyond what a scan can address.")
        yield block, pa.Array.from_buffers(pa.int64(), _WORDS_PER_BLOCK, [None, pa.py_buffer(bits)])


def _lists(words: pa.Array, length: int) -> pa.Array:
    offsets = pa.array(range(0, len(words) + 1, length), pa.int32())
    return pa.ListArray.from_arrays(offsets, words)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value
