"""Which rows do other engines see in a table?

Readers of DuckDB's delta extension, Polars and deltalake, all from wheels and without a network. Each gives the rows of a
version as an Arrow table of the asked-for schema; each engine has its own way to name a column's type, so values are cast
where nothing can be lost. `can_read` says what an engine refuses for reasons of its own; `FAULTS` is everything that is known
to go wrong in one, whoever wrote the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from ebbtide.log import Snapshot

__all__ = ["FAULTS", "PEERS", "Asked", "Fault", "Peer", "duckdb_connection"]


@contextmanager
def duckdb_connection() -> Iterator[Any]:
    """A connection with the delta extension loaded. Its wheel carries it, so nothing is installed or downloaded."""
    with _duckdb().cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@cache
def _duckdb() -> Any:
    """One for the process: to load the extension takes longer than a hundred reads."""
    import duckdb
    import duckdb_extension_delta

    (extension,) = Path(duckdb_extension_delta.__path__[0]).rglob("delta.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection


def _by_duckdb(path: Path, version: int | None) -> pa.Table:
    chosen = "" if version is None else f", version := {version}"
    with duckdb_connection() as connection:
        return connection.execute(f"SELECT * FROM delta_scan($path{chosen})", {"path": str(path)}).to_arrow_table()


def _by_polars(path: Path, version: int | None) -> pa.Table:
    import polars as pl

    return pl.scan_delta(str(path), version=version).collect().to_arrow()


def _by_deltalake(path: Path, version: int | None) -> pa.Table:
    """deltalake's own query engine. Its Arrow reader (`to_pyarrow_table`) refuses deletion vectors."""
    import deltalake

    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(path), version=version))
    return pa.table(query.execute("SELECT * FROM t").read_all())


@dataclass(frozen=True)
class Peer:
    """Another engine. `refuses` are the table features for which it raises instead of reading."""

    name: str
    read: Callable[[Path, int | None], pa.Table]
    refuses: frozenset[str] = frozenset()

    def can_read(self, features: Collection[str]) -> bool:
        return not self.refuses & set(features)

    def rows(self, path: Path, schema: pa.Schema, *, version: int | None = None) -> pa.Table:
        return self.read(path, version).select(schema.names).cast(schema)


PEERS = {
    peer.name: peer
    for peer in (
        Peer("DuckDB", _by_duckdb),
        Peer("Polars", _by_polars, frozenset({"columnMapping", "v2Checkpoint"})),
        Peer("deltalake", _by_deltalake),
    )
}


# --- what goes wrong elsewhere ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What was asked of a peer: the table at a path, and what it is."""

    path: Path
    snapshot: Snapshot
    schema: pa.Schema

    def has(self, *features: str) -> bool:
        """Whether a reader needs one of these features; column mapping is older than their names."""
        protocol = self.snapshot.protocol
        needed = set(protocol.reader_features or ())
        return not needed.isdisjoint(features) or (protocol.min_reader_version == 2 and "columnMapping" in features)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.snapshot.metadata.partition_columns)


@dataclass(frozen=True)
class Fault:
    """Where a peer goes wrong. With an `error` it must raise with these words, or be right; without, it shows other rows.

    The smallest table that shows it is in `tests/interop/test_faults_of_peers.py`, which fails when a fault is mended.
    """

    peer: str
    reason: str
    concerns: Callable[[Asked], bool]
    error: str | None = None


def _is_mapped_and_partitioned(asked: Asked) -> bool:
    return asked.has("columnMapping") and bool(asked.partition_columns)


def _has_vector_at_encoded_path(asked: Asked) -> bool:
    return any("%" in add.path and add.deletion_vector is not None for add in asked.snapshot.add_files())


def _has_file_elsewhere(asked: Asked) -> bool:
    return any(add.path.startswith("file:") for add in asked.snapshot.add_files())


def _has_binary_partition(asked: Asked) -> bool:
    return any(pa.types.is_binary(asked.schema.field(name).type) for name in asked.partition_columns)


def _needs(*features: str) -> Callable[[Asked], bool]:
    return lambda asked: asked.has(*features)


# Seen with the versions in constraints.txt, on tables that other writers made as well (docs/decisions/006).
FAULTS = (
    Fault("Polars", "refuses column mapping", _needs("columnMapping"), "polars does not support"),
    Fault("Polars", "refuses V2 checkpoints", _needs("v2Checkpoint"), "polars does not support"),
    Fault("Polars", "refuses type widening", _needs("typeWidening"), "polars does not support"),
    Fault("deltalake", "refuses type widening", _needs("typeWidening"), "features required: [TypeWidening]"),
    Fault("Polars", "cannot parse binary partition values", _has_binary_partition, "unsupported data type when reading CSV"),
    Fault("DuckDB", "takes the URL of a file elsewhere for a relative path", _has_file_elsewhere, "Cannot open file"),
    Fault("Polars", "takes the URL of a file elsewhere for a relative path", _has_file_elsewhere, "No such file"),
    Fault("DuckDB", "gives partition columns of mapped tables null or each other's values", _is_mapped_and_partitioned),
    Fault("Polars", "forgets the vector of a file whose path needs encoding", _has_vector_at_encoded_path),
)  # fmt: skip
