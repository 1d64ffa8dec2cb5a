"""How is a local directory walked and cleared without ever following a symbolic link?

Every directory is opened from the one above it, with the instruction not to follow links. Whatever is in it is looked
at and deleted through that handle. So a link that is in the table, or is put there while we work, cannot lead us out of
the root. The root itself may be a link: the user named it. Only local stores have directories and links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from ebbtide.errors import StorageError
from ebbtide.storage.failures import os_failure
from ebbtide.storage.names import is_utf8, validate_path
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["FoundDirectory", "FoundLink", "delete_files", "look_at_file", "remove_directory", "remove_root", "walk"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = _DIRECTORY | os.O_NOFOLLOW
# What opening a directory gives when its name is a link, or not a directory at all.
_IN_THE_WAY = frozenset({errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class FoundDirectory:
    """A directory, after its own entries were found. The root is "".

    `num_files` counts everything that is no directory, whatever it is; `num_directories` those entered or not.
    """

    path: str
    last_modified_ms: int
    num_files: int
    num_directories: int


@dataclass(frozen=True, slots=True)
class FoundLink:
    """A symbolic link. `target` is the path below the root that it leads to; None when it leads out of it."""

    path: str
    target: str | None


def walk(
    store: ObjectStore, enters: Callable[[str, frozenset[str]], bool]
) -> Iterator[ObjectMeta | FoundDirectory | FoundLink]:
    """Everything below the root, in no order, each directory after what is directly in it.

    `enters(path, names)` is asked for each directory; `names` are all directories in the one above it. One that it does
    not enter is counted, and not looked into. Memory is that of the directories still to be visited.
    """
    root = _root_of(store)
    real_root = os.path.realpath(root)
    waiting = [""]
    while waiting:
        path = waiting.pop()
        try:
            with _open_directory(root, path) as descriptor:
                yield from _entries(descriptor, path, real_root, enters, waiting)
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted, or replaced by a link, since the directory above was read
        except OSError as error:
            raise os_failure(error, "list", f"{store.url}/{path}") from error


def _entries(
    descriptor: int, path: str, real_root: str, enters: Callable[[str, frozenset[str]], bool], waiting: list[str]
) -> Iterator[ObjectMeta | FoundDirectory | FoundLink]:
    base = f"{path}/" if path else ""
    num_files = 0
    directories: list[str] = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
                continue
            num_files += 1
            if entry.is_symlink():
                yield FoundLink(base + entry.name, _target_inside(f"{real_root}/{base}{entry.name}", real_root))
            elif entry.is_file(follow_symlinks=False) and is_utf8(entry.name):
                found = _look(descriptor, entry.name)
                if found is not None:
                    yield ObjectMeta(base + entry.name, found.st_size, _ms(found))
    names = frozenset(directories)
    waiting += [base + name for name in directories if is_utf8(name) and enters(base + name, names)]
    yield FoundDirectory(path, _ms(os.fstat(descriptor)), num_files, len(directories))


def look_at_file(store: ObjectStore, path: str) -> ObjectMeta | None:
    """Size and time of a regular file; None when there is none, or when it is or lies behind a link."""
    parent, _, name = validate_path(path).rpartition("/")
    try:
        with _open_directory(_root_of(store), parent) as descriptor:
            found = _look(descriptor, name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise os_failure(error, "look at", f"{store.url}/{path}") from error
    if found is None or not stat.S_ISREG(found.st_mode):
        return None
    return ObjectMeta(path, found.st_size, _ms(found))


def delete_files(store: ObjectStore, paths: Sequence[str]) -> dict[str, StorageError]:
    """Delete regular files, and the checksums that Hadoop keeps beside them; what stayed, and why."""
    root = _root_of(store)
    names: dict[str, list[str]] = {}
    for path in paths:
        parent, _, name = validate_path(path).rpartition("/")
        names.setdefault(parent, []).append(name)
    failed: dict[str, StorageError] = {}
    for parent, children in names.items():
        base = f"{parent}/" if parent else ""
        try:
            with _open_directory(root, parent) as descriptor:
                for name in children:
                    try:
                        _delete(descriptor, name)
                    except OSError as error:
                        failed[base + name] = _failure(error, f"{store.url}/{base}{name}")
        except FileNotFoundError:
            continue
        except OSError as error:
            failed |= {base + name: _failure(error, f"{store.url}/{base}{name}") for name in children}
    return failed


def remove_directory(store: ObjectStore, path: str) -> bool:
    """Remove an empty directory. False when it is not empty any more, or is a link; True also when it is gone."""
    parent, _, name = validate_path(path).rpartition("/")
    try:
        with _open_directory(_root_of(store), parent) as descriptor:
            os.rmdir(name, dir_fd=descriptor)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST, *_IN_THE_WAY}:
            return False
        raise os_failure(error, "delete", f"{store.url}/{path}") from error
    return True


def remove_root(store: ObjectStore) -> None:
    """Remove the root, if it is an empty directory and not a link."""
    try:
        _root_of(store).rmdir()
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, *_IN_THE_WAY}:
            raise os_failure(error, "delete", store.url) from error


def _root_of(store: ObjectStore) -> Path:
    return Path(unquote(store.url.removeprefix("file://")))


@contextmanager
def _open_directory(root: Path, path: str) -> Iterator[int]:
    """A handle of the directory at `path` below the root.

    FileNotFoundError when there is none; NotADirectoryError when a link is on the way.
    """
    descriptor = os.open(root, _DIRECTORY)
    try:
        for name in path.split("/") if path else ():
            try:
                inner = os.open(name, _NO_LINK, dir_fd=descriptor)
            except OSError as error:
                if error.errno not in _IN_THE_WAY:
                    raise
                found = _look(descriptor, name)
                if found is not None and stat.S_ISLNK(found.st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _look(descriptor: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _delete(descriptor: int, name: str) -> None:
    found = _look(descriptor, name)
    if found is None or stat.S_ISDIR(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a regular file")
    os.unlink(name, dir_fd=descriptor)
    # A checksum that outlives its file makes Hadoop refuse the next file of that name.
    try:
        os.unlink(f".{name}.crc", dir_fd=descriptor)
    except (FileNotFoundError, IsADirectoryError):
        return
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise


def _failure(error: OSError, location: str) -> StorageError:
    if error.errno in _IN_THE_WAY:
        return StorageError(
            f"Could not delete {location}: it is a symbolic link, lies behind one, or is no regular file. Links are "
            "not followed; delete it by hand if it is not needed."
        )
    return os_failure(error, "delete", location, is_put=True)


def _target_inside(link: str, real_root: str) -> str | None:
    target = os.path.realpath(link)
    return os.path.relpath(target, real_root) if target.startswith(real_root.rstrip("/") + "/") else None


def _ms(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000
