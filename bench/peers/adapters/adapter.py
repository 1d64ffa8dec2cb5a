"""What does a worker ask of an engine?"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

__all__ = ["Adapter", "SqlCommands", "query_text", "versions_of"]


class Adapter(Protocol):
    """One engine, started. Paths are local directories; `where` and `assignments` are SQL that all engines share."""

    def versions(self) -> dict[str, str]: ...

    def delete(self, path: str, where: str) -> None: ...

    def update(self, path: str, assignments: dict[str, str], where: str) -> None: ...

    def merge(self, path: str, source: str) -> None:
        """The rows of a Parquet file into the table by `id`: known ones are updated, the others are inserted."""
        ...

    def query(self, path: str, select: list[str], where: str | None) -> list[Any]:
        """The one row of an aggregate."""
        ...

    def open(self, path: str) -> int | None:
        """Load the table's state; the number of live files, or None where the engine does not tell."""
        ...

    def optimize(self, path: str, zorder: list[str]) -> None:
        """Put small files together; with columns, all rows in their Z-order."""
        ...

    def purge(self, path: str) -> None:
        """Take the marked rows out of the files."""
        ...

    def vacuum(self, path: str, options: dict[str, str] | None) -> None:
        """Delete every file that the table does not need and that is older than a week.

        With `options`, those of its storage, `path` is the URL of a table on an object store; so for `restore`.
        """
        ...

    def restore(self, path: str, version: int, options: dict[str, str] | None) -> None: ...

    def jobs(self) -> int | None:
        """How many Spark jobs were started so far; None where there is no Spark."""
        ...

    def is_conflict(self, error: Exception) -> bool:
        """Whether a command failed because another writer was quicker, so that it may be sent again."""
        ...

    def close(self) -> None: ...


class SqlCommands:
    """The commands in Spark's SQL, for engines that understand it as it is."""

    def run(self, text: str) -> list[Any]:
        raise NotImplementedError

    def delete(self, path: str, where: str) -> None:
        self.run(f"DELETE FROM delta.`{path}` WHERE {where}")

    def update(self, path: str, assignments: dict[str, str], where: str) -> None:
        values = ", ".join(f"{column} = {value}" for column, value in assignments.items())
        self.run(f"UPDATE delta.`{path}` SET {values} WHERE {where}")

    def merge(self, path: str, source: str) -> None:
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        self.run(f"MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON t.id = s.id {clauses}")

    def optimize(self, path: str, zorder: list[str]) -> None:
        self.run(f"OPTIMIZE delta.`{path}`" + (f" ZORDER BY ({', '.join(zorder)})" if zorder else ""))

    def purge(self, path: str) -> None:
        self.run(f"REORG TABLE delta.`{path}` APPLY (PURGE)")

    def vacuum(self, path: str, options: dict[str, str] | None) -> None:
        assert not options, "SQL reaches local tables only"
        self.run(f"VACUUM delta.`{path}`")

    def restore(self, path: str, version: int, options: dict[str, str] | None) -> None:
        assert not options, "SQL reaches local tables only"
        self.run(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {version}")

    def query(self, path: str, select: list[str], where: str | None) -> list[Any]:
        return list(self.run(query_text(f"delta.`{path}`", select, where))[0])


def query_text(table: str, select: list[str], where: str | None) -> str:
    return f"SELECT {', '.join(select)} FROM {table}" + (f" WHERE {where}" if where else "")


def versions_of(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "?"
    return found
