"""How are the columns of a checkpoint file read without trusting the file?

`ParquetSource` opens one Parquet object of the log and returns rows of one action's struct, only the requested columns.
Numbers in the footer are checked against the file's real length. The page headers are read before any page is decoded
(`parquet_pages`), and what they state must fit the checkpoint's `MemoryBudget`. Strings are checked to be UTF-8, page
checksums are verified where the file has them, and every error of pyarrow becomes a CorruptTableError.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ebbtide.errors import CorruptTableError, DeltaError
from ebbtide.log.memory_budget import MemoryBudget
from ebbtide.log.parquet_pages import ChunkSize, RowGroup, footer_length, measure_chunk, quick_measure, row_groups
from ebbtide.log.thrift_compact import MalformedThriftError
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["ParquetSource", "translate_errors"]

# Up to this size, one request for the whole object is cheaper than several for the columns.
_WHOLE_READ_BYTES = 64 * 1024 * 1024
# The footer describes a few dozen columns and some thousand row groups; these bounds are far above any real one.
_THRIFT_STRING_BYTES = 64 * 1024 * 1024
_THRIFT_CONTAINER_ITEMS = 4 * 1024 * 1024
# Footers are a few kilobytes, or some hundred for a very large checkpoint.
_FOOTER_READ_BYTES = 256 * 1024
# Values that cannot be measured in advance are decoded this much at a time, just to measure them.
_COUNTED_AT_ONCE_BYTES = 32 * 1024 * 1024


@contextmanager
def translate_errors(source: str) -> Iterator[None]:
    """Turn what pyarrow raises on broken bytes into CorruptTableError."""
    try:
        yield
    except DeltaError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        # pyarrow uses many builtin errors: Arrow's own, OSError for Thrift and codecs, UnicodeError, ...
        raise CorruptTableError(f"{source} is not a readable Parquet checkpoint: {error}") from error


class _RangeFile(io.RawIOBase):
    """A large object as a file, so that only the requested columns are fetched."""

    def __init__(self, store: ObjectStore, meta: ObjectMeta) -> None:
        self._store = store
        self._meta = meta
        self._position = 0
        # By start offset: the footer, or column chunks that were measured and are about to be decoded.
        self.fetched: dict[int, bytes] = {}

    def fetch(self, start: int, length: int) -> bytes:
        """Fetch bytes that the next `read` of this range gets without another request."""
        self.fetched[start] = self._store.read_range(self._meta.path, start, length)
        return self.fetched[start]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._meta.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._meta.size - self._position)
        length = left if size < 0 else min(size, left)
        data = self._find_fetched(length)
        if data is None:
            data = self._store.read_range(self._meta.path, self._position, length)
        self._position += len(data)
        return data

    def _find_fetched(self, length: int) -> bytes | None:
        for start, data in self.fetched.items():
            offset = self._position - start
            if offset >= 0 and offset + length <= len(data):
                return data[offset : offset + length]
        return None


class ParquetSource:
    def __init__(self, store: ObjectStore, meta: ObjectMeta, budget: MemoryBudget) -> None:
        self.name = meta.path
        self._budget = budget
        self._whole: memoryview | None = None
        self._ranges: _RangeFile | None = None
        if meta.size <= _WHOLE_READ_BYTES:
            data = store.read(meta.path, max_bytes=_WHOLE_READ_BYTES)
            self._whole = memoryview(data)
            self._size = len(data)
        else:
            self._ranges = _RangeFile(store, meta)
            self._size = meta.size
        budget.add_file(self._size)
        with translate_errors(self.name):
            self._groups = self._read_footer()
            self._file = self._open_file()
            self._schema = self._file.schema_arrow
            schema = self._file.schema
            self._columns = [schema.column(index) for index in range(len(schema.names))]
            self._paths = [column.path for column in self._columns]
            self._check_footer()
        if self._ranges is not None:
            self._ranges.fetched.clear()

    def _read_footer(self) -> list[RowGroup]:
        try:
            end = self._bytes(max(0, self._size - _FOOTER_READ_BYTES), min(self._size, _FOOTER_READ_BYTES))
            length = footer_length(end) + 8
            if length > len(end):
                end = self._bytes(max(0, self._size - length), min(self._size, length))
            return row_groups(end[max(0, len(end) - length) :])
        except MalformedThriftError as error:
            raise CorruptTableError(f"{self.name} has a damaged footer: {error}") from error

    def _bytes(self, start: int, length: int) -> memoryview:
        if self._whole is not None:
            return self._whole[start : start + length]
        assert self._ranges is not None, "a file that is not read whole is read in ranges"
        return memoryview(self._ranges.fetch(start, length))

    def _open_file(self, *, as_dictionary: str | None = None) -> pq.ParquetFile:
        is_whole = self._ranges is None
        file = pa.BufferReader(self._whole) if is_whole else pa.PythonFile(self._ranges, mode="r")
        return pq.ParquetFile(
            file,
            read_dictionary=None if as_dictionary is None else [as_dictionary],
            coerce_int96_timestamp_unit="us",
            thrift_string_size_limit=_THRIFT_STRING_BYTES,
            thrift_container_size_limit=_THRIFT_CONTAINER_ITEMS,
            page_checksum_verification=True,
        )

    def _check_footer(self) -> None:
        """A broken footer may claim any number of rows; each action of a checkpoint takes more than one byte."""
        num_rows = self._file.metadata.num_rows
        in_groups = [group.num_rows for group in self._groups]
        if num_rows > self._size or min(in_groups, default=0) < 0 or sum(in_groups) != num_rows:
            raise CorruptTableError(
                f"{self.name} claims {num_rows} rows, {sum(in_groups)} of them in row groups, in {self._size} bytes; "
                "its footer is damaged"
            )
        if any(len(group.chunks) != len(self._columns) for group in self._groups):
            raise CorruptTableError(f"{self.name} has a row group without all columns; its footer is damaged")

    def children(self, action: str) -> pa.StructType | None:
        """The struct of an action (`add`, `protocol`, ...) as the file declares it; None when it has no such column."""
        index = self._schema.get_field_index(action)
        if index < 0:
            return None
        struct = self._schema.field(index).type
        if not pa.types.is_struct(struct):
            raise CorruptTableError(f"column '{action}' of {self.name} is {struct}, not a struct")
        return struct

    def rows(self, action: str, children: Sequence[str] | None = None) -> list[pa.StructArray]:
        """The non-null values of an action's column, with the given children (None: all) of those that exist."""
        struct = self.children(action)
        if struct is None:
            return []
        present = {field.name for field in struct}
        wanted = sorted(present) if children is None else [child for child in children if child in present]
        if not wanted:
            return []
        self._budget.free(self.name, action)
        leaves = self._leaves(action, set(wanted))
        columns = [f"{action}.{child}" for child in wanted]
        groups = range(len(self._groups))
        with translate_errors(self.name):
            if self._ranges is None:
                self._check_memory(groups, leaves)
                return self._actions(self._file.read(columns), action)
            rows = []
            for group in groups:
                self._check_memory([group], leaves)
                rows += self._actions(self._file.read_row_group(group, columns), action)
                self._ranges.fetched.clear()
            return rows

    def _actions(self, table: pa.Table, action: str) -> list[pa.StructArray]:
        if not table.num_columns:
            return []
        self._budget.spend(self.name, action, table.nbytes)
        column = table.column(action)
        column.validate(full=True)
        return [_drop_nulls(chunk) for chunk in column.chunks if chunk.null_count < len(chunk)]

    def _leaves(self, action: str, wanted: set[str]) -> list[int]:
        """The Parquet columns below the given children of an action."""
        return [
            index
            for index, path in enumerate(self._paths)
            if path.startswith(f"{action}.") and path[len(action) + 1 :].partition(".")[0] in wanted
        ]

    # --- memory -------------------------------------------------------------------------------------------------------

    def _check_memory(self, groups: Sequence[int], columns: list[int]) -> None:
        """CorruptTableError when decoding these columns of these row groups would pass the budget."""
        left = self._budget.left()
        sizes = {}
        needed = 0
        for group in groups:
            for column in columns:
                size = self._measure(self._groups[group], column, left - needed)
                sizes[group, column] = size
                needed += size.stored_bytes
                if needed > left:
                    raise self._budget.refusal(self.name)
        if sum(size.most_bytes for size in sizes.values()) <= left:
            return
        for (group, column), size in sizes.items():
            if size.num_repeated:
                needed += self._repeated_bytes(group, column, size, left - needed)
                if needed > left:
                    raise self._budget.refusal(self.name)

    def _measure(self, group: RowGroup, column: int, left: int) -> ChunkSize:
        chunk = group.chunks[column]
        schema = self._columns[column]
        if chunk.start < 0 or chunk.length < 0 or chunk.start + chunk.length > self._size:
            raise CorruptTableError(f"{self.name} names bytes behind its end; its footer is damaged")
        if not schema.max_repetition_level:
            size = quick_measure(chunk, num_rows=group.num_rows)
            if size is not None:
                return size
        data = self._bytes(chunk.start, chunk.length)
        return measure_chunk(chunk, schema, data, source=self.name, max_page_bytes=left)

    def _repeated_bytes(self, group: int, column: int, size: ChunkSize, left: int) -> int:
        """The exact bytes of the values, where the bound was too high to tell; stops counting beyond `left`."""
        schema = self._columns[column]
        if not size.has_prefixes and schema.physical_type == "BYTE_ARRAY":
            return _bytes_of_references(self._open_file(as_dictionary=schema.path).read_row_group(group, [schema.path]))
        if schema.max_repetition_level:
            # One row may hold any number of such values, so they cannot be counted a few at a time.
            return size.num_repeated * size.longest_repeated
        rows_at_once = max(1, _COUNTED_AT_ONCE_BYTES // max(1, size.longest_repeated))
        total = 0
        for batch in self._file.iter_batches(rows_at_once, row_groups=[group], columns=[schema.path]):
            total += batch.nbytes
            if total > left:
                break
        return total


def _bytes_of_references(table: pa.Table) -> int:
    """The bytes of a dictionary-encoded column once each reference is replaced by its value."""
    total = 0
    for chunk in table.column(0).chunks:
        values = chunk
        while not pa.types.is_dictionary(values.type):
            # The one requested column, below structs, lists and maps.
            values = values.flatten()[0] if pa.types.is_struct(values.type) else values.flatten()
        lengths = pc.binary_length(values.dictionary).cast(pa.int64())
        total += pc.sum(lengths.take(values.indices)).as_py() or 0
    return total


def _drop_nulls(chunk: pa.StructArray) -> pa.StructArray:
    """The non-null values; a view where they are adjacent, as in most writers' checkpoints."""
    if not chunk.null_count:
        return chunk
    positions = pc.indices_nonzero(chunk.is_valid())
    first, last = positions[0].as_py(), positions[-1].as_py()
    return chunk.slice(first, len(positions)) if last - first + 1 == len(positions) else chunk.take(positions)
