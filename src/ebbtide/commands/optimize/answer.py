"""How does the answer of an OPTIMIZE look as a DataFrame?

One row: the table's path, and the metrics as a struct with the fields of delta-spark, in its order and with its types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from ebbtide.commands.optimize.results import OptimizeMetrics
from ebbtide.commands.row_level.counters import now_ms
from ebbtide.spark_border import frame_from_arrow

__all__ = ["ANSWER_SCHEMA", "optimize_frame"]


def _longs(*names: str, nullable: bool = False) -> list[T.StructField]:
    return [T.StructField(name, T.LongType(), nullable) for name in names]


_SIZES: Final = T.StructType(
    [
        *_longs("min", "max", nullable=True),
        T.StructField("avg", T.DoubleType(), False),
        *_longs("totalFiles", "totalSize"),
    ]
)


def _curve_stats(count: str, cubes: str, *, extra: Sequence[T.StructField] = ()) -> T.StructType:
    """Both kinds of clustering are counted alike, under slightly different names."""
    files = T.StructType(_longs(count, "size"))
    return T.StructType(
        [
            T.StructField(f"input{cubes}Files", files),
            T.StructField("inputOtherFiles", files),
            *_longs(f"inputNum{cubes}s"),
            T.StructField("mergedFiles", files),
            *_longs(f"numOutput{cubes}s"),
            *extra,
        ]
    )


_METRICS: Final = T.StructType(
    [
        *_longs("numFilesAdded", "numFilesRemoved"),
        T.StructField("filesAdded", _SIZES),
        T.StructField("filesRemoved", _SIZES),
        *_longs("partitionsOptimized"),
        T.StructField(
            "zOrderStats",
            T.StructType(
                [
                    T.StructField("strategyName", T.StringType()),
                    *_curve_stats("num", "Cube", extra=_longs("mergedNumCubes", nullable=True)).fields,
                ]
            ),
        ),
        T.StructField("clusteringStats", _curve_stats("numFiles", "ZCube")),
        *_longs("numBins", "numBatches", "totalConsideredFiles", "totalFilesSkipped"),
        T.StructField("preserveInsertionOrder", T.BooleanType(), False),
        *_longs("numFilesSkippedToReduceWriteAmplification", "numBytesSkippedToReduceWriteAmplification"),
        *_longs("startTimeMs", "endTimeMs", "totalClusterParallelism", "totalScheduledTasks"),
        T.StructField(
            "autoCompactParallelismStats",
            T.StructType(
                _longs(
                    "maxClusterActiveParallelism",
                    "minClusterActiveParallelism",
                    "maxSessionActiveParallelism",
                    "minSessionActiveParallelism",
                    nullable=True,
                )
            ),
        ),
        T.StructField(
            "deletionVectorStats", T.StructType(_longs("numDeletionVectorsRemoved", "numDeletionVectorRowsRemoved"))
        ),
        *_longs("numTableColumns", "numTableColumnsWithStats"),
    ]
)
ANSWER_SCHEMA: Final = T.StructType([T.StructField("path", T.StringType()), T.StructField("metrics", _METRICS)])


def optimize_frame(spark: SparkSession, path: str, metrics: OptimizeMetrics) -> DataFrame:
    """The answer as delta-spark gives it. What only its scheduler knows is 0."""
    table = pa.table(
        {
            "path": pa.array([path]),
            "metrics": pa.array([_row(metrics)], _arrow_type(_METRICS)),
        }
    )
    return frame_from_arrow(spark, table, ANSWER_SCHEMA)


def _row(metrics: OptimizeMetrics) -> dict[str, Any]:
    now = now_ms()
    vectors = metrics.num_deletion_vectors_removed
    return {
        "numFilesAdded": metrics.num_added_files,
        "numFilesRemoved": metrics.num_removed_files,
        "filesAdded": _sizes(metrics.added_sizes),
        "filesRemoved": _sizes(metrics.removed_sizes),
        "partitionsOptimized": len(metrics.partitions),
        "zOrderStats": _zorder_stats(metrics),
        "clusteringStats": _clustering_stats(metrics),
        "numBins": metrics.num_groups,
        "numBatches": 1,
        "totalConsideredFiles": metrics.num_considered_files,
        "totalFilesSkipped": metrics.num_considered_files - metrics.num_removed_files,
        "preserveInsertionOrder": metrics.keeps_order,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": now - metrics.execution_time_ms,
        "endTimeMs": now,
        "totalClusterParallelism": 0,
        "totalScheduledTasks": 0,
        "autoCompactParallelismStats": None,
        "deletionVectorStats": {
            "numDeletionVectorsRemoved": vectors,
            "numDeletionVectorRowsRemoved": metrics.num_deletion_vector_rows_removed,
        }
        if vectors
        else None,
        "numTableColumns": metrics.num_table_columns,
        "numTableColumnsWithStats": metrics.num_table_columns_with_stats,
    }


def _zorder_stats(metrics: OptimizeMetrics) -> dict[str, Any] | None:
    if not metrics.zorder_by:
        return None
    merged = {"num": metrics.num_removed_files, "size": sum(metrics.removed_sizes)}
    return {
        "strategyName": "all",
        "inputCubeFiles": {"num": 0, "size": 0},
        "inputOtherFiles": merged,
        "inputNumCubes": 0,
        "mergedFiles": merged,
        "numOutputCubes": metrics.num_groups,
        "mergedNumCubes": None,
    }


def _clustering_stats(metrics: OptimizeMetrics) -> dict[str, Any] | None:
    if not metrics.cluster_by:
        return None
    before, size = metrics.num_clustered_files, metrics.num_clustered_bytes
    return {
        "inputZCubeFiles": {"numFiles": before, "size": size},
        "inputOtherFiles": {
            "numFiles": metrics.num_considered_files - before,
            "size": metrics.num_considered_bytes - size,
        },
        "inputNumZCubes": 1 if before else 0,
        "mergedFiles": {"numFiles": metrics.num_removed_files, "size": sum(metrics.removed_sizes)},
        "numOutputZCubes": metrics.num_groups,
    }


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    total = sum(sizes)
    return {
        "min": min(sizes, default=None),
        "max": max(sizes, default=None),
        "avg": total / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": total,
    }


def _arrow_type(kind: T.DataType) -> pa.DataType:
    match kind:
        case T.StructType():
            return pa.struct([(field.name, _arrow_type(field.dataType)) for field in kind.fields])
        case T.StringType():
            return pa.string()
        case T.BooleanType():
            return pa.bool_()
        case T.DoubleType():
            return pa.float64()
    return pa.int64()
