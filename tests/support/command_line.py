"""How does a test type a command?

`ebbtide(...)` runs the command line in this process, where stdout and stderr are no terminal. `on_terminal(...)` makes rich
believe otherwise, for a terminal of a given width.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from ebbtide.cli import app

__all__ = ["ebbtide", "json_lines", "on_terminal"]


def ebbtide(*arguments: object, typed: str | None = None) -> Result:
    """`typed` is what the person at the keyboard answers."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed, prog_name="ebbtide")


def on_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: object, width: int = 80) -> Result:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return ebbtide(*arguments)


def json_lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]
