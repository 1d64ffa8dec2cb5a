"""`ebbtide purge`: take deleted rows and dropped columns out of the live files, or say what that would do.

No row changes that a reader sees, so nobody is asked.
"""

from __future__ import annotations

import typer

from ebbtide.cli.layout import print_forecast, print_result
from ebbtide.cli.optimize import DryRun, TargetSize, Where, target_bytes
from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import output_console, print_note
from ebbtide.cli.session import session_with_phases
from ebbtide.commands.optimize.forecast import forecast_layout
from ebbtide.commands.purge.command import PurgeCommand, PurgeRequest
from ebbtide.commands.purge.results import PurgeResult
from ebbtide.log import load_snapshot
from ebbtide.protocol.features import ensure_writable
from ebbtide.session_settings import optimize_settings, write_options
from ebbtide.storage import open_store

__all__ = ["run"]


def run(
    context: typer.Context,
    path: TablePath,
    *,
    where: Where = None,
    target_size: TargetSize = None,
    dry_run: DryRun = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Rewrite the files that hold deleted rows or dropped columns. Starts a local Spark."""
    storage_options = parse_storage_options(storage_option)
    store, config = open_store(path, storage_options), engine_config(untrusted=untrusted)
    size = target_bytes(target_size)
    snapshot = load_snapshot(store, config=config)
    ensure_writable(snapshot.protocol, snapshot.metadata)
    verbose = bool(context.find_root().params.get("debug"))
    with session_with_phases(verbose=verbose) as (spark, on_phase):
        options = write_options(spark, storage_options=storage_options, config=config, in_transaction=False)
        settings = optimize_settings(spark, target_bytes=size)
        command = PurgeCommand(
            spark, PurgeRequest(store, where, settings, options=options, hint=snapshot), on_phase=on_phase
        )
        outcome = forecast_layout(command.first_pass()) if dry_run else command.run()
        on_phase("Stopping Spark")
    if not isinstance(outcome, PurgeResult):
        print_forecast(outcome, as_json=as_json)
        return
    print_result(outcome, as_json=as_json, isComplete=outcome.is_complete)
    if not outcome.is_complete and not as_json:
        print_note(output_console(), "Not complete: others deleted rows all the time. Run it again.")
