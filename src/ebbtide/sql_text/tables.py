"""Which tables does a query, or a subquery in an expression, read?

    SELECT * FROM delta.`/data/people` VERSION AS OF 3 p JOIN b ON ...

`table_places` finds where a table may be: after FROM, JOIN and the commas between them, at any depth. `time_travel_at`
reads the AS OF clause that may follow a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ebbtide.errors import InvalidSyntaxError, RequestError
from ebbtide.sql_text.brackets import Brackets
from ebbtide.sql_text.tokens import Token, is_sign

__all__ = ["TimeTravel", "table_places", "time_travel_at"]

_VERSION: Final = frozenset({"version", "system_version"})
_TIME: Final = frozenset({"timestamp", "system_time"})
_JOINERS: Final = frozenset({"join", "table"})
# What ends the FROM clause of a query, so that a comma after it no longer means another table.
_OTHER_CLAUSES: Final = frozenset(
    {
        "select", "where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "union",
        "intersect", "except", "minus", "window", "qualify", "tablesample", "pivot", "unpivot", "with",
    }
)  # fmt: skip
# trim(BOTH FROM x), extract(year FROM x) and `IS DISTINCT FROM x` are not FROM clauses.
_NO_QUERY_BEFORE_FROM: Final = frozenset({"distinct", "both", "leading", "trailing"})


# --- AS OF ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """A version, or a time as SQL text; `end` is the index of the token after it."""

    end: int
    version: int | None = None
    timestamp: str | None = None


def time_travel_at(source: str, tokens: tuple[Token, ...], brackets: Brackets, at: int) -> TimeTravel | None:
    """[FOR] VERSION | TIMESTAMP AS OF value, if it is there; RequestError when the value is missing or odd."""
    words = [token.text if token.kind == "word" else "" for token in tokens[at : at + 4]]
    at += words[:1] == ["for"]
    words = words[1:] if words[:1] == ["for"] else words[:3]
    if words[1:] != ["as", "of"] or words[0] not in _VERSION | _TIME:
        return None
    at += 3
    if words[0] in _VERSION:
        return TimeTravel(at + 1, version=_version(source, tokens, at))
    end = _end_of_time(source, tokens, brackets, at)
    text = source[tokens[at].start : tokens[end - 1].end]
    if is_sign(tokens, end, "+", "-", "*", "/"):
        raise _syntax_error(f"Put the timestamp into parentheses: TIMESTAMP AS OF ({text} ...).")
    return TimeTravel(end, timestamp=text)


def _version(source: str, tokens: tuple[Token, ...], at: int) -> int:
    token = tokens[at] if at < len(tokens) else None
    if token is not None and token.kind in {"number", "string"}:
        digits = (token.value if token.kind == "string" else token.text) or ""
        if digits.isdecimal():
            return int(digits)
    raise _expected_error("a version after VERSION AS OF: a number", source, token)


def _end_of_time(source: str, tokens: tuple[Token, ...], brackets: Brackets, at: int) -> int:
    """A string, TIMESTAMP'...', a call such as current_timestamp(), or anything in parentheses."""
    token = tokens[at] if at < len(tokens) else None
    if token is not None and token.kind == "string":
        return at + 1
    if token is not None and token.kind == "word" and at + 1 < len(tokens) and tokens[at + 1].kind == "string":
        return at + 2
    opening = at + (token is not None and token.kind == "word")
    if is_sign(tokens, opening, "(") and opening in brackets.pairs:
        return brackets.after(opening)
    raise _expected_error("a timestamp after TIMESTAMP AS OF", source, token)


def _expected_error(what: str, source: str, token: Token | None) -> RequestError:
    found = "the statement ends" if token is None else f"found {source[token.start : token.start + 60]!r}"
    return _syntax_error(f"Expected {what}, but {found}.")


def _syntax_error(message: str) -> RequestError:
    return InvalidSyntaxError(message, error_class="PARSE_SYNTAX_ERROR")


# --- FROM and JOIN ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Level:
    """One pair of parentheses: is it a query, and are we in its FROM clause?"""

    is_query: bool = False
    in_from: bool = False


def table_places(tokens: tuple[Token, ...], *, is_query: bool = False) -> Iterator[int]:
    """Where a table may begin. With `is_query` the tokens are a query, else an expression that may hold some."""
    levels = [_Level(is_query=is_query)]
    for at, token in enumerate(tokens):
        preceding = tokens[at - 1] if at else None
        if is_sign(tokens, at, "(", ")"):
            _step(levels, token, in_from=levels[-1].in_from and _starts_table(preceding, levels[-1]))
        elif token.kind == "word" and not is_sign(tokens, at - 1, "."):
            _read_keyword(levels[-1], tokens, at)
        if _starts_table(preceding, levels[-1]):
            yield at


def _step(levels: list[_Level], token: Token, *, in_from: bool) -> None:
    if token.text == "(":
        # FROM (delta.`a` JOIN delta.`b` ...): parentheses where a table is expected hold tables, or a query.
        levels.append(_Level(is_query=in_from, in_from=in_from))
    elif len(levels) > 1:
        levels.pop()


def _read_keyword(level: _Level, tokens: tuple[Token, ...], at: int) -> None:
    word = tokens[at].text
    if word == "select":
        level.is_query = True
    if word == "from" and _opens_from_clause(level, tokens, at):
        level.is_query = level.in_from = True
    elif word == "join":
        level.in_from = level.is_query
    elif word in _OTHER_CLAUSES:
        level.in_from = False


def _opens_from_clause(level: _Level, tokens: tuple[Token, ...], at: int) -> bool:
    preceding = tokens[at - 1] if at else None
    if preceding is None:
        return level.is_query
    if preceding.text in _NO_QUERY_BEFORE_FROM:
        return False
    opens_query = preceding.text == "(" and (at < 2 or tokens[at - 2].text != "trim")
    return level.is_query or opens_query


def _starts_table(preceding: Token | None, level: _Level) -> bool:
    if preceding is None:
        return False
    if preceding.kind == "word" and preceding.text in _JOINERS:
        return True
    is_opener = preceding.text in {",", "("} if preceding.kind == "operator" else preceding.text in {"from", "lateral"}
    return level.in_from and is_opener
