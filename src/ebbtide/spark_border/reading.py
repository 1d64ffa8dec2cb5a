"""How is Spark's Parquet reader asked for these files, and for the position of each row?

Spark globs paths, skips files by their names, swallows errors when a session asks for that, and pushes filters that
Parquet answers differently. All of that is switched off or refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide.errors import CorruptTableError, UnsupportedFeatureError

__all__ = [
    "FILE_METADATA",
    "READER_ROW_INDEX",
    "ensure_listed",
    "ensure_no_reserved_column",
    "escape_glob",
    "file_metadata",
    "file_path_of",
    "fills_reader_row_index",
    "input_files",
    "merged_parquet_schema",
    "not_pushed",
    "nothing_pushed_below",
    "reader_name_of",
    "schema_from_json",
    "strict_reader",
    "with_file_metadata",
]

# Spark's Parquet reader fills a column of this name with the physical row index when the requested schema has it. It is
# the column behind `_metadata.row_index`, without the struct that Spark otherwise builds for every row (a third of the
# cost of a masked scan). Were a release to stop filling it, the column would be null and marked rows would come back,
# so only releases that `tests/spark/test_spark_facts.py` has seen do it use it; others take `_metadata.row_index`.
READER_ROW_INDEX = "_tmp_metadata_row_index"
_FILLS_READER_ROW_INDEX = re.compile(r"4\.[0123]\.")
# The hidden column of every file scan.
FILE_METADATA = "_metadata"
# Spark takes files with such names for its own leftovers and skips them, even when they are named one by one.
_SKIPPED_NAME = re.compile(r"\..*|_(?!metadata|common_metadata)[^=]*|.*\._COPYING_", re.DOTALL)
# The full name of Spark's first Parquet reader. `parquet` means what the session's settings say.
_PARQUET = "org.apache.spark.sql.parquet"
_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")
# Parquet's filters and Spark do not agree on floats: looking for 0.0, dictionaries and Bloom filters skip row groups of
# -0.0, which Spark calls equal; and most writers leave NaN out of a row group's bounds, while Spark calls it larger
# than any number, so `x > 5` skips row groups with a NaN. Filters on top-level floats are therefore never pushed; those
# on fields of structs cannot be held back one by one.
_NO_FILTERS_OF_PARQUET = {
    "parquet.filter.dictionary.enabled": "false",
    "parquet.filter.bloom.enabled": "false",
    "parquet.filter.stats.enabled": "false",
    "parquet.filter.columnindex.enabled": "false",
}


def escape_glob(path: str) -> str:
    """Spark globs every path it is given; a backslash makes a character literal.

    (The reader option that switches globbing off multiplies the files when there is more than one path.)
    """
    return _GLOB_CHARACTERS.sub(r"\\\1", path)


def ensure_listed(spark_paths: Iterable[str]) -> None:
    """`UnsupportedFeatureError` for a file that Spark would silently leave out because of its name."""
    for path in spark_paths:
        if _SKIPPED_NAME.fullmatch(path.rpartition("/")[2]):
            raise UnsupportedFeatureError(
                f"The data file {path} cannot be read: Spark skips files whose names begin with '_' or '.'. "
                "Rewrite the file with the engine that made it.",
                error_class="",
            )


def ensure_no_reserved_column(physical_names: Iterable[str]) -> None:
    """`UnsupportedFeatureError` for a column in whose place Spark's reader would give row indexes, or refuse."""
    for name in physical_names:
        if name.lower() == READER_ROW_INDEX:
            raise UnsupportedFeatureError(
                f"The column '{name}' cannot be read: Spark's Parquet reader keeps this name for itself. "
                "Rename the column in the data files.",
                error_class="",
            )


def strict_reader(
    spark: SparkSession, schema: T.StructType, store_options: Mapping[str, str] | None = None
) -> DataFrameReader:
    """A reader that fails on a file it cannot read, even in a session that was told to skip such files.

    It gives the hidden column `_metadata` even in a session that reads Parquet with the newer reader, which has none
    (`spark.sql.sources.useV1SourceList`). `store_options` are for the store's connector; no plan shows them.
    """
    reader = spark.read.format(_PARQUET).options(**(store_options or {}))
    reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    if any(_has_nested_floats(field.dataType) for field in schema.fields):
        reader = reader.options(**_NO_FILTERS_OF_PARQUET)
    return reader.schema(schema)


def schema_from_json(described: dict[str, object]) -> T.StructType:
    """Spark's form of a table's schema; CorruptTableError when Spark cannot read it: a collation may have any name."""
    try:
        return T.StructType.fromJson(described)
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError, PySparkException) as error:
        raise CorruptTableError(
            "Spark cannot read the schema of the table: a type, or the collation of a column, is not one that it knows."
        ) from error


def merged_parquet_schema(
    spark: SparkSession, path: str, store_options: Mapping[str, str] | None = None
) -> T.StructType:
    """The columns of all Parquet files below a directory, as Spark reads them; names of directories add none."""
    reader = spark.read.format(_PARQUET).option("mergeSchema", "true").option("recursiveFileLookup", "true")
    reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    reader = reader.options(**(store_options or {}))
    return reader.load(escape_glob(path)).schema


def _has_nested_floats(data_type: T.DataType) -> bool:
    match data_type:
        case T.StructType():
            inner = [field.dataType for field in data_type.fields]
        case T.ArrayType():
            inner = [data_type.elementType]
        case T.MapType():
            inner = [data_type.keyType, data_type.valueType]
        case _:
            return False
    return any(isinstance(part, T.FloatType | T.DoubleType) or _has_nested_floats(part) for part in inner)


def not_pushed(value: Column) -> Column:
    """The same float or double, in a form that keeps filters on it from being pushed into Parquet."""
    return F.nanvl(value, value)


def nothing_pushed_below(rows: DataFrame) -> DataFrame:
    """The same rows. Filters applied later see only these rows.

    Spark pushes filters below a join even if they can fail on rows that the join drops. It pushes none below a filter
    that is not deterministic.
    """
    return rows.where("monotonically_increasing_id() >= 0")


def input_files(frame: DataFrame) -> list[str]:
    """The files behind a fresh scan, spelled as its `_metadata.file_path` will spell them."""
    return [reader_name_of(name) for name in frame.inputFiles()]


def reader_name_of(input_file: str) -> str:
    """`DataFrame.inputFiles()` writes `file:///t/x`, the column `_metadata.file_path` writes `file:/t/x`."""
    return "file:/" + input_file[len("file:///") :] if input_file.startswith("file:///") else input_file


def file_path_of(reader_name: str) -> str:
    """The unescaped Hadoop path that a name from `reader_name_of` stands for."""
    return unquote(reader_name)


def fills_reader_row_index(spark: SparkSession) -> bool:
    return _FILLS_READER_ROW_INDEX.match(spark.version) is not None


def file_metadata(field: str) -> str:
    """A field of the reader's hidden column, as SQL text for a frame that has no column `_metadata` of its own.

    It must be used straight on the fresh scan: a second projection in between makes Spark carry the whole struct.
    """
    return f"{FILE_METADATA}.{field}"


def with_file_metadata(raw: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """The fresh scan with fields of the reader's hidden column as columns of these names.

    For a frame with a column `_metadata` of its own, which text would mean instead. Slower: see `file_metadata`.
    """
    hidden = raw.metadataColumn(FILE_METADATA)
    return raw.withColumns({name: hidden.getField(field) for field, name in names.items()})
