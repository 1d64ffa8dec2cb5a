"""Does Z85 text mean the bytes that the other engines mean by it?"""

from __future__ import annotations

import random

import pytest
from tests.support.deletion_vector_files import z85

from ebbtide.errors import RequestError
from ebbtide.protocol import base85

VECTORS = [
    ("01020304", "0rJua"),
    ("864FD26FB559F75B", "HelloWorld"),
    ("d2c639aa8816431aaaf6d3fe2512ff61", "^-aqEH.-t@S}K{vb[*k^"),
    ("61d16c75699446b7a15b8b538852e50e", "vBn[lx{q8@P<9BNH/isA"),
    ("00000000", "00000"),
    ("ffffffff", "%nSc0"),
    ("", ""),
]


@pytest.mark.parametrize(("data", "text"), VECTORS)
def test_known_vectors_encode_and_decode(data, text):
    assert base85.encode(bytes.fromhex(data)) == text
    assert base85.decode(text) == bytes.fromhex(data)


def test_encoding_agrees_with_an_independent_encoder():
    data = random.Random(7).randbytes(4096)
    assert base85.encode(data) == z85(data)
    assert base85.decode(z85(data)) == data


@pytest.mark.parametrize("length", range(9))
def test_input_that_is_no_multiple_of_four_is_padded_with_zeros(length):
    data = bytes(range(1, length + 1))
    text = base85.encode(data)
    assert len(text) == base85.encoded_length(length)
    assert base85.decode(text) == data + bytes(-length % 4)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 19])
def test_text_that_is_no_multiple_of_five_is_refused(length):
    with pytest.raises(RequestError, match="multiple of 5"):
        base85.decode("0" * length)


@pytest.mark.parametrize(
    "character", ["~", '"', " ", "\\", "'", ",", ";", "_", "`", "|", "\n", "\x00", "é", "\ud800", "😀"]
)
def test_character_outside_the_alphabet_is_refused_and_named(character):
    with pytest.raises(RequestError, match="Not valid Z85") as refused:
        base85.decode("0rJu" + character)
    assert repr(character) in str(refused.value)


@pytest.mark.parametrize("text", ["%nSc1", "#####", "00000#####"])
def test_group_beyond_32_bits_is_refused_rather_than_cut(text):
    with pytest.raises(RequestError, match="32 bits"):
        base85.decode(text)
