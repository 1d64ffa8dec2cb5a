"""How do answers look: on a terminal, in a pipe, and to another program?

A terminal gets colour and a table that fits its width. A pipe gets the same table, plain and at full width, so that
nothing is cut before `grep` sees it. `--json` is UTF-8, one object per line. Names and values come from tables that
anyone may have written, so control characters (escape sequences, line breaks) are escaped, and nothing is markup.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ebbtide.commands.results import format_bytes, format_share

__all__ = [
    "count_text",
    "pluralize",
    "error_console",
    "iso_time",
    "pairs_text",
    "new_table",
    "output_console",
    "print_failure",
    "print_json",
    "print_note",
    "print_pairs",
    "print_table",
    "printable",
    "share_bar",
    "share_text",
    "shorten",
    "size_text",
    "time_text",
]

# Wide enough that rich never wraps or cuts a line in a pipe.
_PIPE_WIDTH: Final = 1_000_000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def output_console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def error_console() -> Console:
    return Console(stderr=True, highlight=False)


def printable(text: str) -> str:
    """The text on one line, with every unprintable character escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def shorten(text: str, width: int) -> str:
    """The text in at most `width` characters; the middle is left out, because names differ at their ends."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def pairs_text(values: Mapping[str, Any] | None) -> str:
    """`{"mode": "Append"}` as `mode=Append`; what is not text is shown as JSON."""
    parts = []
    for key, value in (values or {}).items():
        shown = value if isinstance(value, str) else orjson.dumps(value).decode()
        parts.append(f"{key}={shown}")
    return ", ".join(parts)


def count_text(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def pluralize(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def size_text(size_bytes: int) -> str:
    return format_bytes(size_bytes)


def share_text(share: float | None) -> str:
    return "?" if share is None else format_share(share)


def share_bar(share: float | None, console: Console, *, cells: int = 10) -> Text:
    """A bar of `cells` characters; full only for 100 %, empty only for 0 %."""
    full, empty = ("#", ".") if console.options.ascii_only else ("█", "░")
    if share is None:
        return Text("?" * cells, style="dim")
    filled = round(share * cells)
    if 0 < share < 1:
        filled = min(max(filled, 1), cells - 1)
    return Text.assemble((full * filled, "red"), (empty * (cells - filled), "green"))


def time_text(milliseconds: int | None) -> str:
    """UTC with milliseconds, so that `--timestamp` with this text finds the same commit."""
    moment = _moment(milliseconds)
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def iso_time(milliseconds: int | None) -> str | None:
    text = time_text(milliseconds)
    return f"{text.replace(' ', 'T')}Z" if text else None


def new_table(console: Console) -> Table:
    if console.is_terminal:
        return Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))


def print_table(console: Console, table: Table) -> None:
    with console.capture() as captured:
        console.print(table)
    # Cells are padded; trailing spaces would only be in the way in a pipe.
    for line in captured.get().splitlines():
        typer.echo(line.rstrip(), color=console.is_terminal)


def print_pairs(rows: Sequence[tuple[str, str]]) -> None:
    """Names and values, one pair per line."""
    console = output_console()
    table = new_table(console)
    table.show_header = False
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(printable(value)))
    print_table(console, table)


def print_note(console: Console, text: str) -> None:
    console.print(Text(printable(text), style="dim"), soft_wrap=True)


def print_failure(console: Console, message: str) -> None:
    """One line, whatever the message holds."""
    line = printable(" ".join(message.split()))
    console.print(Text.assemble(("Error: ", "bold red"), (line, "red")), soft_wrap=True)


def print_json(objects: Iterable[Mapping[str, Any]] | Sequence[bytes]) -> None:
    """One object per line; bytes are JSON already."""
    for item in objects:
        line = item if isinstance(item, bytes) else orjson.dumps(item)
        # Bytes, because JSON is UTF-8 whatever the locale says.
        typer.echo(_escaped_json(line.decode()).encode())


def _escaped_json(line: str) -> str:
    """The same JSON, with terminal control characters such as U+009B or U+202E escaped."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else _json_escape(char) for char in line)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _moment(milliseconds: int | None) -> dt.datetime | None:
    """None also for a time beyond Python's datetime: a log may hold any number."""
    if milliseconds is None:
        return None
    try:
        return _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
