"""Which rows do other engines see in a table?

Readers of DuckDB's delta extension, Polars and deltalake, all from wheels and without a network. Each gives the rows of a
version as an Arrow table of the asked-for schema; each engine has its own way to name a column's type, so values are cast
where nothing can be lost. `can_read` says what an engine refuses for reasons of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["PEERS", "Peer", "duckdb_connection"]


@contextmanager
def duckdb_connection() -> Iterator[Any]:
    """A connection with the delta extension loaded. Its wheel carries it, so nothing is installed or downloaded."""
    import duckdb
    import duckdb_extension_delta

    (extension,) = Path(duckdb_extension_delta.__path__[0]).rglob("delta.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


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
