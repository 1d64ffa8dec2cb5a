"""How does a test spell a roaring bitmap byte by byte, sound or broken, without the code under test?

portable([(0, bitmap32([array(0, [0, 9])]))])    the 36 bytes of rows {0, 9}
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Part", "array", "bitmap", "bitmap32", "native", "portable", "runs"]

NO_RUN_COOKIE = 12346
RUN_COOKIE = 12347
EMPTY_BITMAP32 = struct.pack("<II", NO_RUN_COOKIE, 0)


class Part(NamedTuple):
    """One container: its 16-bit key, the cardinality that its header claims, its body, and whether it is runs."""

    key: int
    cardinality: int
    body: bytes
    is_run: bool = False


def array(key: int, values: Sequence[int], *, cardinality: int | None = None) -> Part:
    claimed = len(values) if cardinality is None else cardinality
    return Part(key, claimed, struct.pack(f"<{len(values)}H", *values))


def bitmap(key: int, bits: int, *, cardinality: int | None = None) -> Part:
    claimed = bits.bit_count() if cardinality is None else cardinality
    return Part(key, claimed, bits.to_bytes(8192, "little"))


def runs(key: int, ranges: Sequence[tuple[int, int]], *, cardinality: int | None = None) -> Part:
    """Ranges are (first, last), both inclusive."""
    claimed = sum(last - first + 1 for first, last in ranges) if cardinality is None else cardinality
    pairs = b"".join(struct.pack("<HH", first, last - first) for first, last in ranges)
    return Part(key, claimed, struct.pack("<H", len(ranges)) + pairs, is_run=True)


def bitmap32(parts: Sequence[Part], *, offset_error: int = 0, with_run_cookie: bool | None = None) -> bytes:
    has_runs = any(part.is_run for part in parts) if with_run_cookie is None else with_run_cookie
    count = len(parts)
    if has_runs:
        flags = sum(part.is_run << index for index, part in enumerate(parts))
        head = struct.pack("<I", RUN_COOKIE | (count - 1) << 16) + flags.to_bytes((count + 7) // 8, "little")
    else:
        head = struct.pack("<II", NO_RUN_COOKIE, count)
    head += b"".join(struct.pack("<HH", part.key, (part.cardinality - 1) & 0xFFFF) for part in parts)
    if not has_runs or count >= 4:
        position = len(head) + 4 * count + offset_error
        for part in parts:
            head += struct.pack("<I", position)
            position += len(part.body)
    return head + b"".join(part.body for part in parts)


def portable(buckets: Iterable[tuple[int, bytes]], *, count: int | None = None) -> bytes:
    spelled = [struct.pack("<I", key) + body for key, body in buckets]
    claimed = len(spelled) if count is None else count
    return bytes.fromhex("d1d33964") + struct.pack("<Q", claimed) + b"".join(spelled)


def native(bitmaps: Iterable[bytes], *, count: int | None = None) -> bytes:
    spelled = [struct.pack("<I", len(body)) + body for body in bitmaps]
    claimed = len(spelled) if count is None else count
    return bytes.fromhex("d0d33964") + struct.pack("<I", claimed) + b"".join(spelled)
