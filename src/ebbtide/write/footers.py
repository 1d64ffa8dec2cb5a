"""What does the footer of a Parquet file say?

At most two ranged reads, of the end of the file only. They go through the store, so this works wherever the table is.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.errors import CorruptTableError
from ebbtide.storage import ObjectMeta, ObjectStore

__all__ = ["read_footer"]

# Holds the footer of a file with a few hundred column chunks.
_FIRST_READ_BYTES = 64 * 1024
# The length of the footer and the magic number.
_TAIL_BYTES = 8
_MAGIC = b"PAR1"


def read_footer(store: ObjectStore, meta: ObjectMeta) -> pq.FileMetaData:
    """The parsed footer; CorruptTableError when the file has none that can be read."""
    tail = _last_bytes(store, meta, _FIRST_READ_BYTES)
    if len(tail) < _TAIL_BYTES or tail[-len(_MAGIC) :] != _MAGIC:
        raise _unreadable(meta, "it does not end as a Parquet file does")
    length = int.from_bytes(tail[-_TAIL_BYTES : -len(_MAGIC)], "little") + _TAIL_BYTES
    if length > meta.size:
        raise _unreadable(meta, "it is longer than the file")
    if length > len(tail):
        tail = _last_bytes(store, meta, length)
    try:
        # pyarrow looks for the footer from the end, and the footer alone is all it needs.
        return pq.read_metadata(pa.BufferReader(tail[-length:]))
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(meta, str(error)) from error


def _last_bytes(store: ObjectStore, meta: ObjectMeta, length: int) -> bytes:
    start = max(0, meta.size - length)
    return store.read_range(meta.path, start, meta.size - start)


def _unreadable(meta: ObjectMeta, reason: str) -> CorruptTableError:
    return CorruptTableError(f"The footer of the data file {meta.path} ({meta.size} bytes) cannot be read: {reason}")
