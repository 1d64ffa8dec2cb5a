"""How do local files serve as an object store?

Our own code rather than obstore's: a commit has to survive a power cut, which needs `fsync` of the file and its
directory, and obstore hides files whose names look like its own temporaries. POSIX only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from ebbtide.errors import CorruptTableError, StorageError
from ebbtide.storage.durable import checksum_sidecar, create_file, replace_file
from ebbtide.storage.failures import os_failure
from ebbtide.storage.locations import UNRESERVED_IN_PATH, Location
from ebbtide.storage.names import is_after, is_utf8, utf8_order, validate_path, validate_prefix, validate_range
from ebbtide.storage.store import ObjectMeta
from ebbtide.storage.unlinked import delete_files

__all__ = ["LocalStore"]


class LocalStore:
    """Files below one directory, which need not exist yet.

    - Every regular file is an object, even hidden and temporary ones; readers of a log select by name.
    - A symbolic link to a file is that file; one to a directory is not followed by listings, so that nothing found by
      listing lies outside the root.
    - Names that are not UTF-8 are not listed: no log can name them.
    """

    __slots__ = ("_location", "_root")

    def __init__(self, location: Location) -> None:
        self._location = location
        self._root = Path("/" + location.root)

    def __repr__(self) -> str:
        return f"LocalStore(url={self.url!r})"

    @property
    def url(self) -> str:
        return self._location.url

    @property
    def spark_path(self) -> str:
        return self._location.spark_path

    @property
    def spark_options(self) -> Mapping[str, str]:
        return {}

    def list(self, prefix: str, *, start_after: str | None = None, in_order: bool = True) -> Iterator[ObjectMeta]:
        del in_order  # one directory at a time is sorted, which costs nothing beside reading it
        return self._walk(validate_prefix(prefix), start_after)

    def list_directory(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return self._children(validate_prefix(prefix), start_after)

    def head(self, path: str) -> ObjectMeta:
        with self._open(path, "look at") as descriptor:
            status = os.fstat(descriptor)
        return _meta(path, status)

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        with self._open(path, "read") as descriptor:
            size = os.fstat(descriptor).st_size
            if max_bytes is not None and size > max_bytes:
                raise CorruptTableError(
                    f"{self._url_of(path)} is {size} bytes long; at most {max_bytes} are read. Check what wrote it."
                )
            return _read_at(descriptor, 0, size)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        validate_range(path, offset, length)
        if length == 0:
            return b""
        with self._open(path, "read") as descriptor:
            # Bounded by the file, not by the request: a length from an untrusted log must not allocate memory.
            left = max(0, os.fstat(descriptor).st_size - offset)
            return _read_at(descriptor, offset, min(length, left))

    def put_if_absent(self, path: str, data: bytes) -> None:
        target = self._file(path)
        try:
            create_file(target, data)
        except OSError as error:
            if isinstance(error, FileExistsError) and not target.is_file():
                # This is not a lost race: a caller that looks for the winner would not find one.
                raise StorageError(
                    f"Could not create {self._url_of(path)}: something that is not a file has this name, "
                    f"{_kind(target)}. Delete it."
                ) from error
            raise os_failure(error, "create", self._url_of(path), is_put=True) from error

    def put(self, path: str, data: bytes) -> None:
        target = self._file(path)
        try:
            replace_file(target, data)
        except OSError as error:
            raise os_failure(error, "write", self._url_of(path), is_put=True) from error

    def delete(self, path: str) -> None:
        target = self._file(path)
        try:
            if target.is_dir() and not target.is_symlink():
                return
            target.unlink(missing_ok=True)
            # A checksum that outlives its file makes Hadoop refuse the next file of that name.
            checksum_sidecar(target).unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise os_failure(error, "delete", self._url_of(path)) from error

    def delete_all(self, paths: Sequence[str]) -> Mapping[str, StorageError]:
        return delete_files(self, paths)

    def _file(self, path: str) -> Path:
        return self._root / validate_path(path)

    def _url_of(self, path: str) -> str:
        return f"{self.url}/{quote(path, safe=UNRESERVED_IN_PATH)}"

    @contextmanager
    def _open(self, path: str, action: str) -> Iterator[int]:
        target = self._file(path)
        try:
            # Without O_NONBLOCK a named pipe planted in the table would hang the reader.
            descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise IsADirectoryError
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise os_failure(error, action, self._url_of(path)) from error

    def _children(self, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
        """The files of one directory. A log has thousands of old names: up to `start_after` each costs a comparison."""
        base = f"{prefix}/" if prefix else ""
        last = start_after[len(base) :] if start_after is not None and start_after.startswith(base) else ""
        try:
            # Names only: iterdir would make a Path of each.
            names = [name for name in os.listdir(self._root / prefix) if name > last]  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise os_failure(error, "list", self._url_of(prefix)) from error
        for path in sorted((base + name for name in names if is_utf8(name)), key=utf8_order):
            if is_after(path, start_after) and (found := self._regular_file(path)) is not None:
                yield found

    def _walk(self, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
        # A stack of its own instead of recursion: a path can be deeper than Python's call stack.
        levels = [iter(self._entries(prefix))]
        while levels:
            path, is_directory = next(levels[-1], ("", False))
            if not path:
                levels.pop()
            elif is_directory:
                if _can_hold_after(f"{path}/", start_after):
                    levels.append(iter(self._entries(path)))
            elif is_after(path, start_after) and (found := self._regular_file(path)) is not None:
                yield found

    def _regular_file(self, path: str) -> ObjectMeta | None:
        try:
            status = (self._root / path).stat()
        except OSError as error:
            # Deleted since the directory was read, or a symbolic link that leads nowhere or to itself.
            if isinstance(error, FileNotFoundError) or error.errno == errno.ELOOP:
                return None
            raise os_failure(error, "look at", self._url_of(path)) from error
        return _meta(path, status) if stat.S_ISREG(status.st_mode) else None

    def _entries(self, prefix: str) -> Sequence[tuple[str, bool]]:
        """Paths in one directory and whether each is a directory, in the order of the full paths below it.

        A directory sorts as its name with the slash: `a-b` comes before `a/b`, and `a/b` before `a0`.
        """
        try:
            with os.scandir(self._root / prefix) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise os_failure(error, "list", self._url_of(prefix)) from error
        base = f"{prefix}/" if prefix else ""
        paths = [(base + name, is_directory) for name, is_directory in found if is_utf8(name)]
        return sorted(paths, key=lambda entry: utf8_order(entry[0] + "/" if entry[1] else entry[0]))


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a link that leads nowhere"
    return "a directory" if path.is_dir() else "a pipe, a socket or a device"


def _can_hold_after(directory: str, start_after: str | None) -> bool:
    return start_after is None or start_after.startswith(directory) or is_after(directory, start_after)


def _meta(path: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    parts = []
    while length > 0:
        # One read call returns at most about 2 GiB.
        part = os.pread(descriptor, length, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
