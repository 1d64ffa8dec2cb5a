"""Which object does a path in the log mean?

A path in the log is a URI reference: percent-encoded, relative to the table root or absolute.

    log text                           table file:///t         meaning
    part-0.parquet                                             relative  part-0.parquet
    p=a%2520b/part-0.parquet                                   relative  p=a%20b/part-0.parquet
    file:///t/part-0.parquet                                   relative  part-0.parquet   (inside the table)
    file:///other/part-0.parquet                               absolute  file:///other/part-0.parquet
    s3://bucket/part-0.parquet                                 foreign: refused unless allowed
    ../secret.parquet                                          refused

Decoding follows `java.net.URI`, which the reference uses; characters that Java would refuse unescaped (a space) are
taken literally, because some writers do not escape them. Encoding follows Hadoop's `Path.toUri`. Two spellings of one
file have one `canonical_path`, which is what log replay compares.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.errors import CorruptTableError, RequestError, UnsupportedFeatureError
from ebbtide.protocol.log_names import SIDECAR_DIRECTORY

__all__ = [
    "DataLocation",
    "absolute_url",
    "canonical_path",
    "canonical_paths",
    "decode_path",
    "encode_absolute_path",
    "encode_path",
    "resolve_data_path",
    "resolve_sidecar_path",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
# Up to the last "@": a password may hold one.
_CREDENTIALS = re.compile(r"//[^/]*:[^/]*@")
_SCHEME_AND_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?(?=/)")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# A relative path with none of these is its own canonical form; everything else takes the slow path.
_NEEDS_WORK: Final = r"^$|[%:#?\x00]|//|^/|/$|(^|/)\.\.?(/|$)"
# Names that different tools use for one store.
_SCHEME_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
_LEGAL_IN_PATH: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*,;:$&+=@/")


@dataclass(frozen=True, slots=True)
class DataLocation:
    """Where a data file is: exactly one of the two is set.

    `relative_path` is decoded and below the table root. `absolute_url` is percent-encoded, with its scheme and store
    in canonical form (`s3a` is `s3`).
    """

    relative_path: str | None = None
    absolute_url: str | None = None

    @property
    def key(self) -> str:
        """Equal for two spellings of one file. A relative path never holds '//', so the two kinds cannot collide."""
        return self.relative_path if self.relative_path is not None else self.absolute_url or ""


@dataclass(frozen=True, slots=True)
class _Url:
    scheme: str
    authority: str
    segments: tuple[str, ...]

    @property
    def store(self) -> tuple[str, str]:
        return (self.scheme, self.authority)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}/{_encode('/'.join(self.segments))}"


def encode_path(decoded_path: str) -> str:
    """The log spelling of a decoded path relative to the table root."""
    encoded = _encode(decoded_path)
    # "a:b" would be read as a URI with the scheme "a".
    return encoded.replace(":", "%3A", 1) if _SCHEME.match(encoded) else encoded


def encode_absolute_path(decoded_path: str) -> str:
    """The log spelling of a decoded absolute path. Scheme and authority, if present, stay as they are."""
    match = _SCHEME_AND_AUTHORITY.match(decoded_path)
    head_length = match.end() if match else 0
    return decoded_path[:head_length] + encode_path(decoded_path[head_length:])


def decode_path(encoded_path: str) -> str:
    """The characters that a percent-encoded path stands for. Broken escapes, bad UTF-8 and NUL: CorruptTableError."""
    if "%" not in encoded_path and "\x00" not in encoded_path:
        return encoded_path
    if _BROKEN_ESCAPE.search(encoded_path):
        raise CorruptTableError(
            f"the path '{_printable(encoded_path)}' has a '%' that does not begin an escape like %20"
        )
    try:
        decoded = unquote_to_bytes(encoded_path).decode()
    except UnicodeDecodeError as error:
        raise CorruptTableError(f"the path '{_printable(encoded_path)}' is not UTF-8 when decoded") from error
    if "\x00" in decoded:
        raise CorruptTableError(f"the path '{_printable(encoded_path)}' holds a NUL character")
    return decoded


def resolve_data_path(encoded_path: str, table_url: str, *, allow_foreign: bool = False) -> DataLocation:
    """What the `path` of an add, remove or cdc action means for the table at `table_url` (absolute, encoded).

    A path that breaks the URI rules or leaves the table by `..` raises CorruptTableError; one that names another store
    raises UnsupportedFeatureError unless `allow_foreign`.
    """
    if "#" in encoded_path or "?" in encoded_path:
        # Java would drop what follows and read another file.
        raise CorruptTableError(f"the path '{_printable(encoded_path)}' holds '#' or '?', which a URI path must escape")
    scheme = _SCHEME.match(encoded_path)
    if scheme is None and not encoded_path.startswith("/"):
        return DataLocation(relative_path="/".join(_relative_segments(encoded_path)))
    table = _parse_url(table_url)
    target = _parse_url(encoded_path) if scheme else _Url(*table.store, _absolute_segments(encoded_path))
    if target.store != table.store:
        if not allow_foreign:
            raise UnsupportedFeatureError(
                f"the table at {table_url} names a file in another store, '{_printable(encoded_path)}'; "
                "set EngineConfig.allow_foreign_paths to follow such paths",
                error_class="",
            )
        return DataLocation(absolute_url=str(target))
    depth = len(table.segments)
    if len(target.segments) > depth and target.segments[:depth] == table.segments:
        return DataLocation(relative_path="/".join(target.segments[depth:]))
    return DataLocation(absolute_url=str(target))


def resolve_sidecar_path(encoded_path: str, table_url: str) -> str:
    """The decoded path below the table root of a checkpoint sidecar; one outside `_delta_log/_sidecars` is refused."""
    if "/" not in encoded_path:
        encoded_path = f"{SIDECAR_DIRECTORY}/{encoded_path}"
    relative_path = resolve_data_path(encoded_path, table_url).relative_path or ""
    if relative_path.rpartition("/")[0] != SIDECAR_DIRECTORY:
        raise CorruptTableError(f"the sidecar '{_printable(encoded_path)}' does not lie in {SIDECAR_DIRECTORY}")
    return relative_path


def absolute_url(location: DataLocation, table_url: str) -> str:
    """The percent-encoded URL of the object, however the log names it."""
    if location.relative_path is None:
        return location.absolute_url or ""
    return f"{table_url.rstrip('/')}/{_encode(location.relative_path)}"


def canonical_path(encoded_path: str, table_url: str) -> str:
    """One text per file, for replay keys. Foreign paths are allowed here: a tombstone may name one."""
    return resolve_data_path(encoded_path, table_url, allow_foreign=True).key


def canonical_paths(encoded_paths: pa.Array | pa.ChunkedArray, table_url: str) -> pa.Array | pa.ChunkedArray:
    """`canonical_path` of a whole column; ordinary paths cost one vectorised test. Nulls stay null."""
    if isinstance(encoded_paths, pa.ChunkedArray):
        chunks = [canonical_paths(chunk, table_url) for chunk in encoded_paths.chunks]
        return pa.chunked_array(chunks, encoded_paths.type)
    special = pc.fill_null(pc.match_substring_regex(encoded_paths, _NEEDS_WORK), fill_value=False)
    if not pc.any(special).as_py():
        return encoded_paths
    replacements = [canonical_path(path, table_url) for path in encoded_paths.filter(special).to_pylist()]
    return pc.replace_with_mask(encoded_paths, special, pa.array(replacements, encoded_paths.type))


def _parse_url(url: str) -> _Url:
    match = _SCHEME.match(url)
    if match is None:
        raise RequestError(f"'{_printable(url)}' is not an absolute URL")
    scheme = match[1].lower()
    rest = url[match.end() :]
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    if rest and not rest.startswith("/"):
        raise CorruptTableError(
            f"the URI '{_printable(url)}' has a scheme but no absolute path; a ':' must be escaped as %3A"
        )
    authority = authority.lower()
    if scheme == "file" and authority == "localhost":
        authority = ""
    return _Url(_SCHEME_ALIASES.get(scheme, scheme), authority, _absolute_segments(rest or "/"))


def _relative_segments(encoded_path: str) -> tuple[str, ...]:
    segments = _normalise(decode_path(encoded_path))
    if segments is None or not segments:
        raise CorruptTableError(f"the path '{_printable(encoded_path)}' does not name a file below the table")
    return segments


def _absolute_segments(encoded_path: str) -> tuple[str, ...]:
    if encoded_path.startswith("//"):
        raise CorruptTableError(f"the path '{_printable(encoded_path)}' names a host but no scheme")
    segments = _normalise(decode_path(encoded_path))
    if segments is None:
        raise CorruptTableError(f"the path '{_printable(encoded_path)}' climbs above the root of its store")
    return segments


def _normalise(decoded_path: str) -> tuple[str, ...] | None:
    """The segments without '', '.' and '..'; None when '..' climbs out. Decoding came first, so %2e%2e is '..' too."""
    segments: list[str] = []
    for segment in decoded_path.split("/"):
        if segment in {"", "."}:
            continue
        if segment == "..":
            if not segments:
                return None
            segments.pop()
        else:
            segments.append(segment)
    return tuple(segments)


def _encode(decoded_path: str) -> str:
    return "".join(character if _is_legal(character) else _escape(character) for character in decoded_path)


def _is_legal(character: str) -> bool:
    if character < "\x80":
        return character in _LEGAL_IN_PATH
    # Java keeps other alphabets readable and escapes only their spaces and controls.
    return unicodedata.category(character) not in {"Zs", "Zl", "Zp", "Cc"}


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _printable(path: str) -> str:
    """A path for an error message: short, printable, without the credentials that a URL can carry."""
    return repr(_CREDENTIALS.sub("//...@", path[:300]))[1:-1]
