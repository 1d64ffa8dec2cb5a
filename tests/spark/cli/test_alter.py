"""Does `ebbtide alter` change a table, and say in a dry run how it would differ?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.table_builder import TableBuilder

from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


@pytest.fixture
def table(tmp_path):
    builder = TableBuilder(tmp_path / "a `t` #1", SCHEMA).column_mapping("name").deletion_vectors()
    return builder.file([{"id": 1, "name": "a"}]).commit().path


def files_below(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.spark
def test_dry_run_says_how_the_table_would_differ_and_writes_nothing(spark, table):
    before = files_below(table)
    shown = ebbtide("alter", table, "RENAME COLUMN name TO called", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines() == [
        "column name    dropped (was string)",
        "column called  string (new)",
        "A dry run: nothing was written.",
    ]
    (answer,) = json_lines(ebbtide("alter", table, "ALTER COLUMN name FIRST", "--dry-run", "--json"))
    assert answer == {
        "dryRun": True,
        "version": None,
        "changes": [{"what": "order of columns", "before": "id, name", "after": "name, id"}],
    }
    assert files_below(table) == before


@pytest.mark.one_kind("the calls of the dry run, which runs on both kinds; this adds the commit")
@pytest.mark.spark
def test_change_is_committed_and_shown(spark, table):
    (answer,) = json_lines(ebbtide("alter", table, "ADD CONSTRAINT positive CHECK (id > 0)", "--json"))
    assert (answer["version"], answer["dryRun"]) == (1, False)
    what = {change["what"]: change["after"] for change in answer["changes"]}
    assert what["property delta.constraints.positive"] == "id > 0"
    assert load_snapshot(open_store(str(table))).version == 1
    again = ebbtide("alter", table, "DROP COLUMN IF EXISTS other")
    assert again.stdout == "The table is like that already; no new version.\n"


@pytest.mark.one_kind("refused by our own reader of SQL, whatever the session")
@pytest.mark.spark
@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_violated_constraint_is_refused_in_a_dry_run_as_in_a_real_one(spark, table, dry_run):
    result = ebbtide("alter", table, "ADD CONSTRAINT other CHECK (id > 5)", *dry_run)
    assert result.exit_code != 0
    assert "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION" in result.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ADD COLUMN", "Error: "),
        ("DROP FEATURE deletionVectors", "no dry run"),
        ("SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')", "no dry run"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_spark_is_started(table, change, said):
    before = files_below(table)
    result = ebbtide("alter", table, change, "--dry-run")
    assert (result.exit_code, said in result.stderr) == (2, True)
    assert files_below(table) == before
