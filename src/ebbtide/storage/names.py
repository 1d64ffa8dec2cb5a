"""Which names can an object have, and in which order are they listed?"""

from __future__ import annotations

from ebbtide.errors import RequestError

__all__ = ["validate_path", "validate_prefix", "validate_range", "is_after", "is_utf8", "utf8_order"]

# Larger offsets and lengths would overflow the signed 64-bit numbers that files and services use.
MAX_OFFSET = 2**62


def utf8_order(path: str) -> bytes:
    """Sort key of a listing. Code-point order and UTF-8 order agree; UTF-16 order (Java, some services) does not."""
    return path.encode("utf-8", "surrogatepass")


def is_after(path: str, start_after: str | None) -> bool:
    return start_after is None or utf8_order(path) > utf8_order(start_after)


def is_utf8(name: str) -> bool:
    """Whether the name of a local file is UTF-8; no log can name one that is not."""
    # Python maps bytes that are not UTF-8 to lone surrogates.
    return name.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in name)


def validate_path(path: str) -> str:
    """`path` itself, or `RequestError` when no object can have that name.

    Refusing `..` here keeps every store inside its root, whatever an untrusted log says.
    """
    segments = path.split("/")
    if "" in segments or "." in segments or ".." in segments:
        raise RequestError(
            f"Object path {path!r} is empty, or has an empty, '.' or '..' segment. "
            "Give a path relative to the table's root, such as '_delta_log/00000000000000000000.json'."
        )
    if "\0" in path or not _is_unicode(path):
        raise RequestError(f"Object path {path!r} holds a character no store can keep. Rename the object.")
    return path


def validate_prefix(prefix: str) -> str:
    """A directory name without its trailing slash; "" is the root."""
    trimmed = prefix.removesuffix("/")
    return validate_path(trimmed) if trimmed else ""


def validate_range(path: str, offset: int, length: int) -> None:
    if not (0 <= offset <= MAX_OFFSET and 0 <= length <= MAX_OFFSET):
        raise RequestError(
            f"Cannot read {length} bytes at offset {offset} of {path!r}: both must be between 0 and {MAX_OFFSET}."
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
