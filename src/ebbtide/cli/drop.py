"""`ebbtide drop`: delete a table, files and log, or say what would go. Starts no Spark."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import error_console, output_console, pluralize, print_json, print_note, size_text
from ebbtide.commands.drop.command import DropCommand, DropRequest
from ebbtide.commands.drop.results import CLONE_RISK, DropResult
from ebbtide.errors import RequestError
from ebbtide.storage import open_store

__all__ = ["run"]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Delete nothing; say what would go.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="It is fine if there is no table.")]


def run(
    path: TablePath,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    if_exists: IfExists = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Delete a table with all its versions. Nothing brings it back, so this asks first. Starts no Spark.

    Refused if anything below the path is not the table's: another table, a link, a file of another kind.
    """
    if not yes and not dry_run and not _is_terminal():
        raise RequestError(
            "Nobody is there to confirm that the table shall go: the input is no terminal. Add --yes, or --dry-run to "
            "look first."
        )
    store = open_store(path, parse_storage_options(storage_option))
    request = DropRequest(store, if_exists, dry_run, engine_config(untrusted=untrusted))
    with error_console().status("Reading the log") as spinner:

        def confirm(planned: DropResult) -> None:
            if not yes:
                spinner.stop()
                _ask(planned)
                spinner.start()

        result = DropCommand(request, on_phase=spinner.update, confirm=confirm).run()
    if as_json:
        print_json([_json(result)])
    else:
        _print(result)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _ask(planned: DropResult) -> None:
    print_note(error_console(), f"{planned.table_url}: {_count_text(planned)}")
    print_note(error_console(), CLONE_RISK)
    typer.confirm("Delete all of it? Nothing brings it back.", abort=True, err=True)


def _count_text(result: DropResult) -> str:
    files = f"{pluralize(result.num_files, 'data file')}, {pluralize(result.num_log_files, 'log file')}"
    return f"{files}, {size_text(result.size_in_bytes)}, {pluralize(result.num_versions, 'version')}"


def _print(result: DropResult) -> None:
    console = output_console()
    if not result.is_found:
        print_note(console, f"There is no table at {result.table_url}; nothing was deleted.")
        return
    print_note(console, f"{'To delete' if result.is_dry_run else 'Deleted'}: {_count_text(result)}.")
    if result.is_dry_run:
        print_note(console, f"A dry run: nothing was deleted. {CLONE_RISK}")


def _json(result: DropResult) -> dict[str, object]:
    return {
        "dryRun": result.is_dry_run,
        "found": result.is_found,
        "numFiles": result.num_files,
        "numLogFiles": result.num_log_files,
        "sizeInBytes": result.size_in_bytes,
        "numVersions": result.num_versions,
    }
