"""`ebbtide delete`: delete rows, or say what deleting them would do.

Nothing is deleted without a yes: from a person at the terminal, or as `--yes` in a script. `--dry-run` looks for the
rows and writes nothing. The table is looked up before Spark starts, so a wrong path is reported at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any

import typer

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import (
    error_console,
    output_console,
    pluralize,
    print_json,
    print_note,
    print_pairs,
    printable,
    share_text,
    size_text,
)
from ebbtide.cli.session import session_with_phases
from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.delete.dry_run import DeleteForecast, forecast_delete
from ebbtide.commands.delete.results import DeleteResult
from ebbtide.commands.requests import DeleteRequest, VectorMode
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.features import ensure_writable
from ebbtide.session_settings import write_options
from ebbtide.storage import open_store

__all__ = ["run"]


class VectorChoice(str, Enum):
    on = "on"
    off = "off"
    auto = "auto"


_MODES: dict[VectorChoice, VectorMode] = {
    VectorChoice.on: "on",
    VectorChoice.off: "off",
    VectorChoice.auto: "auto",
}

Where = Annotated[
    str,
    typer.Option(show_default=False, metavar="CONDITION", help="The rows to delete: those for which this SQL is true."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted, and at what cost.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")]
DeletionVectors = Annotated[
    VectorChoice | None,
    typer.Option(
        "--deletion-vectors",
        show_default=False,
        help="Mark the rows where the table allows it (on), rewrite their files (off), or whichever is better (auto).",
    ),
]


def run(
    context: typer.Context,
    path: TablePath,
    *,
    where: Where,
    dry_run: DryRun = False,
    yes: Yes = False,
    deletion_vectors: DeletionVectors = None,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Delete the rows of a table for which a condition is true. Starts a local Spark."""
    storage_options = parse_storage_options(storage_option)
    store = open_store(path, storage_options)
    config = engine_config(untrusted=untrusted)
    snapshot = load_snapshot(store, config=config)
    ensure_writable(snapshot.protocol, snapshot.metadata)
    assert_not_append_only(snapshot)
    if not dry_run and not yes:
        _ask(snapshot, where)
    mode = None if deletion_vectors is None else _MODES[deletion_vectors]
    verbose = bool(context.find_root().params.get("debug"))
    with session_with_phases(verbose=verbose) as (spark, on_phase):
        options = write_options(spark, deletion_vectors=mode, storage_options=storage_options, config=config)
        request = DeleteRequest(store, where, options=options, hint=snapshot)
        if dry_run:
            forecast = forecast_delete(spark, request, on_phase=on_phase)
        else:
            result = DeleteCommand(spark, request, on_phase=on_phase).run()
        on_phase("Stopping Spark")
    if dry_run:
        _print_forecast(forecast, as_json=as_json)
    else:
        _print_result(result, as_json=as_json)


def _ask(snapshot: Snapshot, where: str) -> None:
    if not _is_terminal():
        raise RequestError(
            "Nobody is there to confirm the deletion: the input is not a terminal. Add --yes, or --dry-run to look "
            "first."
        )
    print_note(error_console(), f"{snapshot.store.url}, version {snapshot.version}, {snapshot.num_files} files")
    typer.confirm(f"Delete the rows where {printable(where)}?", abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


# --- answers ----------------------------------------------------------------------------------------------------------


def _print_result(result: DeleteResult, *, as_json: bool) -> None:
    if as_json:
        metrics = dict(result.operation_metrics)
        print_json([{"version": result.version, "numAffectedRows": result.num_affected_rows, **metrics}])
        return
    if result.version is None:
        print_note(output_console(), "Nothing matched; no new version.")
        return
    metrics = dict(result.operation_metrics)
    rows = [("version", f"{result.version:,}"), *((name, f"{value:,}") for name, value in metrics.items() if value)]
    print_pairs(rows)


def _print_forecast(forecast: DeleteForecast, *, as_json: bool) -> None:
    if as_json:
        print_json([_json(forecast)])
        return
    print_pairs(list(_lines(forecast)))
    print_note(output_console(), "A dry run: nothing was written.")


def _lines(forecast: DeleteForecast) -> Iterator[tuple[str, str]]:
    rows = "an unknown number of" if forecast.num_deleted_rows is None else f"{forecast.num_deleted_rows:,}"
    yield (
        "would delete",
        f"{rows} rows in {pluralize(forecast.num_touched_files, 'file')}, of version {forecast.version}",
    )
    if forecast.num_scanned_files:
        scanned, size = pluralize(forecast.num_scanned_files, "file"), size_text(forecast.num_scanned_bytes)
        yield "looked into", f"{scanned} ({size}) of {forecast.num_files:,} ({size_text(forecast.size_in_bytes)})"
    else:
        yield "looked into", "no file: the log is enough"
    if forecast.num_removed_files:
        yield "whole files", f"{pluralize(forecast.num_removed_files, 'file')} would go, nothing written"
    if forecast.num_marked_files:
        files, size = pluralize(forecast.num_marked_files, "file"), size_text(forecast.num_vector_bytes)
        yield "marked files", f"{files} would stay, {size} of deletion vectors written"
    if forecast.num_rewritten_files:
        files, size = pluralize(forecast.num_rewritten_files, "file"), size_text(forecast.num_rewritten_bytes)
        yield "rewritten files", f"{files} would be replaced, about {size} written"
    before, after = share_text(forecast.marked_share_before), share_text(forecast.marked_share_after)
    yield "marked rows", f"{before} of all rows before, {after} after"


def _json(forecast: DeleteForecast) -> dict[str, Any]:
    return {
        "dryRun": True,
        "version": forecast.version,
        "numDeletedRows": forecast.num_deleted_rows,
        "numFiles": forecast.num_files,
        "sizeInBytes": forecast.size_in_bytes,
        "numScannedFiles": forecast.num_scanned_files,
        "numScannedBytes": forecast.num_scanned_bytes,
        "numRemovedFiles": forecast.num_removed_files,
        "numMarkedFiles": forecast.num_marked_files,
        "numRewrittenFiles": forecast.num_rewritten_files,
        "numDeletionVectorBytes": forecast.num_vector_bytes,
        "numRewrittenBytes": forecast.num_rewritten_bytes,
        "markedShareBefore": forecast.marked_share_before,
        "markedShareAfter": forecast.marked_share_after,
    }
