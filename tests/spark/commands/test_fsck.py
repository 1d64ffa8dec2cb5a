"""Do the doors of FSCK lead to the same check and the same repair, and can the table be read afterwards?"""

from __future__ import annotations

import pytest
from tests.support.sample_table import people_table

import ebbtide
from ebbtide import DeltaTable
from ebbtide.errors import CorruptTableError, InvalidSyntaxError, MissingDataFileError

pytestmark = pytest.mark.spark


@pytest.fixture
def people(tmp_path):
    return people_table(tmp_path / "people").path


def test_python_door_repairs_and_the_rows_that_are_left_can_be_read(spark, people):
    (people / "part-1.parquet").unlink()
    table = DeltaTable.forPath(spark, str(people))
    with pytest.raises(MissingDataFileError):
        table.toDF()
    assert [found.kind for found in table.fsck().findings] == ["missing-data-file"]
    result = table.fsck(repair=True)
    assert (result.version, result.metrics.num_lost_rows) == (3, 3)
    assert [row.name for row in table.toDF().collect()] == ["Edsger"]
    newest = table.history(1).first()
    assert (newest.operation, newest.operationMetrics["numLostRows"]) == ("FSCK", "3")


def test_sql_door_lists_with_dry_run_and_repairs_without(spark, people):
    (people / "part-1.parquet").unlink()
    statement = f"FSCK REPAIR TABLE delta.`{people}`"
    (row,) = ebbtide.sql(spark, f"{statement} DRY RUN").collect()
    assert (row.kind, row.path, row.version, row.repairable, row.repaired) == (
        "missing-data-file", "part-1.parquet", 2, True, False,
    )  # fmt: skip
    assert DeltaTable.forPath(spark, str(people)).version() == 2
    (row,) = ebbtide.sql(spark, statement).collect()
    assert row.repaired
    assert ebbtide.sql(spark, statement).collect() == []
    assert DeltaTable.forPath(spark, str(people)).version() == 3


@pytest.mark.one_kind("the statement fails or runs before Spark is asked for anything but the answer")
def test_sql_door_opens_a_table_that_cannot_be_read(spark, people):
    file = f'{{"add":{{"path":"part-1.parquet","partitionValues":{{}},"size":1,"modificationTime":1,"dataChange":true,{VECTOR}}}}}'
    (people / "_delta_log" / f"{3:020d}.json").write_text(file + "\n")
    with pytest.raises(CorruptTableError):
        ebbtide.read(spark, str(people))
    rows = ebbtide.sql(spark, f"FSCK REPAIR TABLE delta.`{people}` DRY RUN").collect()
    assert {"live-twice", "corrupt-vector"} == {row.kind for row in rows if row.severity == "error"} - {
        "replaced-data-file"
    }
    with pytest.raises(InvalidSyntaxError, match="REPAIR TABLE"):
        ebbtide.sql(spark, f"FSCK TABLE delta.`{people}`")


VECTOR = '"deletionVector":{"storageType":"i","pathOrInlineDv":"00000","sizeInBytes":4,"cardinality":1}'
