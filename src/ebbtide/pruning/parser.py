"""How is a condition parsed into a predicate tree?

The boolean skeleton (OR, AND, NOT, parentheses) is split at the tokens. What remains are leaves, and a leaf is
understood only if it has exactly one of a few shapes, with a bare column on one side and a bare literal on the other.
Everything else is `Opaque`. So the precedence of Spark's other operators never matters here, and an unknown function or
new syntax costs pruning, never rows.

Spark's grammar is followed by hand because a general SQL parser answers another question. sqlglot, for one, hides
whether a string had escapes (their meaning depends on a session setting), ends a `--` comment that Spark continues
after a backslash, and cannot return the text of one conjunct.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ebbtide.pruning.predicate import (
    MIRRORED,
    And,
    Between,
    Comparison,
    ComparisonOperator,
    Constant,
    InList,
    IsNull,
    Name,
    Not,
    NullSafeEqual,
    Opaque,
    Or,
    Predicate,
    Span,
    StartsWith,
)
from ebbtide.sql_text import (
    Brackets,
    Literal,
    Token,
    is_keyword,
    match_brackets,
    only_name,
    read_literal,
    tokenize,
)

__all__ = ["ParsedCondition", "parse_condition"]

MAX_DEPTH: Final = 100

_COMPARISONS: Final[dict[str, ComparisonOperator]] = {
    "=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", "!>": "<=", ">": ">", ">=": ">=", "!<": ">=",
}  # fmt: skip
_COMPARISON_SIGNS: Final = frozenset({*_COMPARISONS, "<=>"})
# Words that are never a column in a leaf: operators, constants, and functions without parentheses.
_NOT_A_COLUMN: Final = frozenset(
    {
        "and", "or", "not", "in", "is", "null", "true", "false", "like", "ilike", "rlike", "regexp", "between", "case",
        "when", "then", "else", "exists", "distinct", "escape", "current_date", "current_timestamp",
        "current_time", "current_user", "session_user", "user", "localtimestamp", "interval", "unknown",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParsedCondition:
    """A parsed text. `tokens` is None when the text could not be parsed; `root` is then Opaque."""

    source: str
    tokens: tuple[Token, ...] | None
    root: Predicate

    def text(self, span: Span) -> str:
        """A part in the user's own words. It starts and ends at a token, so no comment is left open."""
        if self.tokens is None or span.first >= span.last:
            return self.source
        return self.source[self.tokens[span.first].start : self.tokens[span.last - 1].end]


@lru_cache(maxsize=128)
def parse_condition(source: str) -> ParsedCondition:
    """The tree for a condition in Spark's SQL. Never fails: text that is not understood is Opaque."""
    tokens = tokenize(source)
    brackets = match_brackets(tokens or ())
    if not tokens or not brackets.is_certain:
        return ParsedCondition(source, None, Opaque(Span(0, 0)))
    return ParsedCondition(source, tokens, _Reader(tokens, brackets).boolean(0, len(tokens), depth=0))


class _Reader:
    """Reads ranges of tokens and skips whatever is in brackets."""

    def __init__(self, tokens: tuple[Token, ...], brackets: Brackets) -> None:
        self.tokens = tokens
        self.brackets = brackets

    def boolean(self, first: int, last: int, *, depth: int) -> Predicate:
        span = Span(first, last)
        if depth > MAX_DEPTH or first >= last:
            return Opaque(span)
        for keyword, node in (("or", Or), ("and", And)):
            ranges = self.split(first, last, words=frozenset({keyword}))
            if len(ranges) > 1:
                parts = [self.boolean(start, end, depth=depth + 1) for start, end in ranges]
                return node(_flatten(node, parts), span)
        if self.keyword(first) == "not" or self.operator(first) == "!":
            return Not(self.boolean(first + 1, last, depth=depth + 1), span)
        if self.is_wrapped(first, last):
            return self.boolean(first + 1, last - 1, depth=depth + 1)
        return self.leaf(first, last)

    def split(
        self, first: int, last: int, *, words: frozenset[str] = frozenset(), signs: frozenset[str] = frozenset()
    ) -> list[tuple[int, int]]:
        """The ranges between separators outside brackets. The AND of a BETWEEN belongs to its range."""
        ranges: list[tuple[int, int]] = []
        start = at = first
        open_betweens = 0
        while at < last:
            if self.keyword(at) == "between":
                open_betweens += 1
            elif open_betweens and self.keyword(at) == "and":
                open_betweens -= 1
            elif self.keyword(at) in words or self.operator(at) in signs:
                ranges.append((start, at))
                start = at + 1
            at = self.brackets.after(at)
        ranges.append((start, last))
        return ranges

    def leaf(self, first: int, last: int) -> Predicate:
        span = Span(first, last)
        for read in (self.constant, self.flag, self.comparison, self.null_test, self.in_list, self.like, self.between):
            found = read(first, last)
            if found is not None:
                return found
        return Opaque(span)

    def constant(self, first: int, last: int) -> Predicate | None:
        literal = self.literal(first, last)
        if literal is None or not (literal.value is None or isinstance(literal.value, bool)):
            return None
        return Constant(literal.value, Span(first, last))

    def flag(self, first: int, last: int) -> Predicate | None:
        """A boolean column alone. On a column of another type the literal does not fit, and nothing is pruned."""
        name = self.name(first, last)
        return None if name is None else Comparison("=", name, Literal("boolean", True), Span(first, last))

    def comparison(self, first: int, last: int) -> Predicate | None:
        ranges = self.split(first, last, signs=_COMPARISON_SIGNS)
        if len(ranges) != 2:
            return None
        sign = self.tokens[ranges[0][1]].text
        return self.compare(ranges[0], sign, ranges[1], Span(first, last))

    def compare(self, left: tuple[int, int], sign: str, right: tuple[int, int], span: Span) -> Predicate | None:
        name, literal, mirrored = self.name(*left), self.literal(*right), False
        if name is None or literal is None:
            name, literal, mirrored = self.name(*right), self.literal(*left), True
        if name is None or literal is None:
            return self.compare_literals(left, sign, right, span)
        if sign == "<=>":
            return IsNull(name, span) if literal.value is None else NullSafeEqual(name, literal, span)
        if literal.value is None:
            return Constant(None, span)
        operator = _COMPARISONS[sign]
        return Comparison(MIRRORED[operator] if mirrored else operator, name, literal, span)

    def compare_literals(
        self, left: tuple[int, int], sign: str, right: tuple[int, int], span: Span
    ) -> Predicate | None:
        """`1 = 1` and the like; only integers, because no setting changes their meaning."""
        one, two = self.literal(*left), self.literal(*right)
        if one is None or two is None or {one.kind, two.kind} != {"integer"}:
            return None
        if not isinstance(one.value, int) or not isinstance(two.value, int):
            return None
        operator = "=" if sign == "<=>" else _COMPARISONS[sign]
        less, equal = one.value < two.value, one.value == two.value
        outcomes = {
            "=": equal, "<>": not equal, "<": less, "<=": less or equal, ">": not (less or equal), ">=": not less,
        }  # fmt: skip
        return Constant(outcomes[operator], span)

    def null_test(self, first: int, last: int) -> Predicate | None:
        """`a IS [NOT] NULL | UNKNOWN | TRUE | FALSE` and `a IS [NOT] DISTINCT FROM literal`."""
        at = self.find(first, last, "is")
        name = None if at is None else self.name(first, at)
        if at is None or name is None:
            return None
        span = Span(first, last)
        negated = self.keyword(at + 1) == "not"
        words = [self.keyword(position) for position in range(at + 1 + negated, last)]
        found: Predicate
        if words in (["null"], ["unknown"]):
            found = IsNull(name, span)
        elif words in (["true"], ["false"]):
            found = NullSafeEqual(name, Literal("boolean", words == ["true"]), span)
        elif words[:2] == ["distinct", "from"]:
            literal = self.literal(at + 3 + negated, last)
            if literal is None:
                return None
            found = IsNull(name, span) if literal.value is None else NullSafeEqual(name, literal, span)
            negated = not negated
        else:
            return None
        return Not(found, span) if negated else found

    def in_list(self, first: int, last: int) -> Predicate | None:
        at = self.find(first, last, "in")
        if at is None or not self.is_wrapped(at + 1, last):
            return None
        negated = self.keyword(at - 1) == "not"
        name = self.name(first, at - negated)
        ranges = self.split(at + 2, last - 1, signs=frozenset({","}))
        literals = [self.literal(*item) for item in ranges]
        values = tuple(item for item in literals if item is not None)
        if name is None or len(values) != len(literals):
            return None
        span = Span(first, last)
        present = tuple(item for item in values if item.value is not None)
        found = InList(name, present, has_null=len(present) < len(values), span=span)
        return Not(found, span) if negated else found

    def like(self, first: int, last: int) -> Predicate | None:
        """`LIKE 'abc%'`, and `LIKE 'abc'`, which is equality of the column's text, as in a list of strings."""
        at = self.find(first, last, "like")
        literal = None if at is None else self.literal(at + 1, last)
        if at is None or literal is None or literal.kind != "string" or not isinstance(literal.value, str):
            return None
        negated = self.keyword(at - 1) == "not"
        name = self.name(first, at - negated)
        prefix = literal.value.removesuffix("%")
        if name is None or any(character in prefix for character in "%_\\"):
            return None
        span = Span(first, last)
        found: Predicate
        if prefix == literal.value:
            found = InList(name, (literal,), has_null=False, span=span)
        else:
            found = StartsWith(name, Literal("string", prefix, literal.may_be_name), span)
        return Not(found, span) if negated else found

    def between(self, first: int, last: int) -> Predicate | None:
        at = self.find(first, last, "between")
        middle = None if at is None else self.find(at + 1, last, "and")
        if at is None or middle is None:
            return None
        negated = self.keyword(at - 1) == "not"
        name = self.name(first, at - negated)
        low, high = self.literal(at + 1, middle), self.literal(middle + 1, last)
        if name is None or low is None or high is None:
            return None
        span = Span(first, last)
        found: Predicate
        if low.value is None or high.value is None:
            sides: tuple[tuple[ComparisonOperator, Literal], ...] = ((">=", low), ("<=", high))
            found = And(
                tuple(
                    Constant(None, span) if item.value is None else Comparison(sign, name, item, span)
                    for sign, item in sides
                ),
                span,
            )
        else:
            found = Between(name, low, high, span)
        return Not(found, span) if negated else found

    def name(self, first: int, last: int) -> Name | None:
        """A column name and nothing else, possibly in parentheses."""
        while self.is_wrapped(first, last):
            first, last = first + 1, last - 1
        found = only_name(self.tokens[first:last])
        return None if found is None or self.keyword(first) in _NOT_A_COLUMN else Name(found.parts)

    def literal(self, first: int, last: int) -> Literal | None:
        """A literal and nothing else, possibly signed, possibly in parentheses."""
        while self.is_wrapped(first, last):
            first, last = first + 1, last - 1
        return read_literal(self.tokens[first:last])

    def is_wrapped(self, first: int, last: int) -> bool:
        return last - first > 2 and self.operator(first) == "(" and self.brackets.pairs[first] == last - 1

    def find(self, first: int, last: int, keyword: str) -> int | None:
        """The position of a keyword; None when it is absent or occurs more than once."""
        places = [at for at in range(first, last) if self.keyword(at) == keyword]
        return places[0] if len(places) == 1 else None

    def keyword(self, at: int) -> str | None:
        return self.tokens[at].text if is_keyword(self.tokens, at) else None

    def operator(self, at: int) -> str | None:
        return self.tokens[at].text if self.tokens[at].kind == "operator" else None


def _flatten(node: type[And | Or], parts: list[Predicate]) -> tuple[Predicate, ...]:
    flat: list[Predicate] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, node) else (part,))
    return tuple(flat)
