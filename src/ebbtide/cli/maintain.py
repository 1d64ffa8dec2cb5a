"""`ebbtide maintain`: what does a table need, and why? Then do it, or with `--dry-run` only say so.

Looking starts no Spark; it is started only when files are to be rewritten. No row changes, so nobody is asked.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from ebbtide.cli.optimize import TargetSize, target_bytes
from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import error_console, output_console, print_failure, print_json, print_note, printable
from ebbtide.cli.session import session_with_phases
from ebbtide.commands.maintain.command import MaintainCommand
from ebbtide.commands.maintain.findings import SKIPPABLE
from ebbtide.commands.maintain.request import DEFAULT_MIN_SMALL_FILES, MaintainRequest
from ebbtide.commands.maintain.results import MaintainResult
from ebbtide.commands.maintain.steps import needs_spark
from ebbtide.commands.optimize.request import DEFAULT_MAX_DELETED_SHARE, OptimizeSettings
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.vacuum.results import CLONE_RISK
from ebbtide.storage import open_store

__all__ = ["run"]

Purge = Annotated[bool, typer.Option("--purge", help="Rewrite every file that holds a deleted row or dropped column.")]
MinSmallFiles = Annotated[
    int, typer.Option("--min-small-files", min=2, help="How many small files that fit together are too many.")
]
MaxDeletedShare = Annotated[
    float,
    typer.Option("--max-deleted-share", min=0, max=1, help="Rewrite files with a larger share of deleted rows."),
]
MaxCommits = Annotated[
    int | None,
    typer.Option(
        "--max-commits",
        min=1,
        show_default=False,
        help="Commits since the newest checkpoint that call for one. Default: delta.checkpointInterval.",
    ),
]
RetainHours = Annotated[
    float | None,
    typer.Option(
        "--retain-hours",
        show_default=False,
        help="VACUUM keeps what versions of the last N hours need. Default: delta.deletedFileRetentionDuration.",
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip", metavar="STEP", show_default=False, help=f"Leave a step out, repeatable: {', '.join(SKIPPABLE)}."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done, and why. Starts no Spark.")]

_STYLES = {"done": "green", "unfinished": "yellow"}


def run(
    context: typer.Context,
    path: TablePath,
    *,
    dry_run: DryRun = False,
    purge: Purge = False,
    target_size: TargetSize = None,
    min_small_files: MinSmallFiles = DEFAULT_MIN_SMALL_FILES,
    max_deleted_share: MaxDeletedShare = DEFAULT_MAX_DELETED_SHARE,
    max_commits: MaxCommits = None,
    retain_hours: RetainHours = None,
    skip: Skip = None,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Look at a table, say what it needs and why, and do it. Starts a local Spark if files are rewritten."""
    storage_options = parse_storage_options(storage_option)
    size = target_bytes(target_size)
    request = MaintainRequest(
        open_store(path, storage_options),
        OptimizeSettings(size, max_deleted_share=max_deleted_share, min_group_files=min_small_files),
        purges=purge,
        max_commits=max_commits,
        retention_hours=retain_hours,
        skip=frozenset(skip or ()),
        dry_run=dry_run,
        options=WriteOptions(storage_options=storage_options, config=engine_config(untrusted=untrusted)),
    )
    command = MaintainCommand(request)
    with error_console().status("Reading the log") as spinner:
        command.on_phase = spinner.update
        result = command.look()
    if not as_json:
        _print_findings(result)
    if not dry_run:
        result = _carry_out(command, result, verbose=bool(context.find_root().params.get("debug")))
    if as_json:
        print_json([_json(result)])
    else:
        _print_outcome(result)
    if not result.is_complete:
        raise typer.Exit(1)


def _carry_out(command: MaintainCommand, plan: MaintainResult, *, verbose: bool) -> MaintainResult:
    if not any(map(needs_spark, plan.steps)):
        with error_console().status("Working") as spinner:
            command.on_phase = spinner.update
            return command.carry_out(plan, None)
    with session_with_phases(verbose=verbose) as (spark, on_phase):
        command.on_phase = on_phase
        result = command.carry_out(plan, spark)
        on_phase("Stopping Spark")
        return result


def _print_findings(plan: MaintainResult) -> None:
    console = output_console()
    first, *others = plan.lines()
    console.print(Text(printable(first), style="bold"), soft_wrap=True)
    for line in others:
        console.print(Text(printable(line)), soft_wrap=True)


def _print_outcome(result: MaintainResult) -> None:
    console = output_console()
    if result.is_dry_run:
        if any(step.step == "vacuum" for step in result.steps):
            print_note(console, CLONE_RISK)
        print_note(console, "A dry run: nothing was written.")
        return
    width = max((len(step.title) for step in result.steps), default=0)
    for step in result.steps:
        if step.status == "failed":
            print_failure(error_console(), f"{step.title}: {step.outcome}")
            continue
        line = Text.assemble((step.status, _STYLES[step.status]), f"  {step.title:<{width}}  ")
        console.print(line.append(printable(step.outcome)), soft_wrap=True)
    if not result.is_complete:
        print_note(console, "Run it again: it goes on with what is left.")


def _json(result: MaintainResult) -> dict[str, Any]:
    look = result.look
    return {
        "dryRun": result.is_dry_run,
        "version": look.version,
        "numFiles": look.num_files,
        "sizeInBytes": look.num_bytes,
        "numCommits": look.num_commits,
        "checkpointVersion": look.checkpoint_version,
        "findings": [found.to_json() for found in result.findings],
        "steps": [step.to_json() for step in result.steps],
        "complete": result.is_complete,
    }
