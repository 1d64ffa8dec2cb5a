"""How do the findings look as a DataFrame?"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from ebbtide.commands.fsck.results import FsckResult
from ebbtide.spark_border import frame_from_arrow

__all__ = ["fsck_frame"]

_COLUMNS: Final = {
    "kind": (pa.string(), T.StringType()),
    "severity": (pa.string(), T.StringType()),
    "path": (pa.string(), T.StringType()),
    "version": (pa.int64(), T.LongType()),
    "meaning": (pa.string(), T.StringType()),
    "repair": (pa.string(), T.StringType()),
    "repairable": (pa.bool_(), T.BooleanType()),
    "repaired": (pa.bool_(), T.BooleanType()),
}


def fsck_frame(spark: SparkSession, result: FsckResult) -> DataFrame:
    """One row per finding, in the order in which they were found."""
    arrow = pa.schema({name: types[0] for name, types in _COLUMNS.items()})
    schema = T.StructType([T.StructField(name, types[1]) for name, types in _COLUMNS.items()])
    return frame_from_arrow(spark, pa.Table.from_pylist(result.rows(), schema=arrow), schema)
