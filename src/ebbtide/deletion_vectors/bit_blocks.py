"""How do row indexes look as plain bits, the form that Spark's expressions read and write?

A *block* is 65,536 consecutive rows as 8,192 bytes: bit `i % 8` (lowest first) of byte `i // 8` is row
`block * 65536 + i`. Roaring keeps one container per block that has rows, but stores sparse ones as lists or runs.
Python must not loop over many rows, so the library does the conversion: a sparse block XORed with a half-full pattern
is half full itself, and half-full blocks are always plain bits. XOR with the pattern brings the block back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from pyroaring import BitMap64

from ebbtide.deletion_vectors.roaring_format import (
    ARRAY_MAX_CARDINALITY,
    BITMAP_BYTES,
    NO_RUN_COOKIE,
    PORTABLE_MAGIC,
    Container,
    ContainerKind,
    containers_of,
    read_buckets,
)

__all__ = ["BITS_PER_BLOCK", "bitmap_from_blocks", "blocks_of"]

BITS_PER_BLOCK = 8 * BITMAP_BYTES

# Every other bit. Sparse blocks have at most 4,096 rows or 2,047 runs, and neither can empty half of 65,536 bits.
_PATTERN = b"\xaa" * BITMAP_BYTES
_PATTERN_BITS = int.from_bytes(_PATTERN, "little")
_PATTERN_CARDINALITY = BITS_PER_BLOCK // 2

# Up to this many rows, setting bits one by one is faster than the detour through the pattern.
_SHORT = 256

# Blocks spelled out at a time: 4 MiB, however many there are.
_BATCH = 512


def blocks_of(bitmap: BitMap64) -> Iterator[tuple[int, bytes]]:
    """The non-empty blocks of a set as (block number, 8,192 bytes), ascending. Run-optimises `bitmap` in place."""
    bitmap.run_optimize()
    payload = struct.pack("<I", PORTABLE_MAGIC) + bitmap.serialize()
    for bucket in read_buckets(payload):
        containers = containers_of(payload, bucket)
        while batch := list(islice(containers, _BATCH)):
            yield from _spell_out(payload, batch, bitmap)


def bitmap_from_blocks(blocks: Iterable[tuple[int, int]]) -> BitMap64:
    """The set of (block number, 65,536 bits as an integer) pairs in any order; equal numbers are united."""
    result = BitMap64()
    pairs = iter(blocks)
    while batch := list(islice(pairs, _BATCH)):
        bits_of_block: dict[int, int] = {}
        for block, bits in batch:
            bits_of_block[block] = bits_of_block.get(block, 0) | bits
        result |= _bitmap_from_batch(bits_of_block)
    return result


def _spell_out(payload: bytes, containers: list[Container], bitmap: BitMap64) -> Iterator[tuple[int, bytes]]:
    patterned_keys = [container.key for container in containers if not (_is_plain(container) or _is_short(container))]
    patterned = (bitmap & _full(patterned_keys)) ^ _half_full(patterned_keys)
    spelled = {key: bits ^ _PATTERN_BITS for key, bits in _plain_containers(patterned)}
    for container in containers:
        if _is_plain(container):
            yield container.key, payload[container.start : container.stop]
        elif _is_short(container):
            values = struct.unpack_from(f"<{container.cardinality}H", payload, container.start)
            yield container.key, _bits_of_values(values)
        else:
            yield container.key, spelled[container.key].to_bytes(BITMAP_BYTES, "little")


def _is_plain(container: Container) -> bool:
    return container.kind == ContainerKind.BITMAP


def _is_short(container: Container) -> bool:
    return container.kind == ContainerKind.ARRAY and container.cardinality <= _SHORT


def _bits_of_values(values: tuple[int, ...]) -> bytes:
    bits = bytearray(BITMAP_BYTES)
    for value in values:
        bits[value >> 3] |= 1 << (value & 7)
    return bytes(bits)


def _plain_containers(bitmap: BitMap64) -> Iterator[tuple[int, int]]:
    payload = struct.pack("<I", PORTABLE_MAGIC) + bitmap.serialize()
    for bucket in read_buckets(payload):
        for container in containers_of(payload, bucket):
            assert container.kind == ContainerKind.BITMAP, "a half-full block is always plain bits"
            yield container.key, int.from_bytes(payload[container.start : container.stop], "little")


def _bitmap_from_batch(bits_of_block: dict[int, int]) -> BitMap64:
    dense: dict[int, tuple[int, bytes]] = {}
    patterned: dict[int, tuple[int, bytes]] = {}
    for block in sorted(bits_of_block):
        bits = bits_of_block[block]
        cardinality = bits.bit_count()
        if cardinality > ARRAY_MAX_CARDINALITY:
            dense[block] = (cardinality, bits.to_bytes(BITMAP_BYTES, "little"))
        elif cardinality:
            bits ^= _PATTERN_BITS
            patterned[block] = (bits.bit_count(), bits.to_bytes(BITMAP_BYTES, "little"))
    sparse = _from_plain_containers(patterned) ^ _half_full(list(patterned))
    return _from_plain_containers(dense) | sparse


def _half_full(keys: list[int]) -> BitMap64:
    return _from_plain_containers(dict.fromkeys(keys, (_PATTERN_CARDINALITY, _PATTERN)))


def _full(keys: list[int]) -> BitMap64:
    return _from_plain_containers(dict.fromkeys(keys, (BITS_PER_BLOCK, b"\xff" * BITMAP_BYTES)))


def _from_plain_containers(containers: dict[int, tuple[int, bytes]]) -> BitMap64:
    """The set of these containers. Keys ascend, and each container has more than 4,096 rows."""
    buckets = [(high, list(keys)) for high, keys in groupby(containers, key=lambda key: key >> 16)]
    parts = [struct.pack("<Q", len(buckets))]
    for high, keys in buckets:
        count = len(keys)
        parts.append(struct.pack("<III", high, NO_RUN_COOKIE, count))
        parts.extend(struct.pack("<HH", key & 0xFFFF, containers[key][0] - 1) for key in keys)
        body = 8 + 8 * count
        parts.append(struct.pack(f"<{count}I", *range(body, body + count * BITMAP_BYTES, BITMAP_BYTES)))
        parts.extend(containers[key][1] for key in keys)
    return BitMap64.deserialize(b"".join(parts))
