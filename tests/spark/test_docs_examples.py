"""Does what the documentation shows really run, and print what the documentation says?

Every ```python block of README.md and docs/*.md is executed, the blocks of a page one after the other with the same names; a
```text block that follows one is what it must print. Every `$ ebbtide ...` of a ```console block is run, and the lines below it
are what it must print. Lines with a pipe or an object store are left to the reader. `...` stands for anything, and sizes
of files may differ. Each page starts with a fresh table `people` in its working directory; README.md starts with an empty one, as
a newcomer does, and its command lines look at the table that its Python has made.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.command_line import ebbtide
from tests.support.sample_table import people_table

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIZE = re.compile(r" *\d[\d.]* ([KMG]i)?B\b")
SETTING = re.compile(r"""spark\.conf\.set\(["']([\w.]+)["']""")
NOT_HERE = re.compile(r"\||\b(s3|s3a|gs|abfss|az)://")


def blocks(page):
    """(language, text, line, whether only white space separates it from the block before)."""
    text = page.read_text(encoding="utf-8")
    end = None
    for found in FENCE.finditer(text):
        follows = end is not None and not text[end : found.start()].strip()
        end = found.end()
        yield found[1], found[2], text.count("\n", 0, found.start()) + 1, follows


def pages_with(*languages):
    return [page for page in PAGES if any(language in languages for language, *_ in blocks(page))]


def assert_printed(expected, printed, where):
    same = doctest.OutputChecker().check_output(
        SIZE.sub(" SIZE", expected), SIZE.sub(" SIZE", printed), doctest.ELLIPSIS
    )
    assert same, f"{where} says\n{expected}\nbut this was printed\n{printed}"


@contextlib.contextmanager
def settings_of_page_put_back(page, spark):
    """What the examples of a page set in the session is theirs alone: the next test has the same session."""
    before = {name: spark.conf.get(name, None) for name in SETTING.findall(page.read_text(encoding="utf-8"))}
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture
def working_directory(page, tmp_path, monkeypatch):
    if page.name != "README.md":
        people_table(tmp_path / "people")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.one_value("every call of a page has a test of its own on both kinds; this compares the page's words")
@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python_of_a_page_runs_and_prints_what_the_page_says(page, spark, working_directory, monkeypatch):
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: spark)
    with settings_of_page_put_back(page, spark):
        run_page(page, {"spark": spark})


def run_page(page, names):
    printed = io.StringIO()
    for language, text, line, follows in blocks(page):
        where = f"{page.name}:{line}"
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + text, page, "exec"), names)
        elif language == "text" and follows:
            assert_printed(text.rstrip("\n"), printed.getvalue().rstrip("\n"), where)


@pytest.mark.one_kind("commands of the shell run on both kinds in cli/test_show.py and cli/test_delete_command.py")
@pytest.mark.parametrize("page", pages_with("console"), ids=lambda page: page.name)
def test_command_lines_of_a_page_print_what_the_page_says(page, spark, working_directory, monkeypatch):
    if page.name == "README.md":
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: spark)
        run_page(page, {"spark": spark})
    for language, text, line, _ in blocks(page):
        if language != "console":
            continue
        for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            program, *arguments = shlex.split(command)
            if program == "ebbtide" and not NOT_HERE.search(command):
                assert_printed(
                    expected.rstrip("\n"), ebbtide(*arguments).output.rstrip("\n"), f"{page.name}:{line}: {command}"
                )


def test_pages_have_examples_to_run():
    assert {"README.md", "reading.md", "errors.md"} <= {page.name for page in pages_with("python")}
    assert {"README.md", "cli.md"} <= {page.name for page in pages_with("console")}
