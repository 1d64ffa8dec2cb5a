"""Which live files can hold a row for which a condition is TRUE?

`prune` takes the live files of a snapshot and a condition in Spark's SQL and returns a superset of the files that
matter. It decides on the driver, from partition values first and then from the statistics of the remaining files. It
never reads data, never raises on the content of the table or the condition, and never leaves out a file with a matching
row: where it does not know, the file stays. See "Per-file Statistics" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.protocol.schema import StructType
from ebbtide.pruning.bounds import partition_bounds, statistics_bounds
from ebbtide.pruning.evaluation import Files, evaluate
from ebbtide.pruning.parser import parse_condition
from ebbtide.pruning.predicate import And, Constant, Name, Not, Opaque, Or, Predicate
from ebbtide.pruning.scope import Column, Scope

__all__ = ["prune"]

# Files per batch: enough for Arrow, few enough that their bounds take a few megabytes per column.
BATCH_FILES: Final = 65_536


def prune(
    files: pa.Table,
    condition: str | None,
    *,
    schema: StructType,
    partition_columns: Collection[str] = (),
    column_mapping_mode: str = "none",
    alias: str | None = None,
    case_sensitive: bool = False,
    session_timezone: str | None = None,
    compares_dates_as_text: bool = False,
) -> pa.Table:
    """The files (a table with at least `partition_values` and `stats`) that a condition cannot exclude, in their order.

    `condition` None is TRUE. `alias` qualifies columns as in `t.id`. `session_timezone` is spark.sql.session.timeZone;
    without it, timestamps that name no zone prune nothing. `compares_dates_as_text` is the session's legacy coercion of
    dates (`sql_text.settings`).
    """
    if condition is None:
        return files
    root = parse_condition(condition).root
    scope = Scope(schema, tuple(partition_columns), column_mapping_mode, alias, case_sensitive)
    columns = _resolve_names(root, scope)
    kept: list[pa.BooleanArray] = []
    for batch in _batches(files.select(["partition_values", "stats"])):
        unknown = Files(batch.num_rows, scope, columns, {}, session_timezone, compares_dates_as_text)
        kept.append(_may_match(batch, root, unknown))
    return files.filter(pa.chunked_array(kept, pa.bool_()))


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    # A log of many small commits gives many small chunks, and every batch has a cost.
    if any(column.num_chunks * BATCH_FILES > 8 * (len(column) + BATCH_FILES) for column in table.columns):
        table = table.combine_chunks()
    yield from table.to_batches(max_chunksize=BATCH_FILES)


def _may_match(batch: pa.RecordBatch, root: Predicate, files: Files) -> pa.BooleanArray:
    """Which files of a batch may have a matching row: partition values first, then the statistics of what is left."""
    columns = set(files.columns.values())
    partition_values = batch.column("partition_values")
    bounds = {column: partition_bounds(partition_values, column) for column in columns if column.is_partition}
    by_partition = evaluate(root, replace(files, bounds=bounds)).true
    data_columns = [column for column in columns if not column.is_partition]
    left = pc.indices_nonzero(by_partition)
    if not data_columns or len(left) == 0:
        return by_partition
    bounds = {column: item.take(left) for column, item in bounds.items()}
    bounds |= statistics_bounds(batch.column("stats").take(left), data_columns)
    by_statistics = evaluate(root, replace(files, count=len(left), bounds=bounds)).true
    return pc.replace_with_mask(by_partition, by_partition, by_statistics)


def _resolve_names(predicate: Predicate, scope: Scope) -> dict[Name, Column]:
    """The columns that the leaves name. Resolved once: there may be many leaves and many columns."""
    found: dict[Name, Column | None] = {}
    pending = [predicate]
    while pending:
        node = pending.pop()
        if isinstance(node, And | Or):
            pending.extend(node.parts)
        elif isinstance(node, Not):
            pending.append(node.part)
        elif not isinstance(node, Constant | Opaque) and node.name not in found:
            found[node.name] = scope.resolve(node.name)
    return {name: column for name, column in found.items() if column is not None}
