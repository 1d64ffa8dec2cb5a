"""How does a shell command become a call, and a failure one readable line?

Each command is a module with a function `run`, whose docstring is its help. A new command is a new file beside this one
and a line in `COMMANDS`. Errors of the engine leave as one line on stderr: exit code 2 when the request must change (as
for a misspelt option), 1 for everything else.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from importlib.metadata import version as installed_version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ebbtide.cli import (
    alter,
    check,
    clone,
    convert,
    delete,
    detail,
    drop,
    files,
    fsck,
    generate,
    history,
    log,
    maintain,
    optimize,
    purge,
    restore,
    show,
    vacuum,
)
from ebbtide.cli.output import error_console, print_failure
from ebbtide.errors import DeltaError, RequestError

__all__ = ["COMMANDS", "app", "main"]

# In the order of the help page.
COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "show": show.run,
    "history": history.run,
    "detail": detail.run,
    "files": files.run,
    "check": check.run,
    "delete": delete.run,
    "alter": alter.run,
    "restore": restore.run,
    "clone": clone.run,
    "convert": convert.run,
    "generate": generate.run,
    "fsck": fsck.run,
    "vacuum": vacuum.run,
    "optimize": optimize.run,
    "purge": purge.run,
    "maintain": maintain.run,
    "drop": drop.run,
}

_DEBUG: Final = "--debug"


class _EngineErrors(TyperGroup):
    """A group whose commands fail with one line instead of a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # People add --debug at the end of the line that just failed, so it counts wherever it stands.
        end = args.index("--") if "--" in args else len(args)
        if _DEBUG in args[:end]:
            args = [_DEBUG, *(arg for arg in args[:end] if arg != _DEBUG), *args[end:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except DeltaError as error:
            if ctx.params.get("debug"):
                raise
            print_failure(error_console(), str(error))
            exit_code = 2 if isinstance(error, RequestError) else 1
        raise typer.Exit(exit_code)


app = typer.Typer(
    name="ebbtide",
    cls=_EngineErrors,
    no_args_is_help=True,
    add_completion=False,
    # Typer's own tracebacks would print local variables, and storage options are among them.
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ebbtide {installed_version('ebbtide')}")
        raise typer.Exit


@app.callback()
def _ebbtide(
    *,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of a failure, and what Spark logs.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print Ebbtide's version.")
    ] = False,
) -> None:
    """Look into Delta Lake tables, delete rows from them, and look after them, with deletion vectors."""
    del debug, version  # read from the context, and by the callback


for _name, _run in COMMANDS.items():
    app.command(_name)(_run)
app.add_typer(log.app)


def main() -> None:
    """The program `ebbtide`."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot encode is escaped instead of crashing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="ebbtide")
