"""What do all changing commands count in the same way?"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ebbtide.commands.delete.results import DeleteMetrics
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.statistics import num_records

__all__ = ["elapsed_ms", "logical_rows", "now_ms", "partition_count", "skipping_metrics"]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def elapsed_ms(started: float) -> int:
    """Milliseconds since a moment of `time.monotonic`."""
    return int((time.monotonic() - started) * 1000)


def logical_rows(adds: Sequence[AddFile]) -> int | None:
    """Rows still visible in the files; None when one of them does not say how many it has."""
    total = 0
    for add in adds:
        physical = num_records(add.stats)
        if physical is None:
            return None
        total += physical - (add.deletion_vector.cardinality if add.deletion_vector is not None else 0)
    return total


def partition_count(snapshot: Snapshot, adds: Sequence[AddFile]) -> int:
    """Distinct partitions of the files; 0 for a table without partitions."""
    if not snapshot.metadata.partition_columns:
        return 0
    return len({tuple(sorted(add.partition_values.items())) for add in adds})


def skipping_metrics(snapshot: Snapshot, candidates: Sequence[AddFile]) -> DeleteMetrics:
    return DeleteMetrics(
        num_files_before_skipping=snapshot.num_files,
        num_bytes_before_skipping=snapshot.size_in_bytes,
        num_files_after_skipping=len(candidates),
        num_bytes_after_skipping=sum(add.size for add in candidates),
        num_partitions_after_skipping=partition_count(snapshot, candidates),
    )
