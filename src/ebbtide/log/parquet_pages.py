"""How large does a column chunk of a Parquet file become when it is decoded?

A footer only claims sizes. What counts is the header of each page: the reader allocates the decompressed size that it
states, and reads as many values as it states. So the headers are read before anything is decoded. A repeated value also
takes less space in the file than in memory: a dictionary entry is stored once and used many times, and values with a
common prefix store it once. `ChunkSize.longest_repeated` bounds one such value.

https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift, in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.errors import CorruptTableError
from ebbtide.log.thrift_compact import Fields, MalformedThriftError, read_struct

__all__ = ["Chunk", "ChunkSize", "RowGroup", "footer_length", "measure_chunk", "quick_measure", "row_groups"]

# What a value takes besides its own bytes: an offset or a fixed-width number, validity, levels.
_BYTES_PER_VALUE: Final = 16
_MAGIC: Final = b"PAR1"
_FOOTER_END_BYTES: Final = 8
# FileMetaData: row groups of columns, and per column chunk what its pages need; encryption must be absent.
_CHUNK_FIELDS: Final[Fields] = {3: {4: None, 5: None, 7: None, 9: None, 11: None}, 8: {}}
_FOOTER_FIELDS: Final[Fields] = {3: None, 4: {1: _CHUNK_FIELDS, 3: None}}
_CODECS: Final = {0: "UNCOMPRESSED", 1: "SNAPPY", 2: "GZIP", 4: "BROTLI", 6: "ZSTD"}
_PAGE_FIELDS: Final[Fields] = {1: None, 2: None, 3: None, 5: {1: None, 2: None}, 8: {1: None, 4: None}}
_DICTIONARY_PAGE: Final = 2
# Page type -> the header field that describes it, and the field of the encoding within that.
_DATA_PAGES: Final = {0: (5, 2), 3: (8, 4)}
_DICTIONARY_ENCODINGS: Final = frozenset({2, 8})
_DELTA_BYTE_ARRAY: Final = 7
# Below this the size of the whole dictionary is a good enough bound for one entry.
_WORTH_A_LOOK_BYTES: Final = 64 * 1024 * 1024
_NOT_WORTH_A_LOOK_BYTES: Final = 1024 * 1024
_MOST_EXPANSION: Final = {"UNCOMPRESSED": 1, "SNAPPY": 22}
_LENGTH: Final = struct.Struct("<I")
_ARROW_CODECS: Final = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """What decoding one column chunk can take."""

    page_bytes: int = 0
    num_values: int = 0
    # The longest value that the chunk may repeat without storing it again; 0 when it has none.
    longest_repeated: int = 0
    # How many values are stored as references to such a value.
    num_repeated: int = 0
    # Whether values share prefixes; otherwise repeated values are in a dictionary.
    has_prefixes: bool = False

    @property
    def stored_bytes(self) -> int:
        """A bound for everything but repeated values; never above what the headers state."""
        return self.page_bytes + self.num_values * _BYTES_PER_VALUE

    @property
    def most_bytes(self) -> int:
        """A bound for everything, far too high when one long value is among many short ones."""
        return self.stored_bytes + self.num_repeated * self.longest_repeated


class Chunk(NamedTuple):
    """A column of a row group: where its pages are, as Arrow finds them, and what the footer says about them."""

    start: int
    length: int
    num_values: int
    # "" for a codec that is not decoded here.
    compression: str


class RowGroup(NamedTuple):
    num_rows: int
    chunks: list[Chunk]


def footer_length(end: bytes | memoryview) -> int:
    """The size of the footer without its last eight bytes, from the last bytes of the file."""
    if len(end) < _FOOTER_END_BYTES or end[-4:] != _MAGIC:
        raise MalformedThriftError("the file does not end like a Parquet file")
    return int.from_bytes(end[-8:-4], "little")


def row_groups(footer: bytes | memoryview) -> list[RowGroup]:
    try:
        groups = read_struct(footer, 0, _FOOTER_FIELDS)[0][4]
        return [RowGroup(group[3], [_chunk(chunk) for chunk in group[1]]) for group in groups]
    except (KeyError, TypeError) as error:
        raise MalformedThriftError("a number is missing in the footer") from error


def _chunk(chunk: dict[int, Any]) -> Chunk:
    if 8 in chunk:
        raise MalformedThriftError("a column is encrypted")
    details = chunk[3]
    start = details[9]
    dictionary = details.get(11, 0)
    if 0 < dictionary < start:
        start = dictionary
    return Chunk(start, details[7], details[5], _CODECS.get(details[4], ""))


def quick_measure(chunk: Chunk, *, num_rows: int) -> ChunkSize | None:
    """The size of a small chunk without repeated fields, from the footer alone; None when its pages must be read.

    Arrow takes at most one value per row from such a chunk, and these codecs cannot expand bytes any further.
    """
    expansion = _MOST_EXPANSION.get(chunk.compression)
    if expansion is None:
        return None
    most_page_bytes = expansion * chunk.length
    size = ChunkSize(most_page_bytes, num_rows, most_page_bytes, num_rows)
    return size if size.most_bytes <= _NOT_WORTH_A_LOOK_BYTES else None


def measure_chunk(
    chunk: Chunk, column: pq.ColumnSchema, data: memoryview, *, source: str, max_page_bytes: int
) -> ChunkSize:
    """Read the page headers in `data`, the bytes of the chunk. The first page above `max_page_bytes` ends the count."""
    page_bytes = num_values = num_repeated = prefixed = position = 0
    dictionary: _Dictionary | None = None
    while position < len(data) and num_values < chunk.num_values:
        page, body = _page(data, position, column, source)
        page_bytes += page.decompressed
        if page.decompressed > max_page_bytes:
            return ChunkSize(page_bytes, num_values)
        position = body + page.compressed
        num_values += page.num_values
        if page.kind == _DICTIONARY_PAGE:
            dictionary = _Dictionary(data[body:position], page, chunk.compression)
        elif page.encoding == _DELTA_BYTE_ARRAY:
            num_repeated += page.num_values
            prefixed = max(prefixed, page.decompressed)
        elif page.encoding in _DICTIONARY_ENCODINGS:
            num_repeated += page.num_values
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return ChunkSize(page_bytes, num_values, column.length, num_values)
    if column.physical_type != "BYTE_ARRAY" or not num_repeated:
        return ChunkSize(page_bytes, num_values)
    longest = 0
    if dictionary is not None:
        longest = dictionary.page.decompressed
        if longest * num_repeated > _WORTH_A_LOOK_BYTES:
            longest = dictionary.longest_entry(column, source)
    return ChunkSize(page_bytes, num_values, max(longest, prefixed), num_repeated, has_prefixes=prefixed > 0)


class _Page(NamedTuple):
    kind: int
    decompressed: int
    compressed: int
    # 0 for a dictionary page: its entries are counted where they are used.
    num_values: int
    encoding: int


def _page(data: memoryview, position: int, column: pq.ColumnSchema, source: str) -> tuple[_Page, int]:
    """The header at `position`, and the position after it."""
    try:
        header, body = read_struct(data, position, _PAGE_FIELDS)
        kind, decompressed, compressed = header[1], header[2], header[3]
        count = encoding = 0
        if kind in _DATA_PAGES:
            header_field, encoding_field = _DATA_PAGES[kind]
            details = header[header_field]
            count, encoding = details[1], details[encoding_field]
    except (MalformedThriftError, KeyError, TypeError) as error:
        raise CorruptTableError(f"{source} has a damaged page header in column '{column.path}'") from error
    if decompressed < 0 or compressed < 0 or count < 0:
        raise CorruptTableError(f"{source} has a page of negative size in column '{column.path}'")
    return _Page(kind, decompressed, compressed, count, encoding), body


class _Dictionary(NamedTuple):
    stored: memoryview
    page: _Page
    compression: str

    def longest_entry(self, column: pq.ColumnSchema, source: str) -> int:
        """The length of the longest text. Each text follows its length, which takes four bytes."""
        values = self._values(column, source)
        if values is None:
            return self.page.decompressed
        longest = position = 0
        end = len(values) - 3
        length_at = _LENGTH.unpack_from
        while position < end:
            (length,) = length_at(values, position)
            if length > longest:  # noqa: PLR1730 - max() costs as much as the rest of the loop
                longest = length
            position += 4 + length
        # Arrow refuses a length beyond the end as damage; here it must not count as a long value.
        return min(longest, len(values))

    def _values(self, column: pq.ColumnSchema, source: str) -> bytes | memoryview | None:
        if self.compression == "UNCOMPRESSED":
            return self.stored
        codec = _ARROW_CODECS.get(self.compression)
        if codec is None:
            # LZ4 has two framings under one name.
            return None
        try:
            return cast("bytes", pa.Codec(codec).decompress(self.stored, self.page.decompressed, asbytes=True))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptTableError(f"{source} has a damaged dictionary in column '{column.path}'") from error
