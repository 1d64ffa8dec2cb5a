"""How many physical rows does a file have if its statistics do not say?

A file with a deletion vector must state `numRecords`. If the writer left it out, the Parquet footer has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.statistics import num_records
from ebbtide.scan import ScanFile
from ebbtide.write import stats_from_footer

__all__ = ["with_row_counts"]


def with_row_counts(
    snapshot: Snapshot,
    matched: Iterable[tuple[ScanFile, RowIndexSet]],
    add_of_path: dict[str, AddFile],
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[tuple[ScanFile, RowIndexSet]]:
    """The same pairs with complete statistics; each file's add is noted in `add_of_path` as it passes."""
    for file, rows in matched:
        counted = file
        if num_records(file.add.stats) is None:
            counted = replace(
                file,
                add=replace(file.add, stats=stats_from_footer(snapshot, file.add, storage_options=storage_options)),
            )
        add_of_path[file.spark_path] = counted.add
        yield counted, rows
