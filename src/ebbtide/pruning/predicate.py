"""What does a condition say that can exclude files?

A tiny frozen tree. Every node carries `span`, the tokens it was parsed from, so that a part of a condition can be
returned in the user's own words. What the tree cannot express is `Opaque`: it may be true, false or null for any row,
so it never excludes a file. Names and literals are as written; `scope` and `intervals` interpret them against a schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from typing import Literal as OneOf

from ebbtide.sql_text import Literal

__all__ = [
    "MIRRORED",
    "And",
    "Between",
    "Comparison",
    "ComparisonOperator",
    "Constant",
    "InList",
    "IsNull",
    "Name",
    "Not",
    "NullSafeEqual",
    "Opaque",
    "Or",
    "Predicate",
    "Span",
    "StartsWith",
]

ComparisonOperator: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">="]
# `5 < a` means `a > 5`.
MIRRORED: Final[dict[ComparisonOperator, ComparisonOperator]] = {
    "=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens `first` (inclusive) to `last` (exclusive) of the condition."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Name:
    """A column as written: `t.a.b` has three parts, a backquoted name with dots is one part."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Predicate, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Predicate, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate
    span: Span


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: ComparisonOperator
    name: Name
    literal: Literal
    span: Span


@dataclass(frozen=True, slots=True)
class NullSafeEqual:
    name: Name
    literal: Literal
    span: Span


@dataclass(frozen=True, slots=True)
class Between:
    """Both ends belong to the range."""

    name: Name
    low: Literal
    high: Literal
    span: Span


@dataclass(frozen=True, slots=True)
class InList:
    name: Name
    literals: tuple[Literal, ...]
    has_null: bool
    span: Span


@dataclass(frozen=True, slots=True)
class StartsWith:
    name: Name
    prefix: Literal
    span: Span


@dataclass(frozen=True, slots=True)
class IsNull:
    name: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | None
    span: Span


@dataclass(frozen=True, slots=True)
class Opaque:
    span: Span


Predicate: TypeAlias = (
    And | Or | Not | Comparison | NullSafeEqual | Between | InList | StartsWith | IsNull | Constant | Opaque
)
