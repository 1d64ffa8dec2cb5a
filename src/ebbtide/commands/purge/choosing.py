"""Which files does a PURGE rewrite? The log and, in tables with column mapping, footers decide; Spark has no part."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.commands.purge.dropped_columns import files_with_dropped_columns
from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.actions import AddFile

__all__ = ["choose_purge_files"]


def choose_purge_files(
    snapshot: Snapshot,
    considered: pa.Table,
    *,
    looks_for_columns: bool = True,
    storage_options: Mapping[str, str] | None = None,
) -> list[AddFile]:
    """The files with a marked row, and those with a dropped column if `looks_for_columns`."""
    has_vector = pc.is_valid(considered["deletion_vector"])
    chosen = list(add_files(considered.filter(has_vector)))
    if looks_for_columns:
        others = list(add_files(considered.filter(pc.invert(has_vector))))
        chosen += files_with_dropped_columns(snapshot, others, storage_options=storage_options)
    return chosen
