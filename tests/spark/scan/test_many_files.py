"""Do thousands of files, each with a sparse vector, stay one small plan and one small broadcast?

The limits, as measured and asserted here:

- A read has at most two branches, so the plan does not grow with the number of files.
- The broadcast holds 8 KiB for each marked block of 65,536 rows while there are at most 4,096 such blocks (32 MiB).
  Beyond that it holds one entry of a key and one word for each 64 rows that have a mark: at most 16 bytes of data a
  marked row. Ten million scattered marks are 160 MB; Spark itself refuses to broadcast more than 8 GB.
- A key has room for 8.6 billion rows a file and 37 bits for the file. That all files differ is checked on the driver;
  beyond some half a million files with vectors in one read it becomes unlikely, and such a read is refused.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.query_plans import parquet_scans, plan_text
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.scan import dataframe
from ebbtide.scan.mark_join import block_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MARKED_FILES = 5_000
PLAIN_FILES = 500
ROWS = 70  # more than one 64-bit word


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    """File `n` holds the ids from 1000 n on; its vector marks row `n % 70`, and the last row."""
    builder = TableBuilder(tmp_path_factory.mktemp("many") / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    for number in range(MARKED_FILES + PLAIN_FILES):
        rows = [{"id": number * 1000 + row} for row in range(ROWS)]
        marks = {number % ROWS, ROWS - 1} if number < MARKED_FILES else ()
        builder.file(rows, deleted=marks, vector="i", name=f"part-{number:05d}.parquet")
    return builder.commit()


@pytest.fixture
def block_tables(monkeypatch):
    """Every block table that a scan makes."""
    made = []

    def recorded(*arguments, **options):
        made.append(block_table(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(dataframe, "block_table", recorded)
    return made


@pytest.mark.one_kind("marks are joined on both kinds in test_marked_rows.py; this adds their number")
def test_thousands_of_sparse_vectors_are_one_scan_a_branch_and_a_small_broadcast(spark, builder, block_tables):
    frame = ebbtide.read(spark, str(builder.path))
    assert len(parquet_scans(frame)) == 2
    assert len(plan_text(frame)) < 10_000
    (blocks,) = block_tables
    assert blocks.table.num_rows <= 2 * MARKED_FILES
    assert blocks.table.nbytes < 32 * 2 * MARKED_FILES
    live = {row["id"] for row in builder.rows()}
    count, total = frame.agg(F.count("*"), F.sum("id")).first()
    assert (count, total) == (len(live), sum(live))
    assert {row.id for row in frame.where("id % 1000 < 3").collect()} == {id_ for id_ in live if id_ % 1000 < 3}


@pytest.mark.one_kind("marks are joined on both kinds in test_marked_rows.py; this adds their number")
def test_condition_that_leaves_one_of_thousands_opens_that_one(spark, builder, block_tables):
    frame = ebbtide.read(spark, str(builder.path), where="id BETWEEN 4321000 AND 4321999")
    (scan,) = parquet_scans(frame)
    assert "part-04321.parquet" in scan.location
    assert not block_tables, "one file's marks are looked up, not joined"
    assert {row.id for row in frame.collect()} == {row["id"] for row in builder.rows() if row["id"] // 1000 == 4321}


@pytest.mark.one_kind("marks are joined on both kinds in test_marked_rows.py; this adds their number")
def test_count_of_thousands_of_files_comes_from_the_log(spark, builder):
    assert ebbtide.DeltaTable.forPath(spark, str(builder.path)).count() == len(builder.rows())
