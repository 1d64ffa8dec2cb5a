"""Do the pages of the documentation know every command, option and error, and do their links lead somewhere?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from ebbtide import errors
from ebbtide.cli import app

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(#[\w-]+)?\)")


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_to_a_page_and_a_title(page):
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        found = page.parent / target
        assert found.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(found), f"{page.name} links to {target}{anchor}"


def test_page_on_errors_knows_every_error():
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [
        name for name in errors.__all__ if f"`{name}`" not in text.replace("ebbtide.DeltaError", "DeltaError")
    ] == []


def test_readme_page_and_help_list_the_same_commands_in_the_same_order():
    readme, page = (ROOT / name for name in ("README.md", "docs/cli.md"))
    (row,) = re.findall(r"^\| Command line \| (.+) \|$", readme.read_text(encoding="utf-8"), re.MULTILINE)
    rows = re.findall(r"^\| `ebbtide (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    commands = list(get_command(app).commands)
    assert re.findall(r"`(\w+)`", row) == rows == commands


def test_every_command_that_changes_something_has_a_dry_run():
    group = get_command(app)
    only_look = {"show", "history", "detail", "files", "check"}
    # A check of a table that changes nothing unless it is told to repair.
    only_look |= {"fsck"}
    inner = {f"log {name}": command for name, command in group.commands["log"].commands.items()}
    commands = {name: command for name, command in group.commands.items() if name != "log"} | inner
    without = {
        name for name, command in commands.items() if "--dry-run" not in {o for p in command.params for o in p.opts}
    }
    assert without == only_look


def test_page_on_the_command_line_knows_every_command_and_option():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    group = get_command(app)
    inner = [command for each in group.commands.values() for command in getattr(each, "commands", {}).values()]
    commands = (group, *group.commands.values(), *inner)
    options = {name for command in commands for each in command.params for name in each.opts}
    wanted = {f"## {name}" for name in group.commands} | {name for name in options if name.startswith("--")}
    assert sorted(word for word in wanted - {"--help"} if word not in text) == []
