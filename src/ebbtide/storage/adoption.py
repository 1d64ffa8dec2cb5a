"""How do files that another program wrote on the local disk become a durable part of a table?

Spark writes data files into a directory of its own and does not sync them. Before a commit may name a file, its bytes
and its name must survive a power cut, and its final name must be ours alone. Object stores need none of this: an
object is durable when its upload ends, and moving it would be a copy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

from ebbtide.storage.durable import NO_HARD_LINKS, make_directories, sync_directory
from ebbtide.storage.failures import os_failure
from ebbtide.storage.names import validate_path
from ebbtide.storage.store import ObjectStore

__all__ = ["LocalDirectory", "local_directory"]

_LOCAL_URL = "file://"
# Syncs wait for the disk, not for the processor.
_SYNC_THREADS = 8


def local_directory(store: ObjectStore) -> LocalDirectory | None:
    """The local directory that is the store's root; None when the store is a service."""
    return LocalDirectory(Path(unquote(store.url[len(_LOCAL_URL) :]))) if store.url.startswith(_LOCAL_URL) else None


class LocalDirectory:
    """The root of a store on the local disk; paths are decoded and relative to it, as in `ObjectStore`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self) -> None:
        """Make the root itself, durably: another program would create it without syncing it into its parent."""
        try:
            make_directories(self._root)
        except OSError as error:
            raise os_failure(error, "create", str(self._root), is_put=True) from error

    def adopt(self, moves: Mapping[str, str]) -> None:
        """Give files (old path to new) a second name and make it durable: bytes, name and directories are synced.

        `ObjectExistsError` when a name is taken; nothing is ever replaced. After a failure the new names are gone
        again. Where there are hard links, the old names stay until `remove_tree` deletes their directory.
        """
        paths = {self._root / validate_path(old): self._root / validate_path(new) for old, new in moves.items()}
        created: list[Path] = []
        try:
            with ThreadPoolExecutor(_SYNC_THREADS) as pool:
                list(pool.map(_sync_file, paths))
            for old, new in paths.items():
                make_directories(new.parent)
                _name_exclusively(old, new)
                created.append(new)
            for directory in {new.parent for new in created}:
                sync_directory(directory)
        except BaseException as error:
            for new in created:
                with contextlib.suppress(OSError):
                    new.unlink()
            if isinstance(error, OSError):
                place = error.filename2 or error.filename or self._root
                raise os_failure(error, "keep the data file", str(place), is_put=True) from error
            raise

    def remove_tree(self, path: str) -> None:
        """Delete a directory and what is in it. What cannot be deleted stays; no log names it."""
        shutil.rmtree(self._root / validate_path(path), ignore_errors=True)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name_exclusively(old: Path, new: Path) -> None:
    """`os.rename` would silently replace a file of that name; a hard link does not."""
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(old), None, str(new)) from error
        old.rename(new)
