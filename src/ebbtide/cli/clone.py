"""`ebbtide clone`: make a table that uses the files of another one, or say what it would be. Starts no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ebbtide.cli.options import (
    AsJson,
    StorageOption,
    Untrusted,
    engine_config,
    parse_pairs,
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
from ebbtide.commands.clone.command import CloneRequest, clone_table
from ebbtide.commands.clone.results import CloneResult
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError
from ebbtide.storage import open_store

__all__ = ["run"]

Source = Annotated[str, typer.Argument(metavar="SOURCE", show_default=False, help="The table to clone.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", show_default=False, help="Where the clone goes.")]
Version = Annotated[int | None, typer.Option(min=0, show_default=False, help="The source as it was at this version.")]
Timestamp = Annotated[
    str | None, typer.Option(show_default=False, metavar="TIME", help="Or at this time; UTC without a zone.")
]
Replace = Annotated[bool, typer.Option("--replace", help="Put the clone in the place of an empty table.")]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="KEY=VALUE", show_default=False, help="A property of the clone, repeatable."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what the clone would hold.")]


def run(
    source: Source,
    target: Target,
    *,
    version: Version = None,
    timestamp: Timestamp = None,
    replace: Replace = False,
    properties: Properties = None,
    dry_run: DryRun = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Make a shallow clone: a table of its own that shares the files of another. Does not start Spark."""
    if version is not None and timestamp is not None:
        raise RequestError("Give either --version or --timestamp, not both.")
    storage_options = parse_storage_options(storage_option)
    request = CloneRequest(
        open_store(source, storage_options),
        open_store(target, storage_options),
        version,
        None if timestamp is None else parse_timestamp_ms(timestamp),
        "create_or_replace" if replace else "create",
        parse_pairs(properties, "--property", "delta.enableChangeDataFeed=true"),
        WriteOptions(storage_options=storage_options, config=engine_config(untrusted=untrusted)),
        dry_run=dry_run,
    )
    with error_console().status("Reading the log") as spinner:
        result = clone_table(request, on_phase=spinner.update)
    if as_json:
        print_json([_json(result, dry_run=dry_run)])
        return
    print_pairs(list(_lines(result)))
    if dry_run:
        print_note(output_console(), "A dry run: nothing was written.")
    else:
        print_note(output_console(), "VACUUM of the source can take files away that only the clone still needs.")


def _lines(result: CloneResult) -> Iterator[tuple[str, str]]:
    yield "clone", result.table_url
    if result.version is not None:
        yield "version", f"{result.version:,}"
    yield "source", f"{result.source_url}, version {result.source_version:,}"
    metrics = result.metrics
    yield "shares", f"{pluralize(metrics.source_num_of_files, 'file')} ({size_text(metrics.source_table_size)})"


def _json(result: CloneResult, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dryRun": dry_run,
        "version": result.version,
        "sourceVersion": result.source_version,
        "location": result.table_url,
        "source": result.source_url,
        **result.metrics.operation_metrics,
    }
