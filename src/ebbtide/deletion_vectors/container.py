"""How are several deletion vectors laid out in one `.bin` file?

    byte 0   format version, 1
    then     per vector:  u32 size | payload | u32 CRC-32 of the payload

The framing is big endian, the payload (`RowIndexSet.serialize`) little endian. A descriptor's `offset` is the position
of the size field, so the first vector of a file is at 1. Version, size and checksum are checked on every read.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-file-storage-format
"""

from __future__ import annotations

import struct
import zlib

from ebbtide.errors import CorruptDeletionVectorError, RequestError

__all__ = ["DEFAULT_OFFSET", "FORMAT_VERSION", "FRAMING_BYTES", "VERSION_HEADER", "check_version", "frame", "unframe"]

FORMAT_VERSION = 1
VERSION_HEADER = bytes([FORMAT_VERSION])
# A size before the payload and a checksum after it.
FRAMING_BYTES = 8
# Where a vector without an offset must be: right after the version, or the version would be part of its size.
DEFAULT_OFFSET = 1

_MAX_PAYLOAD_BYTES = 2**31 - 1


def frame(payload: bytes) -> bytes:
    """One vector as stored in the file: `FRAMING_BYTES` longer than its payload."""
    if len(payload) > _MAX_PAYLOAD_BYTES:
        raise RequestError(f"A deletion vector of {len(payload)} bytes is too large: the format ends at 2 GiB.")
    return struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))


def check_version(first_byte: bytes, *, where: str) -> None:
    """`CorruptDeletionVectorError` unless the file starts with the one version that exists."""
    if first_byte != VERSION_HEADER:
        # The byte itself is not shown: a path in the log can lead to any file on the machine.
        found = "another version" if first_byte else "no bytes"
        raise CorruptDeletionVectorError(f"{where} has {found}; deletion-vector files of version 1 can be read.")


def unframe(framed: bytes, size_in_bytes: int, *, where: str) -> bytes:
    """The payload of the vector whose frame starts `framed`; bytes after the frame are ignored."""
    if len(framed) < 4:
        raise CorruptDeletionVectorError(f"{where} ends before the size of the deletion vector.")
    (stored_size,) = struct.unpack_from(">I", framed)
    if stored_size != size_in_bytes:
        raise CorruptDeletionVectorError(
            f"{where} holds a deletion vector of another size than the {size_in_bytes} bytes that the log says.",
            error_class="DELTA_DELETION_VECTOR_SIZE_MISMATCH",
        )
    payload = framed[4 : 4 + size_in_bytes]
    if len(framed) < size_in_bytes + FRAMING_BYTES:
        raise CorruptDeletionVectorError(f"{where} ends inside the deletion vector of {size_in_bytes} bytes.")
    (stored_checksum,) = struct.unpack_from(">I", framed, 4 + size_in_bytes)
    checksum = zlib.crc32(payload)
    if stored_checksum != checksum:
        raise CorruptDeletionVectorError(
            f"{where} holds a deletion vector whose checksum is not the one that is stored beside it.",
            error_class="DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH",
        )
    return payload
