"""`ebbtide alter`: how is a table changed, and what would a change do to it? Starts Spark, which reads the types.

A dry run makes the change in memory (`storage.overlay`) and says how the table would differ. Changes that rewrite files
have none, because Spark writes those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

import typer

from ebbtide.cli.options import AsJson, StorageOption, TablePath, Untrusted, engine_config, parse_storage_options
from ebbtide.cli.output import output_console, print_json, print_note, print_pairs
from ebbtide.cli.session import session_with_phases
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.detail import clustering_columns
from ebbtide.protocol.features import ensure_writable, supported_features
from ebbtide.protocol.schema import StructField
from ebbtide.sql.alter_commands import rewrites_files, run_alter
from ebbtide.sql.alter_statements import AlterStatement
from ebbtide.sql.parse import parse_statement
from ebbtide.sql.session import SqlSession
from ebbtide.storage import ObjectStore, open_store
from ebbtide.storage.overlay import OverlayStore
from ebbtide.write.columns import spark_type

__all__ = ["run"]

Change = Annotated[
    str,
    typer.Argument(
        metavar="CHANGE", show_default=False, help='What comes after ALTER TABLE: "ADD COLUMNS (age INT)", for example.'
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how the table would differ.")]


def run(
    context: typer.Context,
    path: TablePath,
    change: Change,
    *,
    dry_run: DryRun = False,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Change the columns, constraints, properties or features of a table: ALTER TABLE. Starts a local Spark."""
    statement = _parse(path, change)
    storage_options = parse_storage_options(storage_option)
    config = engine_config(untrusted=untrusted)
    store = open_store(path, storage_options)
    before = load_snapshot(store, config=config)
    ensure_writable(before.protocol, before.metadata)
    if dry_run:
        _refuse_rewriting(statement, before)
        store = OverlayStore(store)
    verbose = bool(context.find_root().params.get("debug"))
    with session_with_phases(verbose=verbose) as (spark, on_phase):
        on_phase("Changing the table")
        run_alter(SqlSession(spark, storage_options, config, _opener(store)), statement)
        after = load_snapshot(store, config=config)
    _print(before, after, dry_run=dry_run, as_json=as_json)


def _parse(path: str, change: str) -> AlterStatement:
    quoted = path.replace("`", "``")
    statement = parse_statement(f"ALTER TABLE delta.`{quoted}` {change}")
    if not isinstance(statement, AlterStatement):
        raise RequestError(f"{change!r} is no change of a table. Write it like ADD COLUMNS (age INT).")
    return statement


def _refuse_rewriting(statement: AlterStatement, snapshot: Snapshot) -> None:
    if rewrites_files(statement, snapshot):
        raise RequestError(
            "This change rewrites files, so there is no dry run of it. `ebbtide detail` says how large the table is, "
            "and RESTORE brings the version before it back. Nothing was changed."
        )


def _opener(store: ObjectStore) -> Callable[[str, Mapping[str, str] | None], ObjectStore]:
    return lambda _path, _storage_options: store


def _print(before: Snapshot, after: Snapshot, *, dry_run: bool, as_json: bool) -> None:
    changes = dict(_differences(_describe(before), _describe(after)))
    version = after.version if after.version != before.version else None
    if as_json:
        listed = [{"what": what, "before": old, "after": new} for what, (old, new) in changes.items()]
        print_json([{"dryRun": dry_run, "version": None if dry_run else version, "changes": listed}])
        return
    if version is None:
        print_note(output_console(), "The table is like that already; no new version.")
        return
    shown = [] if dry_run else [("version", f"{version:,}")]
    print_pairs([*shown, *((what, _words(*values)) for what, values in changes.items())])
    if dry_run:
        print_note(output_console(), "A dry run: nothing was written.")


def _words(old: str | None, new: str | None) -> str:
    if old is None:
        return f"{new} (new)"
    return f"dropped (was {old})" if new is None else f"{new} (was {old})"


def _describe(snapshot: Snapshot) -> dict[str, str]:
    """What ALTER TABLE can change, by name."""
    return {
        **{f"column {field.name}": _column(field) for field in snapshot.schema.fields},
        "order of columns": ", ".join(snapshot.schema.names),
        "clustered by": ", ".join(clustering_columns(snapshot)),
        "protocol": f"reader {snapshot.protocol.min_reader_version}, writer {snapshot.protocol.min_writer_version}",
        **{f"feature {name}": "supported" for name in supported_features(snapshot.protocol)},
        **{f"property {key}": value for key, value in sorted(snapshot.metadata.configuration.items())},
    }


def _column(field: StructField) -> str:
    hidden = "delta.columnMapping."
    parts = [spark_type(field.type).simpleString(), *([] if field.nullable else ["NOT NULL"])]
    return " ".join(
        [*parts, *(f"{key}={value}" for key, value in field.metadata.items() if not key.startswith(hidden))]
    )


def _differences(before: dict[str, str], after: dict[str, str]) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for what in {**before, **after}:
        old, new = before.get(what), after.get(what)
        # New and dropped columns have lines of their own.
        is_same_columns = sorted((old or "").split(", ")) == sorted((new or "").split(", "))
        if old != new and (what != "order of columns" or is_same_columns):
            yield what, (old or None, new or None)
