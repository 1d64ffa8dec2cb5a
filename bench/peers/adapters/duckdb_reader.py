"""How does DuckDB read a Delta table? By `delta_scan`, of the extension that a wheel carries: nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta

from bench.peers.adapters.adapter import Adapter, query_text, versions_of
from bench.peers.adapters.reader import ReadOnly
from bench.peers.engines import Engine

__all__ = ["opened"]


class DuckDbAdapter(ReadOnly):
    def __init__(self) -> None:
        self.connection = duckdb.connect()
        (extension,) = Path(duckdb_extension_delta.__path__[0]).rglob("delta.duckdb_extension")
        self.connection.execute(f"LOAD '{extension}'")
        self.connection.execute("SET TimeZone = 'UTC'")

    def versions(self) -> dict[str, str]:
        return versions_of("duckdb")

    def query(self, path: str, select: list[str], where: str | None) -> list[Any]:
        # As Arrow: to make a Python value of a time with a zone it would ask for one more package.
        found = self.connection.execute(query_text(f"delta_scan('{path}')", select, where)).to_arrow_table()
        return [column[0].as_py() for column in found.columns]


def opened(engine: Engine, scratch: Path) -> Adapter:
    del engine, scratch
    return DuckDbAdapter()
