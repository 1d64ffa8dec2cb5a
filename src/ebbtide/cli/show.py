"""`ebbtide show`: which rows does the table hold? Starts Spark.

The table and its version are looked up in the log first: a wrong path is reported in milliseconds, not after Spark has
started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ebbtide.cli.options import (
    AsJson,
    StorageOption,
    TablePath,
    Untrusted,
    engine_config,
    parse_storage_options,
    parse_timestamp_ms,
)
from ebbtide.cli.output import (
    error_console,
    new_table,
    output_console,
    pluralize,
    print_json,
    print_note,
    print_table,
    printable,
)
from ebbtide.cli.session import spark_session
from ebbtide.errors import RequestError
from ebbtide.log import load_snapshot
from ebbtide.scan.reading import read_rows
from ebbtide.spark_border import column, spark_errors
from ebbtide.storage import open_store

__all__ = ["run"]

# A cell is cut at this length in Spark, before a book-sized value reaches the terminal.
_MAX_CELL: Final = 1000
_MAX_TERMINAL_CELL: Final = 40
# All rows shown are held in memory; for more, use a DataFrame.
_MAX_ROWS: Final = 1_000_000
_GAP: Final = 3

Version = Annotated[int | None, typer.Option(show_default=False, help="The table as it was at this version.")]
Timestamp = Annotated[
    str | None, typer.Option(show_default=False, help="The table as it was at this time; UTC unless it names a zone.")
]
Where = Annotated[
    str | None, typer.Option(show_default=False, metavar="CONDITION", help="Only rows for which this SQL is true.")
]
Limit = Annotated[int, typer.Option(min=1, max=_MAX_ROWS, help="Show at most N rows.")]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows as text; `None` is NULL. `has_more` when the limit left some out."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str | None]]
    has_more: bool


def run(
    context: typer.Context,
    path: TablePath,
    *,
    version: Version = None,
    timestamp: Timestamp = None,
    where: Where = None,
    limit: Limit = 20,
    storage_option: StorageOption = None,
    untrusted: Untrusted = False,
    as_json: AsJson = False,
) -> None:
    """Show rows of a table, now or at an earlier version or time. Starts a local Spark."""
    if version is not None and timestamp is not None:
        raise RequestError("Give either --version or --timestamp, not both.")
    options = parse_storage_options(storage_option)
    timestamp_ms = None if timestamp is None else parse_timestamp_ms(timestamp)
    config = engine_config(untrusted=untrusted)
    store = open_store(path, options)
    snapshot = load_snapshot(store, version=version, timestamp_ms=timestamp_ms, config=config)
    found = snapshot.version
    verbose = bool(context.find_root().params.get("debug"))
    doing = f"reading version {found} of the table"
    with spark_session(doing=doing.capitalize(), verbose=verbose) as spark, spark_errors(doing):
        frame = read_rows(spark, snapshot, where, storage_options=options)
        if as_json:
            lines: Sequence[bytes] = _json_lines(frame, limit)
        else:
            rows = _texts(frame, limit)
    if as_json:
        print_json(lines)
    else:
        _print(rows, found, limit)


def _json_lines(frame: DataFrame, limit: int) -> list[bytes]:
    if not frame.columns:
        return []
    whole = F.to_json(F.struct(*(column(name) for name in frame.columns)), {"ignoreNullFields": "false"})
    return [row[0].encode() for row in frame.limit(limit).select(whole).collect()]


def _texts(frame: DataFrame, limit: int) -> _Rows:
    fields = frame.schema.fields
    names = tuple(field.name for field in fields)
    if not fields:
        return _Rows((), (), has_more=False)
    # One row more than the limit tells whether there are more.
    found = frame.limit(limit + 1).select(*(_text(field) for field in fields)).collect()
    return _Rows(names, [tuple(row) for row in found[:limit]], has_more=len(found) > limit)


def _text(field: T.StructField) -> Column:
    value = column(field.name)
    text = F.concat(F.lit("0x"), F.hex(value)) if isinstance(field.dataType, T.BinaryType) else value.cast("string")
    return F.substring(text, 1, _MAX_CELL)


def _print(found: _Rows, version: int, limit: int) -> None:
    console, notes = output_console(), error_console()
    widths = [_width(name, [row[index] for row in found.rows]) for index, name in enumerate(found.columns)]
    fitting = _fitting(console, widths)
    table = new_table(console)
    for name in found.columns[:fitting]:
        table.add_column(Text(printable(name)), no_wrap=True, overflow="ellipsis", max_width=_cell_limit(console))
    for row in found.rows:
        table.add_row(*(_cell(value) for value in row[:fitting]))
    if found.columns:
        print_table(console, table)
    shown = (
        f"the first {pluralize(limit, 'row')}; --limit shows more"
        if found.has_more
        else pluralize(len(found.rows), "row")
    )
    print_note(notes, f"Version {version}, {shown}.")
    if fitting < len(found.columns):
        left_out = ", ".join(found.columns[fitting:])
        print_note(notes, f"Columns that do not fit: {left_out}. Pipe the output, or use --json, to see them.")


def _cell(value: str | None) -> Text:
    return Text("NULL", style="dim italic") if value is None else Text(printable(value))


def _cell_limit(console: Console) -> int | None:
    return _MAX_TERMINAL_CELL if console.is_terminal else None


def _width(name: str, values: Sequence[str | None]) -> int:
    natural = max(cell_len(printable(text)) for text in (name, *(value or "NULL" for value in values)))
    return min(natural, _MAX_TERMINAL_CELL)


def _fitting(console: Console, widths: Sequence[int]) -> int:
    """How many columns fit side by side: at least one, and all of them in a pipe."""
    used = 0
    for index, width in enumerate(widths):
        used += width + (_GAP if index else 0)
        if used > console.width:
            return max(index, 1)
    return len(widths)
