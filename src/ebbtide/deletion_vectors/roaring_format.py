"""Are these bytes a well-formed set of row indexes?

CRoaring is fast because it trusts its input. A deletion vector comes from a table that may not be trusted, so this
module checks every header, length, order and count *before* CRoaring sees the bytes. What passes means the same rows to
every reader; anything else raises `CorruptDeletionVectorError`. Work and memory are proportional to the bytes that are
really there, never to a number that the bytes claim.

A payload is a little-endian magic number and 32-bit Roaring bitmaps ("buckets"), one per value of the upper 32 bits of
a row index. https://github.com/RoaringBitmap/RoaringFormatSpec

    portable   D1 D3 39 64   u64 count   count x (u32 key ascending, bitmap)
    native     D0 D3 39 64   u32 count   count x (u32 byte length, bitmap); the key is the ordinal   (legacy, read only)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from operator import add, lt
from typing import NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.errors import CorruptDeletionVectorError

__all__ = [
    "ARRAY_MAX_CARDINALITY",
    "BITMAP_BYTES",
    "NATIVE_MAGIC",
    "NO_RUN_COOKIE",
    "PORTABLE_MAGIC",
    "Bucket",
    "Container",
    "ContainerKind",
    "read_buckets",
    "containers_of",
]

PORTABLE_MAGIC = 1681511377
NATIVE_MAGIC = 1681511376

NO_RUN_COOKIE = 12346
_RUN_COOKIE = 12347
_OFFSETS_ALWAYS_FROM = 4  # bitmaps with run containers leave the offsets out when they have fewer containers
_MAX_CONTAINERS = 1 << 16
ARRAY_MAX_CARDINALITY = 4096
BITMAP_BYTES = 8192

# One bucket stands for four billion rows of one Parquet file. The limit keeps a hostile payload from causing minutes of
# work with millions of empty buckets, and is a thousand times what any file can hold.
_MAX_BUCKETS = 1 << 20

# Below this a Python loop beats the fixed cost of an Arrow kernel.
_ARROW_FROM = 256


class ContainerKind:
    ARRAY = 0
    BITMAP = 1
    RUN = 2


class Container(NamedTuple):
    """The part of a set that shares the upper 48 bits `key`; `start:stop` is where its body lies in the payload."""

    key: int
    kind: int
    cardinality: int
    start: int
    stop: int


class Bucket(NamedTuple):
    """The part of a set that shares the upper 32 bits `key`; `start:stop` is its 32-bit bitmap in the payload."""

    key: int
    cardinality: int
    start: int
    stop: int


def read_buckets(payload: bytes) -> list[Bucket]:
    """The non-empty buckets of a payload, ascending, every byte of them checked."""
    magic = _unpack("<I", payload, 0, "magic number")[0]
    if magic == PORTABLE_MAGIC:
        buckets = _portable_buckets(payload)
    elif magic == NATIVE_MAGIC:
        buckets = _native_buckets(payload)
    else:
        # What is there instead is not shown: a path in the log can lead to any file on the machine.
        _refuse(f"the magic number is not {PORTABLE_MAGIC}")
    return [bucket for bucket in buckets if bucket.cardinality]


def containers_of(payload: bytes, bucket: Bucket) -> Iterator[Container]:
    """The containers of one bucket, ascending; each is checked as it is yielded."""
    return _containers(payload, bucket.start, bucket.key << 16)


def _portable_buckets(payload: bytes) -> Iterator[Bucket]:
    (count,) = _unpack("<Q", payload, 4, "bucket count")
    position = 12
    _check_bucket_count(count, (len(payload) - position) // 12)
    last_key = -1
    for _ in range(count):
        (key,) = _unpack("<I", payload, position, "bucket key")
        if key <= last_key or key >= 1 << 31:
            _refuse(f"bucket key {key} after {last_key} is out of order or out of range")
        bucket = _bucket(payload, key, position + 4)
        yield bucket
        position, last_key = bucket.stop, key
    if position != len(payload):
        _refuse(f"{len(payload) - position} bytes follow the last bucket")


def _native_buckets(payload: bytes) -> Iterator[Bucket]:
    (count,) = _unpack("<I", payload, 4, "bucket count")
    position = 8
    _check_bucket_count(count, (len(payload) - position) // 12)
    for key in range(count):
        (length,) = _unpack("<I", payload, position, "bucket length")
        bucket = _bucket(payload, key, position + 4)
        if bucket.stop - bucket.start != length:
            _refuse(f"bucket {key} claims {length} bytes and has {bucket.stop - bucket.start}")
        yield bucket
        position = bucket.stop
    if position != len(payload):
        _refuse(f"{len(payload) - position} bytes follow the last bucket")


def _check_bucket_count(count: int, room: int) -> None:
    if count > room:
        _refuse(f"{count} buckets are claimed, there is room for {room}")
    if count > _MAX_BUCKETS:
        _refuse(f"{count} buckets are more than the {_MAX_BUCKETS} that Ebbtide accepts")


def _bucket(payload: bytes, key: int, start: int) -> Bucket:
    cardinality, stop = 0, 0
    for container in _containers(payload, start, key << 16):
        cardinality += container.cardinality
        stop = container.stop
    # An empty bitmap is its cookie and a count of zero.
    return Bucket(key, cardinality, start, stop or start + 8)


def _containers(payload: bytes, start: int, base_key: int) -> Iterator[Container]:
    """The containers of the 32-bit bitmap at `start`: header first, then body by body."""
    count, run_flags, position = _cookie(payload, start)
    header = _unpack(f"<{2 * count}H", payload, position, "container headers")
    position += 4 * count
    keys, cardinalities_less_one = header[0::2], header[1::2]
    if not all(map(lt, keys, islice(keys, 1, None))):
        _refuse("container keys are not ascending")
    offsets: tuple[int, ...] | None = None
    if not run_flags or count >= _OFFSETS_ALWAYS_FROM:
        offsets = _unpack(f"<{count}I", payload, position, "container offsets")
        position += 4 * count
    for index in range(count):
        if offsets is not None and offsets[index] != position - start:
            _refuse(f"container {index} starts at {position - start}, its header says {offsets[index]}")
        cardinality = cardinalities_less_one[index] + 1
        if run_flags and run_flags[index >> 3] >> (index & 7) & 1:
            kind, stop = ContainerKind.RUN, _check_runs(payload, position, cardinality)
        elif cardinality <= ARRAY_MAX_CARDINALITY:
            kind, stop = ContainerKind.ARRAY, _check_array(payload, position, cardinality)
        else:
            kind, stop = ContainerKind.BITMAP, _check_bitmap(payload, position, cardinality)
        yield Container(base_key | keys[index], kind, cardinality, position, stop)
        position = stop


def _cookie(payload: bytes, start: int) -> tuple[int, bytes, int]:
    """Container count, run flags (empty when no container can be a run) and the position after them."""
    (cookie,) = _unpack("<I", payload, start, "bitmap cookie")
    if cookie == NO_RUN_COOKIE:
        (count,) = _unpack("<I", payload, start + 4, "container count")
        if count > _MAX_CONTAINERS:
            _refuse(f"{count} containers are claimed, a bitmap has at most {_MAX_CONTAINERS}")
        return count, b"", start + 8
    if cookie & 0xFFFF == _RUN_COOKIE:
        count = (cookie >> 16) + 1
        stop = start + 4 + (count + 7) // 8
        if stop > len(payload):
            _refuse("the bytes end inside the run flags")
        return count, payload[start + 4 : stop], stop
    return _refuse("a bitmap does not begin with a known cookie")


def _check_array(payload: bytes, start: int, cardinality: int) -> int:
    stop = start + 2 * cardinality
    if stop > len(payload):
        _refuse("the bytes end inside an array container")
    if cardinality < _ARROW_FROM:
        values = struct.unpack_from(f"<{cardinality}H", payload, start)
        ascending = all(map(lt, values, islice(values, 1, None)))
    else:
        # The slice is a copy, so it is aligned as Arrow needs it.
        array = pa.Array.from_buffers(pa.uint16(), cardinality, [None, pa.py_buffer(payload[start:stop])])
        ascending = pc.all(pc.less(array[:-1], array[1:])).as_py()
    if not ascending:
        _refuse("the values of an array container are not ascending")
    return stop


def _check_bitmap(payload: bytes, start: int, cardinality: int) -> int:
    stop = start + BITMAP_BYTES
    if stop > len(payload):
        _refuse("the bytes end inside a bitmap container")
    bits_set = int.from_bytes(payload[start:stop], "little").bit_count()
    if bits_set != cardinality:
        _refuse(f"a bitmap container claims {cardinality} rows and has {bits_set}")
    return stop


def _check_runs(payload: bytes, start: int, cardinality: int) -> int:
    (run_count,) = _unpack("<H", payload, start, "run count")
    start += 2
    stop = start + 4 * run_count
    if stop > len(payload):
        _refuse("the bytes end inside the runs of a container")
    measure = _measure_with_python if run_count < _ARROW_FROM else _measure_with_arrow
    are_apart, highest, rows = measure(payload[start:stop])
    if not are_apart:
        _refuse("the runs of a container overlap, touch or are not ascending")
    if highest > 0xFFFF:
        _refuse("a run leaves its container")
    if rows != cardinality:
        _refuse(f"a run container claims {cardinality} rows and has {rows}")
    return stop


def _measure_with_python(runs: bytes) -> tuple[bool, int, int]:
    """Whether there is a gap between every two runs (touching runs are damage), the last row, the number of rows."""
    pairs = struct.unpack(f"<{len(runs) // 2}H", runs)
    starts, lengths_less_one = pairs[0::2], pairs[1::2]
    lasts = list(map(add, starts, lengths_less_one))
    are_apart = all(last + 1 < start for last, start in zip(lasts, islice(starts, 1, None), strict=False))
    return are_apart, lasts[-1] if lasts else 0, sum(lengths_less_one) + len(lasts)


def _measure_with_arrow(runs: bytes) -> tuple[bool, int, int]:
    """The same for many runs. A run read as one little-endian number is `length - 1` above `start`."""
    pairs = pa.Array.from_buffers(pa.uint32(), len(runs) // 4, [None, pa.py_buffer(runs)])
    starts = pc.bit_wise_and(pairs, pa.scalar(0xFFFF, pa.uint32()))
    lengths = pc.add(pc.shift_right(pairs, pa.scalar(16, pa.uint32())), pa.scalar(1, pa.uint32()))
    stops = pc.add(starts, lengths)
    are_apart = pc.all(pc.less(stops[:-1], starts[1:])).as_py()
    return are_apart, stops[-1].as_py() - 1, pc.sum(lengths).as_py()


def _unpack(layout: str, payload: bytes, position: int, what: str) -> tuple[int, ...]:
    try:
        return struct.unpack_from(layout, payload, position)
    except struct.error as error:
        raise CorruptDeletionVectorError(f"Not a deletion vector: the bytes end inside the {what}.") from error


def _refuse(reason: str) -> NoReturn:
    raise CorruptDeletionVectorError(f"Not a deletion vector: {reason}.")
