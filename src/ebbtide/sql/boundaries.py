"""Where does the statement end?

One call takes one statement. A semicolon may close it, and only comments may follow; a semicolon inside a string, a
quoted name or a comment is part of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ebbtide.errors import RequestError

__all__ = ["single_statement"]

# What may hide a semicolon, spelled as Spark's lexer reads it (see `ebbtide.pruning.lexer`), and the semicolon itself.
_PLACE: Final = re.compile(
    r"""
      --(?:\\\n|[^\r\n])*
    | (?<!\w)[rR](?:'[^']*'|"[^"]*")
    | '(?:[^'\\]|\\.|'')*'
    | "(?:[^"\\]|\\.|"")*"
    | `(?:[^`]|``)*`
    | (?P<open>/\*)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")
_NOTHING: Final = re.compile(r"(?:\s|;|--(?:\\\n|[^\r\n])*)*")


def single_statement(text: str) -> str:
    """The text up to the semicolon that closes it; RequestError when another statement follows."""
    end = next(_semicolons(text), None)
    if end is None:
        return text
    rest = _without_block_comments(text[end + 1 :])
    if _NOTHING.fullmatch(rest) is None:
        raise RequestError(
            f"There is more than one statement: after the first semicolon comes {rest.strip()[:60]!r}. "
            "Run them one at a time.",
            error_class="PARSE_SYNTAX_ERROR",
        )
    return text[:end]


def _semicolons(text: str) -> Iterator[int]:
    """The places of semicolons that are not hidden. A comment or string that never ends hides the rest."""
    position = 0
    while True:
        found = _PLACE.search(text, position)
        if found is None:
            return
        position = found.end()
        if found["end"]:
            yield found.start()
        elif found["open"]:
            position = _end_of_comment(text, found.start())


def _end_of_comment(text: str, start: int) -> int:
    """Block comments nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _without_block_comments(text: str) -> str:
    kept, position = [], 0
    while (start := text.find("/*", position)) >= 0:
        kept.append(text[position:start])
        position = _end_of_comment(text, start)
    return "".join([*kept, text[position:]])
