"""Which tokens belong together: parentheses, brackets and CASE ... END?

One rule for all callers. `case` and `end` may also be columns; `Brackets.is_certain` says whether the text is
unambiguous. Pruning draws conclusions from the structure and needs certainty. The SQL door only looks for the end of a
piece of text that Spark will check anyway, and does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ebbtide.sql_text.tokens import Token, is_keyword, is_sign

__all__ = ["Brackets", "match_brackets"]

_CLOSES: Final = {")": "(", "]": "["}
# In front of these, `case` is a column.
_AFTER_A_VALUE: Final = (
    ")", "]", ",", "=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "/", "%", "||", "|", "&", "^", "::", ".", ";",
)  # fmt: skip
_WORDS_AFTER_A_VALUE: Final = frozenset({"is", "in", "and", "or", "between", "like", "ilike", "rlike", "from", "as"})


@dataclass(frozen=True, slots=True)
class Brackets:
    """`pairs` maps the index of an opening token to that of its closing token; `unclosed` ones have none."""

    pairs: Mapping[int, int]
    unclosed: frozenset[int]
    size: int
    is_certain: bool

    def after(self, at: int) -> int:
        """The index after the token at `at` and everything that it opens: the end, if it is never closed."""
        return self.size if at in self.unclosed else self.pairs.get(at, at) + 1


def match_brackets(tokens: tuple[Token, ...]) -> Brackets:
    pairs: dict[int, int] = {}
    stack: list[int] = []
    is_certain = True
    for at, token in enumerate(tokens):
        if is_sign(tokens, at, "(", "[") or _opens_case(tokens, at):
            stack.append(at)
        elif is_sign(tokens, at, ")", "]"):
            # A CASE without an END inside its parentheses was a column.
            while stack and tokens[stack[-1]].text == "case":
                stack.pop()
                is_certain = False
            if stack and tokens[stack[-1]].text == _CLOSES[token.text]:
                pairs[stack.pop()] = at
            else:
                is_certain = False
        elif token.text == "end" and is_keyword(tokens, at) and stack and tokens[stack[-1]].text == "case":
            pairs[stack.pop()] = at
    return Brackets(pairs, frozenset(stack), len(tokens), is_certain and not stack and _counts_agree(tokens))


def _opens_case(tokens: tuple[Token, ...], at: int) -> bool:
    if tokens[at].text != "case" or not is_keyword(tokens, at) or at + 1 >= len(tokens):
        return False
    following = tokens[at + 1]
    if following.kind == "word":
        return following.text not in _WORDS_AFTER_A_VALUE
    return not is_sign(tokens, at + 1, *_AFTER_A_VALUE)


def _counts_agree(tokens: tuple[Token, ...]) -> bool:
    """Inside a CASE a column called `end` would be ambiguous, so every CASE must have its END and no other."""
    words = [token.text for at, token in enumerate(tokens) if token.text in {"case", "end"} and is_keyword(tokens, at)]
    return "case" not in words or words.count("case") == words.count("end")
