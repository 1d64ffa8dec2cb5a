"""How do bytes become the Z85 text that a Delta log can carry, and back?

Z85 turns four bytes (a big-endian 32-bit number) into five printable characters, most significant digit first. Delta
uses it for the UUID of a deletion-vector file (16 bytes, 20 characters) and for vectors kept inline in the log. The
text carries no length: input is padded with zero bytes to a multiple of four, and the reader has to know how many
count (`sizeInBytes` of the descriptor).

    01 02 03 04               <->  0rJua
    86 4F D2 6F B5 59 F7 5B   <->  HelloWorld

Text that is not Z85 raises `RequestError`. So does a group that exceeds 32 bits, which the reference silently cuts: no
encoder makes one, so it can only be damage.
"""

from __future__ import annotations

import re
import struct

from ebbtide.errors import RequestError

__all__ = ["ALPHABET", "decode", "encode", "encoded_length"]

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

_BYTES_PER_GROUP = 4
_CHARS_PER_GROUP = 5
_FOREIGN_CHARACTER = re.compile(f"[^{re.escape(ALPHABET)}]")
_DIGIT_OF_CHARACTER = bytes.maketrans(ALPHABET.encode("ascii"), bytes(range(len(ALPHABET))))
_CHARACTER_OF_DIGIT = bytes.maketrans(bytes(range(len(ALPHABET))), ALPHABET.encode("ascii"))


def encoded_length(byte_count: int) -> int:
    """How many characters `encode` makes from that many bytes."""
    return -(-byte_count // _BYTES_PER_GROUP) * _CHARS_PER_GROUP


def encode(data: bytes) -> str:
    """The Z85 text of `data`, zero-padded on the right to a multiple of four bytes."""
    padded = data + bytes(-len(data) % _BYTES_PER_GROUP)
    digits = bytearray(encoded_length(len(data)))
    remaining = list(struct.unpack(f">{len(padded) // _BYTES_PER_GROUP}I", padded))
    for position in range(_CHARS_PER_GROUP - 1, -1, -1):
        digits[position::_CHARS_PER_GROUP] = bytes(value % 85 for value in remaining)
        remaining = [value // 85 for value in remaining]
    return digits.translate(_CHARACTER_OF_DIGIT).decode("ascii")


def decode(text: str) -> bytes:
    """Every byte that `text` stands for, padding included; `RequestError` when it is not Z85."""
    if len(text) % _CHARS_PER_GROUP:
        raise RequestError(f"Not valid Z85: its length must be a multiple of 5 and is {len(text)}.")
    foreign = _FOREIGN_CHARACTER.search(text)
    if foreign is not None:
        raise RequestError(
            f"Not valid Z85: character {foreign.group()!r} at position {foreign.start()} is not in the alphabet."
        )
    digits = text.encode("ascii").translate(_DIGIT_OF_CHARACTER)
    columns = [digits[position::_CHARS_PER_GROUP] for position in range(_CHARS_PER_GROUP)]
    groups = [(((a * 85 + b) * 85 + c) * 85 + d) * 85 + e for a, b, c, d, e in zip(*columns, strict=True)]
    try:
        return struct.pack(f">{len(groups)}I", *groups)
    except struct.error as error:
        raise RequestError("Not valid Z85: a group of five characters exceeds 32 bits.") from error
