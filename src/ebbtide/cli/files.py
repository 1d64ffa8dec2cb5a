"""`ebbtide files`: which data files is the table made of, and how much of each is deleted? Starts no Spark."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ebbtide.cli.live_files import FileTotals, deleted_shares, file_totals
from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import (
    count_text,
    new_table,
    output_console,
    pluralize,
    print_json,
    print_note,
    print_table,
    printable,
    share_bar,
    share_text,
    shorten,
    size_text,
)
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

__all__ = ["files_table", "run", "totals_text"]

# What the other columns of the table need on a terminal.
_OTHER_COLUMNS_WIDTH = 56
_MIN_PATH_WIDTH = 20
_MAX_FILES = 1_000_000

Limit = Annotated[
    int, typer.Option(min=1, max=_MAX_FILES, help="List at most N files; the totals are always of all files.")
]


def run(
    path: TablePath,
    *,
    limit: Limit = 50,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """List the data files of a table, the most deleted first. Does not start Spark."""
    store = open_store(path, parse_storage_options(storage_option))
    snapshot = load_snapshot(store, config=engine_config(untrusted=untrusted))
    files = deleted_shares(snapshot)
    if as_json:
        print_json([_json(row) for row in files.slice(0, limit).to_pylist()])
        return
    console = output_console()
    if files.num_rows:
        print_table(console, files_table(console, files.slice(0, limit)))
    left_out = files.num_rows - limit
    if left_out > 0:
        print_note(console, f"... and {pluralize(left_out, 'file')} with no larger deleted share; --limit lists more.")
    print_note(console, totals_text(snapshot.version, file_totals(files)))


def files_table(console: Console, files: pa.Table) -> Table:
    """Rows of `deleted_shares` with a bar each."""
    table = new_table(console)
    table.add_column("file", no_wrap=True)
    for name in ("size", "rows", "deleted"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("deleted share", no_wrap=True)
    path_width = max(console.width - _OTHER_COLUMNS_WIDTH, _MIN_PATH_WIDTH)
    for row in files.to_pylist():
        share = row["share"]
        table.add_row(
            Text(shorten(printable(row["path"]), path_width)),
            size_text(row["size"]),
            count_text(row["num_records"]),
            count_text(row["num_deleted"]),
            Text.assemble(share_bar(share, console), f" {share_text(share):>7}"),
        )
    return table


def totals_text(version: int, totals: FileTotals) -> str:
    """One sentence about all live files."""
    files, size = pluralize(totals.num_files, "file"), size_text(totals.size_in_bytes)
    rows = "an unknown number of rows" if totals.num_records is None else pluralize(totals.num_records, "row")
    share = "" if totals.deleted_share is None else f" ({share_text(totals.deleted_share)})"
    deleted = f"{totals.num_deleted:,} deleted{share} by {pluralize(totals.num_deletion_vectors, 'deletion vector')}"
    return f"Version {version}: {files}, {size}, {rows}; {deleted}."


def _json(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "path": row["path"],
        "partitionValues": dict(row["partition_values"] or ()),
        "size": row["size"],
        "numRecords": row["num_records"],
        "numDeletedRecords": row["num_deleted"],
        "deletedShare": row["share"],
        "hasDeletionVector": row["has_vector"],
    }
