"""How do live files become one DataFrame?

Files without marks are a plain Parquet scan that costs nothing extra; files with marks are another branch, where the
marked rows are dropped by a broadcast join and a bit test (`scan.marks`). Both are Spark's own reader, so columns and
filters are pushed into Parquet, files are split, and the row index stays the physical position whatever is pushed.

For commands, `scan_with_positions` adds two helper columns that say which file and which physical row each row is.
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
from ebbtide.errors import InternalError
from ebbtide.log import Snapshot
from ebbtide.scan.columns import TableColumns
from ebbtide.scan.files import ScanFile, is_local, resolve_files
from ebbtide.scan.marks import FileKeys, block_table, hash_keys, path_hash, size_keys
from ebbtide.scan.partitions import directories_tell_values, value_table

__all__ = ["PositionedScan", "scan_files", "scan_rows", "scan_with_positions"]


@dataclass(frozen=True, slots=True)
class PositionedScan:
    """Still-live rows with their place: `file_column` holds a key of `files`, `row_column` the physical row index."""

    frame: DataFrame
    file_column: str
    row_column: str
    files: Mapping[int, ScanFile]


def scan_rows(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of the given live files (all by default): logical columns, marked rows dropped."""
    found = resolve_files(snapshot, snapshot.files if files is None else files, storage_options=storage_options)
    return scan_files(spark, snapshot, found)


def scan_files(spark: SparkSession, snapshot: Snapshot, files: Sequence[ScanFile]) -> DataFrame:
    """The rows of files that are resolved already, with whatever marks they carry."""
    return _Scan(spark, snapshot).rows(files)


def scan_with_positions(
    spark: SparkSession,
    snapshot: Snapshot,
    files: Sequence[ScanFile],
) -> PositionedScan:
    """The rows of `files` with the two position columns in front of no user column's name."""
    scan = _Scan(spark, snapshot, with_positions=True)
    frame = scan.rows(files)
    return PositionedScan(frame, scan.file_name, scan.row_name, scan.file_of_hash)


class _Scan:
    """One scan being put together: the names of its helper columns and what its branches share."""

    def __init__(self, spark: SparkSession, snapshot: Snapshot, *, with_positions: bool = False) -> None:
        self.spark = spark
        self.snapshot = snapshot
        self.columns = TableColumns.of(snapshot)
        self.with_positions = with_positions
        self.file_of_hash: dict[int, ScanFile] = {}
        taken = [name for schema in (self.columns.read_schema, self.columns.logical) for name in schema.names]
        taken += [name for name, _ in self.columns.partition_fields]
        self.row_name = border.name_not_in(taken, "__ebbtide_row_index")
        self.file_name = border.name_not_in(taken, "__ebbtide_file")
        self.key_name = border.name_not_in(taken, "__ebbtide_block")
        self.words_name = border.name_not_in(taken, "__ebbtide_words")
        self.marks_key_name = border.name_not_in(taken, "__ebbtide_block_of_marks")
        self.values_key_name = border.name_not_in(taken, "__ebbtide_file_of_values")
        border.ensure_no_reserved_column(self.columns.read_schema.names)
        self.row_index_is_free = border.READER_ROW_INDEX not in {name.lower() for name in taken}
        self.uses_reader_row_index = self.row_index_is_free and border.fills_reader_row_index(spark)
        if self.columns.reads_by_id:
            border.read_by_field_id(spark)

    def rows(self, files: Sequence[ScanFile]) -> DataFrame:
        plain = [file for file in files if file.marks is None]
        dropping = [file for file in files if file.marks is not None and not file.keeps_marked]
        keeping = [file for file in files if file.marks is not None and file.keeps_marked]
        branches = [self._branch(group) for group in (plain, dropping, keeping) if group]
        if not branches:
            return self.spark.createDataFrame([], self._result_schema())
        return reduce(DataFrame.unionAll, branches)

    def _result_schema(self) -> T.StructType:
        if not self.with_positions:
            return self.columns.logical
        places = [T.StructField(self.file_name, T.LongType()), T.StructField(self.row_name, T.LongType())]
        return T.StructType(self.columns.logical.fields + places)

    def _branch(self, files: Sequence[ScanFile]) -> DataFrame:
        has_marks = files[0].marks is not None
        fields = self.columns.partition_fields
        # A partition column of the reader's own name must not become part of what the reader is asked for.
        from_directories = bool(fields) and self.row_index_is_free and directories_tell_values(files, fields)
        joins_values = bool(fields) and not from_directories
        needs_row_index = has_marks or self.with_positions
        needs_file = self.with_positions or joins_values
        # Spark refuses the reader's column beside a `_metadata` struct that it could not narrow to the fields in use.
        # The marks always use a field; positions may be dropped later, and then nothing narrows the struct.
        by_reader = has_marks and self.uses_reader_row_index
        frame = raw = self._open(files, by_reader=by_reader, from_directories=from_directories)
        hashes = self._hashes(raw, files) if needs_file or has_marks else []
        helpers: dict[str, Column] = {}
        if needs_row_index:
            own = F.col(border.READER_ROW_INDEX)
            helpers[self.row_name] = own if by_reader else border.file_metadata(raw, "row_index")
        if needs_file:
            helpers[self.file_name] = F.xxhash64(border.file_metadata(raw, "file_path"))
        if has_marks:
            frame = self._by_marks(raw, helpers, files, hashes)
        elif helpers:
            frame = raw.withColumns(helpers)
        if joins_values:
            frame = self._with_values(frame, files, hashes)
        places = [F.col(self.file_name), F.col(self.row_name)] if self.with_positions else []
        return frame.select(*self.columns.to_logical(), *places)

    def _open(self, files: Sequence[ScanFile], *, by_reader: bool, from_directories: bool) -> DataFrame:
        fields = list(self.columns.read_schema.fields)
        if by_reader:
            fields.append(T.StructField(border.READER_ROW_INDEX, T.LongType()))
        if from_directories:
            fields += self.columns.partition_schema().fields
        reader = border.strict_reader(self.spark, T.StructType(fields))
        if from_directories:
            reader = reader.option("basePath", self.snapshot.store.spark_path)
        border.ensure_listed(file.spark_path for file in files)
        paths = [border.escape_glob(file.spark_path) for file in files]
        doing = f"opening the data files of {self.snapshot.store.url}"
        with border.listing_settings(self.spark, local=is_local(self.snapshot.store)), border.spark_errors(doing):
            frame = reader.parquet(*paths)
            # Connect looks at the files only when asked for something.
            assert frame.columns is not None
            return frame

    def _hashes(self, raw: DataFrame, files: Sequence[ScanFile]) -> list[int]:
        """The hash of each file's name as this scan's rows will carry it; every file must be found again."""
        with border.spark_errors("listing the data files"):
            reader_names = {border.file_path_of(name): name for name in border.input_files(raw)}
        try:
            hashes = [path_hash(reader_names[file.spark_path]) for file in files]
        except KeyError as error:
            raise InternalError(f"Spark does not list the data file {error} under a name we know.") from error
        if len(reader_names) != len(files) or len(set(hashes)) != len(files):
            raise InternalError("Spark lists other data files than it was asked to read, or two names hash alike.")
        self.file_of_hash.update(zip(hashes, files, strict=True))
        return hashes

    def _file_keys(self, raw: DataFrame, files: Sequence[ScanFile], hashes: Sequence[int]) -> FileKeys:
        by_size = None
        if all(file.size_is_checked for file in files):
            by_size = size_keys([file.add.size for file in files], border.file_metadata(raw, "file_size"))
        return by_size or hash_keys(hashes, F.xxhash64(border.file_metadata(raw, "file_path")))

    def _by_marks(
        self, raw: DataFrame, helpers: dict[str, Column], files: Sequence[ScanFile], hashes: Sequence[int]
    ) -> DataFrame:
        marks = [file.marks for file in files if file.marks is not None]
        keys = self._file_keys(raw, files, hashes)
        blocks = block_table(marks, keys.prefixes, key=self.marks_key_name, words=self.words_name)
        keyed = raw.withColumns({**helpers, self.key_name: blocks.key(keys, helpers[self.row_name])})
        side = F.broadcast(border.frame_from_arrow(self.spark, blocks.table, blocks.spark_schema))
        match = F.col(self.key_name) == F.col(self.marks_key_name)
        marked = blocks.is_marked(F.col(self.words_name), F.col(self.row_name))
        if files[0].keeps_marked:
            return keyed.join(side, match).where(marked)
        return keyed.join(side, match, "left").where(~marked)

    def _with_values(self, frame: DataFrame, files: Sequence[ScanFile], hashes: Sequence[int]) -> DataFrame:
        # The log's timestamps without a zone are UTC.
        values = value_table(files, self.columns.partition_fields, "UTC")
        keyed = values.append_column(self.values_key_name, pa.array(hashes, pa.int64()))
        schema = T.StructType(
            [*self.columns.partition_schema().fields, T.StructField(self.values_key_name, T.LongType())]
        )
        table = F.broadcast(border.frame_from_arrow(self.spark, keyed, schema))
        return frame.join(table, F.col(self.file_name) == F.col(self.values_key_name))
