"""Is every way in which a serialized set can lie found before CRoaring sees it?"""

from __future__ import annotations

import struct
import time

import pytest
from tests.support.roaring_bytes import EMPTY_BITMAP32, array, bitmap, bitmap32, native, portable, runs

from ebbtide.deletion_vectors import MAX_ROW_INDEX, RowIndexSet
from ebbtide.errors import CorruptDeletionVectorError

HALF_FULL = int.from_bytes(b"\xaa" * 8192, "little")
MANY_RUNS = [(first, first + 9) for first in range(0, 65536 - 100, 20)]
ONE_ROW = bitmap32([array(0, [5])])
FOUR_PARTS = [array(0, [1, 2]), bitmap(1, HALF_FULL), runs(2, [(0, 9), (20, 29)]), array(3, [7])]


def rows_of(payload):
    return list(RowIndexSet.deserialize(payload))


# --- sound ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "rows"),
    [
        pytest.param(
            "d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0000 0900",
            [0, 9],
            id="spec {0, 9}",
        ),
        pytest.param(
            "d1d33964 0200000000000000 00000000 3a300000 00000000 01000000 3a300000 01000000 0000 0000 10000000 0500",
            [2**32 + 5],
            id="spec {2^32 + 5}, with the empty bucket that the reference writes",
        ),
        pytest.param("d1d33964 0000000000000000", [], id="no bucket"),
        pytest.param("d0d33964 00000000", [], id="no bucket, native"),
    ],
)
def test_published_bytes_are_read(payload, rows):
    assert rows_of(bytes.fromhex(payload)) == rows


def test_every_kind_of_container_is_read():
    rows = rows_of(portable([(0, bitmap32(FOUR_PARTS))]))
    odd_bits = [65536 + bit for bit in range(1, 65536, 2)]
    expected = [1, 2, *odd_bits, *range(131072, 131082), *range(131092, 131102), 196615]
    assert rows == expected


def test_few_run_containers_are_read_without_offsets():
    assert rows_of(portable([(0, bitmap32([runs(0, [(3, 5)]), array(9, [1])]))])) == [3, 4, 5, 9 * 65536 + 1]


def test_run_cookie_without_any_run_is_read():
    payload = portable([(0, bitmap32([array(0, [1]), array(1, [1])], with_run_cookie=True))])
    assert rows_of(payload) == [1, 65537]


def test_many_runs_are_read():
    expected = [row for first, last in MANY_RUNS for row in range(first, last + 1)]
    assert rows_of(portable([(0, bitmap32([runs(0, MANY_RUNS)]))])) == expected


def test_full_container_is_read_in_each_spelling():
    every_row = RowIndexSet.from_range(0, 65536)
    assert RowIndexSet.deserialize(portable([(0, bitmap32([runs(0, [(0, 65535)])]))])) == every_row
    assert RowIndexSet.deserialize(portable([(0, bitmap32([bitmap(0, 2**65536 - 1)]))])) == every_row


def test_native_format_counts_buckets_by_ordinal():
    payload = native([ONE_ROW, EMPTY_BITMAP32, bitmap32(FOUR_PARTS[:1])])
    assert rows_of(payload) == [5, 2**33 + 1, 2**33 + 2]


def test_highest_row_index_is_read():
    high, low = MAX_ROW_INDEX >> 32, MAX_ROW_INDEX & 0xFFFFFFFF
    payload = portable([(high, bitmap32([array(low >> 16, [low & 0xFFFF])]))])
    assert rows_of(payload) == [MAX_ROW_INDEX]


# --- broken -----------------------------------------------------------------------------------------------------------

BROKEN = {
    "nothing": b"",
    "magic cut short": b"\xd1\xd3\x39",
    "big-endian magic": bytes.fromhex("6439d3d0 00000001 0000001c"),
    "unknown magic": bytes(12),
    "no bucket count": bytes.fromhex("d1d33964 01000000"),
    "more buckets than bytes": portable([(0, ONE_ROW)], count=2),
    "2^60 buckets": portable([(0, ONE_ROW)], count=2**60),
    "negative bucket count": portable([(0, ONE_ROW)], count=2**64 - 1),
    "fewer buckets than bytes": portable([(0, ONE_ROW), (1, ONE_ROW)], count=1),
    "trailing byte": portable([(0, ONE_ROW)]) + b"\x00",
    "bucket keys repeated": portable([(3, ONE_ROW), (3, ONE_ROW)]),
    "bucket keys descending": portable([(4, ONE_ROW), (3, ONE_ROW)]),
    "bucket key with the top bit": portable([(1 << 31, ONE_ROW)]),
    "bucket above the limit": portable([(0x7FFFFFFF, ONE_ROW)]),
    "array above the limit": portable([(0x7FFFFFFE, bitmap32([array(0x8000, [0, 1])]))]),
    "runs above the limit": portable([(0x7FFFFFFE, bitmap32([runs(0x8000, [(0, 1)])]))]),
    "bitmap above the limit": portable([(0x7FFFFFFE, bitmap32([bitmap(0x8000, HALF_FULL)]))]),
    "unknown cookie": portable([(0, struct.pack("<II", 12345, 0))]),
    "high bits in the cookie": portable([(0, struct.pack("<II", 12346 | 1 << 16, 0))]),
    "no container count": portable([(0, struct.pack("<I", 12346))]),
    "too many containers": portable([(0, struct.pack("<II", 12346, 65537) + bytes(600_000))]),
    "2^32 - 1 containers": portable([(0, struct.pack("<II", 12346, 2**32 - 1))]),
    "containers without headers": portable([(0, struct.pack("<II", 12346, 9))]),
    "run flags cut short": portable([(0, struct.pack("<I", 12347 | 0xFFFF << 16) + bytes(8))]),
    "container keys repeated": portable([(0, bitmap32([array(1, [1]), array(1, [2])]))]),
    "container keys descending": portable([(0, bitmap32([array(2, [1]), array(1, [2])]))]),
    "offset wrong": portable([(0, bitmap32([array(0, [1])], offset_error=2))]),
    "offset wrong beside runs": portable([(0, bitmap32(FOUR_PARTS, offset_error=-1))]),
    "array descending": portable([(0, bitmap32([array(0, [9, 5])]))]),
    "array value repeated": portable([(0, bitmap32([array(0, [5, 5])]))]),
    "long array descending": portable([(0, bitmap32([array(0, [*range(1, 4096), 0])]))]),
    "long array value repeated": portable([(0, bitmap32([array(0, [*range(300), 299])]))]),
    "array cut short": portable([(0, bitmap32([array(0, [1, 2], cardinality=3)]))]),
    "array longer than claimed": portable([(0, bitmap32([array(0, [1, 2, 3], cardinality=2)]))]),
    "bitmap with fewer rows": portable([(0, bitmap32([bitmap(0, HALF_FULL, cardinality=40000)]))]),
    "bitmap with more rows": portable([(0, bitmap32([bitmap(0, HALF_FULL, cardinality=30000)]))]),
    "bitmap cut short": portable([(0, bitmap32([bitmap(0, HALF_FULL)])[:-1])]),
    "sparse bitmap": portable([(0, bitmap32([bitmap(0, 1)]))]),
    "runs overlap": portable([(0, bitmap32([runs(0, [(0, 5), (5, 9)])]))]),
    "runs touch": portable([(0, bitmap32([runs(0, [(0, 4), (5, 9)])]))]),
    "runs descending": portable([(0, bitmap32([runs(0, [(5, 9), (0, 3)])]))]),
    "runs cut short": portable([(0, bitmap32([runs(0, [(0, 5), (7, 9)])])[:-2])]),
    "run leaves its container": portable([(0, bitmap32([runs(0, [(65000, 66000)])]))]),
    "runs with other cardinality": portable([(0, bitmap32([runs(0, [(0, 5)], cardinality=5)]))]),
    "one of many runs overlaps": portable([(0, bitmap32([runs(0, [*MANY_RUNS[:-1], (MANY_RUNS[-2][1], 65535)])]))]),
    "two of many runs touch": portable([(0, bitmap32([runs(0, [*MANY_RUNS[:-1], (MANY_RUNS[-2][1] + 1, 65535)])]))]),
    "last of many runs leaves its container": portable([(0, bitmap32([runs(0, [*MANY_RUNS, (65500, 65600)])]))]),
    "many runs with other cardinality": portable([(0, bitmap32([runs(0, MANY_RUNS, cardinality=7)]))]),
    "no runs": portable([(0, bitmap32([runs(0, [], cardinality=65536)]))]),
    "native with more buckets": native([ONE_ROW], count=2),
    "native with 2^32 - 1 buckets": native([ONE_ROW], count=2**32 - 1),
    "native with fewer buckets": native([ONE_ROW, ONE_ROW], count=1),
    "native length too long": native([ONE_ROW + b"\x00"]),
    "native length too short": bytes.fromhex("d0d33964 01000000") + struct.pack("<I", len(ONE_ROW) - 1) + ONE_ROW,
}


@pytest.mark.parametrize("payload", BROKEN.values(), ids=BROKEN.keys())
def test_broken_bytes_are_refused(payload):
    with pytest.raises(CorruptDeletionVectorError, match="Not a deletion vector"):
        RowIndexSet.deserialize(payload)


def test_more_buckets_than_any_file_needs_are_refused_at_once():
    payload = portable([], count=2**20 + 1) + bytes(12 * (2**20 + 1))
    began = time.perf_counter()
    with pytest.raises(CorruptDeletionVectorError, match="more than"):
        RowIndexSet.deserialize(payload)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("cut", range(len(portable([(0, bitmap32(FOUR_PARTS[2:])), (7, ONE_ROW)]))))
def test_bytes_cut_anywhere_are_refused(cut):
    payload = portable([(0, bitmap32(FOUR_PARTS[2:])), (7, ONE_ROW)])
    with pytest.raises(CorruptDeletionVectorError):
        RowIndexSet.deserialize(payload[:cut])
