"""How does a test put a deletion vector on disk or into a log line, without the code under test?

The bitmap is `pyroaring`'s; the framing and the text encoding are written here from the protocol, on purpose a second
time, so that a mistake in `ebbtide.deletion_vectors` cannot hide behind the same mistake here.
"""

from __future__ import annotations

import base64
import string
import struct
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

__all__ = ["VectorFile", "inline_descriptor", "payload"]

MAGIC = 1681511377
FILE_VERSION = b"\x01"
# Same arithmetic, other alphabet: Python's base85 (RFC 1924) and Z85 differ only in the characters of the digits.
_RFC1924 = (string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~").encode()
_Z85 = (string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#").encode()
_TO_Z85 = bytes.maketrans(_RFC1924, _Z85)


def payload(row_indexes: Iterable[int]) -> bytes:
    """Magic number and portable roaring bytes of a set of row indexes."""
    return struct.pack("<i", MAGIC) + BitMap64(row_indexes).serialize()


def inline_descriptor(row_indexes: Iterable[int]) -> dict[str, Any]:
    rows = set(row_indexes)
    data = payload(rows)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(data),
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def z85(data: bytes) -> str:
    padded = data + bytes(-len(data) % 4)
    return base64.b85encode(padded).translate(_TO_Z85).decode()


class VectorFile:
    """One `.bin` file below a table; every vector added to it gets its own place."""

    def __init__(self, table: Path, *, prefix: str = "") -> None:
        self._id = uuid.uuid4()
        self._prefix = prefix
        self._content = FILE_VERSION
        self.path = table / prefix / f"deletion_vector_{self._id}.bin"
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, row_indexes: Iterable[int], *, storage_type: str = "u") -> dict[str, Any]:
        """Append a vector and describe it: `u` by the file's UUID, `p` by the file's absolute URL."""
        rows = set(row_indexes)
        data = payload(rows)
        offset = len(self._content)
        self._content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        self.path.write_bytes(self._content)
        by_uuid = self._prefix + z85(self._id.bytes)
        return {
            "storageType": storage_type,
            "pathOrInlineDv": by_uuid if storage_type == "u" else self.path.absolute().as_uri(),
            "offset": offset,
            "sizeInBytes": len(data),
            "cardinality": len(rows),
        }
