"""Which files of a table lie outside of its directory?

The log may name data files and deletion vectors by absolute paths into the same store. Shallow clones are made of such
paths, so they are read. On a local disk a link can lead out as well. `count_outside_files` says how many there are,
and `ensure_inside_root` refuses them for callers who do not trust the table (`EngineConfig.inside_root_only`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow.compute as pc

from ebbtide.config import EngineConfig
from ebbtide.errors import UnsupportedFeatureError
from ebbtide.log.replay import LiveFiles
from ebbtide.protocol.deletion_vector import PATH_DV_MARKER, DeletionVectorDescriptor
from ebbtide.protocol.paths import canonical_path, resolve_data_path
from ebbtide.storage.links import paths_outside
from ebbtide.storage.store import ObjectStore

__all__ = ["count_outside_files", "ensure_inside_root", "ensure_paths_inside_root"]

# A canonical path holds this exactly when it is absolute.
_ABSOLUTE = "://"


def count_outside_files(live: LiveFiles, store: ObjectStore) -> int:
    """How many live files have their data or their deletion vector outside of the root."""
    outside = 0
    for part in live.slices:
        vectors = set(_vectors_outside(part.rows.column("deletion_vector").to_pylist(), store.url))
        paths = part.canonical.to_pylist()
        linked = set(paths_outside(store, (path for path in paths if _ABSOLUTE not in path)))
        outside += sum(_ABSOLUTE in path or path in linked or row in vectors for row, path in enumerate(paths))
    return outside


def ensure_inside_root(live: LiveFiles, store: ObjectStore, config: EngineConfig) -> None:
    """UnsupportedFeatureError when the config asks for files inside the root only, and the log names others.

    Links are looked for before the log is read (`storage.links`).
    """
    if not config.inside_root_only:
        return
    for part in live.slices:
        mask = pc.match_substring(part.canonical, _ABSOLUTE)
        if pc.any(mask).as_py():
            raise _refusal(part.rows.column("path").filter(mask)[0].as_py(), store.url)
        vectors = part.rows.column("deletion_vector").to_pylist()
        for row in _vectors_outside(vectors, store.url):
            raise _refusal(vectors[row]["path_or_inline_dv"], store.url)


def ensure_paths_inside_root(
    encoded_paths: Iterable[str],
    vectors: Iterable[DeletionVectorDescriptor | None],
    store: ObjectStore,
    config: EngineConfig,
) -> None:
    """The same for files that are not live: change data, and the removed files of a change feed."""
    if not config.inside_root_only:
        return
    absolute = (
        vector.path_or_inline_dv for vector in vectors if vector is not None and vector.storage_type == PATH_DV_MARKER
    )
    for path in chain(encoded_paths, absolute):
        if _ABSOLUTE in canonical_path(path, store.url):
            raise _refusal(path, store.url)


def _vectors_outside(vectors: list[dict[str, str] | None], table_url: str) -> Iterator[int]:
    for row, vector in enumerate(vectors):
        if vector is not None and vector["storage_type"] == PATH_DV_MARKER:
            location = resolve_data_path(vector["path_or_inline_dv"], table_url, allow_foreign=True)
            if location.relative_path is None:
                yield row


def _refusal(encoded_path: str, table_url: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the table at {table_url} names the file {encoded_path[:300]!r} outside of its root, as shallow clones do; "
        "EngineConfig(inside_root_only=True), or --untrusted, refuses such files. Read without that switch if the "
        "table can be trusted.",
        error_class="",
    )
