"""Which lengths may the strings of a column have?

Where a column's type holds a char or varchar, at any depth, Spark keeps the type as text in the column's metadata. The
text comes with the table, so it is read here and not by Spark: Spark Connect replaces `${...}` in it by variables of
the session, and nothing there limits how deep it nests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

from ebbtide.errors import CorruptTableError
from ebbtide.protocol.schema import (
    CHAR_VARCHAR,
    MAX_DEPTH,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from ebbtide.sql_text.tokens import Token, tokenize

__all__ = ["has_too_long_string", "read_lengths"]

_MAX_CHARACTERS: Final = 1_000_000
_STRINGS: Final = frozenset({"char", "character", "varchar"})
_MAX_LENGTH: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Elements:
    of: Lengths


@dataclass(frozen=True, slots=True)
class _Entries:
    keys: Lengths
    values: Lengths


@dataclass(frozen=True, slots=True)
class _Fields:
    of: Mapping[str, Lengths] = field(default_factory=dict)


# A number is the longest string allowed; None where no string is limited.
Lengths: TypeAlias = "int | _Elements | _Entries | _Fields | None"


def has_too_long_string(value: Column, column: StructField) -> Column | None:
    """Whether a string in the value of a column is longer than the column allows; None when none can be."""
    lengths = read_lengths(column)
    return None if lengths is None else F.coalesce(_too_long(value, lengths), F.lit(False))


def read_lengths(column: StructField) -> Lengths:
    """What the metadata of the column says; CorruptTableError when it cannot be read."""
    declared = column.metadata.get(CHAR_VARCHAR)
    if declared is None:
        return None
    tokens = (
        tokenize(declared, is_substituted=False)
        if isinstance(declared, str) and len(declared) <= _MAX_CHARACTERS
        else None
    )
    reader = _TypeReader(tokens or (), f"{CHAR_VARCHAR} of column '{column.name}'")
    found = reader.read(0)
    if reader.at != len(reader.tokens) or not _fits(found, column.type):
        raise reader.error()
    return found


def _fits(lengths: Lengths, data_type: DataType) -> bool:
    """Whether a limit is set only where the column has a string."""
    match lengths, data_type:
        case None, _:
            return True
        case int(), PrimitiveType(name="string"):
            return True
        case _Fields(of=fields), StructType():
            found = {name: data_type.get(name) for name in fields}
            return all(inner is not None and _fits(fields[name], inner.type) for name, inner in found.items())
        case _Elements(of=elements), ArrayType():
            return _fits(elements, data_type.element_type)
        case _Entries(keys=keys, values=values), MapType():
            return _fits(keys, data_type.key_type) and _fits(values, data_type.value_type)
    return False


@dataclass(slots=True)
class _TypeReader:
    tokens: tuple[Token, ...]
    subject: str
    at: int = 0

    def error(self) -> CorruptTableError:
        near = f" near '{self.tokens[self.at].text[:40]}'" if self.at < len(self.tokens) else ""
        return CorruptTableError(f"{self.subject} is not a type that Ebbtide can read{near}")

    def next(self, *signs: str) -> str:
        """The text of the next token, which is one of these signs, or any word if none are named."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None or (token.text not in signs if signs else token.kind != "word"):
            raise self.error()
        self.at += 1
        return token.text

    def sees(self, *texts: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].text in texts

    def read(self, depth: int) -> Lengths:
        if depth > MAX_DEPTH:
            raise CorruptTableError(f"{self.subject} nests more than {MAX_DEPTH} levels deep")
        word = self.next()
        if word == "array" and self.sees("<"):
            self.next("<")
            elements = self.read(depth + 1)
            self.next(">")
            return None if elements is None else _Elements(elements)
        if word == "map" and self.sees("<"):
            self.next("<")
            keys = self.read(depth + 1)
            self.next(",")
            values = self.read(depth + 1)
            self.next(">")
            return None if keys is None and values is None else _Entries(keys, values)
        if word == "struct" and self.sees("<", "<>"):
            return self.struct(depth)
        return self.plain(word)

    def struct(self, depth: int) -> Lengths:
        if self.next("<", "<>") == "<>":
            return None
        found: dict[str, Lengths] = {}
        while not self.sees(">"):
            name = self.tokens[self.at] if self.at < len(self.tokens) else None
            if name is None or name.kind not in {"word", "quoted_name"}:
                raise self.error()
            self.at += 2 if self.tokens[self.at + 1 : self.at + 2] and self.tokens[self.at + 1].text == ":" else 1
            lengths = self.read(depth + 1)
            if lengths is not None:
                found[name.value or ""] = lengths
            self.options()
            if not self.sees(">"):
                self.next(",")
        self.next(">")
        return _Fields(found) if found else None

    def options(self) -> None:
        """NOT NULL and COMMENT 'text' after a field."""
        if self.sees("not"):
            self.at += 1
            self.next("null")
        if self.sees("comment"):
            self.at += 1
            if self.at >= len(self.tokens) or self.tokens[self.at].kind != "string":
                raise self.error()
            self.at += 1

    def plain(self, word: str) -> Lengths:
        numbers = []
        if self.sees("("):
            self.next("(")
            while self.at < len(self.tokens) and self.tokens[self.at].kind == "number":
                numbers.append(self.tokens[self.at].text)
                self.at += 1
                if self.sees(","):
                    self.at += 1
            self.next(")")
        elif word == "interval":
            while self.at < len(self.tokens) and self.tokens[self.at].kind == "word":
                self.at += 1
        if word not in _STRINGS:
            return None
        if len(numbers) != 1 or not numbers[0].isdecimal() or not 0 < int(numbers[0]) <= _MAX_LENGTH:
            raise self.error()
        return int(numbers[0])


def _too_long(value: Column, lengths: Lengths) -> Column:
    match lengths:
        case int():
            return F.coalesce(F.length(value) > lengths, F.lit(False))
        case _Fields(of=fields):
            return reduce(Column.__or__, (_too_long(value.getField(name), inner) for name, inner in fields.items()))
        case _Elements(of=elements):
            return _some_too_long(value, elements)
        case _Entries(keys=keys, values=values):
            return _some_too_long(F.map_keys(value), keys) | _some_too_long(F.map_values(value), values)
    return F.lit(False)


def _some_too_long(values: Column, lengths: Lengths) -> Column:
    if lengths is None:
        return F.lit(False)
    return F.coalesce(F.exists(values, lambda item: _too_long(item, lengths)), F.lit(False))
