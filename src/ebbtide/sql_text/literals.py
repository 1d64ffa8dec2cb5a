"""Which constant do these tokens stand for, if all settings of Spark agree?

None where a setting decides (see `ebbtide.sql_text.settings`), where Spark would raise, or where the tokens are more
than a literal. Dates and timestamps stay text until a column and a time zone are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias
from typing import Literal as OneOf

from ebbtide.sql_text.tokens import Token

__all__ = ["Literal", "LiteralKind", "read_literal"]

LiteralKind: TypeAlias = OneOf[
    "null",
    "boolean",
    "integer",
    "decimal",
    "double",
    "float",
    "exponent",
    "string",
    "date",
    "timestamp",
    "timestamp_ntz",
]

_TYPED_STRINGS: Final[dict[str, LiteralKind]] = {
    "date": "date", "timestamp": "timestamp", "timestamp_ltz": "timestamp", "timestamp_ntz": "timestamp_ntz",
}  # fmt: skip
_INTEGER_BITS: Final = {"y": 7, "s": 15, "l": 63}
_FLOATING: Final[dict[str, LiteralKind]] = {"f": "float", "d": "double", "": "exponent"}
_NUMBER_PARTS = re.compile(r"([0-9.]+)([eE][+-]?[0-9]+)?(bd|[lsydf])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant as written. `exponent` is a number such as 1e3, which a setting makes a double or a decimal.

    `may_be_name`: a double-quoted string; with spark.sql.ansi.doubleQuotedIdentifiers it is the name of a column.
    """

    kind: LiteralKind
    value: bool | int | Decimal | float | str | None
    may_be_name: bool = False


def read_literal(tokens: tuple[Token, ...]) -> Literal | None:
    """The literal that the tokens form, perhaps with a sign or a type in front."""
    if len(tokens) == 1:
        return _single(tokens[0])
    if len(tokens) != 2:
        return None
    first, second = tokens
    if first.kind == "operator" and first.text in {"+", "-"} and second.kind == "number":
        return _number(second.text, negative=first.text == "-")
    kind = _TYPED_STRINGS.get(first.text) if first.kind == "word" else None
    return None if kind is None or second.kind != "string" or second.value is None else Literal(kind, second.value)


def _single(token: Token) -> Literal | None:
    if token.kind == "number":
        return _number(token.text, negative=False)
    if token.kind == "string":
        return None if token.value is None else Literal("string", token.value, token.is_double_quoted)
    if token.kind == "word" and token.text in {"true", "false"}:
        return Literal("boolean", token.text == "true")
    return Literal("null", None) if token.kind == "word" and token.text == "null" else None


def _number(text: str, *, negative: bool) -> Literal | None:
    """The value Spark gives a number, or None where it would raise or where its type is unclear."""
    match = _NUMBER_PARTS.fullmatch(text)
    if match is None:
        return None
    digits, exponent, suffix = match[1], match[2] or "", (match[3] or "").lower()
    try:
        value = Decimal(digits + exponent)
    except InvalidOperation:
        return None
    value = value.copy_negate() if negative else value
    if suffix in _INTEGER_BITS:
        limit = 1 << _INTEGER_BITS[suffix]
        fits = digits.isdecimal() and not exponent and -limit <= value < limit
        return Literal("integer", int(value)) if fits else None
    if suffix in {"d", "f"} or (exponent and suffix != "bd"):
        number = float(value)
        return Literal(_FLOATING[suffix], number) if abs(number) < float("inf") else None
    if suffix == "bd" or not digits.isdecimal():
        return Literal("decimal", value)
    return Literal("integer", int(value)) if len(digits) <= 38 else None
