"""How do S3, Google Cloud Storage, Azure and process memory serve as one kind of object store?

Through obstore. This module adds what the contract requires and obstore leaves open: order, directory markers, ranges
beyond the end, scrubbed errors. Keys are joined to the root here, not by obstore's own prefix, so that names are made
in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import chain
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar
from urllib.parse import quote

import obstore
import obstore.exceptions as obstore_errors

from ebbtide.errors import CorruptTableError, DeltaError, ObjectNotFoundError, StorageError
from ebbtide.storage.failures import call_service, service_failure, service_status, was_put_conflict
from ebbtide.storage.locations import UNRESERVED_IN_PATH, Location
from ebbtide.storage.names import is_after, utf8_order, validate_path, validate_prefix, validate_range
from ebbtide.storage.options import StoreOptions
from ebbtide.storage.store import ObjectMeta, can_seek

if TYPE_CHECKING:
    from obstore import ObjectMeta as ServiceMeta
    from obstore.store import ObjectStore as Service

__all__ = ["CloudStore"]

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LIST_CHUNK: Final = 1000
_MAX_PUT_CONFLICTS: Final = 4
# Sorts after every name below a directory, except names that begin with this very character.
_LAST_CHARACTER: Final = "\U0010ffff"


class CloudStore:
    """Objects below one key prefix of a bucket, container or memory store.

    Where the service promises ascending UTF-8 order, listings stream and seek. Elsewhere (Azure with a hierarchical
    namespace, S3 directory buckets) a listing is collected and sorted first.
    """

    __slots__ = ("_ensure_credentials", "_is_listing_ordered", "_location", "_options", "_service")

    def __init__(
        self,
        service: Service,
        location: Location,
        options: StoreOptions,
        *,
        ensure_credentials: Callable[[], None] | None = None,
    ) -> None:
        """`ensure_credentials` is called before every request, and raises if there are none to send."""
        self._service = service
        self._ensure_credentials = ensure_credentials
        self._location = location
        self._options = options
        self._is_listing_ordered = can_seek(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A store holds credentials, so it cannot be pickled or copied. Open it again by its URL.")

    def __repr__(self) -> str:
        return f"CloudStore(url={self.url!r}, option_names={list(self._options.names)})"

    @property
    def url(self) -> str:
        return self._location.url

    @property
    def spark_path(self) -> str:
        return self._location.spark_path

    @property
    def spark_options(self) -> Mapping[str, str]:
        return self._options.for_spark

    def list(self, prefix: str, *, start_after: str | None = None, in_order: bool = True) -> Iterator[ObjectMeta]:
        return self._below(validate_prefix(prefix), start_after, in_order=in_order)

    def list_directory(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        directory = validate_prefix(prefix)
        if start_after is not None and self._is_listing_ordered:
            return self._seek_children(directory, start_after)
        return self._all_children(directory, start_after)

    def head(self, path: str) -> ObjectMeta:
        key = self._key(validate_path(path))
        return self._meta(self._run("look at", path, lambda: obstore.head(self._service, key)))

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        key = self._key(validate_path(path))

        def fetch() -> bytes | int:
            answer = obstore.get(self._service, key)
            size = answer.meta["size"]
            return size if max_bytes is not None and size > max_bytes else bytes(answer.bytes())

        found = self._run("read", path, fetch)
        if isinstance(found, int):
            raise CorruptTableError(
                f"{self._url_of(path)} is {found} bytes long; at most {max_bytes} are read. Check what wrote it."
            )
        return found

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        key = self._key(validate_path(path))
        validate_range(path, offset, length)
        if length == 0:
            return b""

        def fetch() -> bytes:
            try:
                return bytes(obstore.get_range(self._service, key, start=offset, length=length))
            except obstore_errors.GenericError as error:
                # Services and memory refuse a range that begins at or beyond the end, each with its own message.
                if service_status(error) not in {None, 416} or offset < obstore.head(self._service, key)["size"]:
                    raise
                return b""

        return self._run("read", path, fetch)

    def put_if_absent(self, path: str, data: bytes) -> None:
        key = self._key(validate_path(path))

        def create() -> None:
            for conflicts in range(1, _MAX_PUT_CONFLICTS + 1):
                try:
                    obstore.put(self._service, key, data, mode="create", use_multipart=False)
                    return
                except obstore_errors.AlreadyExistsError as error:
                    if conflicts == _MAX_PUT_CONFLICTS or not was_put_conflict(error):
                        raise

        self._run("create", path, create, is_put=True)

    def put(self, path: str, data: bytes) -> None:
        key = self._key(validate_path(path))
        self._run("write", path, lambda: obstore.put(self._service, key, data, use_multipart=False), is_put=True)

    def delete(self, path: str) -> None:
        key = self._key(validate_path(path))

        def remove() -> None:
            try:
                obstore.delete(self._service, key)
            except FileNotFoundError:
                return

        self._run("delete", path, remove)

    def delete_all(self, paths: Sequence[str]) -> Mapping[str, StorageError]:
        keys = [self._key(validate_path(path)) for path in paths]
        if not keys:
            return {}
        shown = paths[0] if len(paths) == 1 else ""
        try:
            self._run("delete", shown, lambda: obstore.delete(self._service, keys))
            return {}
        except StorageError as error:
            if len(paths) == 1:
                return {} if isinstance(error, ObjectNotFoundError) else {paths[0]: error}
        # The service does not say which of them failed, and some count a missing object as a failure.
        half = len(paths) // 2
        return {**self.delete_all(paths[:half]), **self.delete_all(paths[half:])}

    # --- names --------------------------------------------------------------------------------------------------------

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._location.root, path) if part)

    def _url_of(self, path: str) -> str:
        return f"{self.url}/{quote(path, safe=UNRESERVED_IN_PATH)}"

    def _meta(self, found: ServiceMeta) -> ObjectMeta:
        root = self._location.root
        path = found["path"].removeprefix(f"{root}/") if root else found["path"]
        return ObjectMeta(path, found["size"], _milliseconds(found["last_modified"]))

    # --- listing ------------------------------------------------------------------------------------------------------

    def _below(self, prefix: str, start_after: str | None, *, in_order: bool = True) -> Iterator[ObjectMeta]:
        found = self._stream(prefix, start_after)
        if self._is_listing_ordered:
            ordered = self._checked_order(_without_markers(found))
        elif not in_order:
            # Such services list a directory before what is in it, too, so markers are still recognised.
            ordered = _without_markers(found)
        else:
            ordered = _without_markers(sorted(found, key=lambda meta: utf8_order(meta.path)))
        return (meta for meta in ordered if is_after(meta.path, start_after))

    def _stream(self, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
        offset = None if start_after is None else self._key(start_after)
        start = self._key(prefix)
        chunks = self._run(
            "list", prefix, lambda: obstore.list(self._service, start or None, offset=offset, chunk_size=_LIST_CHUNK)
        )
        while chunk := self._run("list", prefix, lambda: next(chunks, None)):
            # The marker object of the directory itself has a name that equals the prefix.
            yield from (self._meta(found) for found in chunk if found["path"] != start)

    def _checked_order(self, listed: Iterable[ObjectMeta]) -> Iterator[ObjectMeta]:
        last = b""
        for meta in listed:
            order = utf8_order(meta.path)
            if order > last:
                last = order
                yield meta
            elif meta.size > 0:
                raise StorageError(
                    f"The listing of {self.url} is out of order at {meta.path!r}, so a log read from it could miss "
                    "commits. Check that the endpoint lists keys in UTF-8 order, as S3 does."
                )
            # An empty object is the marker of an empty directory: its key ends in "/", which obstore removes.

    def _all_children(self, directory: str, start_after: str | None) -> Iterator[ObjectMeta]:
        start = self._key(directory)
        answer = self._run("list", directory, lambda: obstore.list_with_delimiter(self._service, start or None))
        children = [self._meta(found) for found in answer["objects"] if found["path"] != start]
        for meta in sorted(children, key=lambda child: utf8_order(child.path)):
            if is_after(meta.path, start_after):
                yield meta

    def _seek_children(self, directory: str, start_after: str) -> Iterator[ObjectMeta]:
        """A log's last entries without its first million. Services cannot combine a delimiter with an offset.

        So this uses the recursive listing and jumps over each subdirectory it meets.
        """
        base = f"{directory}/" if directory else ""
        cursor: str | None = start_after
        while cursor is not None:
            after, cursor = cursor, None
            for meta in self._below(directory, after):
                child, is_nested, _ = meta.path.removeprefix(base).partition("/")
                if not is_nested:
                    yield meta
                    continue
                behind = f"{base}{child}/{_LAST_CHARACTER}"
                if is_after(behind, after):
                    cursor = behind
                    break

    # --- errors -------------------------------------------------------------------------------------------------------

    def _run(self, action: str, path: str, call: Callable[[], T], *, is_put: bool = False) -> T:
        def failure(error: Exception) -> DeltaError:
            return service_failure(error, action, self._url_of(path), self._options.scrub, is_put=is_put)

        if self._ensure_credentials is not None:
            self._ensure_credentials()
        return call_service(call, failure)


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _without_markers(listed: Iterable[ObjectMeta]) -> Iterator[ObjectMeta]:
    """Leaves out the empty objects that tools create to make a key prefix look like a directory.

    Their keys end in "/", which obstore removes. They are recognised by their children, which come next.
    """
    held: ObjectMeta | None = None
    for meta in chain(listed, (None,)):
        if held is not None and not (held.size == 0 and meta is not None and meta.path.startswith(f"{held.path}/")):
            yield held
        held = meta
