"""Does the program start a Spark of its own without a sound, and say one line when it cannot?"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.support.sample_table import people_table

pytestmark = pytest.mark.spark

PROGRAM = "from ebbtide.cli import main; main()"


def program(*arguments, **environment):
    # The session of this test process must not leak into the program's choice of a session.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    command = [sys.executable, "-c", PROGRAM, *(str(argument) for argument in arguments)]
    return subprocess.run(
        command, check=False, env=inherited | environment, capture_output=True, text=True, timeout=300
    )


def test_rows_are_all_that_is_printed(tmp_path):
    people = people_table(tmp_path / "people").path
    done = program("show", people, "--where", "id = 6")
    assert done.stdout.splitlines() == ["id  name     city", "6   Frances  Peru"]
    assert (done.returncode, done.stderr) == (0, "Version 2, 1 row.\n")


def test_java_that_is_not_there_is_one_line_with_the_next_step(tmp_path):
    people = people_table(tmp_path / "people").path
    done = program("show", people, JAVA_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: Spark did not start: ")
    assert "JAVA_HOME" in line


def test_server_that_the_environment_names_does_the_reading(tmp_path, spark, spark_kind):
    if spark_kind == "classic":
        pytest.skip("a classic session has no server to connect to")
    people = people_table(tmp_path / "people").path
    # Without Java, nothing but the server can have read the rows.
    server = {"SPARK_REMOTE": f"sc://{spark.client._builder.endpoint}", "JAVA_HOME": str(tmp_path)}
    done = program("show", people, "--where", "id = 6", "--json", **server)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{"id":6,"name":"Frances","city":"Peru"}\n'
