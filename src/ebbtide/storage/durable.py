"""How does a local file come to exist whole, once, and for good?

Rename is not the answer: it silently replaces a file another writer has just made. A hard link to a finished, synced
temporary file fails when the name is taken, and shows readers all of the bytes or none.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from pathlib import Path
from uuid import uuid4

from ebbtide.storage.failures import PutOutcomeUnknownError

__all__ = ["NO_HARD_LINKS", "checksum_sidecar", "create_file", "make_directories", "replace_file", "sync_directory"]

logger = logging.getLogger(__name__)

# FAT, some FUSE and some network file systems have no hard links, and report one of these.
NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
# A file system that cannot sync a directory reports one of these; there is nothing more a caller could do.
_CANNOT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MODE = 0o666
# The temporary name is 39 bytes longer than the target's; file systems allow 255.
_MAX_NAME_BYTES_IN_TEMPORARY = 200


def create_file(target: Path, data: bytes) -> None:
    """Create `target` with `data`. `FileExistsError` when it exists; any other `OSError` means nothing was created.

    `PutOutcomeUnknownError`: the file is there, but it may not survive a power cut.
    """
    make_directories(target.parent)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    temporary = _write_temporary(target, data)
    try:
        _publish(temporary, target, data)
    finally:
        # A temporary that stays behind is litter with a hidden name; it must not turn a won race into an error.
        with contextlib.suppress(OSError):
            temporary.unlink()
    _sync_published(target)


def replace_file(target: Path, data: bytes) -> None:
    """Create or replace `target` whole."""
    make_directories(target.parent)
    temporary = _write_temporary(target, data)
    try:
        # Before the replace: a checksum of the old bytes would make Hadoop refuse the new ones.
        checksum_sidecar(target).unlink(missing_ok=True)
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_published(target)


def checksum_sidecar(target: Path) -> Path:
    """Where Hadoop's local file system keeps the checksum of `target`."""
    return target.with_name(f".{target.name}.crc")


def _publish(temporary: Path, target: Path, data: bytes) -> None:
    try:
        os.link(temporary, target)
    except FileExistsError:
        # NFS repeats a link whose answer was lost, and the repeat meets the link that the first one made.
        if temporary.stat().st_nlink < 2:
            raise
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        logger.warning(
            "%s has no hard links: readers may see a file while it is being written, and a crash can leave part of it.",
            target.parent,
        )
        _create_in_place(target, data)


def _create_in_place(target: Path, data: bytes) -> None:
    """Exactly one writer wins here too, but readers can see the file before it is whole."""
    descriptor = os.open(target, _CREATE, _MODE)
    try:
        _write_and_sync(descriptor, data)
    except OSError as error:
        try:
            target.unlink()
        except OSError:
            raise PutOutcomeUnknownError(
                f"{target} was left half written ({error.strerror}) and could not be deleted. Delete it by hand."
            ) from error
        raise


def _write_temporary(target: Path, data: bytes) -> Path:
    kept = os.fsdecode(os.fsencode(target.name)[:_MAX_NAME_BYTES_IN_TEMPORARY])
    temporary = target.with_name(f".{kept}.{uuid4().hex}.tmp")
    descriptor = os.open(temporary, _CREATE, _MODE)
    try:
        _write_and_sync(descriptor, data)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _write_and_sync(descriptor: int, data: bytes) -> None:
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_published(target: Path) -> None:
    try:
        sync_directory(target.parent)
    except OSError as error:
        raise PutOutcomeUnknownError(
            f"{target} was written, but its directory could not be synced to disk: {error.strerror}. "
            "Check the disk, then read the file back."
        ) from error


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_directories(directory: Path) -> None:
    """Create the missing levels of `directory`, each synced into the one above it."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for level in reversed(missing):
        try:
            level.mkdir()
        except FileExistsError as error:
            # Another writer made it meanwhile, which is fine; or a file is in the way, and "exists" would mislead.
            if not level.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(level)) from error
        sync_directory(level.parent)
