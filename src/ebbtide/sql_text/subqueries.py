"""Does an expression read other tables?

A subquery is in parentheses and begins with one of five words, each of which may also be a column name:
`(select = 1)` and `coalesce(values, 0)` read no other table. Strings and comments are not words, so their content does
not count. Where both readings are possible, Spark takes the query, and so does this module.
"""

from __future__ import annotations

import re
from typing import Final

from ebbtide.sql_text.tokens import Token, is_keyword, is_sign, tokenize

__all__ = ["has_subquery", "text_has_subquery"]

_OPENERS: Final = frozenset({"select", "with", "values", "table", "from"})
# These can only follow a value, so the word in front of them is a column.
_AFTER_A_VALUE: Final = (
    ")", "]", ",", "=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "/", "%", "||", "|", "&", "^", "::", ".", "->",
)  # fmt: skip
_LOOKS_LIKE_ONE: Final = re.compile(r"\(\s*(?:select|from|table|values|with)\b", re.IGNORECASE)


def has_subquery(tokens: tuple[Token, ...]) -> bool:
    """Whether there is a query in parentheses anywhere."""
    return any(is_sign(tokens, at, "(") and _opens_query(tokens, at + 1) for at in range(len(tokens)))


def text_has_subquery(text: str) -> bool:
    """The same for a text as it is written.

    A Column of Spark Connect prints its strings without quotes. If the result is not SQL, a text that looks as if it
    had a subquery counts as having one.
    """
    tokens = tokenize(text, is_substituted=False)
    return _LOOKS_LIKE_ONE.search(text) is not None if tokens is None else has_subquery(tokens)


def _opens_query(tokens: tuple[Token, ...], at: int) -> bool:
    if not is_keyword(tokens, at) or tokens[at].text not in _OPENERS:
        return False
    if at + 1 >= len(tokens) or is_sign(tokens, at + 1, *_AFTER_A_VALUE):
        return False
    # trim(FROM x) is the one call that begins like this.
    return not (tokens[at].text == "from" and at > 1 and tokens[at - 2].text == "trim")
