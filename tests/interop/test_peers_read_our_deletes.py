"""Do other engines see exactly our rows after our DELETEs, in every version, and do we see theirs?

Every scenario of `tests/support/delete_scenarios.py` is deleted from once; then DuckDB, Polars, deltalake and we
ourselves read all of its versions. What an engine refuses for reasons of its own is asked as well: it must refuse, and
never show other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.support.comparison import assert_same_rows
from tests.support.delete_scenarios import ID, SCENARIOS, Scenario, rows_of_versions
from tests.support.log_reading import files_with_vectors, log_state, newest_version
from tests.support.peers import PEERS, duckdb_connection
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import open_store

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("duckdb")
pytest.importorskip("duckdb_extension_delta")

pytestmark = pytest.mark.spark

# What goes wrong in a peer, whoever wrote the table (docs/decisions/006). Where it raises, no harm is done.
WRONG_ELSEWHERE = {
    ("DuckDB", "mapped and partitioned"): "DuckDB 1.5 reads partition columns of mapped tables as null",
    ("DuckDB", "path with odd characters"): "DuckDB 1.5 raises: it opens files below the encoded name of the table",
    ("Polars", "path with odd characters"): "Polars 2.1 raises: it opens files below the encoded name of the table",
    (
        "Polars",
        "partitioned",
    ): "Polars 2.1 forgets the vectors of files whose path needs encoding, and shows deleted rows",
}


@dataclass(frozen=True)
class Deleted:
    """A table after all the DELETEs of its scenario, and the rows that each of its versions must show."""

    scenario: Scenario
    path: Path
    versions: list[pa.Table]


@pytest.fixture(scope="module")
def deleted(spark, tmp_path_factory):
    """Scenarios by name, each deleted from when it is asked for the first time."""
    made: dict[str, Deleted] = {}

    def get(name: str) -> Deleted:
        if name not in made:
            made[name] = delete_from(spark, SCENARIOS[name], tmp_path_factory.mktemp("scenario"))
        return made[name]

    return get


def delete_from(spark, scenario: Scenario, parent: Path) -> Deleted:
    builder = scenario.table(parent)
    versions = rows_of_versions(builder, scenario.steps)
    table = DeltaTable.forPath(spark, str(builder.path))
    for step in scenario.steps:
        table.delete(step.sql, deletion_vectors=step.vectors)
        if step.checkpoint:
            checkpoint(builder.path)
    assert newest_version(builder.path) == len(versions) - 1
    return Deleted(scenario, builder.path, versions)


def checkpoint(path: Path) -> None:
    write_checkpoint(load_snapshot(open_store(str(path))))


def asked() -> list[Any]:
    """Every peer with every scenario it can read; a peer that gets it right one day fails here, and the list is cut."""
    return [
        pytest.param(
            peer,
            name,
            marks=pytest.mark.xfail(reason=WRONG_ELSEWHERE[peer, name]) if (peer, name) in WRONG_ELSEWHERE else (),
        )
        for peer in PEERS
        for name, scenario in SCENARIOS.items()
        if PEERS[peer].can_read(scenario.features)
    ]


@pytest.mark.parametrize(("peer", "name"), asked())
def test_peer_sees_our_rows_in_every_version(deleted, peer, name):
    table = deleted(name)
    assert_same_rows(PEERS[peer].rows(table.path, table.scenario.schema), table.versions[-1], label="newest")
    for version, expected in enumerate(table.versions):
        found = PEERS[peer].rows(table.path, table.scenario.schema, version=version)
        assert_same_rows(found, expected, label=f"version {version}")


@pytest.mark.parametrize("name", SCENARIOS)
def test_we_see_our_rows_in_every_version(spark, deleted, name):
    table = deleted(name)
    assert_same_rows(ebbtide.read(spark, str(table.path)), table.versions[-1], label="newest")
    for version, expected in enumerate(table.versions):
        assert_same_rows(ebbtide.read(spark, str(table.path), version=version), expected, label=f"version {version}")


@pytest.mark.parametrize("feature", ["columnMapping", "v2Checkpoint"])
def test_polars_refuses_what_it_cannot_read(deleted, feature):
    name = {"columnMapping": "mapped by name", "v2Checkpoint": "V2 checkpoint"}[feature]
    with pytest.raises(Exception, match=feature):
        pl.scan_delta(str(deleted(name).path)).collect()


@pytest.mark.parametrize("read", ["to_pyarrow_table", "to_pyarrow_dataset", "to_pandas"])
def test_deltalakes_arrow_reader_refuses_vectors_instead_of_showing_deleted_rows(deleted, read):
    table = deltalake.DeltaTable(str(deleted("unpartitioned").path))
    with pytest.raises(deltalake.exceptions.DeltaProtocolError, match="deletionVectors"):
        getattr(table, read)()


def test_vectors_of_one_delete_lie_in_one_file(deleted):
    table = deleted("many vectors in one file")
    assert len(list(table.path.rglob("deletion_vector_*.bin"))) == len(table.versions) - 1
    assert len(list(files_with_vectors(log_state(table.path)))) == 12


def test_vectors_lie_below_the_prefix_the_table_asks_for(deleted):
    table = deleted("vectors below a prefix")
    prefixes = {file.parent.name for file in table.path.rglob("deletion_vector_*.bin")}
    assert {len(prefix) for prefix in prefixes} == {3}
    assert table.path.name not in prefixes


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_delete_checkpoint_and_second_delete_without_the_old_commits(spark, tmp_path, policy):
    """Nothing but our checkpoint knows the vectors of the first DELETE."""
    builder = TableBuilder(tmp_path / "t", ID).deletion_vectors()
    if policy == "v2":
        builder.feature("v2Checkpoint").table_property("delta.checkpointPolicy", "v2")
    builder.file([{"id": number} for number in range(10)]).file([{"id": number} for number in range(10, 20)]).commit()
    table = DeltaTable.forPath(spark, str(builder.path))
    table.delete("id IN (3, 13)")
    checkpoint(builder.path)
    for version in (0, 1):
        (builder.log / f"{version:020d}.json").unlink()
    second = DeltaTable.forPath(spark, str(builder.path)).delete("id IN (4, 13, 14)")
    assert second.num_affected_rows == 2
    expected = [{"id": number} for number in range(20) if number not in (3, 4, 13, 14)]
    assert_same_rows(ebbtide.read(spark, str(builder.path)), expected)
    for peer in PEERS.values():
        if policy == "classic" or peer.can_read({"v2Checkpoint"}):
            assert_same_rows(peer.rows(builder.path, ID), expected, label=peer.name)


# --- what they wrote --------------------------------------------------------------------------------------------------


def numbers(*values: int) -> pa.Table:
    parts = pa.array(["ab"[value % 2] for value in values], pa.string())
    return pa.table({"id": pa.array(values, pa.int64()), "p": parts})


@pytest.mark.parametrize("partition_by", [None, ["p"]], ids=["unpartitioned", "partitioned"])
def test_we_read_and_delete_from_what_deltalake_deleted_from(spark, tmp_path, partition_by):
    path = tmp_path / "t"
    deltalake.write_deltalake(path, numbers(*range(20)), partition_by=partition_by)
    theirs = deltalake.DeltaTable(path)
    assert theirs.delete("id % 3 = 0")["num_deleted_rows"] == 7
    kept = [number for number in range(20) if number % 3]
    assert_same_rows(ebbtide.read(spark, str(path)), numbers(*kept))
    assert_same_rows(ebbtide.read(spark, str(path), version=0), numbers(*range(20)))
    ours = DeltaTable.forPath(spark, str(path)).delete("id >= 10")
    assert ours.num_affected_rows == 7
    theirs = deltalake.DeltaTable(path)
    assert theirs.delete("id = 1")["num_deleted_rows"] == 1
    left = [number for number in kept if number < 10 and number != 1]
    assert_same_rows(ebbtide.read(spark, str(path)), numbers(*left))
    assert_same_rows(PEERS["DuckDB"].rows(path, numbers().schema), numbers(*left))


@pytest.mark.parametrize("command", ["append", "delete", "update", "optimize", "checkpoint", "vacuum"])
def test_deltalake_goes_on_with_a_table_that_has_our_vectors(spark, tmp_path, command):
    path = tmp_path / "t"
    TableBuilder(path, ID).deletion_vectors().file([{"id": number} for number in range(10)]).commit()
    DeltaTable.forPath(spark, str(path)).delete("id < 5")
    theirs = deltalake.DeltaTable(path)
    left = {5, 6, 7, 8, 9}
    match command:
        case "append":
            deltalake.write_deltalake(path, pa.table({"id": pa.array([100], pa.int64())}), mode="append")
            left.add(100)
        case "delete":
            assert theirs.delete("id <= 5")["num_deleted_rows"] == 1
            left.remove(5)
        case "update":
            theirs.update({"id": "id + 1000"}, predicate="id <= 5")
            left = (left - {5}) | {1005}
        case "optimize":
            theirs.optimize.compact()
        case "checkpoint":
            theirs.create_checkpoint()
        case "vacuum":
            theirs.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert_same_rows(ebbtide.read(spark, str(path)), [{"id": number} for number in left])
    assert DeltaTable.forPath(spark, str(path)).delete("id IN (0, 9)").num_affected_rows == 1
    assert_same_rows(PEERS["deltalake"].rows(path, ID), [{"id": number} for number in left - {9}])


def test_duckdb_may_append_to_a_table_with_our_vectors(spark, tmp_path):
    path = tmp_path / "t"
    TableBuilder(path, ID).deletion_vectors().file([{"id": number} for number in range(10)]).commit()
    DeltaTable.forPath(spark, str(path)).delete("id < 5")
    with duckdb_connection() as connection:
        connection.execute(f"ATTACH '{path}' AS t (TYPE delta)")
        connection.execute("INSERT INTO t VALUES (100)")
    expected = [{"id": number} for number in (5, 6, 7, 8, 9, 100)]
    assert_same_rows(ebbtide.read(spark, str(path)), expected)
    assert DeltaTable.forPath(spark, str(path)).delete("id IN (0, 5, 100)").num_affected_rows == 2
    for peer in PEERS.values():
        assert_same_rows(peer.rows(path, ID), [{"id": number} for number in (6, 7, 8, 9)], label=peer.name)
