"""How many rows does a table hold, without reading them where the log is exact?

`numRecords` counts physical rows, so the marked ones are subtracted. Files whose statistics lack the count are scanned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide.log import Snapshot, add_files
from ebbtide.protocol.statistics import num_records
from ebbtide.scan.dataframe import scan_rows
from ebbtide.spark_border import spark_errors

__all__ = ["exact_count"]

# A column that never changes takes a few bytes per page of about ten thousand rows.
_MOST_ROWS_PER_BYTE: Final = 65_536


def exact_count(
    spark: SparkSession,
    snapshot: Snapshot,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    files = snapshot.files
    counted, unknown = 0, []
    for add in add_files(files):
        physical = num_records(add.stats)
        marked = add.num_marked_rows
        # A count below the number of marks, or above what so few bytes can encode, is wrong: the file is read instead.
        is_known = physical is not None and marked <= physical <= add.size * _MOST_ROWS_PER_BYTE
        unknown.append(not is_known)
        counted += (physical or 0) - marked if is_known else 0
    if not any(unknown):
        return counted
    rest = files.filter(pa.array(unknown, pa.bool_()))
    with spark_errors(f"counting the rows of {snapshot.store.url}"):
        return counted + scan_rows(spark, snapshot, rest, storage_options=storage_options).count()
