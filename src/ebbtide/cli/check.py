"""`ebbtide check`: what would turning deletion vectors on mean for everyone who reads the table? Starts no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from ebbtide.cli.live_files import FileTotals, deleted_shares, file_totals
from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import (
    new_table,
    output_console,
    pluralize,
    print_json,
    print_note,
    print_table,
    printable,
    share_text,
)
from ebbtide.commands.define.compatibility import ENGINES, CompatibilityReport, compatibility_report
from ebbtide.log import count_outside_files, load_snapshot
from ebbtide.protocol.actions import Protocol
from ebbtide.storage import open_store

__all__ = ["run"]

_STATES = {
    "off": "off: the protocol does not know them",
    "supported": "supported, but switched off: none are written",
    "enabled": "on: DELETE marks rows instead of rewriting files",
}
_STYLES = {"yes": "green", "no": "red", "unknown": "dim"}


def run(
    path: TablePath,
    *,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Tell what deletion vectors mean for the readers of a table. Changes nothing and does not start Spark."""
    store = open_store(path, parse_storage_options(storage_option))
    snapshot = load_snapshot(store, config=engine_config(untrusted=untrusted))
    report, totals = compatibility_report(snapshot), file_totals(deleted_shares(snapshot))
    num_outside = count_outside_files(snapshot.live, store)
    if as_json:
        print_json([_json(report, totals) | {"numFilesOutsideRoot": num_outside}])
        return
    console = output_console()
    _print_state(console, report, totals, num_outside)
    console.print()
    _print_engines(console)
    console.print()
    print_note(console, report.recommendation)


def _print_state(console: Console, report: CompatibilityReport, totals: FileTotals, num_outside: int) -> None:
    table = new_table(console)
    table.show_header = False
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in _lines(report, totals, num_outside):
        table.add_row(name, Text(printable(value)))
    print_table(console, table)


def _lines(report: CompatibilityReport, totals: FileTotals, num_outside: int) -> Iterator[tuple[str, str]]:
    yield "location", report.table_url
    yield "version", str(report.version)
    yield "deletion vectors", _STATES[report.state]
    yield "protocol", _protocol_text(report.protocol)
    yield "features", ", ".join(report.features) or "none"
    if report.locks_out_readers:
        yield "turned on", f"{_protocol_text(report.protocol_after)}; new: {', '.join(report.new_features)}"
    else:
        yield "turned on", "the protocol stays as it is"
    vectors = pluralize(report.num_deletion_vectors, "file")
    yield (
        "deleted rows",
        f"{totals.num_deleted:,} ({share_text(totals.deleted_share)} of all rows), marked in {vectors}",
    )
    if num_outside:
        files = pluralize(num_outside, "file")
        yield "outside", f"{files} outside of the table's directory, or with a vector there; --untrusted refuses them"
    for position, found in enumerate(report.obstacles):
        yield "" if position else "in the way", f"{found.setting}: {found.reason}"


def _print_engines(console: Console) -> None:
    table = new_table(console)
    table.add_column("engine", no_wrap=True)
    table.add_column("reads vectors", no_wrap=True)
    for name in ("since", "writes vectors"):
        table.add_column(name, overflow="fold")
    for engine in ENGINES:
        table.add_row(engine.name, Text(engine.reads, style=_STYLES[engine.reads]), engine.since, engine.writes)
    print_table(console, table)


def _protocol_text(protocol: Protocol) -> str:
    return f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"


def _json(report: CompatibilityReport, totals: FileTotals) -> dict[str, Any]:
    return {
        "location": report.table_url,
        "version": report.version,
        "deletionVectors": report.state,
        "protocol": report.protocol.to_json(),
        "features": report.features,
        "protocolAfter": report.protocol_after.to_json(),
        "newFeatures": report.new_features,
        "obstacles": [
            {"setting": found.setting, "reason": found.reason, "remedy": found.remedy} for found in report.obstacles
        ],
        "numDeletionVectors": report.num_deletion_vectors,
        "numDeletedRecords": totals.num_deleted,
        "numRecords": totals.num_live,
        "deletedShare": totals.deleted_share,
        "engines": [
            {
                "name": engine.name,
                "reads": engine.reads,
                "since": engine.since,
                "writes": engine.writes,
                "source": engine.source,
            }
            for engine in ENGINES
        ],
        "recommendation": report.recommendation,
    }
