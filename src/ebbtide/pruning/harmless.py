"""Which parts of a condition can be evaluated safely on any row, even a deleted one?

A reader that evaluates the user's condition before it looks a row up in a deletion vector saves most lookups. But a
deleted row may hold what no live row does: `1 / x > 0` would fail on a deleted zero, a cast on a deleted word. So only
comparisons that cannot fail on any row come first: of a bare column with literals of its own type. Floats are left out
because Parquet does not skip by them as Spark would (see `scan.columns`).
"""

from __future__ import annotations

from typing import Final

from ebbtide.protocol.schema import PrimitiveType
from ebbtide.pruning.conjuncts import conjuncts_of
from ebbtide.pruning.parser import parse_condition
from ebbtide.pruning.predicate import (
    And,
    Between,
    Comparison,
    Constant,
    InList,
    IsNull,
    Not,
    NullSafeEqual,
    Opaque,
    Or,
    Predicate,
    StartsWith,
)
from ebbtide.pruning.scope import Column, Scope
from ebbtide.sql_text import Literal

__all__ = ["harmless_part"]

_WHOLE_NUMBERS: Final = {PrimitiveType(name): "integer" for name in ("byte", "short", "integer", "long")}
_LITERAL_OF: Final = _WHOLE_NUMBERS | {PrimitiveType(name): name for name in ("string", "date", "timestamp", "boolean")}
_LONGEST: Final = 1 << 63
# Spark never reads such a column from a file.
_VOID: Final = PrimitiveType("void")


def harmless_part(condition: str | None, scope: Scope) -> str | None:
    """SQL over the physical columns that holds wherever the condition does and fails on no row.

    None when there is no such part.
    """
    if condition is None:
        return None
    parsed = parse_condition(condition)
    parts = [parsed.text(part.span) for part in conjuncts_of(parsed) if _is_harmless(part, scope)]
    return " AND ".join(f"({part})" for part in parts) or None


def _is_harmless(part: Predicate, scope: Scope) -> bool:
    match part:
        case And() | Or():
            return all(_is_harmless(each, scope) for each in part.parts)
        case Not():
            return _is_harmless(part.part, scope)
        case Constant() | Opaque():
            return False
    column = scope.resolve(part.name) if len(part.name.parts) == 1 else None
    if column is None or column.is_partition or column.type == _VOID or column.physical_path != column.logical_path:
        return False
    return all(_fits(literal, column, scope) for literal in _literals(part))


def _literals(
    part: Comparison | NullSafeEqual | Between | InList | StartsWith | IsNull,
) -> tuple[Literal, ...]:
    match part:
        case Comparison() | NullSafeEqual():
            return (part.literal,)
        case Between():
            return (part.low, part.high)
        case InList():
            return part.literals
        case StartsWith():
            return (part.prefix,)
        case IsNull():
            return ()


def _fits(literal: Literal, column: Column, scope: Scope) -> bool:
    """Whether Spark compares the two without a cast that could fail."""
    if not isinstance(column.type, PrimitiveType) or _LITERAL_OF.get(column.type) != literal.kind:
        return False
    is_too_long = isinstance(literal.value, int) and not -_LONGEST <= literal.value < _LONGEST
    return column.is_comparable and scope.is_certainly_literal(literal) and not is_too_long
