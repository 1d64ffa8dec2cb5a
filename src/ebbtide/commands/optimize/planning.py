"""Which files will an OPTIMIZE rewrite, in which groups and which order?

A `LayoutPlan` is made once from a snapshot and the request, before any data is read. The dry run shows it, the command
carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.optimize.clustering import CurveOrder, check_cluster_columns, check_zorder_columns
from ebbtide.commands.optimize.copying import CLUSTERING_PROVIDER, KEPT_ORDER, RowOrder
from ebbtide.commands.optimize.packing import (
    FileGroup,
    PackingRules,
    Partition,
    choose_groups,
    files_in,
    pack,
    unclustered_groups,
    whole_partitions,
)
from ebbtide.commands.optimize.request import DEFAULT_TARGET_BYTES, OptimizeRequest, OptimizeSettings, Purpose
from ebbtide.commands.optimize.results import OptimizeMetrics
from ebbtide.commands.row_level.conditions import BoundCondition, bind_condition
from ebbtide.commands.row_level.counters import total_bytes
from ebbtide.errors import InvalidPredicateError, RequestError, UnknownColumnError
from ebbtide.log import Snapshot, add_files
from ebbtide.log.detail import clustering_paths
from ebbtide.protocol.actions import AddFile

__all__ = ["LayoutPlan", "bind_partitions", "packing_rules", "plan_layout", "plan_nothing", "plan_whole_table"]


@dataclass(frozen=True, slots=True, eq=False)
class LayoutPlan:
    """`considered` are the live files of the chosen partitions; `groups` are those of them that are rewritten."""

    considered: pa.Table
    groups: tuple[FileGroup, ...]
    rules: PackingRules
    order: RowOrder
    where: BoundCondition | None
    zorder_by: tuple[str, ...] = ()
    cluster_by: tuple[tuple[str, ...], ...] = ()
    partitions: frozenset[Partition] | None = None
    purpose: Purpose = "optimize"
    is_full: bool = False

    @property
    def clustering_provider(self) -> str | None:
        """What new files say about who sorted them."""
        return CLUSTERING_PROVIDER if self.cluster_by else None

    def regroup(self, files: Sequence[AddFile]) -> list[FileGroup]:
        """Groups of files that were to be rewritten before winners changed some of them."""
        if not self.order.is_kept:
            return whole_partitions(files)
        packed = pack(files, self.rules.target_bytes)
        return packed if self.purpose == "purge" else list(filter(self.rules.is_worth_it, packed))

    def shown_predicate(self) -> str:
        """The condition for the history: JSON text inside a string, as Delta does it."""
        shown = [] if self.where is None else [self.where.display_text]
        shown += sorted(_shown_partition(partition) for partition in self.partitions or () if partition)
        return orjson.dumps(shown).decode()

    def metrics(self, snapshot: Snapshot) -> OptimizeMetrics:
        """What the metrics say about the table and the request, before anything is done."""
        columns = len(snapshot.schema.fields)
        clustered = self.considered.filter(pc.is_valid(self.considered["clustering_provider"]))
        indexed = snapshot.properties.data_skipping_num_indexed_cols
        return OptimizeMetrics(
            num_considered_files=self.considered.num_rows,
            num_considered_bytes=total_bytes(self.considered),
            zorder_by=self.zorder_by,
            cluster_by=tuple(".".join(path) for path in self.cluster_by),
            num_clustered_files=clustered.num_rows,
            num_clustered_bytes=total_bytes(clustered),
            num_table_columns=columns,
            num_table_columns_with_stats=columns if indexed < 0 else min(indexed, columns),
        )

    def parameters(self) -> Mapping[str, Any]:
        """What the history shows of the request."""
        if self.purpose == "purge":
            return {"predicate": self.shown_predicate(), "applyPurge": True}
        parameters: dict[str, Any] = {
            "predicate": self.shown_predicate(),
            "zOrderBy": orjson.dumps(self.zorder_by).decode(),
            "clusterBy": orjson.dumps([".".join(path) for path in self.cluster_by]).decode(),
            "auto": self.purpose == "auto",
        }
        return {**parameters, "isFull": self.is_full} if self.cluster_by else parameters


def plan_layout(spark: SparkSession, snapshot: Snapshot, request: OptimizeRequest) -> LayoutPlan:
    """The plan for this table; refuses what cannot be carried out, before any work."""
    if clustering_paths(snapshot):
        _refuse_beside_clustering(request)
    elif request.full:
        raise RequestError(
            f"OPTIMIZE ... FULL sorts the rows of a clustered table, and the table at {request.store.url} is not "
            "clustered. Leave FULL out, or give the table columns to cluster by: ALTER TABLE ... CLUSTER BY (...).",
            error_class="DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
        )
    plan = plan_nothing(spark, snapshot, request)
    if request.zorder_by:
        is_checked = request.settings.checks_statistics
        columns = check_zorder_columns(spark, snapshot, request.zorder_by, checks_statistics=is_checked)
        groups = whole_partitions(add_files(plan.considered))
        order = CurveOrder(columns, plan.rules.target_bytes)
        return replace(plan, groups=tuple(groups), order=order, zorder_by=request.zorder_by)
    return _choose_files(snapshot, plan)


def plan_whole_table(snapshot: Snapshot, settings: OptimizeSettings) -> LayoutPlan:
    """The plan without a condition and without an order of the caller's: the log alone decides, so no Spark."""
    return _choose_files(snapshot, _plan_for(snapshot, settings, snapshot.files))


def plan_nothing(spark: SparkSession, snapshot: Snapshot, request: OptimizeRequest) -> LayoutPlan:
    """A plan that has looked at the files and chosen none yet."""
    where = bind_partitions(spark, snapshot, request.where)
    considered = snapshot.files if where is None else where.candidates(spark, snapshot)
    if request.partitions is not None:
        considered = files_in(considered, request.partitions)
    plan = _plan_for(snapshot, request.settings, considered)
    return replace(plan, where=where, partitions=request.partitions, purpose=request.purpose, is_full=request.full)


def _plan_for(snapshot: Snapshot, settings: OptimizeSettings, considered: pa.Table) -> LayoutPlan:
    return LayoutPlan(considered, (), packing_rules(snapshot, settings), KEPT_ORDER, None)


def _choose_files(snapshot: Snapshot, plan: LayoutPlan) -> LayoutPlan:
    """Small and worn files; on a clustered table also those that nobody has sorted."""
    cluster_by = clustering_paths(snapshot)
    if not cluster_by:
        return replace(plan, groups=tuple(choose_groups(plan.considered, plan.rules)))
    order = CurveOrder(check_cluster_columns(snapshot, cluster_by), plan.rules.target_bytes)
    if plan.is_full:
        groups = whole_partitions(add_files(plan.considered))
    else:
        groups = unclustered_groups(plan.considered, plan.rules, CLUSTERING_PROVIDER)
    return replace(plan, groups=tuple(groups), order=order, cluster_by=order.columns)


def _refuse_beside_clustering(request: OptimizeRequest) -> None:
    if request.zorder_by:
        raise RequestError(
            f"The table at {request.store.url} is clustered, and OPTIMIZE sorts it by its clustering columns. Leave "
            f"ZORDER BY ({', '.join(request.zorder_by)}) out.",
            error_class="DELTA_CLUSTERING_WITH_ZORDER_BY",
        )
    if request.where is not None:
        raise RequestError(
            f"The table at {request.store.url} is clustered and has no partitions to choose from. Leave the condition "
            "out.",
            error_class="DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
        )


def packing_rules(snapshot: Snapshot, settings: OptimizeSettings) -> PackingRules:
    target = settings.target_bytes or snapshot.properties.target_file_size or DEFAULT_TARGET_BYTES
    smallest = target if settings.min_bytes is None else settings.min_bytes
    return PackingRules(target, smallest, settings.max_deleted_share, settings.min_group_files)


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


def _shown_partition(partition: Partition) -> str:
    values = (f"{name} IS NULL" if text is None else f"{name} = '{text}'" for name, text in partition)
    return f"({' AND '.join(values)})"
