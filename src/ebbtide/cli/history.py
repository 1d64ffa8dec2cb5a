"""`ebbtide history`: who did what to the table, and when? Reads the log; starts no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import (
    iso_time,
    new_table,
    output_console,
    pairs_text,
    print_json,
    print_table,
    printable,
    time_text,
)
from ebbtide.log import CommitRecord, read_history
from ebbtide.storage import open_store

__all__ = ["run"]

Limit = Annotated[int | None, typer.Option(min=1, show_default=False, help="Only the newest N commits.")]


def run(
    path: TablePath,
    *,
    limit: Limit = None,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """List the commits of a table, newest first. Does not start Spark."""
    store = open_store(path, parse_storage_options(storage_option))
    commits = read_history(store, limit=limit, config=engine_config(untrusted=untrusted))
    if as_json:
        print_json([_json(commit) for commit in commits])
        return
    console = output_console()
    table = new_table(console)
    _fill(table, commits)
    print_table(console, table)


def _fill(table: Table, commits: Sequence[CommitRecord]) -> None:
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("time (UTC)", no_wrap=True)
    table.add_column("operation", no_wrap=True, style="bold")
    for name in ("parameters", "metrics"):
        table.add_column(name, overflow="fold")
    for commit in commits:
        table.add_row(
            str(commit.version),
            time_text(commit.timestamp_ms),
            Text(printable(commit.operation or "")),
            Text(printable(pairs_text(commit.operation_parameters))),
            Text(printable(pairs_text(commit.operation_metrics))),
        )


def _json(commit: CommitRecord) -> dict[str, Any]:
    """The columns of DESCRIBE HISTORY under their names."""
    return {
        "version": commit.version,
        "timestamp": iso_time(commit.timestamp_ms),
        "userId": commit.user_id,
        "userName": commit.user_name,
        "operation": commit.operation,
        "operationParameters": commit.operation_parameters,
        "job": commit.job,
        "notebook": commit.notebook,
        "clusterId": commit.cluster_id,
        "readVersion": commit.read_version,
        "isolationLevel": commit.isolation_level,
        "isBlindAppend": commit.is_blind_append,
        "operationMetrics": commit.operation_metrics,
        "userMetadata": commit.user_metadata,
        "engineInfo": commit.engine_info,
    }
