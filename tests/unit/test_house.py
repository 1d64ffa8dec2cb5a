"""Are the house rules that no linter knows kept in every file?

A rule here names its offenders as `path:line`, so a failure is a list of places to go to. The words a rule looks for are
put together from pieces: this file obeys the rules too.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PYTHON_FOLDERS = ("src", "tests", "scripts", "bench", "interop")
LEFT_BEHIND_BY_TOOLS = re.compile(
    r"(^|/)(\.git|\.venvs?|__pycache__|\.\w+_cache|\.hypothesis|build|dist|artifacts)(/|$)"
)

JVM_HANDLES = re.compile(r"\b(_jvm|_jdf|_jc|_jsparkSession|sparkContext)\b")
NOTES_FOR_LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
REGISTRIES = tuple(
    name + "." + domain
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("maven", "org"),
        ("maven.apache", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("anaconda", "org"),
        ("anaconda", "com"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("jfrog", "io"),
        ("deb.debian", "org"),
    )
)
INDEX_OPTIONS = tuple(
    "-".join(pieces) for pieces in (("--index", "url"), ("--extra-index", "url"), ("--find", "links"))
)


def tracked_files() -> list[Path]:
    """What git tracks or would track; without git (an unpacked archive), everything but what tools leave behind."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        relative = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*"))
        listed = [path for path in relative if not LEFT_BEHIND_BY_TOOLS.search(path)]
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def places(paths: Iterable[Path], pattern: re.Pattern[str]) -> Iterator[str]:
    """`path:line` of every line that the pattern is found in; files that are not text hold no words."""
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            if pattern.search(line):
                yield f"{path.relative_to(ROOT)}:{number}"


def any_of(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE)


def test_house_has_sources_to_look_at():
    assert SOURCES
    assert Path(__file__) in tracked_files()


def test_source_never_reaches_into_the_jvm():
    assert list(places(SOURCES, JVM_HANDLES)) == []


def test_every_source_module_opens_with_a_docstring():
    silent = [path for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def test_no_module_is_longer_than_four_hundred_lines():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def imported_modules(path: Path) -> set[str]:
    """The modules of ours that a module imports; a room counts as one where its front door is used."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "ebbtide":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ebbtide."):
            found.add(node.module or "")
    return found


def test_no_command_imports_more_than_fifteen_of_our_modules():
    """A command that needs more knows too much: part of it belongs below, or beside it."""
    counts = {str(path.relative_to(ROOT)): len(imported_modules(path)) for path in SOURCES if "commands" in path.parts}
    assert {name: count for name, count in counts.items() if count > 15} == {}


def test_no_note_for_later_is_left_in_code():
    code = [path for folder in PYTHON_FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert list(places(code, NOTES_FOR_LATER)) == []


def test_source_and_scripts_know_nothing_beside_the_clone():
    product = [*SOURCES, *(ROOT / "scripts").glob("*")]
    beside = any_of(["../" + "shared", "/work" + "/"])
    assert list(places([path for path in product if path.is_file()], beside)) == []


def test_tracked_files_name_no_package_registry():
    assert list(places(tracked_files(), any_of(REGISTRIES + INDEX_OPTIONS))) == []


def test_constraints_hold_names_and_exact_versions_only():
    marker = r'( ; python_version (<|>=) "3\.\d+")?'
    pin = re.compile(rf"[a-z0-9][a-z0-9-]*==[A-Za-z0-9.]+{marker}")
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line and not line.startswith("#") and not pin.fullmatch(line)] == []


def test_package_inits_hold_no_logic():
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)
    offenders = [
        f"{path.relative_to(ROOT)}:{statement.lineno}"
        for path in SOURCES
        if path.name == "__init__.py"
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if not isinstance(statement, allowed)
    ]
    assert offenders == []


@pytest.mark.parametrize(
    "target", ["demo", "test", "lint", "types", "conformance", "bench", "matrix", "reference", "interop", "clean"]
)
def test_makefile_lists_every_promised_target(target):
    listing = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.search(rf"^\s+{target}\s+\S", listing, re.MULTILINE)


def test_no_helper_column_has_a_fixed_name():
    """Only the border to Spark knows how helper columns begin; a view's name is random, and views are no columns."""
    allowed = ("src/ebbtide/spark_border/", "src/ebbtide/commands/row_level/subqueries.py", "src/ebbtide/temp_views.py")
    found = [place for place in places(SOURCES, re.compile("__ebb" + "tide")) if not place.startswith(allowed)]
    assert found == []


BARE_PARTICIPLE = re.compile(r"_?(?!need|seed|feed)[a-z]+(ed|own)")
# A decorator that reads as an attribute of what it decorates, and properties of results that users know.
GOOD_PARTICIPLES = {"checked", "unfinished", "unrepaired"}


def test_no_function_is_named_by_a_bare_participle():
    """`replayed` does not say whether it replays, or what was replayed: a function is a verb, a property a noun."""
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and BARE_PARTICIPLE.fullmatch(node.name)
    ]
    assert [place for place in offenders if place.rpartition(" ")[2] not in GOOD_PARTICIPLES] == []
