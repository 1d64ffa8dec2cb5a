"""When are small files put together without anybody asking for it?

After a command that changed rows, if the session or the table wants it (`delta.autoOptimize.autoCompact`), and a
partition that the command wrote to has enough small files. The command has landed by then: a failure here is logged and
never raised, since the caller would take it for a failure of the command and do the work twice.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.packing import Partition, partition_of
from ebbtide.commands.optimize.request import OptimizeRequest, OptimizeSettings
from ebbtide.commands.requests import WriteOptions
from ebbtide.config import MIB
from ebbtide.log import Snapshot
from ebbtide.log.detail import clustering_paths
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.transaction import Committed
from ebbtide.transaction.post_commit import FAILURES

__all__ = ["AutoCompaction"]

_LOGGER = logging.getLogger(__name__)
# What the table's property may say; everything but "false" asks for it.
_OFF: Final = "false"


@dataclass(frozen=True, slots=True)
class AutoCompaction:
    """The session's wishes. `is_wanted` None leaves it to the table.

    A partition is compacted as soon as it has `min_num_files` files below `min_bytes` (half of `target_bytes` when it
    is None); with `modified_only`, only partitions that the command added files to.
    """

    is_wanted: bool | None = None
    min_num_files: int = 50
    target_bytes: int = 128 * MIB
    min_bytes: int | None = None
    modified_only: bool = True

    def after(self, spark: SparkSession, committed: Committed, options: WriteOptions) -> None:
        """Put small files together if it is time. Never raises for a failure of its own."""
        try:
            snapshot = committed.snapshot
            if self.is_wanted is False or not (self.is_wanted or _table_wants_it(snapshot)):
                return
            partitions = self.crowded_partitions(snapshot, committed.actions)
            if partitions:
                self._compact(spark, snapshot, partitions, options)
        except (*FAILURES, PySparkException):
            _LOGGER.warning(
                "version %d was committed, but its small files could not be put together; the table is fine without it",
                committed.version,
                exc_info=True,
            )

    def crowded_partitions(self, snapshot: Snapshot, actions: Iterable[Action]) -> frozenset[Partition]:
        """The partitions with enough small files. A clustered table has none: it is sorted when OPTIMIZE is called."""
        if clustering_paths(snapshot):
            return frozenset()
        small = snapshot.files.filter(pc.less(snapshot.files["size"], self._smallest))
        counts = Counter(tuple(sorted(values)) for values in small["partition_values"].to_pylist())
        crowded = {partition for partition, count in counts.items() if count >= self.min_num_files}
        if self.modified_only:
            crowded &= {partition_of(action) for action in actions if isinstance(action, AddFile)}
        return frozenset(crowded)

    @property
    def _smallest(self) -> int:
        return self.target_bytes // 2 if self.min_bytes is None else self.min_bytes

    def _compact(
        self, spark: SparkSession, snapshot: Snapshot, partitions: frozenset[Partition], options: WriteOptions
    ) -> None:
        request = OptimizeRequest(
            snapshot.store,
            settings=OptimizeSettings(self.target_bytes, self._smallest),
            purpose="auto",
            partitions=partitions,
            options=options.without_transaction(),
            hint=snapshot,
        )
        OptimizeCommand(spark, request).run()


def _table_wants_it(snapshot: Snapshot) -> bool:
    properties = snapshot.properties
    return properties.auto_optimize or (properties.auto_compact or _OFF) != _OFF
