"""Is a deletion-vector file framed as the protocol says, and can a wrong frame pass?"""

from __future__ import annotations

import pytest

from ebbtide.deletion_vectors.container import VERSION_HEADER, check_version, frame, unframe
from ebbtide.errors import CorruptDeletionVectorError

# The whole file of kernel's `table-with-dv-small`: rows {0, 9}.
GOLDEN_PAYLOAD = bytes.fromhex("d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0000 0900")
GOLDEN_FILE = bytes.fromhex("01 00000024") + GOLDEN_PAYLOAD + bytes.fromhex("2a671846")
# Its `with-short-dv`: rows {0, 1, 2}.
SHORT_PAYLOAD = bytes.fromhex("d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0200 10000000 0000 0100 0200")


def test_golden_file_is_framed_byte_for_byte():
    assert VERSION_HEADER + frame(GOLDEN_PAYLOAD) == GOLDEN_FILE
    assert frame(SHORT_PAYLOAD)[-4:].hex() == "748ad0d0"


def test_golden_file_is_unframed():
    check_version(GOLDEN_FILE[:1], where="file")
    assert unframe(GOLDEN_FILE[1:], 36, where="file") == GOLDEN_PAYLOAD


def test_bytes_after_the_frame_are_the_next_vector():
    assert unframe(frame(GOLDEN_PAYLOAD) + frame(SHORT_PAYLOAD), 36, where="file") == GOLDEN_PAYLOAD


@pytest.mark.parametrize("first", [b"", b"\x00", b"\x02", b"\xff"])
def test_other_version_is_refused(first):
    with pytest.raises(CorruptDeletionVectorError, match="version 1 can be read"):
        check_version(first, where="file")


@pytest.mark.parametrize("size", [0, 35, 37, 2**31 - 1])
def test_other_size_is_a_size_mismatch(size):
    with pytest.raises(CorruptDeletionVectorError) as refused:
        unframe(GOLDEN_FILE[1:], size, where="file")
    assert refused.value.error_class == "DELTA_DELETION_VECTOR_SIZE_MISMATCH"


@pytest.mark.parametrize("position", range(4, 44))
def test_flipped_bit_is_a_checksum_mismatch(position):
    damaged = bytearray(GOLDEN_FILE[1:])
    damaged[position] ^= 0x10
    with pytest.raises(CorruptDeletionVectorError) as refused:
        unframe(bytes(damaged), 36, where="file")
    assert refused.value.error_class == "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH"


@pytest.mark.parametrize("length", range(44))
def test_frame_cut_anywhere_is_refused(length):
    with pytest.raises(CorruptDeletionVectorError, match="file ends"):
        unframe(GOLDEN_FILE[1 : 1 + length], 36, where="file")
