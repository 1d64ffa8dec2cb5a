"""Do all commands take tables and sources of 2,000 columns?

Spark's parser gives up on an expression that is a thousand levels deep, and a chain like `a + b + c` has one level per
term: no text of ours may grow with the number of columns in that way.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.table import DeltaTable

pytestmark = [
    pytest.mark.spark,
    pytest.mark.one_kind("both kinds have the same parser, and only the size of plans is tried"),
]

NUM_COLUMNS = 2_000
# Half of them text, whose bytes a merge adds up, and some that must not be null.
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        *(pa.field(f"t{place}", pa.string(), nullable=place >= 50) for place in range(NUM_COLUMNS // 2)),
        *(pa.field(f"n{place}", pa.int32()) for place in range(NUM_COLUMNS // 2 - 1)),
    ]
)
LAST = f"n{NUM_COLUMNS // 2 - 2}"


def row(number, text="old"):
    return {name: number if name == "id" else text if name[0] == "t" else number for name in SCHEMA.names}


@pytest.fixture
def table(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.table_property("delta.dataSkippingNumIndexedCols", "5")
    return builder.file([row(number) for number in (1, 2, 3, 4)]).commit()


def frame_of(spark, *rows):
    nullable = pa.schema([field.with_nullable(True) for field in SCHEMA])
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), nullable)).alias("s")


def shown(spark, table):
    rows = ebbtide.read(spark, str(table.path)).select("id", "t0", "t999", LAST).collect()
    return {tuple(item) for item in rows}


def indexed_columns(table, version):
    log = (table.path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    stats = [json.loads(line)["add"].get("stats") for line in log if '"add"' in line]
    return {len(json.loads(text)["nullCount"]) for text in stats}


def test_table_of_2000_columns_is_appended_to_updated_and_deleted_from(spark, table):
    path = str(table.path)
    delta = DeltaTable.forPath(spark, path)
    ebbtide.write(frame_of(spark, row(5, "new")), path, mode="append")
    assert indexed_columns(table, 1) == {5}
    delta.update("id = 2", {"t999": "'changed'", LAST: "n0 + 10"})
    delta.delete("id = 1 AND t0 = 'old'")
    assert shown(spark, table) == {
        (2, "old", "changed", 12),
        (3, "old", "old", 3),
        (4, "old", "old", 4),
        (5, "new", "new", 5),
    }


@pytest.fixture
def interpreted(spark):
    """Compiling such plans takes most of the time, and the test above does it: it reads, writes, updates and deletes."""
    with session_settings(spark, {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        yield


@pytest.mark.usefixtures("interpreted")
def test_source_of_2000_columns_is_merged_by_all_clauses(spark, table):
    delta = DeltaTable.forPath(spark, str(table.path)).alias("t")
    builder = delta.merge(frame_of(spark, row(1, "src"), row(2, "src"), row(9, "src")), "t.id = s.id")
    builder = builder.whenMatchedDelete("s.id = 1").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    builder.whenNotMatchedBySourceDelete("t.id = 4").execute()
    assert shown(spark, table) == {
        (2, "src", "src", 2),
        (3, "old", "old", 3),
        (9, "src", "src", 9),
    }


@pytest.mark.usefixtures("interpreted")
def test_source_of_2000_columns_is_upserted(spark, table):
    delta = DeltaTable.forPath(spark, str(table.path)).alias("t")
    builder = delta.merge(frame_of(spark, row(2, "src"), row(9, "src")), "t.id = s.id")
    builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert shown(spark, table) == {
        (1, "old", "old", 1),
        (2, "src", "src", 2),
        (3, "old", "old", 3),
        (4, "old", "old", 4),
        (9, "src", "src", 9),
    }


@pytest.mark.usefixtures("interpreted")
def test_null_in_a_table_of_2000_columns_is_refused_by_the_name_of_its_column(spark, table):
    bad = row(5) | {"t49": None}
    with pytest.raises(ebbtide.DeltaError, match="t49"):
        ebbtide.write(frame_of(spark, bad), str(table.path), mode="append")
    with pytest.raises(ebbtide.DeltaError, match="t49"):
        DeltaTable.forPath(spark, str(table.path)).update("id = 1", {"t49": "NULL"})
    assert shown(spark, table) == {(number, "old", "old", number) for number in (1, 2, 3, 4)}
