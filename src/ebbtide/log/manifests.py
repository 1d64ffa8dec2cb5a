"""Which files does a table consist of, for readers that do not know its log?

A symlink manifest is a text file with the absolute path of each data file, one per line; a partitioned table has one
per partition. Presto, Athena and similar engines read them. A manifest cannot say that rows of a file are deleted, nor
which column of a file is which, so tables with deletion vectors or column mapping have none.

    _symlink_format_manifest/manifest
    _symlink_format_manifest/city=Oslo/manifest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from ebbtide.errors import RequestError
from ebbtide.log.snapshot import Snapshot
from ebbtide.protocol.partition_values import partition_directory
from ebbtide.protocol.paths import resolve_data_path
from ebbtide.storage.prefetch import choose_read_ahead, prefetch

__all__ = ["MANIFEST_DIRECTORY", "Manifests", "manifests_of", "write_manifests"]

MANIFEST_DIRECTORY: Final = "_symlink_format_manifest"
_NAME: Final = "manifest"

PartitionValues = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Manifests:
    """Contents by path, and the manifests of partitions that have no file any more."""

    contents: Mapping[str, bytes]
    stale: tuple[str, ...]


def manifests_of(snapshot: Snapshot, only: Iterable[PartitionValues] | None = None) -> Manifests:
    """The manifests of a snapshot, or of the given partitions alone if there are manifests already.

    RequestError for a table that can have none.
    """
    _ensure_possible(snapshot)
    columns = snapshot.metadata.partition_columns
    is_first = next(iter(snapshot.store.list(MANIFEST_DIRECTORY)), None) is None
    wanted = None if only is None or is_first or not columns else {_path(columns, values) for values in only}
    lines: dict[str, list[str]] = {} if columns else {_path((), {}): []}
    files = snapshot.files.select(["path", "partition_values"])
    for batch in files.to_batches():
        for path, values in zip(batch["path"].to_pylist(), batch["partition_values"].to_pylist(), strict=True):
            manifest = _path(columns, dict(values or ()))
            if wanted is None or manifest in wanted:
                lines.setdefault(manifest, []).append(_line(path, snapshot))
    contents = {manifest: "".join(sorted(paths)).encode() for manifest, paths in lines.items()}
    return Manifests(contents, _stale(snapshot, contents) if wanted is None else tuple(sorted(wanted - set(contents))))


def write_manifests(snapshot: Snapshot, manifests: Manifests) -> None:
    """Put every manifest, then delete those that are stale: a reader may see a file too many, never too few."""
    store = snapshot.store
    for _ in prefetch(lambda item: store.put(*item), list(manifests.contents.items()), ahead=_ahead(snapshot)):
        pass
    for path in manifests.stale:
        store.delete(path)


def _ensure_possible(snapshot: Snapshot) -> None:
    if snapshot.properties.column_mapping_mode != "none":
        raise RequestError(
            f"The table at {snapshot.store.url} maps its columns to other names in the files, which readers of a "
            "manifest cannot know. It can have no manifests.",
            error_class="DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING",
        )
    if pc.any(pc.is_valid(snapshot.files["deletion_vector"]), min_count=0).as_py():
        raise RequestError(
            f"The table at {snapshot.store.url} has deletion vectors, and readers of a manifest would see the deleted "
            "rows. Set delta.enableDeletionVectors to false and run REORG TABLE ... APPLY (PURGE) first.",
            error_class="DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
        )


def _path(columns: Iterable[str], values: PartitionValues) -> str:
    directory = partition_directory([(name, values.get(name)) for name in columns])
    return "/".join(part for part in (MANIFEST_DIRECTORY, directory, _NAME) if part)


def _line(encoded_path: str, snapshot: Snapshot) -> str:
    """The path as Hadoop spells it, not percent-encoded."""
    location = resolve_data_path(encoded_path, snapshot.store.url, allow_foreign=True)
    if location.relative_path is not None:
        return f"{snapshot.store.spark_path.rstrip('/')}/{location.relative_path}\n"
    raise RequestError(
        f"The table at {snapshot.store.url} names the file '{encoded_path[:300]}' outside of its directory, as shallow "
        "clones do. Generate the manifests of its source."
    )


def _stale(snapshot: Snapshot, contents: Mapping[str, bytes]) -> tuple[str, ...]:
    found = (meta.path for meta in snapshot.store.list(MANIFEST_DIRECTORY))
    return tuple(path for path in found if path.rpartition("/")[2] == _NAME and path not in contents)


def _ahead(snapshot: Snapshot) -> int:
    return choose_read_ahead(snapshot.store)
