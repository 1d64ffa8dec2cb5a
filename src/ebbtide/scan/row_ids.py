"""Which id does a row have, and which commit changed it last?

A table that tracks rows gives every row an id for life. Most rows do not carry it: it follows from what the log says
about the file. A rewritten row carries it in a hidden column that the table's configuration names:

    row id           the hidden column, else baseRowId of the file + physical row index
    commit version   the hidden column, else defaultRowCommitVersion of the file

Code that rewrites rows of such a table calls `RowIdColumns.of`, scans with the result, and passes the same result to
the writer:

    ids = RowIdColumns.of(snapshot)                               # None: the table does not track rows
    frame = scan_files(spark, snapshot, files, row_ids=ids)       # two more columns, behind those of the table
    frame = ids.of_updated_rows(frame)                            # rows that this commit changes
    frame = frame.unionAll(inserted.withColumns(ids.of_new_rows()))
    write_files(spark, frame, target, extra_columns=ids.in_files)

See "Row Tracking" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.errors import CorruptTableError
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import physical_schema
from ebbtide.scan.files import ScanFile

__all__ = ["RowIdColumns"]


@dataclass(frozen=True, slots=True)
class RowIdColumns:
    """`row_id` and `commit_version` are columns of frames; the others are the matching columns in files."""

    row_id: str
    commit_version: str
    row_id_in_file: str
    commit_version_in_file: str

    @classmethod
    def of(cls, snapshot: Snapshot) -> RowIdColumns | None:
        """The columns of a table that tracks rows; None if it does not.

        CorruptTableError when the table tracks rows but does not say where rewritten ones keep their ids.
        """
        properties = snapshot.properties
        if not properties.enable_row_tracking:
            return None
        row_id, version = properties.materialized_row_id_column, properties.materialized_row_commit_version_column
        if not row_id or not version:
            raise CorruptTableError(
                f"The table at {snapshot.store.url} tracks rows (delta.enableRowTracking=true), but its configuration "
                "does not name the columns that keep the ids of rewritten rows "
                "(delta.rowTracking.materializedRowIdColumnName, ...RowCommitVersionColumnName).",
                error_class="DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING",
            )
        physical = physical_schema(snapshot.schema, properties.column_mapping_mode)
        taken = [*snapshot.schema.names, *physical.names]
        if {row_id.lower(), version.lower()} & {name.lower() for name in taken} or row_id.lower() == version.lower():
            raise CorruptTableError(
                f"The table at {snapshot.store.url} keeps row ids in the columns '{row_id}' and '{version}', but these "
                "names are in use."
            )
        names = border.HelperNames(taken, (row_id, version))
        return cls(names.pick("row_id"), names.pick("row_commit_version"), row_id, version)

    @property
    def names(self) -> tuple[str, str]:
        """The columns of frames, in their order."""
        return self.row_id, self.commit_version

    @property
    def in_files(self) -> Mapping[str, str]:
        """What `write_files` needs to know: columns of the frame, and their names in the files."""
        return {self.row_id: self.row_id_in_file, self.commit_version: self.commit_version_in_file}

    def of_updated_rows(self, frame: DataFrame, *, only: str | None = None) -> DataFrame:
        """The same rows, changed by this commit: they keep their ids and lose their old commit version.

        `only` names a column that is true for the changed rows; the others keep their commit version too.
        """
        version = F.col(self.commit_version)
        return frame.withColumn(
            self.commit_version, _nothing() if only is None else F.when(~border.column(only), version)
        )

    def of_new_rows(self) -> dict[str, Column]:
        """The columns of rows that did not exist before: the commit numbers them."""
        return {self.row_id: _nothing(), self.commit_version: _nothing()}

    # --- for the scan -------------------------------------------------------------------------------------------------

    def fields_in_file(self) -> list[T.StructField]:
        """What to ask of the Parquet reader; a file that lacks the columns gives nulls."""
        return [
            T.StructField(self.row_id_in_file, T.LongType()),
            T.StructField(self.commit_version_in_file, T.LongType()),
        ]

    def fields(self) -> list[T.StructField]:
        return [T.StructField(self.row_id, T.LongType()), T.StructField(self.commit_version, T.LongType())]

    def file_table(self, files: Sequence[ScanFile]) -> pa.Table:
        """What the log says of each file, under the names of the frame's columns."""
        return pa.table(
            {
                self.row_id: pa.array([file.add.base_row_id for file in files], pa.int64()),
                self.commit_version: pa.array([file.add.default_row_commit_version for file in files], pa.int64()),
            }
        )

    def id_columns(self, row_index: str) -> list[Column]:
        """Ids and versions. The frame must have the file's columns, those of `file_table`, and the row index."""
        counted = F.col(self.row_id) + F.col(row_index)
        return [
            F.coalesce(border.column(self.row_id_in_file), counted).alias(self.row_id),
            F.coalesce(border.column(self.commit_version_in_file), F.col(self.commit_version)).alias(
                self.commit_version
            ),
        ]


def _nothing() -> Column:
    return F.lit(None).cast("long")
