"""How does one table name the files of another?

By absolute paths: data files, and deletion vectors with `DeletionVectorDescriptor.copy_with_absolute_path`. Paths are
spelled as Hadoop spells them, because delta-spark opens them as they are. A file that is absolute already (in a clone
of a clone) keeps its path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.paths import encode_absolute_path, resolve_data_path
from ebbtide.storage import ObjectStore

__all__ = ["cloned_files", "ensure_apart"]


def cloned_files(source: Snapshot) -> Iterator[AddFile]:
    """The live files of the source, as a table elsewhere names them.

    Row ids are not kept: they are numbers of the source's own, and the clone gives out its own from zero.
    """
    return (
        replace(
            add,
            path=_absolute(add.path, source),
            deletion_vector=_absolute_vector(add.deletion_vector, source),
            data_change=True,
            base_row_id=None,
            default_row_commit_version=None,
        )
        for add in source.add_files()
    )


def _absolute(encoded_path: str, source: Snapshot) -> str:
    location = resolve_data_path(encoded_path, source.store.url, allow_foreign=True)
    if location.relative_path is None:
        return encoded_path
    return encode_absolute_path(f"{source.store.spark_path.rstrip('/')}/{location.relative_path}")


def _absolute_vector(vector: DeletionVectorDescriptor | None, source: Snapshot) -> DeletionVectorDescriptor | None:
    return None if vector is None else vector.copy_with_absolute_path(source.store.spark_path)


def ensure_apart(source: ObjectStore, target: ObjectStore) -> None:
    """RequestError when the two tables are in different stores, or one lies inside the other."""
    if _place(source) != _place(target):
        raise RequestError(
            f"A shallow clone in {target.url} cannot name files of {source.url}: they are in different stores, and "
            "readers of a table open one. Clone within a store, or copy the rows with ebbtide.write."
        )
    outer, inner = sorted((source.url, target.url), key=len)
    if outer != inner and inner.startswith(f"{outer.rstrip('/')}/"):
        raise RequestError(
            f"One of the tables would lie inside the other: {inner} is below {outer}, where VACUUM takes its files for "
            "leftovers. Choose a place beside the source."
        )


def _place(store: ObjectStore) -> tuple[str, str]:
    """Scheme and bucket of a store."""
    scheme, _, rest = store.url.partition("://")
    return scheme, rest.partition("/")[0]
