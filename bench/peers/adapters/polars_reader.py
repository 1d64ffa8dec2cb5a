"""How does Polars read a Delta table? Lazily, by `scan_delta`, and the query in its own SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from bench.peers.adapters.adapter import Adapter, query_text, versions_of
from bench.peers.adapters.reader import ReadOnly
from bench.peers.engines import Engine

__all__ = ["opened"]


class PolarsAdapter(ReadOnly):
    def versions(self) -> dict[str, str]:
        return versions_of("polars", "deltalake")

    def query(self, path: str, select: list[str], where: str | None) -> list[Any]:
        context = pl.SQLContext(t=pl.scan_delta(path))
        return list(context.execute(query_text("t", select, where)).collect().row(0))


def opened(engine: Engine, scratch: Path) -> Adapter:
    del engine, scratch
    return PolarsAdapter()
