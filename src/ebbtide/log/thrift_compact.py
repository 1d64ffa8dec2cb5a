"""What does a struct in Thrift's compact protocol hold, read without trusting it?

Parquet's footer and page headers are such structs. `read_struct` returns the requested fields and skips the rest.
pyarrow could read the footer too, but some broken footers make it end the process instead of raising.
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["BYTES", "FLAG", "Fields", "MalformedThriftError", "read_struct"]

# The wanted fields of a struct, by number. Each has what is wanted of it: None for a number, its own wanted fields for
# a nested struct or a list of structs, or one of the two words below.
Fields = Mapping[int, Any]
# Bytes, or a list of them.
BYTES: Final = "bytes"
# True or false.
FLAG: Final = "flag"

_MAX_DEPTH: Final = 32
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS: Final = frozenset({4, 5, 6})
_UNWANTED: Final = "unwanted"


class MalformedThriftError(Exception):
    """The bytes are not such a struct. Callers turn this into a public error that names the file."""


def read_struct(data: bytes | memoryview, position: int, wanted: Fields) -> tuple[dict[int, Any], int]:
    """The wanted fields that are there and are of the wanted kind, and the position after the struct."""
    try:
        return _struct(data, position, wanted, 0)
    except IndexError as error:
        raise MalformedThriftError("the bytes end inside a struct") from error


def _struct(data: bytes | memoryview, position: int, wanted: Fields, depth: int) -> tuple[dict[int, Any], int]:
    _check_depth(depth)
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[position]
        position += 1
        if head == 0:
            return fields, position
        kind = head & 0x0F
        if head >> 4:
            number += head >> 4
        else:
            number, position = _zigzag(data, position)
        shape = wanted.get(number, _UNWANTED)
        if kind in _INTEGERS and shape is None:
            fields[number], position = _zigzag(data, position)
        elif kind == _STRUCT and isinstance(shape, Mapping):
            fields[number], position = _struct(data, position, shape, depth + 1)
        elif kind == _LIST and isinstance(shape, Mapping):
            fields[number], position = _structs(data, position, shape, depth)
        elif kind == _LIST and shape is BYTES:
            fields[number], position = _list_of_bytes(data, position)
        elif kind == _BINARY and shape is BYTES:
            fields[number], position = _bytes(data, position)
        elif kind in {_TRUE, _FALSE} and shape is FLAG:
            fields[number] = kind == _TRUE
        else:
            position = _skip(data, position, kind, depth)


def _structs(data: bytes | memoryview, position: int, wanted: Fields, depth: int) -> tuple[list[Any], int]:
    kind, count, position = _list_head(data, position)
    if kind != _STRUCT and count:
        raise MalformedThriftError("a list holds no structs")
    items = []
    for _ in range(count):
        item, position = _struct(data, position, wanted, depth + 1)
        items.append(item)
    return items, position


def _list_of_bytes(data: bytes | memoryview, position: int) -> tuple[list[bytes], int]:
    kind, count, position = _list_head(data, position)
    if kind != _BINARY and count:
        raise MalformedThriftError("a list holds no bytes")
    items = []
    for _ in range(count):
        item, position = _bytes(data, position)
        items.append(item)
    return items, position


def _bytes(data: bytes | memoryview, position: int) -> tuple[bytes, int]:
    length, position = _varint(data, position)
    if length > len(data) - position:
        raise MalformedThriftError("the bytes end inside a value")
    return bytes(data[position : position + length]), position + length


def _skip(data: bytes | memoryview, position: int, kind: int, depth: int) -> int:
    """The position after a value of that kind."""
    if kind in _INTEGERS:
        while data[position] >= 0x80:
            position += 1
        return position + 1
    if kind in {_TRUE, _FALSE}:
        return position
    if kind == _BINARY:
        length, position = _varint(data, position)
        return position + length
    if kind == _STRUCT:
        return _struct(data, position, {}, depth + 1)[1]
    if kind in {_LIST, _SET}:
        return _skip_list(data, position, depth)
    if kind in {_BYTE, _DOUBLE}:
        return position + (1 if kind == _BYTE else 8)
    raise MalformedThriftError(f"a field has the kind {kind}, which Parquet does not use")


def _skip_list(data: bytes | memoryview, position: int, depth: int) -> int:
    _check_depth(depth)
    kind, count, position = _list_head(data, position)
    if kind in {_TRUE, _FALSE}:
        # A boolean takes one byte in a list; as a field it is part of the head.
        return position + count
    for _ in range(count):
        position = _skip(data, position, kind, depth + 1)
    return position


def _list_head(data: bytes | memoryview, position: int) -> tuple[int, int, int]:
    head = data[position]
    count, position = head >> 4, position + 1
    if count == 15:
        count, position = _varint(data, position)
    return head & 0x0F, count, position


def _varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    while shift < 64:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise MalformedThriftError("a number is too long")


def _zigzag(data: bytes | memoryview, position: int) -> tuple[int, int]:
    value, position = _varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise MalformedThriftError(f"structs are nested more than {_MAX_DEPTH} deep")
