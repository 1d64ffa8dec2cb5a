"""How does an Arrow table become a DataFrame with exactly the same types?"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

__all__ = ["frame_from_arrow"]


def frame_from_arrow(spark: SparkSession, table: pa.Table, schema: T.StructType) -> DataFrame:
    """A DataFrame with the rows of an Arrow table, in the types of `schema`.

    Classic Spark 4.2 silently drops every row after an empty chunk, so chunks are combined; without a schema a
    timestamp without a zone would become one with a zone, and an empty table is an error on Connect.
    """
    return (
        spark.createDataFrame(table.combine_chunks(), schema) if table.num_rows else spark.createDataFrame([], schema)
    )
