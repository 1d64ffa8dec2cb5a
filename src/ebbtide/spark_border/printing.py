"""How is a Column printed, so that the text may be shown and recorded?"""

from __future__ import annotations

import re

from pyspark.sql import Column

__all__ = ["printed_column"]

_PRINTED = re.compile(r"Column<'(.*)'>", re.DOTALL)
# Classic Spark prints the arguments of a Python function as it prints its own objects, together with where in the
# user's program each was made: a path, a line, and the address of a stack trace.
_STACK_TRACE = "StackTraceElement;@"
_ORIGIN = re.compile(r",\s*Origin\(")
_ATTRIBUTE = re.compile(r"UnresolvedAttribute\((?:List|ArraySeq|Array)\(([^()]*)\)[^()]*\)")
_WRAPPED = re.compile(r"columnnodeexpression\(([^()]*)\)")
_LITERAL = re.compile(r"Literal\(([^()]*?),(?:[^()]|\([^()]*\))*\)")
_UNREADABLE = "a condition with a Python function"


def printed_column(column: Column) -> str:
    """The column as Spark prints it, without anything about the program that made it."""
    found = _PRINTED.fullmatch(str(column))
    text = found.group(1) if found else str(column)
    return _without_origins(text) if _STACK_TRACE in text else text


def _without_origins(text: str) -> str:
    while (origin := _ORIGIN.search(text)) is not None:
        end = _find_closing_bracket(text, origin.end())
        if end is None:
            return _UNREADABLE
        text = text[: origin.start()] + text[end:]
    text = _ATTRIBUTE.sub(lambda found: found.group(1).replace(", ", "."), text)
    text = _WRAPPED.sub(r"\1", _LITERAL.sub(r"\1", text))
    return _UNREADABLE if _STACK_TRACE in text else text


def _find_closing_bracket(text: str, start: int) -> int | None:
    """The position after the bracket that closes the one before `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return None
