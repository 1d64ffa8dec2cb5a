"""What does the engine need to know about this Spark that Spark does not promise?

The only room for quirks of Spark versions and of Spark Connect: the names of reader columns, how paths must be spelled
so that Spark does not glob them, which settings reading and writing need, and how Spark's exceptions become ours.
Everything above may use public PySpark freely; whatever needs a comment beginning with "Spark ..." belongs here.
"""

from ebbtide.spark_border.analysis import analyse, asking_the_analyser
from ebbtide.spark_border.arrow import frame_from_arrow
from ebbtide.spark_border.errors import condition_of, failure, failure_message, spark_errors
from ebbtide.spark_border.functions import functions_of_the_session, is_built_in
from ebbtide.spark_border.names import HelperNames, column, quote_name
from ebbtide.spark_border.printing import printed_column
from ebbtide.spark_border.reading import (
    FILE_METADATA,
    READER_ROW_INDEX,
    ensure_listed,
    ensure_no_reserved_column,
    escape_glob,
    file_metadata,
    file_path_of,
    fills_reader_row_index,
    input_files,
    merged_parquet_schema,
    not_pushed,
    nothing_pushed_below,
    reader_name_of,
    schema_from_json,
    strict_reader,
    with_file_metadata,
)
from ebbtide.spark_border.running import compute_once, interruptible, observe_metrics, wait_for_metrics
from ebbtide.spark_border.session import is_case_sensitive, is_connect, is_session, is_switched_on
from ebbtide.spark_border.session_storage import with_session_storage
from ebbtide.spark_border.settings import (
    listing_settings,
    parquet_write_settings,
    read_by_field_id,
    search_settings,
    settings_below,
)
from ebbtide.spark_border.times import timestamp_ms, timestamp_text
from ebbtide.spark_border.writing import footer_shows_nan, parquet_writer

__all__ = [
    "FILE_METADATA",
    "HelperNames",
    "READER_ROW_INDEX",
    "analyse",
    "asking_the_analyser",
    "column",
    "compute_once",
    "condition_of",
    "ensure_listed",
    "ensure_no_reserved_column",
    "escape_glob",
    "failure",
    "failure_message",
    "file_metadata",
    "file_path_of",
    "fills_reader_row_index",
    "footer_shows_nan",
    "frame_from_arrow",
    "input_files",
    "merged_parquet_schema",
    "functions_of_the_session",
    "interruptible",
    "is_built_in",
    "is_case_sensitive",
    "is_connect",
    "is_session",
    "is_switched_on",
    "listing_settings",
    "not_pushed",
    "nothing_pushed_below",
    "observe_metrics",
    "parquet_write_settings",
    "parquet_writer",
    "printed_column",
    "quote_name",
    "read_by_field_id",
    "reader_name_of",
    "schema_from_json",
    "wait_for_metrics",
    "search_settings",
    "settings_below",
    "spark_errors",
    "strict_reader",
    "timestamp_ms",
    "timestamp_text",
    "with_file_metadata",
    "with_session_storage",
]
