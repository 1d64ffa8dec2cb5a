"""`ebbtide log`: a checkpoint now, many commits in one file, old ones away. Starts no Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import output_console, pluralize, print_json, print_note, printable, size_text
from ebbtide.log import Snapshot, load_snapshot, write_checkpoint
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


@app.command("checkpoint")
def run_checkpoint(
    path: TablePath,
    *,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Write a checkpoint of the newest version, so that readers need no older commits."""
    done = write_checkpoint(_snapshot(path, storage_option, untrusted=untrusted))
    if as_json:
        print_json(
            [
                {
                    "version": done.version,
                    "files": list(done.files),
                    "sizeInBytes": done.size_in_bytes,
                    "isNew": done.is_new,
                }
            ]
        )
        return
    told = f"Wrote a checkpoint of version {done.version}: {pluralize(done.num_actions, 'action')}"
    if not done.is_new:
        print_note(output_console(), f"Version {done.version} has a checkpoint already.")
    else:
        print_note(output_console(), f"{told}, {size_text(done.size_in_bytes)}.")


@app.command("compact")
def run_compact(
    path: TablePath,
    *,
    start: Start = None,
    end: End = None,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Write many commits once more, as one file that readers can use in their place."""
    done = compact_log(_snapshot(path, storage_option, untrusted=untrusted), start, end)
    if as_json:
        summary = {"path": done.path, "startVersion": done.version, "endVersion": done.end_version}
        print_json(
            [{**summary, "numActions": done.num_actions, "sizeInBytes": done.size_in_bytes, "isNew": done.is_new}]
        )
        return
    told = "Wrote" if done.is_new else "There is already"
    print_note(output_console(), f"{told} {done.path}: {pluralize(done.num_actions, 'action')}.")


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
    snapshot = _snapshot(path, storage_option, untrusted=untrusted)
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
