"""How are deltalake, Polars and DuckDB asked? All three are wheels, need no network, and live in this process.

Readers are those of `tests/support/peers.py`, which honour deletion vectors. Polars writes through deltalake, but
with types of its own. DuckDB appends to a table that is there.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.peers import PEERS

from interop.features import Definition
from interop.steps import KEY, UPKEEP, Step

__all__ = ["Deltalake", "DuckDB", "Polars"]

MATCH = {"predicate": f"t.{KEY} = s.{KEY}", "source_alias": "s", "target_alias": "t"}


class Deltalake:
    offers = frozenset(
        {"create", "append", "delete", "update", "merge", "checkpoint", "changes", *UPKEEP} - {"purge", "clone"}
    )

    def version(self) -> str:
        return version("deltalake")

    def create(self, path: str, definition: Definition) -> None:
        import deltalake

        table = deltalake.DeltaTable.create(
            path,
            schema=_schema(definition),
            partition_by=list(definition.partition_by) or None,
            configuration=dict(definition.properties) or None,
        )
        if definition.checks:
            table.alter.add_constraint(dict(definition.checks))

    def run(self, path: str, step: Step) -> None:
        import deltalake

        table = deltalake.DeltaTable(path)
        match step.kind:
            case "append":
                deltalake.write_deltalake(path, pq.read_table(step.source), mode="append")
            case "delete":
                table.delete(step.where)
            case "update":
                table.update(updates={"n": f"n + {step.amount}"}, predicate=step.where)
            case "merge":
                _merged(table.merge(pq.read_table(step.source), **MATCH), step)
            case "checkpoint":
                table.create_checkpoint()
            case "optimize":
                table.optimize.compact()
            case "zorder":
                table.optimize.z_order([KEY, "n"])
            case "vacuum" | "lite vacuum":
                is_full = step.kind == "vacuum"
                table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=is_full)
            case "restore":
                table.restore(step.version)

    def read(self, path: str) -> pa.Table:
        return PEERS["deltalake"].read(Path(path), None)

    def changes(self, path: str) -> pa.Table:
        import deltalake

        found = pa.table(deltalake.DeltaTable(path).load_cdf(starting_version=0).read_all())
        return found.select([name for name in found.column_names if not name.startswith("_commit_")])

    def close(self) -> None:
        """Nothing is held."""


class Polars:
    offers = frozenset({"create", "append", "merge"})

    def version(self) -> str:
        return version("polars")

    def create(self, path: str, definition: Definition) -> None:
        import polars as pl

        if definition.generated or definition.checks:
            raise NotImplementedError("write_delta has no words for generated columns and constraints")
        assert definition.schema is not None
        empty = pl.DataFrame(pl.from_arrow(definition.schema.empty_table()))
        options: dict[str, Any] = {"configuration": dict(definition.properties)} if definition.properties else {}
        if definition.partition_by:
            options["partition_by"] = list(definition.partition_by)
        empty.write_delta(path, delta_write_options=options)

    def run(self, path: str, step: Step) -> None:
        import polars as pl

        rows = pl.read_parquet(step.source)
        if step.kind == "append":
            rows.write_delta(path, mode="append")
        else:
            _merged(rows.write_delta(path, mode="merge", delta_merge_options=MATCH), step)

    def read(self, path: str) -> pa.Table:
        return PEERS["Polars"].read(Path(path), None)

    def changes(self, path: str) -> pa.Table:
        raise NotImplementedError(path)

    def close(self) -> None:
        """Nothing is held."""


class DuckDB:
    offers = frozenset({"append"})

    def __init__(self) -> None:
        import duckdb_extension_delta

        (self._extension,) = Path(duckdb_extension_delta.__path__[0]).rglob("delta.duckdb_extension")

    def version(self) -> str:
        return version("duckdb")

    def create(self, path: str, definition: Definition) -> None:
        raise NotImplementedError(path, definition)

    def run(self, path: str, step: Step) -> None:
        import duckdb

        # A database of its own for every write: one that met a fatal error answers nothing any more.
        with duckdb.connect() as connection:
            connection.execute(f"LOAD '{self._extension}'")
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"ATTACH '{path}' AS target (TYPE delta)")
            connection.execute(f"INSERT INTO target SELECT * FROM read_parquet('{step.source}')")

    def read(self, path: str) -> pa.Table:
        return PEERS["DuckDB"].read(Path(path), None)

    def changes(self, path: str) -> pa.Table:
        raise NotImplementedError(path)

    def close(self) -> None:
        """The connection is shared with the tests' readers and ends with the process."""


def _merged(merger: Any, step: Step) -> None:
    matched = merger.when_matched_delete() if step.deletes else merger.when_matched_update_all()
    matched.when_not_matched_insert_all().execute()


def _schema(definition: Definition) -> Any:
    """Columns of a Delta schema; a generated one says so in its metadata, as the protocol has it."""
    import deltalake

    columns = []
    for column in deltalake.Schema.from_arrow(definition.schema).fields:
        sql = definition.generated.get(column.name)
        metadata = {"delta.generationExpression": sql} if sql else None
        columns.append(deltalake.Field(column.name, column.type, metadata=metadata))
    return deltalake.Schema(columns)
