"""How long may the bound of a string column be?

Bounds are cut to a prefix, counted as the reference counts: a minimum in characters, a maximum in UTF-16 units, never
inside a surrogate pair. A prefix of a minimum is still a minimum. A prefix of a maximum is not a maximum, so it gets
one more character that sorts after everything that was cut off. If no character does, the prefix grows until one does.
"""

from __future__ import annotations

__all__ = ["lower_string", "upper_string"]

_LAST_ASCII = "\x7f"
_LAST_CHARACTER = "\U0010ffff"


def lower_string(raw: bytes, prefix: int) -> str | None:
    """At most `prefix` characters that sort no later than the UTF-8 text `raw`; None when it is not UTF-8."""
    text = _decode(raw)
    return None if text is None else text[:prefix]


def upper_string(raw: bytes, prefix: int) -> str | None:
    """A short text that sorts no earlier than `raw`; None when there is none within twice the prefix."""
    text = _decode(raw)
    if text is None or _units(text) <= prefix:
        return text
    length = _count_fitting(text, prefix)
    while _units(text[:length]) <= 2 * prefix:
        if length >= len(text):
            return text
        if text[length] != _LAST_CHARACTER:
            return text[:length] + (_LAST_ASCII if text[length] < _LAST_ASCII else _LAST_CHARACTER)
        # Nothing sorts after this character, so it has to stay.
        length += 1
    return None


def _decode(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def _count_fitting(text: str, units: int) -> int:
    """How many characters of `text` fit into that many UTF-16 units."""
    used = 0
    for index, character in enumerate(text):
        used += 1 if character <= "\uffff" else 2
        if used > units:
            return index
    return len(text)
