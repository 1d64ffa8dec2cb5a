"""Does the change feed of every golden table that records one show what several engines agreed on?"""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.support.comparison import difference
from tests.support.shared_material import golden_tables

import ebbtide

TABLES = [pytest.param(table, id=table.name) for table in golden_tables() if table.entry.get("cdf")]


@pytest.mark.spark
@pytest.mark.parametrize("table", TABLES)
def test_golden_table_shows_the_changes_that_the_manifest_says(spark, table, tmp_path):
    copy = table.copy_to(tmp_path)
    feed = table.entry["cdf"]
    expected = pq.ParquetFile(table.golden / feed["path"]).read()
    frame = ebbtide.read_changes(spark, str(copy), start_version=feed["from_version"], end_version=feed["to_version"])
    assert not difference(frame.select(*expected.schema.names), expected)
    assert expected.num_rows == feed["rows"]
