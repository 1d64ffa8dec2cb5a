"""How is ClickHouse asked? As `chdb`, the library, through its table function for Delta tables on this disk.

It opens only paths below the working directory, so it lives in a process that was started there (`interop.remote`).
Counts must not be answered from the log alone, hence the setting. It appends when it is allowed to.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from interop.features import Definition
from interop.steps import Step

__all__ = ["ClickHouse"]

READING = "SETTINGS optimize_trivial_count_query = 0, session_timezone = 'UTC'"
WRITING = "SETTINGS allow_delta_lake_writes = 1, session_timezone = 'UTC'"


class ClickHouse:
    offers = frozenset({"append"})

    def __init__(self) -> None:
        import chdb

        self._query: Any = chdb.query
        self.version()

    def version(self) -> str:
        from importlib.metadata import version

        return f"{str(self._query('SELECT version()')).strip().strip(chr(34))} (chdb {version('chdb')})"

    def create(self, path: str, definition: Definition) -> None:
        raise NotImplementedError(path, definition)

    def run(self, path: str, step: Step) -> None:
        source = f"SELECT * FROM file('{step.source}', 'Parquet')"
        self._query(f"INSERT INTO FUNCTION deltaLakeLocal('{path}') {WRITING} {source}")

    def read(self, path: str) -> pa.Table:
        return self._query(f"SELECT * FROM deltaLakeLocal('{path}') {READING}", "ArrowTable")

    def changes(self, path: str) -> pa.Table:
        raise NotImplementedError(path)

    def close(self) -> None:
        """The library ends with the process."""
