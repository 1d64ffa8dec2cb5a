"""How are the live rows of a group of files copied into new ones?

They are written in one order: file after file and by physical position (`KEPT_ORDER`), or by a key that is computed
from the columns (`optimize.clustering`). Only if the order is known, the place of every row is (`optimize.positions`).
Spark reads files in an order of its own. So larger files are read in turn, which is checked (`optimize.in_turn`), and
many small ones are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.commands.optimize.in_turn import rows_in_turn
from ebbtide.commands.row_level.counters import logical_rows
from ebbtide.commands.row_level.physical_row_counts import explain_mismatch
from ebbtide.commands.row_level.work import FileWork
from ebbtide.log import Snapshot
from ebbtide.scan import PositionedScan, RowIdColumns, ScanFile, scan_with_positions
from ebbtide.write import WriteTarget, WrittenFiles, discard, write_files

__all__ = ["CLUSTERING_PROVIDER", "KEPT_ORDER", "Copier", "GroupCopy", "KeptOrder", "RowOrder", "SparkCopier"]

# Spark reads a file of this size about as fast as it opens one: smaller files are better read by several tasks at once,
# and their rows sent to the one that writes.
_OPENING_BYTES: Final = 4 * 1024 * 1024
# Who sorted a file, so that other engines do not sort it again. See "Clustered Table" in PROTOCOL.md.
CLUSTERING_PROVIDER: Final = "ebbtide"
# A row's place in one number that Spark sorts by its bits: 23 bits for the file, 40 for the row.
_ROW_BITS: Final = 40


@dataclass(frozen=True, slots=True, eq=False)
class GroupCopy:
    """Files, as they were when they were read, and what replaces them."""

    files: tuple[ScanFile, ...]
    work: FileWork
    keeps_row_ids: bool
    # Whether the place of every row in the new files is known.
    keeps_order: bool
    # How often winners made it necessary to copy these files once more.
    times_redone: int = 0


class Copier(Protocol):
    """Copies files, all of one partition: Spark (`SparkCopier`), or a test without a JVM."""

    def __call__(self, snapshot: Snapshot, files: Sequence[ScanFile], *, times_redone: int = 0) -> GroupCopy:
        """The copy of the live rows, in storage. After an error nothing is left."""


class RowOrder(Protocol):
    """In which order rows are written, and to how many files."""

    @property
    def is_kept(self) -> bool:
        """Whether the place of each row follows from its place in the old files."""

    def sort(self, spark: SparkSession, scan: PositionedScan, files: Sequence[ScanFile]) -> DataFrame:
        """The rows in the order in which they are to be written, in as many parts as there shall be files."""


@dataclass(frozen=True, slots=True)
class KeptOrder:
    """File after file, each by physical position, into one new file."""

    @property
    def is_kept(self) -> bool:
        return True

    def sort(self, spark: SparkSession, scan: PositionedScan, files: Sequence[ScanFile]) -> DataFrame:
        size = sum(file.add.size for file in files)
        is_many_small = size < len(files) * _OPENING_BYTES
        rows, place = with_places(spark, scan, files)
        together = rows.repartition(1) if is_many_small else rows.coalesce(1)
        return together.sortWithinPartitions(F.col(place)).drop(place)


KEPT_ORDER: Final = KeptOrder()


def with_places(spark: SparkSession, scan: PositionedScan, files: Sequence[ScanFile]) -> tuple[DataFrame, str]:
    """The scanned rows with a column that orders them by the file's number in `files` and by physical position."""
    names = border.HelperNames(scan.columns)
    place, number, key = names.pick("place"), names.pick("number"), names.pick("key")
    number_of = {file.spark_path: at for at, file in enumerate(files)}
    table = pa.table(
        {
            key: pa.array(list(scan.files), pa.int64()),
            number: pa.array([number_of[file.spark_path] for file in scan.files.values()], pa.int64()),
        }
    )
    schema = T.StructType([T.StructField(name, T.LongType()) for name in (key, number)])
    numbers = F.broadcast(border.frame_from_arrow(spark, table, schema))
    numbered = scan.frame.join(numbers, F.col(scan.file_column) == F.col(key))
    ordered = numbered.withColumn(place, F.shiftleft(F.col(number), _ROW_BITS).bitwiseOR(F.col(scan.row_column)))
    return ordered.drop(key, number), place


@dataclass(frozen=True, slots=True)
class SparkCopier:
    """Copies with Spark, in the given order. `clustering_provider` is what new files say about who sorted them.

    `target` is what the table will be when the copies are committed; None: what it is.
    """

    spark: SparkSession
    order: RowOrder
    clustering_provider: str | None = None
    target: WriteTarget | None = None
    storage_options: Mapping[str, str] | None = None

    def __call__(self, snapshot: Snapshot, files: Sequence[ScanFile], *, times_redone: int = 0) -> GroupCopy:
        written = _write(self.spark, snapshot, files, self.order, self.target or WriteTarget.of(snapshot))
        _check_count(snapshot, files, written, self.storage_options)
        provider = self.clustering_provider or (_kept_provider(files) if self.order.is_kept else None)
        if provider is not None:
            adds = tuple(replace(add, clustering_provider=provider) for add in written.adds)
            written = replace(written, adds=adds)
        work = FileWork(replaced=tuple(file.add for file in files), written=written, data_change=False)
        keeps_row_ids = snapshot.properties.enable_row_tracking
        return GroupCopy(tuple(files), work, keeps_row_ids, self.order.is_kept, times_redone)


def _kept_provider(files: Sequence[ScanFile]) -> str | None:
    """A file that we sorted is still sorted without its marked rows; several, one after the other, are not."""
    provider = files[0].add.clustering_provider
    return provider if len(files) == 1 and provider == CLUSTERING_PROVIDER else None


def _write(
    spark: SparkSession, snapshot: Snapshot, files: Sequence[ScanFile], order: RowOrder, target: WriteTarget
) -> WrittenFiles:
    ids = RowIdColumns.of(snapshot)
    in_turn = rows_in_turn(spark, snapshot, files, row_ids=ids) if order.is_kept else None
    if in_turn is not None:
        written = _write_rows(spark, snapshot, files, in_turn.frame, target)
        if in_turn.came_in_order():
            return written
        discard(snapshot.store, [written])
    scan = scan_with_positions(spark, snapshot, files, row_ids=ids)
    rows = order.sort(spark, scan, files).drop(scan.file_column, scan.row_column)
    return _write_rows(spark, snapshot, files, rows, target)


def _write_rows(
    spark: SparkSession, snapshot: Snapshot, files: Sequence[ScanFile], rows: DataFrame, target: WriteTarget
) -> WrittenFiles:
    ids = RowIdColumns.of(snapshot)
    return write_files(
        spark,
        rows,
        target,
        extra_columns=None if ids is None else ids.in_files,
        data_change=False,
        # By the names that the log has now.
        partition=_texts(files[0].add.partition_values, WriteTarget.of(snapshot).physical_partition_names),
    )


def _texts(values: Mapping[str, str | None], physical_names: Sequence[str]) -> list[str | None]:
    return [values.get(name) for name in physical_names]


def _check_count(
    snapshot: Snapshot, files: Sequence[ScanFile], written: WrittenFiles, storage_options: Mapping[str, str] | None
) -> None:
    expected = logical_rows(file.add for file in files)
    if expected is None or expected == written.num_rows:
        return
    discard(snapshot.store, [written])
    raise explain_mismatch(
        snapshot,
        [file.add for file in files],
        f"{len(files)} files of {snapshot.store.url} have {expected} rows by the log, but {written.num_rows} were "
        "copied. Nothing was committed.",
        storage_options=storage_options,
    )
