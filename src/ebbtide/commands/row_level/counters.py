"""What do all changing commands count in the same way?

Sums over files use the columns of the file table; no action is built only to be counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile, RemoveFile
from ebbtide.protocol.schema import partition_fields, physical_name
from ebbtide.protocol.statistics import num_records

__all__ = [
    "elapsed_ms",
    "logical_rows",
    "marked_rows",
    "now_ms",
    "partition_count",
    "physical_rows",
    "table_partition_count",
    "total_bytes",
    "vector_count",
]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def elapsed_ms(started: float) -> int:
    """Milliseconds since a moment of `time.monotonic`."""
    return int((time.monotonic() - started) * 1000)


# --- files of a snapshot ----------------------------------------------------------------------------------------------


def total_bytes(files: pa.Table) -> int:
    """Bytes of the data files, as the log states them."""
    return _sum(files["size"])


def vector_count(files: pa.Table) -> int:
    """Files that have a deletion vector."""
    vectors = files["deletion_vector"]
    return int(len(vectors) - vectors.null_count)


def marked_rows(files: pa.Table) -> int:
    """Rows that the vectors of the files mark."""
    return _sum(pc.struct_field(files["deletion_vector"], "cardinality"))


def physical_rows(files: pa.Table) -> int | None:
    """Rows in the files, marked ones included; None when a file does not state its count."""
    return _sum_if_known(num_records(text) for text in files["stats"].to_pylist())


def table_partition_count(snapshot: Snapshot, files: pa.Table) -> int:
    """Distinct partitions of the files; 0 for a table without partitions."""
    fields = partition_fields(snapshot.schema, snapshot.metadata.partition_columns)
    if not fields:
        return 0
    mapped = snapshot.properties.column_mapping_mode != "none"
    values = files["partition_values"].combine_chunks()
    columns = {
        str(place): pc.map_lookup(values, physical_name(field) if mapped else field.name, "first")
        for place, field in enumerate(fields)
    }
    return int(pa.table(columns).group_by(list(columns)).aggregate([]).num_rows)


# --- actions ----------------------------------------------------------------------------------------------------------


def logical_rows(actions: Iterable[AddFile | RemoveFile]) -> int | None:
    """Rows still visible in the files; None when a file does not state its count."""
    return _sum_if_known(_logical(action) for action in actions)


def partition_count(snapshot: Snapshot, adds: Sequence[AddFile]) -> int:
    """Distinct partitions of the files; 0 for a table without partitions."""
    if not snapshot.metadata.partition_columns:
        return 0
    return len({tuple(sorted(add.partition_values.items())) for add in adds})


def _logical(action: AddFile | RemoveFile) -> int | None:
    physical = num_records(action.stats)
    return None if physical is None else physical - action.num_marked_rows


def _sum(numbers: pa.ChunkedArray) -> int:
    return int(pc.sum(numbers).as_py() or 0)


def _sum_if_known(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
