"""How does deltalake do it? By its Python calls; queries go through the DataFusion that it brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
from deltalake.exceptions import CommitFailedError

from bench.peers.adapters.adapter import Adapter, query_text, versions_of
from bench.peers.engines import Engine

__all__ = ["opened"]


class DeltalakeAdapter:
    def versions(self) -> dict[str, str]:
        return versions_of("deltalake", "pyarrow")

    def delete(self, path: str, where: str) -> None:
        deltalake.DeltaTable(path).delete(where)

    def update(self, path: str, assignments: dict[str, str], where: str) -> None:
        deltalake.DeltaTable(path).update(assignments, predicate=where)

    def merge(self, path: str, source: str) -> None:
        rows = pq.read_table(source)
        merge = deltalake.DeltaTable(path).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def query(self, path: str, select: list[str], where: str | None) -> list[Any]:
        engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
        found = engine.execute(query_text("t", select, where)).read_all()
        return [found[at][0].as_py() for at in range(found.num_columns)]

    def open(self, path: str) -> int | None:
        return deltalake.DeltaTable(path).get_add_actions().num_rows

    def optimize(self, path: str, zorder: list[str]) -> None:
        optimize = deltalake.DeltaTable(path).optimize
        if zorder:
            optimize.z_order(zorder)
        else:
            optimize.compact()

    def purge(self, path: str) -> None:
        raise NotImplementedError(f"it has no such command: {path}")

    def vacuum(self, path: str, options: dict[str, str] | None) -> None:
        # Without `full` it looks for no orphans.
        deltalake.DeltaTable(path, storage_options=options).vacuum(dry_run=False, full=True)

    def restore(self, path: str, version: int, options: dict[str, str] | None) -> None:
        deltalake.DeltaTable(path, storage_options=options).restore(version)

    def jobs(self) -> int | None:
        return None

    def is_conflict(self, error: Exception) -> bool:
        return isinstance(error, CommitFailedError)

    def close(self) -> None:
        pass


def opened(engine: Engine, scratch: Path) -> Adapter:
    del engine, scratch
    return DeltalakeAdapter()
