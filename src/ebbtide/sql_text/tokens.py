"""Which tokens does Spark's SQL lexer see in a text?

Pruning excludes files, and table expressions are trusted, on the basis of these tokens. So this follows Spark's own
lexer exactly: a string may end where another dialect would go on, and a `--` comment continues after a backslash at the
end of the line. Text that this module does not know gives None; the caller then assumes nothing, and Spark checks the
text.

A string has a value only where every Spark setting agrees on it. `'a\\nb'` and `r'a'` depend on
spark.sql.parser.escapedStringLiterals, and `'it''s'` on spark.sql.legacy.consecutiveStringLiterals.enabled: each is one
token with the value None. `${...}` is worse: Spark replaces it before it looks for tokens, even inside a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["Token", "TokenKind", "is_keyword", "is_sign", "tokenize"]

TokenKind: TypeAlias = Literal["word", "quoted_name", "string", "number", "operator"]

MAX_CHARACTERS: Final = 4 * 1024 * 1024
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
    | (?P<word>\w+(?!\w|://))
    | (?P<operator><=>|==|<>|!=|<=|>=|!<|!>|\|\||->|=>|::|[-+*/%~&|^()\[\],.:?=<>!;])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is the source from `start` to `end`, for words in lower case. `value` is the decoded name or string."""

    kind: TokenKind
    text: str
    start: int
    end: int
    value: str | None = None
    is_double_quoted: bool = False
    is_raw: bool = False


def tokenize(source: str, *, is_statement: bool = False, is_substituted: bool = True) -> tuple[Token, ...] | None:
    """The tokens without white space and comments, or None when Spark's reading is not certain.

    An expression holds neither hints nor semicolons. In a statement, hints are skipped like comments and semicolons are
    operators. `is_substituted` is false where Spark gets the text with variable substitution switched off, or where the
    text is to be read as it was written.
    """
    if len(source) > MAX_CHARACTERS or (is_substituted and "${" in source):
        return None
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        if source.startswith("/*", position):
            is_hint = source.startswith("/*+", position)
            after = None if is_hint and not is_statement else _end_of_block_comment(source, position)
            if after is None:
                return None
            position = after
            continue
        match = _TOKEN.match(source, position)
        if match is None or (match.group() == ";" and not is_statement):
            return None
        position = match.end()
        if match.lastgroup not in {"space", "comment"}:
            tokens.append(_token(match))
    return tuple(tokens)


def is_keyword(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether there is a bare word that no dot makes a part of a name."""
    if not 0 <= at < len(tokens) or tokens[at].kind != "word":
        return False
    return not ((at and is_sign(tokens, at - 1, ".")) or is_sign(tokens, at + 1, "."))


def is_sign(tokens: tuple[Token, ...], at: int, *signs: str) -> bool:
    """Whether one of these operators is there."""
    return 0 <= at < len(tokens) and tokens[at].kind == "operator" and tokens[at].text in signs


def _token(match: re.Match[str]) -> Token:
    group, text = str(match.lastgroup), match.group()
    start, end = match.span()
    match group:
        case "word":
            return Token("word", text.lower(), start, end, text)
        case "quoted_name":
            return Token("quoted_name", text, start, end, text[1:-1].replace("``", "`"))
        case "raw_string":
            return Token("string", text, start, end, None, is_double_quoted=text.endswith('"'), is_raw=True)
        case "string" | "double_string":
            return Token("string", text, start, end, _plain_value(text), is_double_quoted=group == "double_string")
        case "number":
            return Token("number", text, start, end)
    return Token("operator", text, start, end)


def _plain_value(text: str) -> str | None:
    body = text[1:-1]
    return None if "\\" in body or text[0] in body else body


def _end_of_block_comment(source: str, start: int) -> int | None:
    """Comments nest."""
    depth = 0
    for match in _COMMENT_MARK.finditer(source, start):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    return None
