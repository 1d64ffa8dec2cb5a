"""In which order are rows written so that files hold small ranges of several columns?

Z-order: each column is divided into ranges that hold about as many rows each, a row's range is a number of a few bits,
and the bits of all columns are interleaved into one number, which the rows are sorted by. Rows with similar values in
every column come to lie together, so a reader's filter on any of the columns skips files. One column alone is simply
sorted.

    range numbers 0b101 and 0b011  ->  0b10_01_11

Everything is done by Spark's own expressions: a sample of the columns is sorted into an array of bounds, which the
query that writes reads as a constant; a tree of comparisons finds a row's range in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.row_level.counters import logical_rows
from ebbtide.errors import RequestError, UnknownColumnError, UnsupportedFeatureError
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    find_field,
    leaf_columns,
)
from ebbtide.protocol.schema_edits import shown_names
from ebbtide.scan import PositionedScan, ScanFile
from ebbtide.write import WriteTarget, indexed_columns

__all__ = ["CurveOrder", "check_cluster_columns", "check_zorder_columns", "interleave_bits"]

# Of one column. More ranges would make the tree deeper and the order little better.
_MOST_BITS: Final = 8
# A long that is never negative.
_KEY_BITS: Final = 63
# Rows that the bounds are taken from: about eighty for each range.
_SAMPLED_ROWS: Final = 20_000
_SEED: Final = 7
_NOT_ORDERED: Final = frozenset({"variant", "void", "geometry", "geography"})


@dataclass(frozen=True, slots=True)
class CurveOrder:
    """Sorted along a curve through all `columns`, into files of about the target size."""

    columns: tuple[tuple[str, ...], ...]
    target_bytes: int

    @property
    def is_kept(self) -> bool:
        return False

    def sort(self, spark: SparkSession, scan: PositionedScan, files: Sequence[ScanFile]) -> DataFrame:
        del spark
        values = [".".join(map(border.quote_name, path)) for path in self.columns]
        names = border.HelperNames(scan.columns)
        rows, helpers = scan.frame, []
        if len(values) > 1:
            helpers = [names.pick("curve")]
            rows = _with_curve(rows, values, logical_rows(file.add for file in files), names, helpers[0])
        keys = [F.expr(text) for text in (*helpers, *values)]
        parts = max(1, sum(file.add.size for file in files) // self.target_bytes)
        divided = rows.repartition(1) if parts == 1 else rows.repartitionByRange(parts, *keys)
        # Spark sorts one number by its bits; with more keys it would compare rows.
        return divided.sortWithinPartitions(*keys[: max(1, len(helpers))]).drop(*helpers)


def interleave_bits(names: Sequence[str], bits: int) -> str:
    """SQL for the number whose bits are those of the columns in turn, the highest bits first."""
    terms = [
        f"shiftleft(shiftright({name}, {bit}) & 1L, {bit * len(names) + len(names) - 1 - place})"
        for bit in range(bits)
        for place, name in enumerate(names)
    ]
    return " | ".join(terms)


def _with_curve(
    rows: DataFrame, values: Sequence[str], num_rows: int | None, names: border.HelperNames, curve: str
) -> DataFrame:
    """The rows with a column for their place on the curve. Each range number is found by halving.

    Every step is a projection of its own: put into one expression, the number so far would be computed again and again.
    """
    bits = min(_MOST_BITS, _KEY_BITS // len(values))
    numbers = [names.pick(f"range{place}") for place in range(len(values))]
    bounds = names.pick("bounds")
    found = rows.withColumn(bounds, _bounds(rows, values, 1 << bits, num_rows))
    found = found.withColumns({number: F.lit(0).cast("long") for number in numbers})
    for bit in reversed(range(bits)):
        step = 1 << bit
        found = found.withColumns(
            {
                number: F.expr(
                    f"{number} + IF({value} >= get({bounds}.b{place}, CAST({number} + {step - 1} AS INT)), {step}L, 0L)"
                )
                for place, (number, value) in enumerate(zip(numbers, values, strict=True))
            }
        )
    return found.withColumn(curve, F.expr(interleave_bits(numbers, bits))).drop(bounds, *numbers)


def _bounds(rows: DataFrame, values: Sequence[str], ranges: int, num_rows: int | None) -> Column:
    """A struct of arrays, as a constant: for each column the values at which its ranges begin, but for the first.

    Nulls have no range of their own: no bound is above them, so they are in the first.
    """
    share = 1.0 if num_rows is None else min(1.0, _SAMPLED_ROWS / max(num_rows, 1))
    sampled = rows if share == 1.0 else rows.sample(share, seed=_SEED)
    ordered = sampled.agg(
        *(F.expr(f"array_sort(collect_list({value})) AS v{place}") for place, value in enumerate(values))
    )
    at = "CAST(i * size(v{place}) DIV {ranges} AS INT)"
    arrays = [
        f"transform(sequence(1, {ranges - 1}), i -> get(v{place}, {at.format(place=place, ranges=ranges)})) AS b{place}"
        for place in range(len(values))
    ]
    return ordered.select(F.expr(f"struct({', '.join(arrays)}) AS bounds")).scalar()


# --- which columns ----------------------------------------------------------------------------------------------------


def check_zorder_columns(
    spark: SparkSession, snapshot: Snapshot, names: Sequence[str], *, checks_statistics: bool
) -> tuple[tuple[str, ...], ...]:
    """The columns as paths of names. Refuses unknown ones, partition columns, and those without statistics."""
    is_exact = border.is_case_sensitive(spark)
    partition_columns = {name.lower() for name in snapshot.metadata.partition_columns}
    paths = []
    for name in names:
        chain = find_field(snapshot.schema, name)
        if chain is None or (is_exact and not _is_spelled(chain, name)):
            raise UnknownColumnError(
                f"ZORDER BY names the column '{name}', which the table does not have. It has "
                f"{shown_names(snapshot.schema.names)}.",
                error_class="DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
            )
        if chain[0].name.lower() in partition_columns:
            raise RequestError(
                f"ZORDER BY names '{name}', a partition column: each file has one value of it. Order by other columns.",
                error_class="DELTA_ZORDERING_ON_PARTITION_COLUMN",
            )
        paths.append(_ordered_path(chain, name))
    if len(paths) > _KEY_BITS:
        raise RequestError(f"ZORDER BY names {len(paths)} columns; more than {_KEY_BITS} cannot be told apart.")
    if checks_statistics:
        _require_statistics(snapshot, paths)
    return tuple(paths)


def check_cluster_columns(snapshot: Snapshot, columns: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The columns of CLUSTER BY, which must all exist and have an order."""
    paths = []
    for column in columns:
        chain = find_field(snapshot.schema, column)
        if chain is None:
            raise UnsupportedFeatureError(
                f"The table at {snapshot.store.url} is clustered by '{'.'.join(column)}', a column that it does not "
                "have. Cluster it by other columns first: ALTER TABLE ... CLUSTER BY.",
                error_class="",
            )
        paths.append(_ordered_path(chain, ".".join(column)))
    return tuple(paths)


def _ordered_path(chain: Sequence[StructField], name: str) -> tuple[str, ...]:
    if not _has_order(chain[-1].type):
        raise UnsupportedFeatureError(
            f"Rows cannot be sorted by the column '{name}': values of its type have no order. Leave it out.",
            error_class="",
        )
    return _names(chain)


def _has_order(kind: DataType) -> bool:
    match kind:
        case MapType():
            return False
        case ArrayType():
            return _has_order(kind.element_type)
        case StructType():
            return all(_has_order(field.type) for field in kind.fields)
        case PrimitiveType():
            return kind.name.partition("(")[0] not in _NOT_ORDERED


def _names(chain: Sequence[StructField]) -> tuple[str, ...]:
    return tuple(field.name for field in chain)


def _is_spelled(chain: Sequence[StructField], name: str) -> bool:
    return ".".join(field.name for field in chain) == name.replace("`", "")


def _require_statistics(snapshot: Snapshot, paths: Sequence[tuple[str, ...]]) -> None:
    target = WriteTarget.of(snapshot)
    indexed = {physical for physical, _ in indexed_columns(target)}
    pairs = zip(leaf_columns(target.schema), leaf_columns(target.physical_schema), strict=True)
    known = [_names(logical) for logical, physical in pairs if _names(physical) in indexed]
    without = [".".join(path) for path in paths if not any(found[: len(path)] == path for found in known)]
    if without:
        raise RequestError(
            f"ZORDER BY {', '.join(without)} would help no reader: the table keeps no statistics of these columns "
            "(delta.dataSkippingNumIndexedCols, delta.dataSkippingStatsColumns). To sort by them anyway, set "
            "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled = false.",
            error_class="DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS",
        )
