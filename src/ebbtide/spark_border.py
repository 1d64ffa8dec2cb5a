"""What does the engine need to know about this Spark that Spark does not promise?

The only file for quirks of Spark versions and of Spark Connect: the names of reader columns, how paths must be spelled
so that Spark does not glob them, which settings reading and writing need, and how Spark's exceptions become ours.
Everything above may use public PySpark freely; whatever needs a comment beginning with "Spark ..." belongs here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, DataFrameReader, DataFrameWriter, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide.errors import (
    ConstraintViolationError,
    CorruptTableError,
    DeltaError,
    InternalError,
    InvalidPredicateError,
    MissingDataFileError,
    RequestError,
    UnknownColumnError,
    UnsupportedFeatureError,
)

try:
    # Classic PySpark raises it for failures that have no class of their own in Python, such as a file that a task could
    # not read. Where only Connect is installed there is no such package.
    from py4j.protocol import Py4JJavaError as JvmError
except ImportError:

    class JvmError(Exception):  # type: ignore[no-redef]
        """Never raised: there is no JVM in reach."""


__all__ = [
    "READER_ROW_INDEX",
    "analyse",
    "asking_the_analyser",
    "column",
    "condition_of",
    "ensure_listed",
    "ensure_no_reserved_column",
    "escape_glob",
    "failure",
    "failure_message",
    "file_metadata",
    "with_file_metadata",
    "file_path_of",
    "frame_from_arrow",
    "fills_reader_row_index",
    "footer_shows_nan",
    "input_files",
    "interruptible",
    "is_connect",
    "listing_settings",
    "name_not_in",
    "not_pushed",
    "observed",
    "parquet_write_settings",
    "parquet_writer",
    "pinned",
    "quoted",
    "read_by_field_id",
    "reader_name_of",
    "reported",
    "search_settings",
    "spark_errors",
    "strict_reader",
]

_T = TypeVar("_T")

# The hidden column of every file scan.
FILE_METADATA = "_metadata"

# Spark's Parquet reader fills a column of this name with the physical row index when the requested schema has it. It is
# the column behind `_metadata.row_index`, without the struct that Spark otherwise builds for every row (a third of the
# cost of a masked scan). Were a release to stop filling it, the column would be null and marked rows would come back,
# so only releases that `tests/spark/test_spark_facts.py` has seen do it use it; others take `_metadata.row_index`.
READER_ROW_INDEX = "_tmp_metadata_row_index"
_FILLS_READER_ROW_INDEX = re.compile(r"4\.[0123]\.")

# Spark takes files of such names for its own leavings and skips them, also when they are asked for one by one.
_SKIPPED_NAME = re.compile(r"\..*|_(?!metadata|common_metadata)[^=]*|.*\._COPYING_", re.DOTALL)

_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")

# What every data file needs, whatever the session is set to: timestamps in a form that has statistics, the calendar
# that engines share, no layouts of old versions, ids of columns, and variants as tables without shredding read them.
_WRITE_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
}
# Settings that the writer takes as options. The first algorithm of the committer makes a task's files appear at the end
# of the job only, so what a failed attempt left is never among them. Without a length to cut at, Spark's writer
# drops the statistics of a column, its null count too, as soon as one string is longer than some kilobytes.
_WRITE_OPTIONS = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.statistics.truncate.length": "1024",
}
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
# Spark's Parquet library gives NaN as the maximum of a column that holds one. A writer that left NaN out of the bounds
# would make readers skip rows; only versions that `tests/spark/write` has seen are trusted with bounds of floats.
_FOOTER_SHOWS_NAN = re.compile(r"parquet-mr version 1\.1[5-7]\.")
# Spark reports metrics through a queue that can be seconds behind, and drops events when it is full.
_REPORT_SECONDS = 120

# What a failing row says, so that it is found again in whatever Spark wraps around it.
_VIOLATIONS = frozenset(
    {
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    }
)
_FAILURE = re.compile(r"<ebbtide:([\w.]*)>(.*?)</ebbtide>", re.DOTALL)

# Where an exception of the JVM, which PySpark did not translate, says the stable name of the error.
_JVM_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")

# How many ask the analyser just now, and whether its loggers were disabled before the first of them.
_asking_lock = Lock()
_asking: list[bool] = []
_was_disabled: dict[str, bool] = {}

# Settings of sessions that are not the user's for the moment: how many hold them, and what they were before.
_held_lock = Lock()
_held_settings: dict[tuple[int, str], tuple[int, str | None]] = {}
_LIST_LENGTH = "spark.sql.parquet.pushdown.inFilterThreshold"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def quoted(name: str) -> str:
    """The name of a top-level column, whatever characters it has, as Spark reads it in a select and in SQL."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str, alias: str | None = None) -> Column:
    """The top-level column of exactly this name, whatever characters it has; `alias` is the name it gets.

    As text: on classic Spark `F.col`, and every method of a Column, asks the JVM a dozen times, `F.expr` three times.
    """
    return F.expr(quoted(name) if alias is None else f"{quoted(name)} AS {quoted(alias)}")


def name_not_in(taken: Iterable[str], wanted: str) -> str:
    """`wanted`, or a longer name, that no column in `taken` has (Spark compares names without case)."""
    used = {name.lower() for name in taken}
    while wanted.lower() in used:
        wanted += "_"
    return wanted


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


def strict_reader(spark: SparkSession, schema: T.StructType) -> DataFrameReader:
    """A reader that fails on a file it cannot read, even in a session that was told to skip such files."""
    reader = spark.read.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    if any(_has_nested_floats(field.dataType) for field in schema.fields):
        reader = reader.options(**_NO_FILTERS_OF_PARQUET)
    return reader.schema(schema)


def not_pushed(value: Column) -> Column:
    """The same float or double, in a form that no filter on it is pushed into Parquet."""
    return F.nanvl(value, value)


def nothing_pushed_below(rows: DataFrame) -> DataFrame:
    """The same rows, and no filter above is asked of others than these.

    Spark pushes filters below a join whether or not they can fail on what the join drops. It pushes none below a filter
    that is not deterministic.
    """
    return rows.where("monotonically_increasing_id() >= 0")


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


@contextmanager
def listing_settings(spark: SparkSession, *, local: bool) -> Iterator[None]:
    """Settings under which Spark checks a long list of explicit files quickly.

    By default Spark starts a job with one task a path as soon as there are more than 32. Files on the local disk are
    looked at in the driver, others by a job of few tasks. Connect resolves a read again at each execution, when this
    block is long over, so there the settings stay.
    """
    wanted = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "64"}
    if local:
        wanted = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000"}
    if is_connect(spark):
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
        return
    with _held(spark, wanted):
        yield


@contextmanager
def parquet_write_settings(spark: SparkSession) -> Iterator[None]:
    """Session settings for an eager write, put back afterwards."""
    with _held(spark, _WRITE_SETTINGS):
        yield


@contextmanager
def search_settings(spark: SparkSession, *, few_shuffles: bool) -> Iterator[None]:
    """Session settings for an eager query that looks for rows.

    A list of up to so many values skips pages and row groups of Parquet by each of them; of a longer one Spark uses the
    smallest and the largest alone, and ten are long by default. `few_shuffles`: where little is shuffled, each task of
    Spark's default would open two hundred shuffle files for it.
    """
    wanted = {_LIST_LENGTH: str(max(int(spark.conf.get(_LIST_LENGTH) or 0), 256))}
    if few_shuffles:
        wanted[_SHUFFLE_PARTITIONS] = str(min(int(spark.conf.get(_SHUFFLE_PARTITIONS) or 200), 8))
    with _held(spark, wanted):
        yield


@contextmanager
def _held(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Session settings while a block runs. Several threads may use one session: the first sets, the last puts back."""
    with _held_lock:
        for name, value in wanted.items():
            count, before = _held_settings.get((id(spark), name), (0, None))
            if count == 0:
                before = spark.conf.get(name, None)
                spark.conf.set(name, value)
            _held_settings[id(spark), name] = (count + 1, before)
    try:
        yield
    finally:
        with _held_lock:
            for name in wanted:
                count, before = _held_settings.pop((id(spark), name))
                if count > 1:
                    _held_settings[id(spark), name] = (count - 1, before)
                elif before is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, before)


def parquet_writer(frame: DataFrame, *, partition_column: str | None = None) -> DataFrameWriter:
    """A writer into a directory that does not exist yet; the path given to it is not globbed. Write settings apart."""
    writer = frame.write.mode("error").options(**_WRITE_OPTIONS)
    return writer if partition_column is None else writer.partitionBy(partition_column)


def footer_shows_nan(created_by: str | None) -> bool:
    """Whether the writer of a Parquet file says NaN in a column's bounds when the column holds one."""
    return _FOOTER_SHOWS_NAN.match(created_by or "") is not None


def observed(frame: DataFrame, metrics: Mapping[str, Column | str]) -> tuple[DataFrame, Observation]:
    """The frame, and what will tell the aggregates over the rows that pass this point in its next action.

    They are columns, or SQL, which is quicker (see `column`).
    """
    observation = Observation()
    return frame.observe(observation, *_named(metrics)), observation


def _named(metrics: Mapping[str, Column | str]) -> list[Column]:
    return [
        F.expr(f"{value} AS {quoted(name)}") if isinstance(value, str) else value.alias(name)
        for name, value in metrics.items()
    ]


def reported(observation: Observation) -> dict[str, Any]:
    """The metrics of a finished action. Spark's own call would wait for ever where they never come."""
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        try:
            answers.append(observation.get)
        except (PySparkException, AssertionError):
            return

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_REPORT_SECONDS)
    if not answers:
        raise InternalError("Spark ended the work but did not report its row counts. Nothing was committed; try again.")
    return answers[0]


def pinned(spark: SparkSession, frame: DataFrame, metrics: Mapping[str, str]) -> tuple[DataFrame, dict[str, Any]]:
    """The frame, computed once and kept by Spark, and the aggregates over its rows, which are SQL."""
    if is_connect(spark):
        # Its checkpoint does not hand on what was observed on the way, so the rows are looked at a second time.
        kept = frame.localCheckpoint()
        [row] = kept.agg(*_named(metrics)).collect()
        return kept, row.asDict()
    passing, observation = observed(frame, metrics)
    return passing.localCheckpoint(), reported(observation)


def interruptible(spark: SparkSession, work: Callable[[], _T]) -> tuple[Callable[[], _T], Callable[[], object]]:
    """The work for another thread, with the settings of this one, and what stops the Spark jobs that it has begun.

    Classic sessions up to Spark 4.3 do not hand their tags to the jobs of a write: there nothing is stopped, and the
    work runs to its end. (An interrupt from the keyboard stops all jobs there anyway.)
    """
    tag = f"ebbtide-{uuid4().hex}"

    def tagged() -> _T:
        spark.addTag(tag)
        try:
            return work()
        finally:
            spark.removeTag(tag)

    inherited: Callable[[], _T] = inheritable_thread_target(spark)(tagged)
    return inherited, lambda: spark.interruptTag(tag)


def read_by_field_id(spark: SparkSession) -> None:
    """Let the Parquet reader match columns by field id where the requested schema carries ids.

    Spark reads this setting when the query runs, so it cannot be put back. It changes nothing for schemas without ids.
    """
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    spark.conf.set("spark.sql.parquet.fieldId.read.ignoreMissing", "true")


def condition_of(error: PySparkException) -> str:
    """Spark's stable name of the error; the method was renamed in Spark 4.0."""
    get: Any = getattr(error, "getCondition", None) or error.getErrorClass
    return get() or ""


def frame_from_arrow(spark: SparkSession, table: pa.Table, schema: T.StructType) -> DataFrame:
    """A DataFrame with the rows of an Arrow table, exactly as typed.

    Classic Spark 4.2 silently drops every row after an empty chunk, so chunks are combined; without a schema a
    timestamp without a zone would become one with a zone, and an empty table is an error on Connect.
    """
    return (
        spark.createDataFrame(table.combine_chunks(), schema) if table.num_rows else spark.createDataFrame([], schema)
    )


@contextmanager
def asking_the_analyser() -> Iterator[None]:
    """For questions whose answer may be an exception, which classic PySpark would log with its whole stack trace."""
    # Several threads may ask at once: the first mutes, the last puts back.
    loggers = _analyser_loggers()
    with _asking_lock:
        if not _asking:
            for logger in loggers:
                _was_disabled[logger.name] = logger.disabled
                logger.disabled = True
        _asking.append(True)
    try:
        yield
    finally:
        with _asking_lock:
            _asking.pop()
            if not _asking:
                for logger in loggers:
                    logger.disabled = _was_disabled[logger.name]


def _analyser_loggers() -> list[PySparkLogger]:
    # Made by PySpark's own factory: were they first made by `logging`, PySpark's calls on them would fail. The first is
    # for SQL text, the second for columns.
    return [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]


def failure_message(error_class: str, message: Column) -> Column:
    """Text that `spark_errors` knows as ours when a row raises it."""
    return F.concat(F.lit(f"<ebbtide:{error_class}>"), message, F.lit("</ebbtide>"))


def failure(error_class: str, message: Column) -> Column:
    """A value that cannot be computed: the query fails, and `spark_errors` makes it an error of ours."""
    return F.raise_error(failure_message(error_class, message))


def analyse(frame: DataFrame) -> None:
    """Let Spark's analyser look at the frame now, and raise what is wrong with it.

    Connect is lazy. Asking the frame itself is not enough: a filter there takes over a schema that is known already.
    """
    assert frame.select(F.lit(1)).schema is not None


@contextmanager
def spark_errors(doing: str) -> Iterator[None]:
    """Translate what Spark raises while `doing` something (a verb phrase for the message) into our errors."""
    try:
        yield
    except DeltaError:
        raise
    except (PySparkException, JvmError) as error:
        _raise_translated(error, doing)


def _raise_translated(error: PySparkException | JvmError, doing: str) -> NoReturn:
    name = condition_of(error) if isinstance(error, PySparkException) else _condition_in(error)
    # The analyser quotes the plan, and our texts in it, though no row has failed.
    ours = None if isinstance(error, AnalysisException) else _FAILURE.search(str(error))
    if ours is not None:
        kind = ConstraintViolationError if ours[1] in _VIOLATIONS else RequestError
        raise kind(ours[2], error_class=ours[1]) from error
    message = f"While {doing}: {_first_line(error)}"
    if name.startswith(("PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")):
        raise MissingDataFileError(f"{message} The log names this file, but it is not in storage.") from error
    if name.startswith(("FAILED_READ_FILE", "CANNOT_READ_FILE", "PARQUET")):
        raise CorruptTableError(message) from error
    if name.startswith(("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND", "AMBIGUOUS_REFERENCE")):
        raise UnknownColumnError(message, error_class=name) from error
    if isinstance(error, ParseException):
        raise InvalidPredicateError(message, error_class=name or "PARSE_SYNTAX_ERROR") from error
    if isinstance(error, AnalysisException):
        raise InvalidPredicateError(message, error_class=name) from error
    raise RequestError(message, error_class=name) from error


def _condition_in(error: JvmError) -> str:
    found = _JVM_CONDITION.search(str(error))
    return found[1] if found else ""


def _first_line(error: PySparkException | JvmError) -> str:
    text = str(error)
    found = None if isinstance(error, PySparkException) else _JVM_CONDITION.search(text)
    lines = text[found.start() if found else 0 :].strip().splitlines()
    return lines[0] if lines else type(error).__name__


def input_files(frame: DataFrame) -> list[str]:
    """The files behind a fresh scan, spelled as its `_metadata.file_path` will spell them."""
    return [reader_name_of(name) for name in frame.inputFiles()]
