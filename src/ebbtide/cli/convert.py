"""`ebbtide convert`: a folder of Parquet files becomes a table, in place. Starts Spark, which reads the schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ebbtide.cli.options import AsJson, StorageOption, parse_storage_options
from ebbtide.cli.output import output_console, pluralize, print_json, print_note, print_pairs, size_text
from ebbtide.cli.session import session_with_phases
from ebbtide.commands.convert.command import ConvertRequest, convert_folder
from ebbtide.commands.convert.results import ConvertResult
from ebbtide.commands.convert.schema import partition_fields_of
from ebbtide.log.listing import list_log
from ebbtide.session_settings import table_defaults, write_options
from ebbtide.storage import open_store

__all__ = ["run"]

Folder = Annotated[
    str, typer.Argument(metavar="PATH", show_default=False, help="The folder: a directory, or a URL such as s3://b/f.")
]
PartitionedBy = Annotated[
    str | None,
    typer.Option(
        "--partitioned-by",
        metavar="COLUMNS",
        show_default=False,
        help="Columns of the directories, with their types: 'day DATE, country STRING'.",
    ),
]
NoStatistics = Annotated[bool, typer.Option("--no-statistics", help="Do not read row counts and bounds of the files.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what the table would be.")]


def run(
    context: typer.Context,
    path: Folder,
    *,
    partitioned_by: PartitionedBy = None,
    no_statistics: NoStatistics = False,
    dry_run: DryRun = False,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
) -> None:
    """Make a table of a folder of Parquet files, where it is. Starts a local Spark."""
    storage_options = parse_storage_options(storage_option)
    store = open_store(path, storage_options)
    result = ConvertResult(None, store.url)
    if not list_log(store).has_log_files:
        verbose = bool(context.find_root().params.get("debug"))
        with session_with_phases(verbose=verbose) as (spark, on_phase):
            request = ConvertRequest(
                store,
                partition_fields_of(partitioned_by),
                not no_statistics,
                write_options(spark, storage_options=storage_options, in_transaction=False),
                lambda: table_defaults(spark),
                dry_run=dry_run,
            )
            result = convert_folder(spark, request, on_phase=on_phase)
            on_phase("Stopping Spark")
    _print(result, as_json=as_json, dry_run=dry_run)


def _print(result: ConvertResult, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json([_json(result, dry_run=dry_run)])
    elif result.schema is None:
        print_note(output_console(), "The folder is a Delta table already; nothing was changed.")
    else:
        print_pairs(list(_lines(result)))
        if dry_run:
            print_note(output_console(), "A dry run: nothing was written.")


def _lines(result: ConvertResult) -> Iterator[tuple[str, str]]:
    if result.version is not None:
        yield "version", f"{result.version:,}"
    yield "files", f"{pluralize(result.num_converted_files, 'file')} ({size_text(result.size_in_bytes)})"
    yield "columns", ", ".join(() if result.schema is None else result.schema.names)
    if result.partition_columns:
        yield "partitions", ", ".join(result.partition_columns)


def _json(result: ConvertResult, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dryRun": dry_run,
        "version": result.version,
        "location": result.table_url,
        "numConvertedFiles": result.num_converted_files,
        "sizeInBytes": result.size_in_bytes,
        "columns": [] if result.schema is None else list(result.schema.names),
        "partitionColumns": list(result.partition_columns),
    }
