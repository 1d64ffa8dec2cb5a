"""What do commands do with a file of which the log states a wrong number of rows?

They say so, name the file and the way out, and change nothing. They used to blame themselves, to remove a file with rows
that nobody had deleted, or to commit a vector that no reader accepts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import CorruptTableError

# Row 9 is beyond the 3 rows that the log states, and the rows 0 and 2 are all that it leaves.
STATED, REAL = 3, 10
NAME = "counted.parquet"


def false_table(path: Path, *, vectors: bool) -> TableBuilder:
    builder = TableBuilder(path, pa.schema({"id": pa.int64()}))
    if vectors:
        builder.deletion_vectors()
    builder.file([{"id": number} for number in range(REAL)], deleted=[1] if vectors else [], name=NAME)
    add = builder._staged[-1]["add"]
    add["stats"] = json.dumps(json.loads(add["stats"]) | {"numRecords": STATED})
    return builder.file([{"id": number} for number in range(10, 20)]).commit()


def merge(table: DeltaTable) -> object:
    source = table.toDF().where("id = 2").alias("s")
    return table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"id": "s.id + 100"}).execute()


COMMANDS: dict[str, Callable[[DeltaTable], object]] = {
    "optimize": lambda table: table.optimize().executeCompaction(),
    "group by group": lambda table: table.optimize(commit_per_group=True).executeCompaction(),
    "zorder": lambda table: table.optimize().executeZOrderBy("id"),
    "update all": lambda table: table.update(set={"id": "id + 1"}),
    "update some": lambda table: table.update("id = 9", {"id": "id + 1"}),
    "delete the last row": lambda table: table.delete("id = 9"),
    "delete as many rows as stated": lambda table: table.delete("id < 3"),
}


def refused(spark, path: Path, command: Callable[[DeltaTable], object]) -> None:
    table = DeltaTable.forPath(spark, str(path))
    before = sorted(row.id for row in table.toDF().collect())
    files = {file for file in path.rglob("*") if file.is_file()}
    with pytest.raises(CorruptTableError, match=rf"'{NAME}' has {STATED} rows, but it has {REAL}.*FSCK") as caught:
        command(table)
    assert caught.value.error_class == "DELTA_NUM_RECORDS_MISMATCH"
    assert sorted(row.id for row in ebbtide.read(spark, str(path)).collect()) == before
    left = {file for file in path.rglob("*") if file.is_file()} - files
    assert not [file.name for file in left if file.suffix in {".parquet", ".bin"}]


@pytest.mark.one_kind("about what the log states, not about Spark")
@pytest.mark.parametrize("name", [*COMMANDS, "merge"])
def test_false_row_count_is_blamed_on_ebbtide_when_files_are_rewritten(spark, tmp_path, name):
    false_table(tmp_path / "t", vectors=False)
    refused(spark, tmp_path / "t", (COMMANDS | {"merge": merge})[name])


@pytest.mark.one_kind("about what the log states, not about Spark")
@pytest.mark.parametrize(
    "name",
    [*COMMANDS, "purge", "drop feature"],
)
def test_false_row_count_loses_rows_or_the_table_when_rows_are_marked(spark, tmp_path, name):
    false_table(tmp_path / "t", vectors=True)
    others = {
        "purge": lambda table: table.purge(),
        "drop feature": lambda table: table.dropFeatureSupport("deletionVectors"),
    }
    refused(spark, tmp_path / "t", (COMMANDS | others)[name])


def test_command_that_was_refused_for_a_false_row_count_works_after_a_repair(spark, tmp_path):
    false_table(tmp_path / "t", vectors=True)
    table = DeltaTable.forPath(spark, str(tmp_path / "t"))
    ebbtide.sql(spark, f"FSCK REPAIR TABLE delta.`{tmp_path / 't'}`").collect()
    table.delete("id < 3")
    assert sorted(row.id for row in ebbtide.read(spark, str(tmp_path / "t")).collect()) == list(range(3, 20))
