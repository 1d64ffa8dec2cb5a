"""Which name is written here, and is it a column, a function or a path?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ebbtide.sql_text.tokens import Token, is_sign

__all__ = ["GRAMMAR_WORDS", "DottedName", "delta_path_at", "name_at", "names_in", "only_name"]

# Words of Spark's expression grammar. They are not columns unless the table's schema says so.
GRAMMAR_WORDS: Final = frozenset(
    {
        "and", "or", "not", "in", "is", "null", "true", "false", "like", "ilike", "rlike", "regexp", "between", "case",
        "when", "then", "else", "end", "exists", "distinct", "from", "escape", "as", "div", "any", "some", "all",
        "unknown", "cast", "try_cast", "collate", "interval", "to", "for", "both", "leading", "trailing", "year",
        "years", "quarter", "month", "months", "week", "weeks", "day", "days", "hour", "hours", "minute", "minutes",
        "second", "seconds", "millisecond", "milliseconds", "microsecond", "microseconds", "boolean", "tinyint", "byte",
        "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double", "decimal", "dec", "numeric",
        "string", "varchar", "char", "character", "binary", "date", "timestamp", "timestamp_ntz", "timestamp_ltz",
        "array", "map", "struct", "void", "x", "current_date", "current_timestamp", "current_time", "current_user",
        "session_user", "user", "localtimestamp",
    }
)  # fmt: skip
# Words that a parenthesis may follow without making them a function: `a IN (1)`, `CASE WHEN (a)`, `a AND (b)`.
_OPERATOR_WORDS: Final = frozenset(
    {
        "and", "or", "not", "in", "is", "null", "true", "false", "between", "case", "when", "then", "else", "end",
        "distinct", "from", "escape", "as", "div", "for", "both", "leading", "trailing", "interval", "to", "like",
        "ilike", "rlike", "regexp", "over", "within", "filter", "where", "on", "using", "by", "values", "select",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DottedName:
    """`a.b.c` as its decoded parts, and the tokens from `first` up to, not including, `end`.

    `is_called`: a parenthesis follows, so it is a function: also `` `reflect`(...) `` and `system.builtin.rand()`.
    """

    parts: tuple[str, ...]
    first: int
    end: int
    is_called: bool


def name_at(tokens: tuple[Token, ...], at: int) -> DottedName | None:
    """The longest name that begins at a token; None when none does, or when the token is in the middle of one."""
    if not _is_name(tokens, at) or is_sign(tokens, at - 1, "."):
        return None
    parts, end = [tokens[at].value or ""], at + 1
    while is_sign(tokens, end, ".") and _is_name(tokens, end + 1):
        parts.append(tokens[end + 1].value or "")
        end += 2
    is_word = end == at + 1 and tokens[at].kind == "word"
    is_called = is_sign(tokens, end, "(") and not (is_word and tokens[at].text in _OPERATOR_WORDS)
    return DottedName(tuple(parts), at, end, is_called)


def names_in(tokens: tuple[Token, ...]) -> Iterator[DottedName]:
    """All names in order: columns, functions, and words of the grammar, which may be columns as well."""
    at = 0
    while at < len(tokens):
        found = name_at(tokens, at)
        if found is not None:
            yield found
        at = at + 1 if found is None else found.end


def only_name(tokens: tuple[Token, ...]) -> DottedName | None:
    """The name, when the tokens are one and nothing else."""
    found = name_at(tokens, 0)
    return found if found is not None and found.end == len(tokens) else None


def delta_path_at(tokens: tuple[Token, ...], at: int) -> str | None:
    """The path, if delta.`path` is at this token."""
    found = name_at(tokens, at)
    if found is None or len(found.parts) != 2 or found.parts[0].lower() != "delta":
        return None
    return found.parts[1] if tokens[at + 2].kind == "quoted_name" and found.parts[1] else None


def _is_name(tokens: tuple[Token, ...], at: int) -> bool:
    return 0 <= at < len(tokens) and tokens[at].kind in {"word", "quoted_name"}
