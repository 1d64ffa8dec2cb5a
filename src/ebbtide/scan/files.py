"""Which objects must be opened for these live files, and which of their rows are marked?

Takes rows of a snapshot's file table, gives `ScanFile`s: the path as Spark wants it, the partition values from the log
(never from the directory or the file) and the loaded deletion vector. On the local disk a missing or shortened data
file is found here, before Spark starts. Elsewhere that would cost one request per file, and Spark finds it anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa

from ebbtide.config import EngineConfig
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.deletion_vectors.store import load_all
from ebbtide.errors import CorruptTableError, MissingDataFileError, ObjectNotFoundError
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.paths import DataLocation, resolve_data_path
from ebbtide.protocol.statistics import num_records
from ebbtide.scan.kept_rows import ALL_ROWS, KeptRows, OnlyRows, WithoutRows, without_rows
from ebbtide.storage import ObjectStore, is_local

__all__ = ["ScanFile", "resolve_adds", "resolve_file", "resolve_files", "spark_path"]


@dataclass(frozen=True, slots=True)
class ScanFile:
    add: AddFile
    spark_path: str  # not percent-encoded, with its scheme
    relative_path: str | None  # decoded, below the table root; None for a file elsewhere
    keeps: KeptRows = ALL_ROWS  # without the rows that its deletion vector marks, unless a command says otherwise
    size_is_checked: bool = False  # `add.size` was compared with the object itself

    @property
    def marks(self) -> RowIndexSet | None:
        """The rows that are hidden; None where none is."""
        return self.keeps.rows if isinstance(self.keeps, WithoutRows) else None

    def without(self, rows: RowIndexSet) -> ScanFile:
        """The file with these rows hidden as well as those that are hidden already."""
        marks = self.marks
        return replace(self, keeps=without_rows(rows if marks is None else marks | rows))

    def only(self, rows: RowIndexSet) -> ScanFile:
        """The file with nothing but these rows."""
        return replace(self, keeps=OnlyRows(rows))

    @property
    def most_rows(self) -> int:
        """The most rows that a scan may have to read. Without a row count, the file's bytes count instead."""
        return num_records(self.add.stats) or self.add.size


def resolve_files(
    snapshot: Snapshot,
    files: pa.Table,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> list[ScanFile]:
    """The scan files of these rows of `snapshot.files`, in their order."""
    return resolve_adds(snapshot, list(add_files(files)), storage_options=storage_options)


def resolve_adds(
    snapshot: Snapshot, adds: Sequence[AddFile], *, storage_options: Mapping[str, str] | None = None
) -> list[ScanFile]:
    """The scan files of live files of the snapshot."""
    marks = _load_marks(snapshot.store, adds, snapshot.config, storage_options)
    return [resolve_file(snapshot, add, rows) for add, rows in zip(adds, marks, strict=True)]


def resolve_file(snapshot: Snapshot, add: AddFile, marks: RowIndexSet | None) -> ScanFile:
    """The scan file of one data file whose vector is already loaded."""
    store = snapshot.store
    location = resolve_data_path(add.path, store.url, allow_foreign=snapshot.config.allow_foreign_paths)
    checked = is_local(store) and location.relative_path is not None
    if checked:
        _check_object(store, location.relative_path or "", add)
    return ScanFile(add, spark_path(store, location), location.relative_path, without_rows(marks), checked)


def spark_path(store: ObjectStore, location: DataLocation) -> str:
    """The object's path as Spark's reader wants it, not percent-encoded."""
    if location.relative_path is not None:
        return f"{store.spark_path.rstrip('/')}/{location.relative_path}"
    url = unquote(location.absolute_url or "")
    if url.startswith("file:///"):
        return "file:/" + url[len("file:///") :]
    return "s3a:" + url[len("s3:") :] if url.startswith("s3:") else url


def _load_marks(
    store: ObjectStore,
    adds: Sequence[AddFile],
    config: EngineConfig,
    storage_options: Mapping[str, str] | None,
) -> list[RowIndexSet | None]:
    found = [(index, add.deletion_vector) for index, add in enumerate(adds) if add.deletion_vector is not None]
    loaded = load_all(
        store,
        store.url,
        [descriptor for _, descriptor in found],
        num_records=[num_records(adds[index].stats) for index, _ in found],
        config=config,
        storage_options=storage_options,
    )
    marks: list[RowIndexSet | None] = [None] * len(adds)
    for (index, _), rows in zip(found, loaded, strict=True):
        marks[index] = rows or None
    return marks


def _check_object(store: ObjectStore, relative_path: str, add: AddFile) -> None:
    try:
        found = store.head(relative_path).size
    except ObjectNotFoundError as error:
        raise MissingDataFileError(
            f"The data file '{relative_path}' of the table at {store.url} is named by the log but is not there. "
            "Restore the file, or read an older version that does not need it."
        ) from error
    if found != add.size:
        raise CorruptTableError(
            f"The data file '{relative_path}' of the table at {store.url} has {found} bytes, the log says {add.size}: "
            "it was cut short or replaced. Restore the file from a copy."
        )
