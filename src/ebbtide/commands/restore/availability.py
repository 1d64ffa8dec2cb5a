"""Are the files that a version needs still there?

VACUUM deletes data files and deletion vectors that no newer version needs. Before a commit brings files back into the
table, each of them and each vector is looked for in storage: a table that names a missing file cannot be read. A data
file of another size than the log says was cut short or replaced, and is refused too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError, MissingDataFileError, ObjectNotFoundError
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.paths import resolve_data_path
from ebbtide.storage import ObjectStore, open_store
from ebbtide.storage.prefetch import prefetch

__all__ = ["MissingFiles", "find_missing_files"]

# Looking is all waiting, on a network disk too.
_LOOKS_AT_ONCE = 32
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class MissingFiles:
    """Files that are not there: `data` as the log spells their paths, `vectors` by their names."""

    data: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()

    def refusal(self, table_url: str, version: int, remedy: str) -> MissingDataFileError:
        counted = [
            f"{len(paths)} {noun}{'' if len(paths) == 1 else 's'} ({_list_first(paths)})"
            for noun, paths in (("data file", self.data), ("deletion-vector file", self.vectors))
            if paths
        ]
        return MissingDataFileError(
            f"Version {version} of the table at {table_url} needs {' and '.join(counted)} no longer in storage: "
            f"vacuumed, or deleted by hand. Nothing was changed. {remedy}"
        )


def find_missing_files(
    store: ObjectStore,
    adds: Iterable[AddFile],
    *,
    config: EngineConfig,
    storage_options: Mapping[str, str] | None = None,
) -> MissingFiles:
    """Look at every data file and every vector file of these. CorruptTableError for a data file of another size."""
    places = _Places(store, config, storage_options)
    listed = list(adds)
    missing = []
    sizes = prefetch(_size, [places.of_path(add.path) for add in listed], ahead=_LOOKS_AT_ONCE)
    for add, size in zip(listed, sizes, strict=True):
        if size is None:
            missing.append(add.path)
        elif size != add.size:
            raise CorruptTableError(
                f"The data file '{add.path}' of the table at {store.url} has {size} bytes, the log says {add.size}: it "
                "was cut short or replaced. Bring the file back from a copy."
            )
    vectors = {
        add.deletion_vector.unique_file_id: places.of_vector(add.deletion_vector)
        for add in listed
        if add.deletion_vector is not None and add.deletion_vector.is_on_disk
    }
    found = zip(vectors.values(), prefetch(_size, list(vectors.values()), ahead=_LOOKS_AT_ONCE), strict=True)
    return MissingFiles(tuple(missing), tuple(place.path for place, size in found if size is None))


@dataclass(frozen=True, slots=True)
class _Place:
    """One object; `path` is decoded and relative to the store."""

    store: ObjectStore
    path: str


@dataclass(frozen=True, slots=True)
class _Places:
    """Finds the object that the log means, inside the table or elsewhere."""

    store: ObjectStore
    config: EngineConfig
    storage_options: Mapping[str, str] | None
    # Stores of directories outside of the table, by their decoded URL.
    others: dict[str, ObjectStore] = field(default_factory=dict)

    def of_path(self, encoded_path: str) -> _Place:
        location = resolve_data_path(encoded_path, self.store.url, allow_foreign=self.config.allow_foreign_paths)
        if location.relative_path is not None:
            return _Place(self.store, location.relative_path)
        directory, _, name = unquote(location.absolute_url or "").rpartition("/")
        if directory not in self.others:
            self.others[directory] = open_store(directory, self.storage_options)
        return _Place(self.others[directory], name)

    def of_vector(self, vector: DeletionVectorDescriptor) -> _Place:
        if vector.is_relative:
            return _Place(self.store, vector.relative_path)
        return self.of_path(vector.path_or_inline_dv)


def _size(place: _Place) -> int | None:
    try:
        return place.store.head(place.path).size
    except ObjectNotFoundError:
        return None


def _list_first(paths: tuple[str, ...]) -> str:
    return f"{', '.join(paths[:_SHOWN])}{', ...' if len(paths) > _SHOWN else ''}"
