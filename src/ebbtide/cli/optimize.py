"""`ebbtide optimize`: put small files together or sort rows, or say what that would do.

No row changes, so nobody is asked. The table is looked up before Spark starts, so a wrong path is reported at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.cli.layout import print_forecast, print_result
from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.session import session_with_phases
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.forecast import forecast_layout
from ebbtide.commands.optimize.request import OptimizeRequest
from ebbtide.commands.optimize.results import OptimizeResult
from ebbtide.errors import RequestError
from ebbtide.log import load_snapshot
from ebbtide.protocol.features import ensure_writable
from ebbtide.session_settings import optimize_settings, parse_bytes, write_options
from ebbtide.storage import open_store

__all__ = ["DryRun", "TargetSize", "Where", "run", "target_bytes"]

Where = Annotated[
    str | None,
    typer.Option(show_default=False, metavar="CONDITION", help="Only partitions for which this SQL is true."),
]
ZOrderBy = Annotated[
    list[str] | None,
    typer.Option(
        "--zorder-by", show_default=False, metavar="COLUMN", help="Sort rows by this column; may be repeated."
    ),
]
TargetSize = Annotated[
    str | None,
    typer.Option("--target-size", show_default=False, metavar="SIZE", help="How large files become, such as 128mb."),
]
PerGroup = Annotated[
    bool, typer.Option("--commit-per-group", help="Commit each group of files by itself: what is done stays done.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say which files would be rewritten.")]


def run(
    context: typer.Context,
    path: TablePath,
    *,
    where: Where = None,
    zorder_by: ZOrderBy = None,
    target_size: TargetSize = None,
    commit_per_group: PerGroup = False,
    dry_run: DryRun = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Put small files together, or sort rows with --zorder-by. No row changes. Starts a local Spark."""
    storage_options = parse_storage_options(storage_option)
    store, config = open_store(path, storage_options), engine_config(untrusted=untrusted)
    size = target_bytes(target_size)
    snapshot = load_snapshot(store, config=config)
    ensure_writable(snapshot.protocol, snapshot.metadata)
    verbose = bool(context.find_root().params.get("debug"))
    with session_with_phases(verbose=verbose) as (spark, on_phase):
        options = write_options(spark, storage_options=storage_options, config=config, in_transaction=False)
        request = OptimizeRequest(
            store,
            where,
            tuple(zorder_by or ()),
            optimize_settings(spark, target_bytes=size),
            commit_per_group=commit_per_group,
            options=options,
            hint=snapshot,
        )
        command = OptimizeCommand(spark, request, on_phase=on_phase)
        outcome = forecast_layout(command) if dry_run else command.run()
        on_phase("Stopping Spark")
    if isinstance(outcome, OptimizeResult):
        print_result(outcome, as_json=as_json)
    else:
        print_forecast(outcome, as_json=as_json)


def target_bytes(text: str | None) -> int | None:
    size = None if text is None else parse_bytes(text)
    if text is not None and not size:
        raise RequestError(f"--target-size {text}: a size is a number of bytes, such as 134217728 or 128mb.")
    return size
