"""`ebbtide generate`: manifests for readers that do not know the log. Starts no Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import error_console, output_console, pluralize, print_json, print_note, print_pairs
from ebbtide.commands.generate.command import generate_manifests
from ebbtide.storage import open_store

__all__ = ["run"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many manifests would be written.")]


def run(
    path: TablePath,
    *,
    dry_run: DryRun = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Write symlink manifests of a table, for readers such as Presto and Athena. Does not start Spark."""
    store = open_store(path, parse_storage_options(storage_option))
    config = engine_config(untrusted=untrusted)
    with error_console().status("Reading the log") as spinner:
        result = generate_manifests(
            store, "symlink_format_manifest", config=config, dry_run=dry_run, on_phase=spinner.update
        )
    if as_json:
        counts = {"numWrittenManifests": result.num_written, "numDeletedManifests": result.num_deleted}
        print_json([{"dryRun": dry_run, "version": result.version, **counts}])
        return
    written, deleted = ("would write", "would delete") if dry_run else ("written", "deleted")
    rows = [("of version", f"{result.version:,}"), (written, pluralize(result.num_written, "manifest"))]
    print_pairs([*rows, (deleted, pluralize(result.num_deleted, "manifest"))])
    if dry_run:
        print_note(output_console(), "A dry run: nothing was written.")
