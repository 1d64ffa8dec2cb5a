"""How do live files become one DataFrame?

Files without marks are a plain Parquet scan that costs nothing extra; files with marks are another branch, where the
marked rows are dropped by a lookup (`scan.mark_lookup`) or a broadcast join (`scan.mark_join`). Both are Spark's own
reader, so columns and filters are pushed into Parquet, files are split, and the row index stays the physical position
whatever is pushed.

For commands, `scan_with_positions` adds two helper columns that say the file and the physical position of each row, and
`row_ids` adds two more with the ids of tracked rows (`scan.row_ids`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.log import Snapshot
from ebbtide.scan.columns import TableColumns
from ebbtide.scan.file_numbers import FileNumbers, hashes_as_numbers, sizes_as_numbers, sizes_tell_files
from ebbtide.scan.files import ScanFile, resolve_files
from ebbtide.scan.kept_rows import AllRows, OnlyRows, WithoutRows
from ebbtide.scan.mark_join import block_table
from ebbtide.scan.mark_list import has_few_marks, is_listed
from ebbtide.scan.mark_lookup import mark_lookup
from ebbtide.scan.partitions import directories_tell_values, value_table
from ebbtide.scan.row_ids import RowIdColumns
from ebbtide.storage import is_local

__all__ = ["PositionedScan", "scan_files", "scan_rows", "scan_with_positions"]


@dataclass(frozen=True, slots=True)
class PositionedScan:
    """Live rows with their positions: `file_column` holds a key of `files`, `row_column` the physical row index."""

    frame: DataFrame
    file_column: str
    row_column: str
    files: Mapping[int, ScanFile]
    # Of the frame, in its order.
    columns: tuple[str, ...] = ()


def scan_rows(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    prefilter: str | None = None,
) -> DataFrame:
    """The rows of the given live files (all by default): logical columns, marked rows dropped.

    `prefilter` is a condition over the columns of the files that raises an error for no row. It is checked before a row
    is looked up among the marks. Rows for which it is false may still come, so the caller must filter as well.
    """
    found = resolve_files(snapshot, snapshot.files if files is None else files, storage_options=storage_options)
    return _Scan(spark, snapshot, prefilter=prefilter).rows(found)


def scan_files(
    spark: SparkSession,
    snapshot: Snapshot,
    files: Sequence[ScanFile],
    *,
    also: Sequence[str] = (),
    row_ids: RowIdColumns | None = None,
) -> DataFrame:
    """The rows of files that are already resolved, as their `keeps` says.

    `also` names string columns that these files have besides the table's, such as the change type of change data.
    """
    return _Scan(spark, snapshot, also=also, row_ids=row_ids).rows(files)


def scan_with_positions(
    spark: SparkSession,
    snapshot: Snapshot,
    files: Sequence[ScanFile],
    *,
    also: Sequence[str] = (),
    row_ids: RowIdColumns | None = None,
) -> PositionedScan:
    """The rows of `files` with two position columns, whose names differ from every column of the table."""
    scan = _Scan(spark, snapshot, with_positions=True, also=also, row_ids=row_ids)
    frame = scan.rows(files)
    ids = row_ids.names if row_ids else ()
    columns = (*scan.columns.logical.names, scan.file_name, scan.row_name, *ids)
    return PositionedScan(frame, scan.file_name, scan.row_name, scan.file_of_number, columns)


class _Scan:
    """One scan being put together: the names of its helper columns and what its branches share."""

    def __init__(
        self,
        spark: SparkSession,
        snapshot: Snapshot,
        *,
        with_positions: bool = False,
        also: Sequence[str] = (),
        row_ids: RowIdColumns | None = None,
        prefilter: str | None = None,
    ) -> None:
        self.spark = spark
        self.snapshot = snapshot
        self.columns = TableColumns.of(snapshot, also=also)
        self.with_positions = with_positions
        self.row_ids = row_ids
        self.prefilter = prefilter
        self.file_of_number: dict[int, ScanFile] = {}
        self.by_size = False
        taken = [name for schema in (self.columns.read_schema, self.columns.logical) for name in schema.names]
        taken += [name for name, _ in self.columns.partition_fields]
        if row_ids:
            taken += [*row_ids.names, *row_ids.in_files.values()]
        self.names = border.HelperNames(taken)
        self.row_name = self.names.pick("row_index")
        self.file_name = self.names.pick("file")
        self.key_name = self.names.pick("block")
        self.word_name = self.names.pick("word")
        self.marks_key_name = self.names.pick("block_of_marks")
        self.values_key_name = self.names.pick("file_of_values")
        border.ensure_no_reserved_column(self.columns.read_schema.names)
        self.row_index_is_free = border.READER_ROW_INDEX not in {name.lower() for name in taken}
        self.hides_metadata = border.FILE_METADATA in {name.lower() for name in taken}
        self.uses_reader_row_index = (
            self.row_index_is_free and border.fills_reader_row_index(spark) and not self.hides_metadata
        )
        if self.columns.reads_by_id:
            border.read_by_field_id(spark)

    def rows(self, files: Sequence[ScanFile]) -> DataFrame:
        self.by_size = sizes_tell_files(files)
        groups = ([file for file in files if isinstance(file.keeps, kind)] for kind in (AllRows, WithoutRows, OnlyRows))
        branches = [self._branch(group) for group in groups if group]
        if not branches:
            return self.spark.createDataFrame([], self._result_schema())
        return reduce(DataFrame.unionAll, branches)

    def _result_schema(self) -> T.StructType:
        places = [T.StructField(self.file_name, T.LongType()), T.StructField(self.row_name, T.LongType())]
        ids = self.row_ids.fields() if self.row_ids else []
        return T.StructType(self.columns.logical.fields + (places if self.with_positions else []) + ids)

    def _branch(self, files: Sequence[ScanFile]) -> DataFrame:
        has_marks = not isinstance(files[0].keeps, AllRows)
        fields = self.columns.partition_fields
        # A partition column of the reader's own name must not become part of what the reader is asked for.
        from_directories = bool(fields) and self.row_index_is_free and directories_tell_values(files, fields)
        joins_values = bool(fields) and not from_directories
        needs_row_index = has_marks or self.with_positions or self.row_ids is not None
        needs_file = self.with_positions or joins_values or self.row_ids is not None
        # Spark refuses the reader's column beside a `_metadata` struct that it could not narrow to the fields in use.
        # The marks always use a field; positions may be dropped later, and then nothing narrows the struct.
        by_reader = has_marks and self.uses_reader_row_index
        frame = raw = self._open(files, by_reader=by_reader, from_directories=from_directories)
        raw, hidden = self._with_metadata(raw)
        row = border.READER_ROW_INDEX if by_reader else hidden["row_index"]
        numbers = self._numbers(raw, files, hidden) if needs_file or has_marks else None
        helpers = {self.row_name: F.expr(row)} if needs_row_index else {}
        if numbers and needs_file:
            helpers[self.file_name] = F.expr(numbers.text)
        if numbers and has_marks:
            frame = self._by_marks(raw, helpers, files, numbers, row)
        elif helpers:
            frame = raw.withColumns(helpers)
        if numbers and joins_values:
            # The log's timestamps without a zone are UTC.
            values = value_table(files, fields, "UTC")
            frame = self._with_values(frame, values, self.columns.partition_schema(), numbers)
        if numbers and self.row_ids:
            ids_of_files = self.row_ids.file_table(files)
            frame = self._with_values(frame, ids_of_files, T.StructType(self.row_ids.fields()), numbers)
        places = [self.file_name, self.row_name] if self.with_positions else []
        ids = self.row_ids.id_columns(self.row_name) if self.row_ids else []
        return frame.select(*self.columns.to_logical(), *places, *ids)

    def _open(self, files: Sequence[ScanFile], *, by_reader: bool, from_directories: bool) -> DataFrame:
        fields = list(self.columns.read_schema.fields)
        if self.row_ids:
            fields += self.row_ids.fields_in_file()
        if by_reader:
            fields.append(T.StructField(border.READER_ROW_INDEX, T.LongType()))
        if from_directories:
            fields += self.columns.partition_schema().fields
        reader = border.strict_reader(self.spark, T.StructType(fields), self.snapshot.store.spark_options)
        if from_directories:
            reader = reader.option("basePath", self.snapshot.store.spark_path)
        border.ensure_listed(file.spark_path for file in files)
        paths = [border.escape_glob(file.spark_path) for file in files]
        doing = f"opening the data files of {self.snapshot.store.url}"
        with border.listing_settings(self.spark, local=is_local(self.snapshot.store)), border.spark_errors(doing):
            frame = reader.load(paths)
            # Connect looks at the files only when asked for something.
            assert frame.columns is not None
            return frame

    def _with_metadata(self, raw: DataFrame) -> tuple[DataFrame, dict[str, str]]:
        """The scan, and fields of the reader's hidden column as SQL over it."""
        fields = ("row_index", "file_size", "file_path")
        if not self.hides_metadata:
            return raw, {field: border.file_metadata(field) for field in fields}
        names = {field: self.names.pick(field) for field in fields}
        return border.with_file_metadata(raw, names), names

    def _numbers(self, raw: DataFrame, files: Sequence[ScanFile], hidden: Mapping[str, str]) -> FileNumbers:
        if self.by_size:
            numbers = sizes_as_numbers(files, hidden["file_size"])
        else:
            numbers = hashes_as_numbers(raw, files, hidden["file_path"])
        self.file_of_number.update(zip(numbers.values, files, strict=True))
        return numbers

    def _by_marks(
        self, raw: DataFrame, helpers: dict[str, Column], files: Sequence[ScanFile], numbers: FileNumbers, row: str
    ) -> DataFrame:
        marks = [file.keeps.rows for file in files if not isinstance(file.keeps, AllRows)]
        keeps_marked = isinstance(files[0].keeps, OnlyRows)
        marked = None
        if has_few_marks(files):
            marked = is_listed(marks, numbers.values, numbers.text, row)
        elif lookup := mark_lookup(marks, numbers.values):
            marked = lookup.is_marked(self.spark, numbers.text, row)
        # Spark checks filters in the order in which they are written, and the user's come after the marks.
        filtered = raw if self.prefilter is None else raw.where(self.prefilter)
        if marked is not None:
            # Straight on the fresh scan, before any projection: `_metadata` is then narrowed to the field in use.
            return filtered.where(marked if keeps_marked else ~marked).withColumns(helpers)
        blocks = block_table(marks, numbers.values, key=self.marks_key_name, word=self.word_name)
        keyed = filtered.withColumns({**helpers, self.key_name: blocks.key(numbers.text, row)})
        side = F.broadcast(border.frame_from_arrow(self.spark, blocks.table, blocks.spark_schema))
        match = F.col(self.key_name) == F.col(self.marks_key_name)
        marked = blocks.is_marked(self.word_name, self.row_name)
        joined = keyed.join(side, match) if keeps_marked else keyed.join(side, match, "left")
        return border.nothing_pushed_below(joined.where(marked if keeps_marked else ~marked))

    def _with_values(self, frame: DataFrame, values: pa.Table, schema: T.StructType, numbers: FileNumbers) -> DataFrame:
        """Join each row to its file's values: `values` has one row per file, in the order of the numbers."""
        keyed = values.append_column(self.values_key_name, pa.array(numbers.values, pa.int64()))
        fields = [*schema.fields, T.StructField(self.values_key_name, T.LongType())]
        table = F.broadcast(border.frame_from_arrow(self.spark, keyed, T.StructType(fields)))
        match = F.col(self.file_name) == F.col(self.values_key_name)
        return frame.join(table, match).drop(self.values_key_name)
