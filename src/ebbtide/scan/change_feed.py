"""How do the changes in the log become one DataFrame?

A file may have changed in many versions, and each of its rows may appear once per version. The plan stays small however
many commits there are: at most one scan for each of

    files added or removed whole, without marks      joined to (change type, version, time) on the file's number
    the same with marks                              one more scan each time the same file appears again
    rows whose marks changed                         as blocks of 64 rows, each with the change it belongs to
    change data files                                which hold the change type of each row themselves

A scan whose rows all belong to one change needs no join. Only the number of files in those scans and the number of
blocks grow with the range (`mark_join` has the limit).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.deletion_vectors.store import load_all
from ebbtide.errors import MissingDataFileError
from ebbtide.log import Snapshot
from ebbtide.log.change_feed import ChangedRows, ChangeFeed
from ebbtide.protocol.actions import AddCDCFile, AddFile
from ebbtide.protocol.change_columns import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.paths import canonical_path, resolve_data_path
from ebbtide.protocol.statistics import num_records
from ebbtide.scan.columns import TableColumns
from ebbtide.scan.dataframe import PositionedScan, scan_files, scan_with_positions
from ebbtide.scan.files import ScanFile, resolve_file
from ebbtide.scan.kept_rows import ALL_ROWS, OnlyRows, without_rows
from ebbtide.scan.mark_join import labelled_block_table

__all__ = ["scan_changes"]


def scan_changes(
    spark: SparkSession, feed: ChangeFeed, *, storage_options: Mapping[str, str] | None = None
) -> DataFrame:
    """The table's columns, then `_change_type`, `_commit_version` and `_commit_timestamp`."""
    changes = _resolve_changes(feed, storage_options)
    scan = _ChangeScan(spark, feed.snapshot, feed.times_ms or {})
    frames = [
        *scan.change_data([change for change in changes if change.label.change_type is None]),
        *scan.whole_files([change for change in changes if change.label.change_type and not change.shows_only_rows]),
        *scan.marked_rows([change for change in changes if change.shows_only_rows]),
    ]
    return reduce(DataFrame.unionAll, frames) if frames else spark.createDataFrame([], scan.schema())


# --- what is to be read -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Label:
    """What the feed says about a row. The change type is None where the row itself holds it."""

    change_type: str | None
    version: int


@dataclass(frozen=True, slots=True)
class _Change:
    label: _Label
    key: str  # the same for every spelling of the file's path
    file: ScanFile  # showing only the changed rows

    @property
    def shows_only_rows(self) -> bool:
        return isinstance(self.file.keeps, OnlyRows)


def _resolve_changes(feed: ChangeFeed, storage_options: Mapping[str, str] | None) -> list[_Change]:
    vectors = _load_vectors(feed, storage_options)
    files: dict[str, ScanFile] = {}
    resolved = []
    for change in feed.changes:
        key = canonical_path(change.file.path, feed.snapshot.store.url)
        if key not in files:
            files[key] = _open(feed.snapshot, change)
        shown, hidden = (_rows_of(vectors, descriptor) for descriptor in (change.shown, change.hidden))
        label = _Label(change.change_type, change.version)
        if shown is None:
            resolved.append(_Change(label, key, replace(files[key], keeps=without_rows(hidden))))
        elif rows := shown.difference(hidden) if hidden else shown:
            resolved.append(_Change(label, key, files[key].only(rows)))
    return resolved


def _load_vectors(
    feed: ChangeFeed, storage_options: Mapping[str, str] | None
) -> dict[DeletionVectorDescriptor, RowIndexSet]:
    """Load each vector once: a file whose marks grow names every one of them twice."""
    wanted: dict[DeletionVectorDescriptor, int | None] = {}
    for change in feed.changes:
        stats = None if isinstance(change.file, AddCDCFile) else change.file.stats
        for descriptor in (change.shown, change.hidden):
            if descriptor is not None and wanted.get(descriptor) is None:
                wanted[descriptor] = num_records(stats)
    snapshot = feed.snapshot
    loaded = load_all(
        snapshot.store,
        snapshot.store.url,
        list(wanted),
        num_records=list(wanted.values()),
        config=snapshot.config,
        storage_options=storage_options,
    )
    return dict(zip(wanted, loaded, strict=True))


def _rows_of(
    vectors: Mapping[DeletionVectorDescriptor, RowIndexSet], descriptor: DeletionVectorDescriptor | None
) -> RowIndexSet | None:
    """The rows, or None where there is no vector."""
    return None if descriptor is None else vectors[descriptor]


def _open(snapshot: Snapshot, change: ChangedRows) -> ScanFile:
    found = change.file
    try:
        size = _size_of(snapshot, found.path) if found.size is None else found.size
        add = AddFile(found.path, change.partition_values, size, 0, data_change=True)
        return resolve_file(snapshot, add, None)
    except MissingDataFileError as error:
        raise MissingDataFileError(
            f"The changes of version {change.version} of the table at {snapshot.store.url} lie in '{found.path}', "
            "which is gone: VACUUM removes files that only the past needs. Start at a later version."
        ) from error


def _size_of(snapshot: Snapshot, encoded_path: str) -> int:
    """The object's own size, for a removed file whose action does not state it."""
    location = resolve_data_path(encoded_path, snapshot.store.url, allow_foreign=snapshot.config.allow_foreign_paths)
    return 0 if location.relative_path is None else snapshot.store.head(location.relative_path).size


# --- frames -----------------------------------------------------------------------------------------------------------


class _ChangeScan:
    def __init__(self, spark: SparkSession, snapshot: Snapshot, times_ms: Mapping[int, int]) -> None:
        self.spark = spark
        self.snapshot = snapshot
        self.times_ms = times_ms
        self.columns = TableColumns.of(snapshot).logical
        names = border.HelperNames(self.columns.names)
        self.file_name = names.pick("changed_file")
        self.label_name = names.pick("change")
        self.time_name = names.pick("commit_ms")
        self.key_name = names.pick("changed_block")
        self.marks_key_name = names.pick("block_of_changes")
        self.word_name = names.pick("changed_word")

    def schema(self) -> T.StructType:
        return T.StructType(
            [
                *self.columns.fields,
                T.StructField(CHANGE_TYPE, T.StringType()),
                T.StructField(COMMIT_VERSION, T.LongType()),
                T.StructField(COMMIT_TIMESTAMP, T.TimestampType()),
            ]
        )

    def change_data(self, changes: Sequence[_Change]) -> Iterator[DataFrame]:
        if changes:
            yield self.labelled_files(changes, also=(CHANGE_TYPE,))

    def whole_files(self, changes: Sequence[_Change]) -> Iterator[DataFrame]:
        plain = [change for change in changes if not change.file.marks]
        if plain:
            yield self.labelled_files(plain)
        for layer in _with_each_file_once([change for change in changes if change.file.marks]):
            yield self.labelled_files(layer)

    def marked_rows(self, changes: Sequence[_Change]) -> Iterator[DataFrame]:
        if not changes:
            return
        if len({change.key for change in changes}) == len(changes):
            yield self.labelled_files(changes)
        else:
            yield self.labelled_blocks(changes)

    def labelled_files(self, changes: Sequence[_Change], *, also: Sequence[str] = ()) -> DataFrame:
        """All rows that the files show, once per change that names the file."""
        files = list({change.key: change.file for change in changes}.values())
        if label := _only_label(changes):
            return self.with_label(scan_files(self.spark, self.snapshot, files, also=also), label, also)
        scan = scan_with_positions(self.spark, self.snapshot, files, also=also)
        numbers = _numbers_by_path(scan)
        table = self.label_table([change.label for change in changes])
        table = table.append_column(self.file_name, _longs(numbers[change.file.spark_path] for change in changes))
        labels = self.broadcast(table.drop_columns([CHANGE_TYPE]) if also else table)
        return self.select_columns(scan.frame.join(labels, F.col(scan.file_column) == F.col(self.file_name)))

    def labelled_blocks(self, changes: Sequence[_Change]) -> DataFrame:
        """The rows that each change marks; a file is read once for all its changes."""
        files = list({change.key: replace(change.file, keeps=ALL_ROWS) for change in changes}.values())
        scan = scan_with_positions(self.spark, self.snapshot, files)
        numbers = _numbers_by_path(scan)
        marks = [change.file.keeps.rows for change in changes if isinstance(change.file.keeps, OnlyRows)]
        blocks = labelled_block_table(
            marks,
            [numbers[change.file.spark_path] for change in changes],
            key=self.marks_key_name,
            word=self.word_name,
            label=self.label_name,
        )
        keyed = scan.frame.withColumn(self.key_name, blocks.key(scan.file_column, scan.row_column))
        matched = keyed.join(self.broadcast(blocks.table), F.col(self.key_name) == F.col(self.marks_key_name))
        changed = matched.where(blocks.is_marked(self.word_name, scan.row_column))
        table = self.label_table([change.label for change in changes])
        table = table.append_column(self.file_name, _longs(range(len(changes))))
        return self.select_columns(changed.join(self.broadcast(table), F.col(self.label_name) == F.col(self.file_name)))

    def label_table(self, labels: Sequence[_Label]) -> pa.Table:
        return pa.table(
            {
                CHANGE_TYPE: pa.array([label.change_type for label in labels], pa.string()),
                COMMIT_VERSION: _longs(label.version for label in labels),
                self.time_name: _longs(self.times_ms[label.version] for label in labels),
            }
        )

    def broadcast(self, table: pa.Table) -> DataFrame:
        types = {field.name: T.StringType() if field.type == pa.string() else T.LongType() for field in table.schema}
        schema = T.StructType([T.StructField(name, data_type) for name, data_type in types.items()])
        return F.broadcast(border.frame_from_arrow(self.spark, table, schema))

    def with_label(self, frame: DataFrame, label: _Label, also: Sequence[str]) -> DataFrame:
        values: dict[str, Column] = {} if also else {CHANGE_TYPE: F.lit(label.change_type)}
        values[COMMIT_VERSION] = F.lit(label.version).cast(T.LongType())
        values[self.time_name] = F.lit(self.times_ms[label.version]).cast(T.LongType())
        return self.select_columns(frame.withColumns(values))

    def select_columns(self, frame: DataFrame) -> DataFrame:
        time = F.timestamp_millis(F.col(self.time_name)).alias(COMMIT_TIMESTAMP)
        return frame.select(
            *(border.quote_name(name) for name in self.columns.names), CHANGE_TYPE, COMMIT_VERSION, time
        )


def _with_each_file_once(changes: Sequence[_Change]) -> list[list[_Change]]:
    """Split the changes into as few lists as possible, so that no list names a file twice."""
    layers: list[list[_Change]] = []
    seen: dict[str, int] = {}
    for change in changes:
        number = seen.get(change.key, 0)
        seen[change.key] = number + 1
        if number == len(layers):
            layers.append([])
        layers[number].append(change)
    return layers


def _only_label(changes: Sequence[_Change]) -> _Label | None:
    """The label that all changes have; None when they differ or a file is in several."""
    if len({change.label for change in changes}) != 1 or len({change.key for change in changes}) != len(changes):
        return None
    return changes[0].label


def _numbers_by_path(scan: PositionedScan) -> dict[str, int]:
    return {file.spark_path: number for number, file in scan.files.items()}


def _longs(values: Iterator[int] | range) -> pa.Array:
    return pa.array(values, pa.int64())
