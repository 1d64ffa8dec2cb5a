"""`ebbtide vacuum`: delete the files that no version in retention needs, or say which those are. Starts no Spark."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import (
    error_console,
    output_console,
    pluralize,
    print_failure,
    print_json,
    print_note,
    printable,
    size_text,
    time_text,
)
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.commands.vacuum.request import VacuumRequest
from ebbtide.commands.vacuum.results import CLONE_RISK, VacuumResult
from ebbtide.errors import RequestError
from ebbtide.storage import open_store

__all__ = ["run"]

RetainHours = Annotated[
    float | None,
    typer.Option(
        "--retain-hours",
        show_default=False,
        help="Keep what versions of the last N hours need. Default: delta.deletedFileRetentionDuration.",
    ),
]
Lite = Annotated[
    bool, typer.Option("--lite", help="Find files in the log alone; misses what failed writers left behind.")
]
KeepVersions = Annotated[
    str | None,
    typer.Option("--keep-versions", metavar="N,N", show_default=False, help="Keep all files of these versions, too."),
]
RetentionCheck = Annotated[
    bool,
    typer.Option("--retention-check/--no-retention-check", help="Refuse fewer hours than the table's own retention."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Delete nothing; list what would be deleted.")]


def run(
    path: TablePath,
    *,
    retain_hours: RetainHours = None,
    lite: Lite = False,
    keep_versions: KeepVersions = None,
    retention_check: RetentionCheck = True,
    dry_run: DryRun = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Delete files that no version in retention needs: removed ones, and what failed writers left. Starts no Spark.

    A shallow clone of the table elsewhere uses files of this one, which no log here knows: they may be deleted.
    """
    request = VacuumRequest(
        open_store(path, parse_storage_options(storage_option)),
        retain_hours,
        dry_run=dry_run,
        lite=lite,
        keep_versions=_parse_versions(keep_versions),
        retention_check=retention_check,
        options=WriteOptions(config=engine_config(untrusted=untrusted)),
    )
    with error_console().status("Reading the log") as spinner:
        result = VacuumCommand(request, on_phase=spinner.update).run()
    if as_json:
        _print_json(result)
    else:
        _print(result)
    if result.num_failed:
        raise typer.Exit(1)


def _parse_versions(text: str | None) -> tuple[int, ...]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise RequestError(f"--keep-versions {text!r} is not a list of versions. Write it like 3,4.")
    return tuple(map(int, parts))


def _print(result: VacuumResult) -> None:
    console = output_console()
    if result.is_dry_run:
        for path in result.absolute_paths():
            typer.echo(printable(path))
    metrics = result.metrics
    number = metrics.num_files_to_delete if result.is_dry_run else metrics.num_deleted_files
    summary = f"{pluralize(number, 'path')}, {size_text(metrics.size_of_data_to_delete)}"
    verb = "To delete" if result.is_dry_run else "Deleted"
    print_note(console, f"{verb}: {summary}. What was needed after {time_text(result.cutoff_ms)} UTC stays.")
    if result.num_links:
        print_note(console, f"{pluralize(result.num_links, 'symbolic link')} left alone.")
    for other in result.other_tables:
        print_note(console, f"Left alone, because another table is there: {other}")
    if result.is_dry_run:
        print_note(console, f"A dry run: nothing was deleted. {CLONE_RISK}")
    for reason in result.failures.values():
        print_failure(error_console(), reason)
    if result.num_failed > len(result.failures):
        print_failure(error_console(), f"and {result.num_failed - len(result.failures):,} more")


def _print_json(result: VacuumResult) -> None:
    if result.is_dry_run:
        print_json({"path": path} for path in result.absolute_paths())
    summary: dict[str, Any] = {
        "dryRun": result.is_dry_run,
        "version": result.version,
        **result.operation_metrics,
        "numFailedFiles": result.num_failed,
        "failures": dict(result.failures),
        "numLinks": result.num_links,
        "otherTables": list(result.other_tables),
    }
    print_json([summary])
