"""How does a statement become a call?

`ebbtide.sql(spark, "DELETE FROM delta.`/data/people` WHERE id = 7")`: the text is parsed, becomes the request that the
Python call would have made, and the answer is a DataFrame, as `spark.sql` would give one.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ebbtide.commands.alter import set_properties, unset_properties
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.session_settings import write_options
from ebbtide.sql.statements import (
    Delete,
    DescribeDetail,
    DescribeHistory,
    SetProperties,
    UnsetProperties,
    parse_statement,
)
from ebbtide.storage import open_store
from ebbtide.table import DeltaTable
from ebbtide.table_views import rows_frame

__all__ = ["sql"]


_DELETED = pa.schema({"num_affected_rows": pa.int64()})


def sql(
    spark: SparkSession,
    statement: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    config: EngineConfig = DEFAULT_CONFIG,
) -> DataFrame:
    """Run one statement on Delta tables written as delta.`path`.

    DELETE gives one row with `num_affected_rows`; DESCRIBE HISTORY and DESCRIBE DETAIL give their rows; ALTER TABLE
    gives none. RequestError for what is not such a statement.
    """
    parsed = parse_statement(statement)
    if isinstance(parsed, SetProperties | UnsetProperties):
        _alter(spark, parsed, storage_options, config)
        return spark.createDataFrame([], "key STRING, value STRING")
    table = DeltaTable.forPath(spark, parsed.path, storage_options, config=config)
    match parsed:
        case Delete():
            named = table if parsed.alias is None else table.alias(parsed.alias)
            deleted = named.delete(parsed.condition)
            return rows_frame(spark, [(deleted.num_affected_rows,)], _DELETED)
        case DescribeHistory():
            return table.history(parsed.limit)
        case DescribeDetail():
            return table.detail()


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
