"""How are the columns of a checkpoint file read without trusting the file?

`ParquetSource` opens one Parquet object of the log and hands out rows of one action's struct, only the columns asked
for. Sizes that the file claims are checked against its real length, strings are checked to be UTF-8, page checksums are
verified where the writer left them, and whatever pyarrow raises leaves here as CorruptTableError.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ebbtide.errors import CorruptTableError, DeltaError
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["ParquetSource", "translated"]

# Up to here one request for the whole object is cheaper than several for the columns needed.
_WHOLE_READ_BYTES = 64 * 1024 * 1024
# The footer describes a few dozen columns and some thousand row groups; these bounds are far above any real one.
_THRIFT_STRING_BYTES = 64 * 1024 * 1024
_THRIFT_CONTAINER_ITEMS = 4 * 1024 * 1024


@contextmanager
def translated(source: str) -> Iterator[None]:
    """Turns what pyarrow raises over broken bytes into CorruptTableError."""
    try:
        yield
    except DeltaError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        # pyarrow spreads over the builtin families: Arrow's errors, OSError for Thrift and codecs, UnicodeError, ...
        raise CorruptTableError(f"{source} is not a readable Parquet checkpoint: {error}") from error


class _RangeFile(io.RawIOBase):
    """A large object as a file, so that columns nobody asked for are never fetched."""

    def __init__(self, store: ObjectStore, meta: ObjectMeta) -> None:
        self._store = store
        self._meta = meta
        self._position = 0

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
        data = self._store.read_range(self._meta.path, self._position, length)
        self._position += len(data)
        return data


class ParquetSource:
    def __init__(self, store: ObjectStore, meta: ObjectMeta) -> None:
        self.name = meta.path
        if meta.size <= _WHOLE_READ_BYTES:
            data = store.read(meta.path, max_bytes=_WHOLE_READ_BYTES)
            size, file = len(data), pa.BufferReader(data)
        else:
            size, file = meta.size, pa.PythonFile(_RangeFile(store, meta), mode="r")
        with translated(self.name):
            self._file = pq.ParquetFile(
                file,
                coerce_int96_timestamp_unit="us",
                thrift_string_size_limit=_THRIFT_STRING_BYTES,
                thrift_container_size_limit=_THRIFT_CONTAINER_ITEMS,
                page_checksum_verification=True,
            )
            # A broken footer may claim any number of rows; each action of a checkpoint takes more than one byte.
            if self._file.metadata.num_rows > size:
                raise CorruptTableError(
                    f"{self.name} claims {self._file.metadata.num_rows} rows in {size} bytes; its footer is damaged"
                )
            self._schema = self._file.schema_arrow

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
        with translated(self.name):
            table = self._file.read(columns=[f"{action}.{child}" for child in wanted], use_threads=True)
            if not table.num_columns:
                return []
            column = table.column(action)
            column.validate(full=True)
            return [_present(chunk) for chunk in column.chunks if chunk.null_count < len(chunk)]


def _present(chunk: pa.StructArray) -> pa.StructArray:
    """The non-null values; a view where they stand together, which is how most writers order a checkpoint."""
    if not chunk.null_count:
        return chunk
    positions = pc.indices_nonzero(chunk.is_valid())
    first, last = positions[0].as_py(), positions[-1].as_py()
    return chunk.slice(first, len(positions)) if last - first + 1 == len(positions) else chunk.take(positions)
