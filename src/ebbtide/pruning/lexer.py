"""Which tokens does Spark's SQL lexer see in a condition?

Files are excluded on the strength of this reading, so it follows Spark's own lexer and nothing else: a string may end
where another dialect would go on, and a `--` comment goes on after a backslash at the end of the line. Text that this
module does not know gives None; the caller then prunes nothing and Spark judges the text.

String values are given only where every Spark setting agrees on them. `'a\\nb'` depends on
spark.sql.parser.escapedStringLiterals and `'it''s'` on spark.sql.legacy.consecutiveStringLiterals.enabled: both are
recognised as one token, with the value None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["Token", "TokenKind", "tokenize"]

TokenKind: TypeAlias = Literal["word", "quoted_name", "string", "number", "operator"]

MAX_CONDITION_CHARACTERS: Final = 4 * 1024 * 1024
# A lone dot and digits is a number (.5) except directly after a name, where the dot selects a field.
_NUMBER: Final = r"(?:[0-9]+\.[0-9]*|(?<![\w`)\]])\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[lLsSyYdDfF]|[bB][dD])?(?!\w)"
_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\n\r\f\v\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)
    | (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<raw_string>[rR](?:'[^']*'|"[^"]*"))
    | (?P<string>'(?:[^'\\]|\\.|'')*')
    | (?P<double_string>"(?:[^"\\]|\\.|"")*")
    | (?P<quoted_name>`(?:[^`]|``)*`)
    | (?P<number>{_NUMBER})
    | (?P<word>\w+)
    | (?P<operator><=>|==|<>|!=|<=|>=|!<|!>|\|\||->|=>|::|[-+*/%~&|^()\[\],.:?=<>!])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is the source between `start` and `end`, for words in lower case. `value` is a name or string decoded."""

    kind: TokenKind
    text: str
    start: int
    end: int
    value: str | None = None
    double_quoted: bool = False


def tokenize(source: str, *, allow_hints: bool = False) -> tuple[Token, ...] | None:
    """The tokens without white space and comments, or None when Spark's reading is not certain.

    A condition cannot hold a hint; where a query may, `allow_hints` passes over them as over comments.
    """
    if len(source) > MAX_CONDITION_CHARACTERS:
        return None
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        if source.startswith("/*", position):
            is_hint = source.startswith("/*+", position)
            after = None if is_hint and not allow_hints else _end_of_block_comment(source, position)
            if after is None:
                return None
            position = after
            continue
        match = _TOKEN.match(source, position)
        if match is None:
            return None
        position = match.end()
        if match.lastgroup not in {"space", "comment"}:
            tokens.append(_token(match))
    return tuple(tokens)


def _token(match: re.Match[str]) -> Token:
    group, text = str(match.lastgroup), match.group()
    if group == "word":
        return Token("word", text.lower(), match.start(), match.end(), text)
    if group == "quoted_name":
        return Token("quoted_name", text, match.start(), match.end(), text[1:-1].replace("``", "`"))
    if group == "raw_string":
        return Token("string", text, match.start(), match.end(), text[2:-1], double_quoted=text.endswith('"'))
    if group in {"string", "double_string"}:
        body = text[1:-1]
        value = None if "\\" in body or text[0] in body else body
        return Token("string", text, match.start(), match.end(), value, double_quoted=group == "double_string")
    if group == "number":
        return Token("number", text, match.start(), match.end())
    return Token("operator", text, match.start(), match.end())


def _end_of_block_comment(source: str, start: int) -> int | None:
    """Comments nest."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(source, start):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    return None
