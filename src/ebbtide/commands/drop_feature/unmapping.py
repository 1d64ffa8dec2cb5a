"""How does a table lose its column mapping?

Every live file is written again with the names that columns have now, and the schema loses ids and physical names, all
in one commit by the machine of OPTIMIZE. Deleted rows and dropped columns do not come along. A file that somebody adds
meanwhile has the old names, so no other writer may win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ebbtide.commands.define.definition import target_of
from ebbtide.commands.define.unmapped import define_without_mapping
from ebbtide.commands.optimize.copying import Copier, SparkCopier
from ebbtide.commands.optimize.planning import LayoutPlan
from ebbtide.commands.optimize.request import OptimizeRequest, OptimizeSettings
from ebbtide.commands.optimize.results import OptimizeMetrics
from ebbtide.commands.optimize.work import Relayout
from ebbtide.commands.purge.command import PurgePass
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import MetadataChangedException
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Lost, Transaction
from ebbtide.write import WriteTarget

__all__ = ["UnmapPass", "unmapping_request"]


@dataclass(slots=True)
class UnmappedTable(Relayout):
    """The copies of all files, and what the table is with them."""

    definition: tuple[Action, ...] = ()

    def actions(self) -> tuple[Action, ...]:
        return (*self.definition, *Relayout.actions(self))

    def parameters(self) -> Mapping[str, Any]:
        return {}

    def follow(self, lost: Lost, /) -> Relayout:
        raise MetadataChangedException(
            f"Version {lost.newest.version} of {lost.newest.store.url} was committed while the files of the table were "
            "written with other column names. Nothing was changed. Run the statement again when nobody else writes."
        )


@dataclass(slots=True)
class UnmapPass(PurgePass):
    """The one commit. `keeps_mode`: the property stays, as 'none'."""

    keeps_mode: bool = True
    _target: WriteTarget | None = field(default=None, init=False)

    @property
    def operation_name(self) -> str:
        return "REMOVE COLUMN MAPPING"

    def choose(self, snapshot: Snapshot, considered: pa.Table) -> list[AddFile]:
        del snapshot  # whatever they hold
        return list(add_files(considered))

    def perform(self, transaction: Transaction) -> Relayout:
        snapshot = transaction.snapshot
        metadata, *others = define_without_mapping(snapshot, keeps_mode=self.keeps_mode)
        self._target = target_of(snapshot.store, snapshot.protocol, metadata, config=self.request.options.config)
        work = PurgePass.perform(self, transaction)
        return UnmappedTable(
            work.copier, work.request, snapshot, work.plan, work.copies, definition=(metadata, *others)
        )

    def copier(self, plan: LayoutPlan) -> Copier:
        options = self.request.options.storage_options
        return SparkCopier(self.spark, plan.order, plan.clustering_provider, self._target, options)

    def recorded_metrics(self, metrics: OptimizeMetrics) -> dict[str, int]:
        return {
            "numRewrittenFiles": metrics.num_removed_files,
            "numOutputBytes": sum(metrics.added_sizes),
            "numRemovedBytes": sum(metrics.removed_sizes),
            "numDeletionVectorsRemoved": metrics.num_deletion_vectors_removed,
        }


def unmapping_request(store: ObjectStore, *, settings: OptimizeSettings, options: WriteOptions) -> OptimizeRequest:
    """All of the table in one commit."""
    return OptimizeRequest(store, settings=settings, purpose="purge", options=replace(options, conflicts="rebase"))
