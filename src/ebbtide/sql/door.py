"""How does a statement become a call?

`ebbtide.sql(spark, "DELETE FROM delta.`/data/people` WHERE id = 7")`: the text is parsed, becomes the request that the
Python call would have made, and the answer is a DataFrame, as `spark.sql` would give one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ebbtide.commands.alter import set_properties, unset_properties
from ebbtide.commands.explanation import explain_delete
from ebbtide.commands.requests import DeleteRequest
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.session_settings import write_options
from ebbtide.sql.statements import (
    CreateView,
    Delete,
    DescribeDetail,
    DescribeHistory,
    Explain,
    SetProperties,
    Statement,
    UnsetProperties,
    ViewName,
    parse_statement,
)
from ebbtide.sql.views import create_view, refresh_views, table_behind
from ebbtide.storage import open_store
from ebbtide.table import DeltaTable
from ebbtide.table_views import rows_frame

__all__ = ["sql"]


_DELETED = pa.schema({"num_affected_rows": pa.int64()})
_PLAN = pa.schema({"plan": pa.string()})


def sql(
    spark: SparkSession,
    statement: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    config: EngineConfig = DEFAULT_CONFIG,
) -> DataFrame:
    """Run one statement on Delta tables written as delta.`path`.

    DELETE gives one row with `num_affected_rows`, EXPLAIN one with `plan`; DESCRIBE HISTORY and DESCRIBE DETAIL give
    their rows; ALTER TABLE and CREATE TEMP VIEW give none. RequestError for what is not such a statement.
    """
    return _Door(spark, storage_options, config).run(parse_statement(statement))


@dataclass(frozen=True, slots=True)
class _Door:
    spark: SparkSession
    storage_options: Mapping[str, str] | None
    config: EngineConfig

    def run(self, statement: Statement) -> DataFrame:
        match statement:
            case Delete():
                return self.delete(statement)
            case Explain():
                return self.explain(statement.statement)
            case CreateView():
                return self.create_view(statement)
            case SetProperties() | UnsetProperties():
                _alter(self.spark, statement, self.storage_options, self.config)
                return self.spark.createDataFrame([], "key STRING, value STRING")
            case DescribeHistory():
                return self.table(statement.path).history(statement.limit)
            case DescribeDetail():
                return self.table(statement.path).detail()

    def path(self, name: str | ViewName) -> str:
        return table_behind(self.spark, name.name) if isinstance(name, ViewName) else name

    def table(self, name: str | ViewName) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path(name), self.storage_options, config=self.config)

    def delete(self, statement: Delete) -> DataFrame:
        table = self.table(statement.path)
        named = table.alias(alias) if (alias := _name_of(statement)) else table
        deleted = named.delete(statement.condition)
        refresh_views(self.spark, table.url)
        return rows_frame(self.spark, [(deleted.num_affected_rows,)], _DELETED)

    def explain(self, statement: Delete) -> DataFrame:
        store = open_store(self.path(statement.path), self.storage_options)
        options = write_options(self.spark, storage_options=self.storage_options, config=self.config)
        request = DeleteRequest(store, statement.condition, _name_of(statement), options)
        return rows_frame(self.spark, [(explain_delete(self.spark, request),)], _PLAN)

    def create_view(self, statement: CreateView) -> DataFrame:
        create_view(
            self.spark,
            statement.name,
            self.path(statement.path),
            or_replace=statement.or_replace,
            storage_options=self.storage_options,
            config=self.config,
        )
        return self.spark.createDataFrame([], "key STRING, value STRING")


def _name_of(statement: Delete) -> str | None:
    """How the condition may call the table."""
    if statement.alias is None and isinstance(statement.path, ViewName):
        return statement.path.name
    return statement.alias


def _alter(
    spark: SparkSession,
    statement: SetProperties | UnsetProperties,
    storage_options: Mapping[str, str] | None,
    config: EngineConfig,
) -> None:
    store = open_store(statement.path, storage_options)
    options = write_options(spark, storage_options=storage_options, config=config)
    if isinstance(statement, SetProperties):
        set_properties(store, statement.properties, options=options)
    else:
        unset_properties(store, statement.keys, if_exists=statement.if_exists, options=options)
