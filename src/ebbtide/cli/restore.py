"""`ebbtide restore`: show an older version again, or say what that would do. Starts no Spark.

Nothing is lost: the versions in between stay in the history, and another `restore` can bring them back.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ebbtide.cli.options import (
    AsJson,
    StorageOption,
    TablePath,
    Untrusted,
    engine_config,
    parse_storage_options,
    parse_timestamp_ms,
)
from ebbtide.cli.output import (
    error_console,
    output_console,
    pluralize,
    print_json,
    print_note,
    print_pairs,
    size_text,
)
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.restore.command import Moment, RestoreRequest, restore_table
from ebbtide.commands.restore.results import RestoreResult
from ebbtide.errors import RequestError
from ebbtide.storage import open_store

__all__ = ["run"]

Version = Annotated[int | None, typer.Option(min=0, show_default=False, help="The version to show again.")]
Timestamp = Annotated[
    str | None,
    typer.Option(show_default=False, metavar="TIME", help="Or the version of this time; UTC without a zone."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would come back and what would go.")]
IgnoreMissing = Annotated[
    bool, typer.Option("--ignore-missing-files", help="Leave out data files that are gone, and their rows with them.")
]


def run(
    path: TablePath,
    *,
    version: Version = None,
    timestamp: Timestamp = None,
    dry_run: DryRun = False,
    ignore_missing_files: IgnoreMissing = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Show an older version of a table again, as a new version. Does not start Spark."""
    if (version is None) == (timestamp is None):
        raise RequestError("Give either --version or --timestamp: `ebbtide history` lists them.")
    storage_options = parse_storage_options(storage_option)
    config = engine_config(untrusted=untrusted)
    request = RestoreRequest(
        open_store(path, storage_options),
        version,
        None if timestamp is None else _moment(timestamp),
        WriteOptions(storage_options=storage_options, config=config),
        ignores_missing_files=ignore_missing_files,
        dry_run=dry_run,
    )
    with error_console().status("Reading the log") as spinner:
        result = restore_table(request, on_phase=spinner.update)
    if as_json:
        print_json([_json(result, dry_run=dry_run)])
        return
    if result.version is None and not dry_run:
        print_note(output_console(), f"The table is at version {result.restored_version} already; no new version.")
        return
    print_pairs(list(_lines(result, dry_run=dry_run)))
    if dry_run:
        print_note(output_console(), "A dry run: nothing was written.")


def _moment(text: str) -> Moment:
    milliseconds = parse_timestamp_ms(text)
    # As delta-spark writes it, in the zone that this command reads and prints.
    shown = dt.datetime.fromtimestamp(milliseconds / 1000, dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
    return Moment(milliseconds, shown[:-3])


def _lines(result: RestoreResult, *, dry_run: bool) -> Iterator[tuple[str, str]]:
    metrics = result.metrics
    if result.version is not None:
        yield "version", f"{result.version:,}"
    yield ("would show" if dry_run else "shows again"), f"version {result.restored_version:,}"
    restored, removed = metrics.num_restored_files, metrics.num_removed_files
    yield "come back", f"{pluralize(restored, 'file')} ({size_text(metrics.restored_files_size)})"
    yield "go", f"{pluralize(removed, 'file')} ({size_text(metrics.removed_files_size)})"
    after = metrics.num_of_files_after_restore
    yield "the table then", f"{pluralize(after, 'file')} ({size_text(metrics.table_size_after_restore)})"
    if result.missing:
        yield "left out", f"{pluralize(len(result.missing), 'file')}, no longer in storage"


def _json(result: RestoreResult, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dryRun": dry_run,
        "version": result.version,
        "restoredVersion": result.restored_version,
        **result.metrics.operation_metrics,
        "missingFiles": list(result.missing),
    }
