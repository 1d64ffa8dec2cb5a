"""`ebbtide fsck`: is what the log says true of the files in storage, and what can be repaired? Starts no Spark.

Without `--repair` nothing is changed. A repair that gives up rows says how many, and needs a yes: from a person at the
terminal, or as `--yes`. The exit code is 1 while there is damage that is not repaired.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import error_console, output_console, pluralize, print_json, print_note, printable
from ebbtide.commands.fsck.command import FsckCommand
from ebbtide.commands.fsck.findings import Finding, RemoveFromLog
from ebbtide.commands.fsck.request import FsckRequest
from ebbtide.commands.fsck.results import FsckResult
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.results import named_metrics
from ebbtide.errors import RequestError
from ebbtide.storage import open_store

__all__ = ["run"]

Repair = Annotated[bool, typer.Option("--repair", help="Repair what can be repaired, in one commit.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before giving up the rows of lost files.")]

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def run(
    path: TablePath,
    *,
    repair: Repair = False,
    yes: Yes = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Check the log, files and statistics of a table, and repair what can be. Does not start Spark."""
    storage_options = parse_storage_options(storage_option)
    options = WriteOptions(storage_options=storage_options, config=engine_config(untrusted=untrusted))
    request = FsckRequest(open_store(path, storage_options), repair, options)
    spinner = error_console().status("Reading the log")
    command = FsckCommand(request, on_phase=spinner.update)
    with spinner:
        result = command.check()
    if repair and any(found.is_repairable for found in result.findings):
        if not as_json:
            _print_findings(output_console(), result.findings)
        if not yes:
            _ask(result)
        with spinner:
            result = command.repair(result)
    elif not as_json:
        _print_findings(output_console(), result.findings)
    if as_json:
        print_json([_json(result)])
    else:
        print_note(output_console(), _summary(result, repair=repair))
    if not result.is_healthy:
        raise typer.Exit(1)


def _ask(result: FsckResult) -> None:
    """A repair that loses no row needs no answer."""
    removed = [found for found in result.findings if isinstance(found.remedy, RemoveFromLog)]
    rows = [found.num_lost_rows for found in removed]
    if all(count == 0 for count in rows):
        return
    known = sum(count for count in rows if count is not None)
    shown = pluralize(known, "row") if None not in rows else f"{known:,} rows and an unknown number of others"
    if not _is_terminal():
        raise RequestError(
            f"The repair would remove {pluralize(len(removed), 'file')} with {shown} from the table, and nobody is "
            "there to confirm it: the input is not a terminal. Add --yes if that is meant. Nothing was changed."
        )
    typer.confirm(f"Remove {pluralize(len(removed), 'file')} with {shown} from the table?", abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _print_findings(console: Console, findings: Sequence[Finding]) -> None:
    for found in findings:
        head = Text.assemble((found.severity, _STYLES[found.severity]), "  ", (found.kind, "bold"), "  ")
        console.print(head.append(printable(found.path)), soft_wrap=True)
        console.print(Text(f"    {printable(found.meaning)}"), soft_wrap=True)
        console.print(Text(f"    repair: {printable(found.repair)}", style="dim"), soft_wrap=True)


def _summary(result: FsckResult, *, repair: bool) -> str:
    metrics = result.metrics
    checked = ", ".join(
        pluralize(count, thing)
        for count, thing in (
            (metrics.num_checked_commits, "commit"),
            (metrics.num_checked_checkpoints, "checkpoint"),
            (metrics.num_checked_files, "file"),
            (metrics.num_checked_vectors, "deletion vector"),
        )
    )
    at = "No version can be read" if result.checked_version is None else f"Version {result.checked_version}"
    damage = [found for found in result.findings if found.severity != "note"]
    if not damage:
        return f"{at}: {checked} checked; no damage found."
    counted = pluralize(len(damage), "finding")
    if result.version is not None:
        left = f"; {len(result.unrepaired):,} left" if result.unrepaired else ""
        return (
            f"{at}: {checked} checked; {counted}, {len(result.repaired):,} repaired in version {result.version}{left}."
        )
    repairable = sum(found.is_repairable for found in damage)
    if repair:
        return f"{at}: {checked} checked; {counted}, nothing repaired."
    advice = f"; --repair puts {repairable:,} of them right" if repairable else "; none can be repaired"
    return f"{at}: {checked} checked; {counted}{advice}."


def _json(result: FsckResult) -> dict[str, Any]:
    return {
        "version": result.version,
        "checkedVersion": result.checked_version,
        "healthy": result.is_healthy,
        "findings": result.rows(),
        **named_metrics(result.metrics),
    }
