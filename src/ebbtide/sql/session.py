"""What do all statements of one call share?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from ebbtide.commands.requests import WriteOptions
from ebbtide.config import EngineConfig
from ebbtide.session_settings import DELETE_WITH_VECTORS, write_options
from ebbtide.sql.queries import run_query
from ebbtide.sql.statements import TableName, ViewName
from ebbtide.storage import ObjectStore, open_store
from ebbtide.storage.option_names import SESSION_PREFIX
from ebbtide.table import DeltaTable
from ebbtide.temp_views import ensure_shown, storage_options_behind, table_behind

__all__ = ["SqlSession", "conditions_alias"]


@dataclass(frozen=True, slots=True)
class SqlSession:
    """Where statements run, and how the tables that they name are opened."""

    spark: SparkSession
    storage_options: Mapping[str, str] | None = field(repr=False)  # secrets
    config: EngineConfig
    # A dry run opens another kind of store.
    open_store: Callable[[str, Mapping[str, str] | None], ObjectStore] = open_store

    def ensure_shown(self, name: TableName, expressions: Iterable[str], *, alias: str | None) -> None:
        """If the target is a view: UnknownColumnError for a name that it does not show."""
        if isinstance(name, ViewName):
            ensure_shown(self.spark, name.name, expressions, alias=alias)

    def store(self, name: TableName) -> ObjectStore:
        """The table's store. A view keeps its own: the directory or the options may have been others."""
        if isinstance(name, ViewName):
            return table_behind(self.spark, name.name).store
        return self.open_store(name, self.storage_options)

    def table(self, path: str) -> DeltaTable:
        return DeltaTable.forPath(self.spark, path, storage_options=self.storage_options, config=self.config)

    def options(
        self, name: TableName, vectors_setting: str = DELETE_WITH_VECTORS, *, in_transaction: bool = True
    ) -> WriteOptions:
        return write_options(
            self.spark,
            vectors_setting=vectors_setting,
            storage_options=self.options_behind(name),
            config=self.config,
            in_transaction=in_transaction,
        )

    def options_behind(self, name: TableName) -> Mapping[str, str] | None:
        of_the_call = [key for key in self.storage_options or {} if not key.startswith(SESSION_PREFIX)]
        if of_the_call or not isinstance(name, ViewName):
            return self.storage_options
        return storage_options_behind(self.spark, name.name)

    def query(self, text: str) -> DataFrame:
        return run_query(self.spark, text, self.storage_options, self.config)

    def store_assignment_policy(self) -> str:
        return self.spark.conf.get("spark.sql.storeAssignmentPolicy") or "ANSI"


def conditions_alias(name: TableName, alias: str | None) -> str | None:
    """The table's name in conditions and values: its alias, or else the name of the view."""
    return name.name if alias is None and isinstance(name, ViewName) else alias
