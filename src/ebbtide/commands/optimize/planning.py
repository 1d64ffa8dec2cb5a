"""Which files will an OPTIMIZE rewrite, in which groups and which order?

A `LayoutPlan` is made once from a snapshot and the request, before any data is read. The dry run shows it, the command
carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Column, SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.optimize.copying import KEPT_ORDER, RowOrder
from ebbtide.commands.optimize.packing import FileGroup, PackingRules, choose_groups, pack
from ebbtide.commands.optimize.request import DEFAULT_TARGET_BYTES, OptimizeRequest, OptimizeSettings
from ebbtide.commands.optimize.results import OptimizeMetrics
from ebbtide.commands.row_level.conditions import BoundCondition, bind_condition
from ebbtide.commands.row_level.counters import total_bytes
from ebbtide.errors import InvalidPredicateError, UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile

__all__ = ["LayoutPlan", "bind_partitions", "packing_rules", "plan_layout"]


@dataclass(frozen=True, slots=True, eq=False)
class LayoutPlan:
    """`considered` are the live files of the chosen partitions; `groups` are those of them that are rewritten."""

    considered: pa.Table
    groups: tuple[FileGroup, ...]
    rules: PackingRules
    order: RowOrder
    where: BoundCondition | None

    def regroup(self, files: Sequence[AddFile]) -> list[FileGroup]:
        """Groups of files that were to be rewritten before winners changed some of them."""
        packed = pack(files, self.rules.target_bytes)
        return [group for group in packed if len(group.files) > 1 or self.rules.is_worn(group.files[0])]

    def metrics(self, snapshot: Snapshot) -> OptimizeMetrics:
        """What the metrics say about the table and the request, before anything is done."""
        columns = len(snapshot.schema.fields)
        indexed = snapshot.properties.data_skipping_num_indexed_cols
        return OptimizeMetrics(
            num_considered_files=self.considered.num_rows,
            num_considered_bytes=total_bytes(self.considered),
            num_table_columns=columns,
            num_table_columns_with_stats=columns if indexed < 0 else min(indexed, columns),
        )

    def parameters(self, *, is_auto: bool) -> Mapping[str, Any]:
        """What the history shows of the request."""
        return {"predicate": shown_predicate(self.where), "zOrderBy": "[]", "clusterBy": "[]", "auto": is_auto}


def plan_layout(spark: SparkSession, snapshot: Snapshot, request: OptimizeRequest) -> LayoutPlan:
    """The plan for this table; refuses what cannot be carried out, before any work."""
    where = bind_partitions(spark, snapshot, request.where)
    considered = snapshot.files if where is None else where.candidates(spark, snapshot)
    rules = packing_rules(snapshot, request.settings)
    return LayoutPlan(considered, tuple(choose_groups(considered, rules)), rules, KEPT_ORDER, where)


def packing_rules(snapshot: Snapshot, settings: OptimizeSettings) -> PackingRules:
    target = settings.target_bytes or snapshot.properties.target_file_size or DEFAULT_TARGET_BYTES
    smallest = target if settings.min_bytes is None else settings.min_bytes
    return PackingRules(target, smallest, settings.max_deleted_share)


def bind_partitions(spark: SparkSession, snapshot: Snapshot, where: str | Column | None) -> BoundCondition | None:
    """The condition, checked to choose whole partitions: files can only be rewritten as they are."""
    if where is None:
        return None
    columns = snapshot.metadata.partition_columns
    known = f"the partition columns are {', '.join(columns)}" if columns else "the table is not partitioned"
    shown = where if isinstance(where, str) else border.printed_column(where)
    try:
        bound = bind_condition(spark, snapshot, where)
    except UnknownColumnError as error:
        raise UnknownColumnError(f"{error.args[0]} Here only partition columns may be used, and {known}.") from error
    if not bound.is_partition_only:
        raise InvalidPredicateError(
            f"The condition {shown!r} does not choose whole partitions of {snapshot.store.url}: {known}. Leave the "
            "condition out, or use partition columns alone.",
            error_class="DELTA_NON_PARTITION_COLUMN_REFERENCE",
        )
    return bound


def shown_predicate(where: BoundCondition | None) -> str:
    """JSON text inside a string, as Delta does it."""
    return orjson.dumps([] if where is None else [where.shown]).decode()
