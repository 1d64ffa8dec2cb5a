"""`ebbtide detail`: what kind of table is this, and how large? Reads the log; starts no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from ebbtide.cli.live_files import FileTotals, deleted_shares, file_totals
from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import (
    count_text,
    iso_time,
    new_table,
    output_console,
    pluralize,
    print_json,
    print_table,
    printable,
    share_text,
    size_text,
    time_text,
)
from ebbtide.log import Snapshot, TableDetail, load_snapshot, table_detail
from ebbtide.storage import open_store

__all__ = ["run"]


def run(
    path: TablePath,
    *,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Describe a table: protocol, features, properties, size, deleted rows. Does not start Spark."""
    store = open_store(path, parse_storage_options(storage_option))
    snapshot = load_snapshot(store, config=engine_config(untrusted=untrusted))
    detail, totals = table_detail(snapshot), file_totals(deleted_shares(snapshot))
    if as_json:
        print_json([_json(snapshot, detail, totals)])
        return
    console = output_console()
    table = new_table(console)
    table.show_header = False
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in _lines(snapshot, detail, totals):
        table.add_row(name, Text(printable(value)))
    print_table(console, table)


def _lines(snapshot: Snapshot, detail: TableDetail, totals: FileTotals) -> Iterator[tuple[str, str]]:
    """The lines to print, most wanted first; what the table does not have is left out."""
    optional = (("name", detail.name), ("description", detail.description))
    yield from ((name, value) for name, value in optional if value)
    yield "location", detail.location
    yield "id", detail.id
    yield "version", str(snapshot.version)
    yield "created", time_text(detail.created_at_ms)
    yield "last modified", time_text(detail.last_modified_ms)
    yield "files", f"{totals.num_files:,} ({size_text(totals.size_in_bytes)})"
    if detail.num_files_outside_root:
        outside = pluralize(detail.num_files_outside_root, "file")
        yield "outside", f"{outside} outside of the table's directory, or with a vector there"
    yield "rows", count_text(totals.num_live)
    vectors = pluralize(totals.num_deletion_vectors, "deletion vector")
    yield "deleted rows", f"{totals.num_deleted:,} ({share_text(totals.deleted_share)} of all rows) in {vectors}"
    for name, columns in (("partitioned by", detail.partition_columns), ("clustered by", detail.clustering_columns)):
        if columns:
            yield name, ", ".join(columns)
    yield "protocol", f"reader {detail.min_reader_version}, writer {detail.min_writer_version}"
    yield "features", ", ".join(detail.table_features)
    for position, (key, value) in enumerate(sorted(detail.properties.items())):
        yield "" if position else "properties", f"{key} = {value}"


def _json(snapshot: Snapshot, detail: TableDetail, totals: FileTotals) -> dict[str, Any]:
    """The columns of DESCRIBE DETAIL under their names, then what DESCRIBE DETAIL does not say."""
    return {
        "format": detail.format,
        "id": detail.id,
        "name": detail.name,
        "description": detail.description,
        "location": detail.location,
        "createdAt": iso_time(detail.created_at_ms),
        "lastModified": iso_time(detail.last_modified_ms),
        "partitionColumns": detail.partition_columns,
        "clusteringColumns": detail.clustering_columns,
        "numFiles": detail.num_files,
        "sizeInBytes": detail.size_in_bytes,
        "properties": detail.properties,
        "minReaderVersion": detail.min_reader_version,
        "minWriterVersion": detail.min_writer_version,
        "tableFeatures": detail.table_features,
        "numFilesOutsideRoot": detail.num_files_outside_root,
        "version": snapshot.version,
        "numRecords": totals.num_live,
        "numDeletedRecords": totals.num_deleted,
        "numDeletionVectors": totals.num_deletion_vectors,
    }
