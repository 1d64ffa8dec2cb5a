"""Do other engines read tables whose state comes from our checkpoints?

Every commit at or before the checkpoint is deleted first, so that nothing but the checkpoint can have given the answer.
What a peer cannot read for reasons of its own is not asked of it: Polars and deltalake's Arrow reader refuse tables with
V2 checkpoints or column mapping, and deltalake's Arrow reader refuses deletion vectors; its query engine reads them.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import cache
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.comparison import assert_same_rows
from tests.support.table_builder import COMMIT_INTERVAL_MS, FIRST_COMMIT_MS, TableBuilder

from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import open_store

deltalake = pytest.importorskip("deltalake")
duckdb = pytest.importorskip("duckdb")
duckdb_extension_delta = pytest.importorskip("duckdb_extension_delta")

NOW_MS = FIRST_COMMIT_MS + 10 * COMMIT_INTERVAL_MS
UTC = dt.timezone.utc
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "small": pa.int16(),
        "text": pa.string(),
        "day": pa.date32(),
        "moment": pa.timestamp("us", tz="UTC"),
        "price": pa.decimal128(10, 2),
        "ratio": pa.float64(),
        "flag": pa.bool_(),
        "raw": pa.binary(),
        "nested": pa.struct({"x": pa.int32(), "names": pa.list_(pa.string())}),
        "p": pa.string(),
        "q": pa.int32(),
    }
)
POLICIES = ["classic", "v2"]
STATS_FORMS = {
    "json and struct": {},
    "json only": {"delta.checkpoint.writeStatsAsStruct": "false"},
    "struct only": {"delta.checkpoint.writeStatsAsJson": "false"},
    "none": {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "false"},
}


def row(number, p, q):
    return {
        "id": number,
        "small": number % 100,
        "text": f"text {number}" if number % 4 else None,
        "day": dt.date(2024, 1, 1) + dt.timedelta(days=number),
        "moment": dt.datetime(2024, 1, 1, tzinfo=UTC) + dt.timedelta(hours=number, microseconds=number),
        "price": Decimal(number).quantize(Decimal("0.01")),
        "ratio": number / 3,
        "flag": number % 2 == 0,
        "raw": b"\x00\xff" + bytes([number % 256]),
        "nested": {"x": number, "names": ["a", None]},
        "p": p,
        "q": q,
    }


def table_of(path: Path, *, policy="classic", vectors=True, properties=None, partitions=("p", "q"), mapping=None):
    """Three commits: files in plain, odd and null partitions, with and without vectors and statistics; one is removed."""
    table = TableBuilder(path, SCHEMA).partitioned_by(*partitions)
    if vectors:
        table.deletion_vectors()
    if mapping:
        table.column_mapping(mapping)
    if policy == "v2":
        table.feature("v2Checkpoint").table_property("delta.checkpointPolicy", "v2")
    for name, value in (properties or {}).items():
        table.table_property(name, value)
    marked = [1, 3] if vectors else []
    table.file([row(number, "a b%/=é", 1) for number in range(5)])
    table.file([row(number, None, None) for number in range(10, 15)], deleted=marked).transaction("app", 7).commit()
    table.file([row(number, "c", 2) for number in range(20, 25)], deleted=marked, vector="i" if vectors else "u")
    table.file([row(number, "c", 3) for number in range(30, 35)], stats=False).commit()
    return table.remove(table.files[0]).commit()


def only_our_checkpoint(table: TableBuilder, **options):
    """Checkpoint the newest version and delete every commit, so that the checkpoint is all there is."""
    result = checkpointed(table, **options)
    table.clean_commits(before=table.version + 1)
    return result


def checkpointed(table: TableBuilder, **options):
    result = write_checkpoint(load_snapshot(open_store(str(table.path))), now_ms=NOW_MS, **options)
    assert result.version == table.version
    return result


@cache
def duckdb_connection():
    # The wheel carries the extension; loading it by path needs neither an installation nor a network.
    (extension,) = Path(duckdb_extension_delta.__path__[0]).rglob("delta.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def by_duckdb(path, *, where="true"):
    query = f"SELECT * FROM delta_scan('{path}') WHERE {where}"
    table = duckdb_connection().execute(query).to_arrow_table()
    return table.select(SCHEMA.names).cast(SCHEMA)


def by_polars(path, predicate=None):
    frame = pl.scan_delta(str(path))
    frame = frame if predicate is None else frame.filter(predicate)
    return frame.collect().to_arrow().select(SCHEMA.names).cast(SCHEMA)


def by_deltalake(path):
    return deltalake.DeltaTable(str(path)).to_pyarrow_table().select(SCHEMA.names).cast(SCHEMA)


def by_deltalake_queries(path, *, where="true"):
    table = deltalake.DeltaTable(str(path))
    query = deltalake.QueryBuilder().register("t", table)
    found = pa.table(query.execute(f"SELECT * FROM t WHERE {where}").read_all())
    return found.select(SCHEMA.names).cast(SCHEMA)


@pytest.mark.parametrize("stats", STATS_FORMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_duckdb_reads_our_checkpoints(tmp_path, policy, stats):
    table = table_of(tmp_path / "t", policy=policy, properties=STATS_FORMS[stats])
    only_our_checkpoint(table, actions_per_sidecar=2)
    assert_same_rows(by_duckdb(table.path), table.expected())


@pytest.mark.parametrize("stats", STATS_FORMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_deltalake_queries_read_our_checkpoints(tmp_path, policy, stats):
    table = table_of(tmp_path / "t", policy=policy, properties=STATS_FORMS[stats])
    only_our_checkpoint(table, actions_per_sidecar=2)
    assert_same_rows(by_deltalake_queries(table.path), table.expected())


@pytest.mark.parametrize("stats", STATS_FORMS)
def test_deltalake_reads_our_checkpoints(tmp_path, stats):
    table = table_of(tmp_path / "t", vectors=False, properties=STATS_FORMS[stats])
    only_our_checkpoint(table)
    assert_same_rows(by_deltalake(table.path), table.expected())


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
@pytest.mark.parametrize("stats", STATS_FORMS)
def test_polars_reads_our_checkpoints(tmp_path, stats, vectors):
    table = table_of(tmp_path / "t", vectors=vectors, properties=STATS_FORMS[stats])
    only_our_checkpoint(table)
    assert_same_rows(by_polars(table.path), table.expected())
    assert_same_rows(pl.read_delta(str(table.path)).to_arrow().select(SCHEMA.names).cast(SCHEMA), table.expected())


CONDITIONS = {
    "id >= 22": lambda row: row["id"] >= 22,
    "moment >= TIMESTAMP '2024-01-01 23:00:00'": lambda row: row["moment"] >= dt.datetime(2024, 1, 1, 23, tzinfo=UTC),
    "day = DATE '2024-01-23'": lambda row: row["day"] == dt.date(2024, 1, 23),
    "price < 13": lambda row: row["price"] < 13,
    "text IS NULL": lambda row: row["text"] is None,
    "p IS NULL": lambda row: row["p"] is None,
    "p = 'c' AND q = 3": lambda row: row["p"] == "c" and row["q"] == 3,
    "nested.x = 14": lambda row: row["nested"]["x"] == 14,
}


@pytest.mark.parametrize(
    ("policy", "stats"), [("classic", "json only"), ("classic", "struct only"), ("v2", "json and struct")]
)
def test_skipping_by_our_statistics_loses_no_rows(tmp_path, policy, stats):
    table = table_of(tmp_path / "t", policy=policy, properties=STATS_FORMS[stats])
    only_our_checkpoint(table)
    for condition, holds in CONDITIONS.items():
        expected = pa.Table.from_pylist([each for each in table.rows() if holds(each)], schema=SCHEMA)
        assert expected.num_rows, condition
        assert_same_rows(by_duckdb(table.path, where=condition), expected, label=f"DuckDB, {condition}")
        if "nested" not in condition:
            # DataFusion spells the path into a struct differently.
            found = by_deltalake_queries(table.path, where=condition)
            assert_same_rows(found, expected, label=f"deltalake, {condition}")


@pytest.mark.parametrize("stats", STATS_FORMS)
def test_polars_skips_by_our_statistics_and_loses_no_rows(tmp_path, stats):
    table = table_of(tmp_path / "t", properties=STATS_FORMS[stats])
    only_our_checkpoint(table)
    conditions = [pl.col("id") >= 22, pl.col("day") == dt.date(2024, 1, 23), pl.col("p").is_null(), pl.col("q") == 3]
    expected = [row for row in table.rows() if row["id"] >= 22], [row for row in table.rows() if row["id"] == 22]
    expected = (
        *expected,
        [row for row in table.rows() if row["p"] is None],
        [row for row in table.rows() if row["q"] == 3],
    )
    for condition, rows in zip(conditions, expected, strict=True):
        assert_same_rows(
            by_polars(table.path, condition), pa.Table.from_pylist(rows, schema=SCHEMA), label=str(condition)
        )


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("policy", POLICIES)
def test_duckdb_reads_our_checkpoints_of_mapped_tables(tmp_path, policy, mode):
    # DuckDB reads partition columns of mapped tables as null, with or without a checkpoint, so this one has none.
    table = table_of(tmp_path / "t", policy=policy, mapping=mode, partitions=())
    only_our_checkpoint(table)
    assert_same_rows(by_duckdb(table.path), table.expected())
    twenty_two = [each for each in table.rows() if each["id"] == 22]
    assert_same_rows(by_duckdb(table.path, where="id = 22"), pa.Table.from_pylist(twenty_two, schema=SCHEMA))


@pytest.mark.parametrize("policy", POLICIES)
def test_deltalake_finds_the_whole_state_in_our_checkpoint(tmp_path, policy):
    table = table_of(tmp_path / "t", policy=policy)
    only_our_checkpoint(table)
    found = deltalake.DeltaTable(str(table.path))
    actions = pa.table(found.get_add_actions(flatten=True)).to_pylist()
    assert (found.version(), found.transaction_version("app")) == (table.version, 7)
    counts = {action["partition.q"]: action["num_records"] for action in actions}
    assert counts == {None: 5, 2: 5, 3: None}
    bounds = next(
        (action["min.id"], action["max.id"], action["min.moment"]) for action in actions if action["partition.q"] == 2
    )
    assert bounds == (20, 24, dt.datetime(2024, 1, 1, 20, tzinfo=UTC))


@pytest.mark.parametrize("policy", POLICIES)
def test_commits_after_our_checkpoint_are_replayed_on_top_of_it(tmp_path, policy):
    table = table_of(tmp_path / "t", policy=policy)
    only_our_checkpoint(table)
    table.mark(next(file for file in table.files if file.rows[0]["id"] == 20), [0, 4])
    table.file([row(number, "new", None) for number in range(40, 43)]).commit()
    assert_same_rows(by_duckdb(table.path), table.expected())
    assert_same_rows(by_deltalake_queries(table.path), table.expected())
    if policy == "classic":
        assert_same_rows(by_polars(table.path), table.expected())


@pytest.mark.parametrize("policy", POLICIES)
def test_empty_table_is_read_from_our_checkpoint(tmp_path, policy):
    table = TableBuilder(tmp_path / "t", SCHEMA)
    if policy == "v2":
        table.feature("v2Checkpoint").table_property("delta.checkpointPolicy", "v2")
    table.commit()
    only_our_checkpoint(table)
    assert by_duckdb(table.path).num_rows == 0
    assert by_deltalake_queries(table.path).num_rows == 0
    if policy == "classic":
        assert by_polars(table.path).num_rows == 0


def test_deltalake_writes_on_after_our_checkpoint(tmp_path):
    table = table_of(tmp_path / "t", vectors=False, partitions=())
    checkpointed(table)
    # A writer may look into the newest commit; log cleanup never deletes that one either.
    table.clean_commits(before=table.version)
    more = pa.Table.from_pylist([row(50, "z", 9)], schema=SCHEMA)
    deltalake.write_deltalake(table.path, more, mode="append")
    assert_same_rows(by_deltalake(table.path), pa.concat_tables([table.expected(), more]))
    theirs = pa.table(deltalake.DeltaTable(str(table.path)).get_add_actions()).column("path").to_pylist()
    assert sorted(file.path for file in load_snapshot(open_store(str(table.path))).add_files()) == sorted(theirs)


def test_every_file_of_a_large_table_is_found(tmp_path):
    path = tmp_path / "t"
    table = TableBuilder(path, pa.schema({"id": pa.int64()}))
    table.feature("v2Checkpoint").table_property("delta.checkpointPolicy", "v2").file([{"id": 1}], name="x.parquet")
    # One real file under many names: the state is large, the data is not.
    (only,) = table.files
    for number in range(2_000):
        (path / f"f{number}.parquet").hardlink_to(path / only.add["path"])
        table.raw({"add": {**only.add, "path": f"f{number}.parquet"}})
    table.commit()
    result = only_our_checkpoint(table, actions_per_sidecar=900)
    assert [pq.read_metadata(path / file).num_rows for file in result.files[:-1]] == [900, 900, 201]
    assert json.loads((path / "_delta_log" / "_last_checkpoint").read_text())["numOfAddFiles"] == 2001
    assert duckdb_connection().execute(f"SELECT count(*) FROM delta_scan('{path}')").fetchone() == (2001,)
    assert len(deltalake.DeltaTable(str(path)).file_uris()) == 2001
