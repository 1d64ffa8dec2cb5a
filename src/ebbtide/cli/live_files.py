"""How much of each live file is deleted?

Takes a snapshot, returns columns and totals. A file has the rows that its statistics count, marked ones included. If a
file has no statistics, the number of rows of the file and of the table is unknown. Only the log is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.log import Snapshot
from ebbtide.protocol.json_fields import INT64_MAX
from ebbtide.protocol.statistics import num_records

__all__ = ["FileTotals", "deleted_shares", "file_totals"]


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Sums over all live files. `num_records` counts physical rows; None when a file has no count."""

    num_files: int
    size_in_bytes: int
    num_records: int | None
    num_deleted: int
    num_deletion_vectors: int

    @property
    def num_live(self) -> int | None:
        return None if self.num_records is None else max(self.num_records - self.num_deleted, 0)

    @property
    def deleted_share(self) -> float | None:
        return None if self.num_records is None else min(self.num_deleted / max(self.num_records, 1), 1.0)


def deleted_shares(snapshot: Snapshot) -> pa.Table:
    """The live files, the largest deleted share first.

    Columns: `path` (as the log spells it), `partition_values`, `size`, `num_records` and `share` (null when unknown),
    `num_deleted`, `has_vector`.
    """
    files = snapshot.files
    vectors = files.column("deletion_vector")
    deleted = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)
    records = _num_records(files.column("stats"))
    share = pc.divide(deleted.cast(pa.float64()), pc.max_element_wise(records, 1, skip_nulls=False).cast(pa.float64()))
    table = pa.table(
        {
            "path": files.column("path"),
            "partition_values": files.column("partition_values"),
            "size": files.column("size"),
            "num_records": records,
            "num_deleted": deleted,
            # Statistics are a writer's claim; more deleted rows than rows is no reason to fail here.
            "share": pc.min_element_wise(share, 1.0, skip_nulls=False),
            "has_vector": pc.is_valid(vectors),
        }
    )
    keys = [("share", "descending"), ("num_deleted", "descending"), ("path", "ascending")]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def file_totals(files: pa.Table) -> FileTotals:
    """The sums of a table from `deleted_shares`."""
    records = files.column("num_records")
    return FileTotals(
        num_files=files.num_rows,
        size_in_bytes=_sum(files.column("size")),
        num_records=None if records.null_count else _sum(records),
        num_deleted=_sum(files.column("num_deleted")),
        num_deletion_vectors=_sum(files.column("has_vector")),
    )


def _num_records(stats: pa.ChunkedArray) -> pa.Array:
    # One text at a time: all of them as Python objects would be larger than the table's state.
    return pa.array((num_records(text.as_py()) for chunk in stats.iterchunks() for text in chunk), pa.int64())


def _sum(column: pa.ChunkedArray) -> int:
    """Arrow's own sum silently wraps around beyond 64 bits, and these numbers are only claims."""
    largest = int(pc.max(column).as_py() or 0)
    if largest * len(column) <= INT64_MAX:
        return int(pc.sum(column).as_py() or 0)
    return sum(value or 0 for value in column.to_pylist())
