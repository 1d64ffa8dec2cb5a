"""What do all statements of one call share?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from ebbtide.commands.requests import WriteOptions
from ebbtide.config import EngineConfig
from ebbtide.session_settings import DELETE_WITH_VECTORS, write_options
from ebbtide.sql.queries import run_query
from ebbtide.sql.statements import TableName, ViewName
from ebbtide.sql.views import ensure_shown, table_behind
from ebbtide.storage import ObjectStore, open_store
from ebbtide.table import DeltaTable

__all__ = ["SqlSession", "called"]


@dataclass(frozen=True, slots=True)
class SqlSession:
    """Where statements run, and how the tables that they name are opened."""

    spark: SparkSession
    storage_options: Mapping[str, str] | None
    config: EngineConfig

    def path(self, name: TableName) -> str:
        return table_behind(self.spark, name.name) if isinstance(name, ViewName) else name

    def ensure_shown(self, name: TableName, expressions: Iterable[str], *, alias: str | None) -> None:
        """Where a view stands for the table: UnknownColumnError for a name that it does not show."""
        if isinstance(name, ViewName):
            ensure_shown(self.spark, name.name, expressions, alias=alias)

    def store(self, name: TableName) -> ObjectStore:
        return open_store(self.path(name), self.storage_options)

    def table(self, name: TableName) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path(name), self.storage_options, config=self.config)

    def options(self, vectors_setting: str = DELETE_WITH_VECTORS) -> WriteOptions:
        return write_options(
            self.spark, vectors_setting=vectors_setting, storage_options=self.storage_options, config=self.config
        )

    def query(self, text: str) -> DataFrame:
        return run_query(self.spark, text, self.storage_options, self.config)

    def store_assignment_policy(self) -> str:
        return self.spark.conf.get("spark.sql.storeAssignmentPolicy") or "ANSI"


def called(name: TableName, alias: str | None) -> str | None:
    """How conditions and values may call the table: by its alias, or by the name of the view."""
    return name.name if alias is None and isinstance(name, ViewName) else alias
