"""Which store does a table's URL name, and which place in it?

Strings are read as Hadoop's `Path` reads them, because users give the same string to Spark: scheme and authority are
split off, and the rest is taken literally. `%20`, `#` and `?` are characters of a name, not an escape, a fragment or a
query, in `file:` URLs too.

    /tmp/a b, file:/tmp/a b, file:///tmp/a b   the directory "a b"
    file:/tmp/a%20b                            the directory "a%20b"
    data/t                                     below the working directory
    s3://bucket/t, s3a://bucket/t              S3, key prefix "t"
    gs://bucket/t                              Google Cloud Storage
    abfss://container@account.dfs.core.windows.net/t    Azure
    az://container/t                           Azure; the account is a storage option
    memory://name/t                            this process, for tests
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from ebbtide.errors import RequestError
from ebbtide.storage.failures import Scrubber

__all__ = ["UNRESERVED_IN_PATH", "Kind", "Location", "parse_location"]

Kind = Literal["file", "memory", "s3", "gs", "azure"]

# What a URL's path may hold unescaped (RFC 3986), as Hadoop and Java leave it too.
UNRESERVED_IN_PATH: Final = "/-._~!$&'()*+,;=:@"

_KINDS: Final[dict[str, Kind]] = {
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
}
_SUPPORTED: Final = "a plain path, file:, s3://, s3a://, gs://, abfss:// or az://"
# Hadoop's rule: a colon before the first slash ends a scheme.
_SCHEME = re.compile(r"([^/:]*):(.*)", re.DOTALL)
# Also keeps characters out of request URLs that make obstore panic instead of raising.
_CONTAINER = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]*")
_AZURE_CONTAINER = re.compile(r"abfss?://[A-Za-z0-9$-]+@[A-Za-z0-9.-]+(/|$)")
_SIGNED = re.compile(r"(?i)[?&](sig|x-amz-signature|x-goog-signature)=")
_ACCOUNT_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed table URL. `root` is a decoded key or path without slashes at its ends; "" is the whole container."""

    kind: Kind
    container: str
    root: str
    url: str
    spark_path: str
    # Azure: "account.dfs.core.windows.net" when the URL names it.
    account_host: str = ""


def parse_location(url: str) -> Location:
    """Errors: `RequestError` for what is not one of the forms above; credentials in the URL are not repeated."""
    if not url.strip() or any(letter < " " for letter in url):
        raise RequestError(
            f"{_mask(url)} is not a table location: it is blank or has control characters. Give {_SUPPORTED}."
        )
    scheme, rest = _split_scheme(url)
    if scheme is None:
        return _file_location(url, _absolute(url))
    if scheme == "file":
        return _file_location(url, _file_path(url, rest))
    if scheme not in _KINDS:
        raise RequestError(f"{_mask(url)} has the scheme {scheme!r}, which Ebbtide cannot open. Give {_SUPPORTED}.")
    return _container_location(url, scheme, rest)


def _split_scheme(url: str) -> tuple[str | None, str]:
    found = _SCHEME.match(url)
    return (None, url) if found is None else (found[1].lower(), found[2])


def _absolute(path: str) -> str:
    try:
        return os.path.normpath(Path.cwd() / path)
    except FileNotFoundError as error:
        raise RequestError(
            f"{path!r} is relative, and the working directory is gone. Give an absolute path."
        ) from error


def _file_path(url: str, rest: str) -> str:
    if rest.startswith("//") and not rest.startswith("///"):
        raise RequestError(f"{_mask(url)} names a host; a file URL has none. Write file:///path with three slashes.")
    if not rest.startswith("/"):
        raise RequestError(f"{_mask(url)} is a relative file URL. Write file:///path, or a plain relative path.")
    return os.path.normpath(rest)


def _file_location(url: str, absolute: str) -> Location:
    root = absolute.strip("/")
    if not root:
        raise RequestError(f"{_mask(url)} is the root of the file system. Give the table a directory of its own.")
    if _is_file(absolute):
        raise RequestError(f"{_mask(url)} is a file. Give the table's directory, the one that holds _delta_log.")
    return Location("file", "", root, f"file:///{_percent_encode(root)}", f"file:/{root}")


def _container_location(url: str, scheme: str, rest: str) -> Location:
    kind = _KINDS[scheme]
    authority, _, path = rest.removeprefix("//").partition("/")
    container, at, account_host = authority.partition("@")
    has_host = at and kind == "azure" and scheme != "az"
    if not rest.startswith("//") or _CONTAINER.fullmatch(container) is None:
        raise RequestError(f"{_mask(url)} names no bucket or container. Write {scheme}://bucket/path.")
    if (at and not has_host) or (has_host and _ACCOUNT_HOST.fullmatch(account_host) is None):
        raise RequestError(
            f"{_mask(url)} has an '@' in its bucket. Write {scheme}://bucket/path; credentials are storage_options."
        )
    if _SIGNED.search(path):
        raise RequestError(f"{_mask(url)} carries a signature. Give it as a storage option, such as 'sas_token'.")
    segments = [segment for segment in path.split("/") if segment]
    if "." in segments or ".." in segments:
        raise RequestError(f"{_mask(url)} has a '.' or '..' segment, which object stores do not know. Write it out.")
    root = "/".join(segments)
    canonical = "s3" if kind == "s3" else scheme
    hadoop = "s3a" if kind == "s3" else scheme
    return Location(
        kind,
        container,
        root,
        f"{canonical}://{authority}/{_percent_encode(root)}".rstrip("/"),
        f"{hadoop}://{authority}/{root}".rstrip("/"),
        account_host,
    )


def _is_file(absolute: str) -> bool:
    try:
        return Path(absolute).is_file()
    except OSError:
        return False  # not known yet; the first read or put will say why


def _percent_encode(path: str) -> str:
    return quote(path, safe=UNRESERVED_IN_PATH, errors="surrogateescape")


def _mask(url: str) -> str:
    """The URL for a message. `s3a://key:secret@bucket` and signed https URLs are things users do paste."""
    hidden = url if _AZURE_CONTAINER.match(url) else re.sub(r"^([^/:]*:/*).*@", r"\1***@", url, flags=re.DOTALL)
    return repr(Scrubber()(hidden))
