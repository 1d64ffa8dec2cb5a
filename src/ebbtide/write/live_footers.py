"""What does the footer of a live file say?

A file with a deletion vector must state `numRecords`. If its writer did not count the rows, the footer knows. The other
statistics stay as the writer gave them: we do not guess bounds for a file whose columns another engine laid out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow.parquet as pq

from ebbtide.errors import CorruptTableError, MissingDataFileError, ObjectNotFoundError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile, RemoveFile
from ebbtide.protocol.paths import DataLocation, decode_path, resolve_data_path
from ebbtide.protocol.statistics import FileStatistics
from ebbtide.storage import ObjectStore, open_store
from ebbtide.write.footers import read_footer

__all__ = ["footer_of", "stats_from_footer"]


def stats_from_footer(snapshot: Snapshot, add: AddFile, *, storage_options: Mapping[str, str] | None = None) -> str:
    """The statistics of a live file with `numRecords` from its footer. Without any, the bounds are marked as wide.

    MissingDataFileError when the file is not in storage, CorruptTableError when it is not a Parquet file.
    """
    footer = footer_of(snapshot, add, storage_options=storage_options)
    known = FileStatistics.parse(add.stats)
    if known is None:
        return FileStatistics.build(num_records=footer.num_rows, tight_bounds=False).to_json()
    members = {**known.members, "numRecords": str(footer.num_rows)}
    return replace(known, num_records=footer.num_rows, members=members).to_json()


def footer_of(
    snapshot: Snapshot, add: AddFile | RemoveFile, *, storage_options: Mapping[str, str] | None = None
) -> pq.FileMetaData:
    """The footer of a file that is live, or about to be removed. The errors are those of `stats_from_footer`."""
    location = resolve_data_path(add.path, snapshot.store.url, allow_foreign=snapshot.config.allow_foreign_paths)
    store, path = _place(snapshot.store, location, storage_options)
    try:
        footer = read_footer(store, store.head(path))
    except ObjectNotFoundError as error:
        raise MissingDataFileError(
            f"The log of {snapshot.store.url} names the data file {add.path}, but it is not in storage."
        ) from error
    if footer.num_rows < 0:
        raise CorruptTableError(f"The footer of the data file {add.path} claims {footer.num_rows} rows.")
    return footer


def _place(
    store: ObjectStore, location: DataLocation, storage_options: Mapping[str, str] | None
) -> tuple[ObjectStore, str]:
    if location.relative_path is not None:
        return store, location.relative_path
    directory, _, name = (location.absolute_url or "").rpartition("/")
    # The log's URL is percent-encoded; `open_store` takes plain text.
    return open_store(decode_path(directory), storage_options), decode_path(name)
