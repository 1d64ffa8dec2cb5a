"""How are files deleted that were written for a commit which will never be made?

Only for files that no commit has named and none will: an attempt that was given up for another one, or a commit that
was refused. While the outcome of a commit is unknown, its files must stay. Any VACUUM finds what cannot be deleted, so
a failure here is logged and not raised.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ebbtide.errors import StorageError
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.paths import decode_path
from ebbtide.storage import ObjectStore
from ebbtide.write.target import WrittenFiles

__all__ = ["discard"]

_LOGGER = logging.getLogger(__name__)


def discard(
    store: ObjectStore, written: Iterable[WrittenFiles], vectors: Iterable[DeletionVectorDescriptor] = ()
) -> None:
    """Delete data files, change data files, and the files of new deletion vectors."""
    paths: set[str] = set()
    for files in written:
        paths |= {decode_path(add.path) for add in files.adds} | {decode_path(cdc.path) for cdc in files.change_files}
    paths |= {vector.relative_path for vector in vectors if vector.is_relative}
    for path in sorted(paths):
        try:
            store.delete(path)
        except StorageError as error:
            _LOGGER.warning("The file %s of %s is not needed and could not be deleted: %s", path, store.url, error)
