"""What may the other packages ask of a place that holds bytes?

`ObjectStore` is the whole answer: twelve members, no more, so that a test can wrap a store in a few lines. A store
knows nothing about Delta. Paths are decoded names relative to the store's root, separated by "/": the object that the
log calls `a%20b.parquet` is `a b.parquet` here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ebbtide.errors import StorageError

__all__ = ["ObjectMeta", "ObjectStore", "can_seek", "is_local"]


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    path: str
    size: int
    last_modified_ms: int


class ObjectStore(Protocol):
    """Bytes below one root.

    Every store guarantees, and `tests/contracts` checks:

    - names with spaces, `%`, `#`, brackets and non-ASCII letters are kept as they are;
    - listings ascend by the UTF-8 bytes of the path, even where the service does not promise an order;
    - there are no directories: listing below a name that does not exist yields nothing;
    - `put_if_absent` lets exactly one of many writers win, and its object appears whole or not at all;
    - failures are `ebbtide.errors` only, and no message, `repr` or exception chain carries a credential.
    """

    @property
    def url(self) -> str:
        """The root as an absolute, percent-encoded URL without credentials and without a trailing slash.

        `urllib.parse.unquote` gives the path back: `/tmp/a b` is `file:///tmp/a%20b`. `s3a://` is written `s3://`.
        """

    @property
    def spark_path(self) -> str:
        """The root as Spark expects it: not percent-encoded, `s3://` as `s3a://`; `file:/tmp/a b`."""

    @property
    def spark_options(self) -> Mapping[str, str]:
        """What Spark's readers and writers need to be told about this store. Values are secrets: never log them."""

    def list(self, prefix: str, *, start_after: str | None = None, in_order: bool = True) -> Iterator[ObjectMeta]:
        """Every object below the directory `prefix` ("" is the root) at any depth, ascending.

        `start_after` is a full path of this store, exclusive; it need not exist. Where the service promises no order,
        the listing is collected and sorted first; `in_order=False` takes the objects as they come instead, in as
        little memory as a page needs.
        """

    def list_directory(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """Like `list`, but only the objects directly in `prefix`."""

    def head(self, path: str) -> ObjectMeta:
        """Size and time of one object. `ObjectNotFoundError` when there is none."""

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The whole object. One larger than `max_bytes` is a `CorruptTableError`, and is not read."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer where the object ends first, none at or beyond its end.

        A length of zero gives no bytes and makes no request.
        """

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create the object, durably. `ObjectExistsError` when there is one already.

        `PutOutcomeUnknownError` when the answer was lost: the object may or may not be ours. Any other error: nothing
        was created. A service client repeats a request whose answer was lost, and the repeat then meets the object
        that the first one made. Stores report an unknown outcome when they notice that, but a caller that must know
        who won still has to read the object it lost to (a commit carries its `txnId`).
        """

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object whole. Only for hints such as `_last_checkpoint`; a commit never overwrites."""

    def delete(self, path: str) -> None:
        """Delete the object; one that does not exist is fine."""

    def delete_all(self, paths: Sequence[str]) -> Mapping[str, StorageError]:
        """Delete many objects in as few requests as the service allows; the answer is what stayed, and why.

        One that does not exist is fine. Symbolic links are neither followed nor deleted: a path that is one, or leads
        through one, stays.
        """


def is_local(store: ObjectStore) -> bool:
    """Whether the store is a local directory: a look at one object costs no request, a listing reads all names."""
    return store.url.startswith("file:")


def can_seek(store: ObjectStore) -> bool:
    """Whether a listing can start anywhere without reading what comes before, because the service lists in order."""
    scheme, _, rest = store.url.partition("://")
    # A directory bucket of S3 lists in no order.
    return scheme in {"gs", "memory"} or (scheme == "s3" and not rest.partition("/")[0].endswith("--x-s3"))
