"""`ebbtide log`: write a checkpoint, put many commits into one file, delete old log files. Starts no Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import error_console, output_console, pluralize, print_json, print_note, printable, size_text
from ebbtide.log import Snapshot, load_snapshot, write_checkpoint
from ebbtide.log.checkpoint_writer import has_checkpoint
from ebbtide.log.cleanup import clean_expired_log
from ebbtide.log.compaction import compact_log
from ebbtide.storage import open_store

__all__ = ["app"]

app = typer.Typer(name="log", no_args_is_help=True, help="Look after a table's log. Does not start Spark.")

Start = Annotated[
    int | None, typer.Option(min=0, show_default=False, help="The first version. Default: after the newest checkpoint.")
]
End = Annotated[int | None, typer.Option(min=0, show_default=False, help="The last version. Default: the newest.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Delete nothing; list what would be deleted.")]
WriteNothing = Annotated[bool, typer.Option("--dry-run", help="Write nothing; say what would be written.")]


@app.command("checkpoint")
def run_checkpoint(
    path: TablePath,
    *,
    dry_run: WriteNothing = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Write a checkpoint of the newest version, so that readers need no older commits."""
    with error_console().status("Reading the log") as spinner:
        snapshot = _snapshot(path, storage_option, untrusted=untrusted)
        is_there = dry_run and has_checkpoint(snapshot)
        spinner.update("Writing the checkpoint")
        result = None if dry_run else write_checkpoint(snapshot)
    version, is_new = snapshot.version, not is_there if result is None else result.is_new
    if as_json:
        written = {} if result is None else {"files": list(result.files), "sizeInBytes": result.size_in_bytes}
        print_json([{"dryRun": dry_run, "version": version, **written, "isNew": is_new}])
    elif not is_new:
        print_note(output_console(), f"Version {version} has a checkpoint already.")
    elif result is None:
        live = pluralize(snapshot.num_files, "live file")
        print_note(output_console(), f"Would write a checkpoint of version {version}, with {live}.")
    else:
        actions = pluralize(result.num_actions, "action")
        size = size_text(result.size_in_bytes)
        print_note(output_console(), f"Wrote a checkpoint of version {version}: {actions}, {size}.")


@app.command("compact")
def run_compact(
    path: TablePath,
    *,
    start: Start = None,
    end: End = None,
    dry_run: WriteNothing = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Write many commits once more, as one file that readers can use in their place."""
    with error_console().status("Reading the log"):
        result = compact_log(_snapshot(path, storage_option, untrusted=untrusted), start, end, dry_run=dry_run)
    if as_json:
        summary = {"path": result.path, "startVersion": result.version, "endVersion": result.end_version}
        counts = {"numActions": result.num_actions, "sizeInBytes": result.size_in_bytes, "isNew": result.is_new}
        print_json([{"dryRun": dry_run, **summary, **counts}])
        return
    verb = "Would write" if dry_run else "Wrote"
    opening = verb if result.is_new else "There is already"
    print_note(output_console(), f"{opening} {result.path}: {pluralize(result.num_actions, 'action')}.")


@app.command("cleanup")
def run_cleanup(
    path: TablePath,
    *,
    dry_run: DryRun = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Delete log files older than delta.logRetentionDuration, where a checkpoint makes them unnecessary."""
    with error_console().status("Reading the log") as spinner:
        snapshot = _snapshot(path, storage_option, untrusted=untrusted)
        spinner.update("Looking for expired log files" if dry_run else "Deleting expired log files")
        expired = clean_expired_log(snapshot, config=snapshot.config, dry_run=dry_run)
    if as_json:
        print_json({"path": name} for name in expired)
        print_json([{"dryRun": dry_run, "numFiles": len(expired)}])
        return
    for name in expired if dry_run else ():
        typer.echo(printable(name))
    verb = "would be deleted" if dry_run else "deleted"
    print_note(output_console(), f"{pluralize(len(expired), 'log file')} {verb}.")


def _snapshot(path: str, storage_option: list[str] | None, *, untrusted: bool) -> Snapshot:
    return load_snapshot(
        open_store(path, parse_storage_options(storage_option)), config=engine_config(untrusted=untrusted)
    )
