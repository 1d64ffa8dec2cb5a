"""What was asked for when rows were to be written, and what was done?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pyspark.sql import DataFrame

from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.results import CommandResult, format_count
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.storage import ObjectStore

__all__ = ["WriteMetrics", "WriteMode", "WriteRequest", "WriteResult"]

# What to do if the table exists.
WriteMode = Literal["error", "append", "overwrite", "ignore"]
_MODES = ("error", "append", "overwrite", "ignore")


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Write the rows of `frame` to the table in `store`, which is created if there is none.

    `partition_by` and `properties` are for a new table (or new columns, with `overwrite_schema`); a table that exists
    must agree with them. `policy` is the session's store assignment policy.
    """

    store: ObjectStore
    frame: DataFrame
    mode: WriteMode = "error"
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    replace_where: str | None = None
    merge_schema: bool = False
    overwrite_schema: bool = False
    policy: str = "ANSI"
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None
    # The driver holds the rows (VALUES), so one task can number them without gaps.
    rows_are_local: bool = False
    # The session wants an overwrite to replace only the partitions that the rows fall into.
    means_partitions: bool = False
    # The session's properties for new tables; read only when one is created.
    default_properties: Callable[[], Mapping[str, str]] = dict

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise RequestError(f"mode={self.mode!r} is not known; expected one of {', '.join(_MODES)}.")
        if self.replace_where is not None and self.mode != "overwrite":
            raise RequestError(
                f"replace_where replaces rows, so it needs mode='overwrite', not mode={self.mode!r}.",
                error_class="DELTA_ILLEGAL_USAGE",
            )
        if self.overwrite_schema and self.mode != "overwrite":
            raise RequestError(
                f"overwrite_schema=True needs mode='overwrite', not mode={self.mode!r}. To add columns, use "
                "merge_schema=True.",
                error_class="DELTA_ILLEGAL_USAGE",
            )
        if self.overwrite_schema and self.replace_where is not None:
            raise RequestError(
                "overwrite_schema=True cannot go with replace_where: rows that stay have the old columns. To add "
                "columns, use merge_schema=True.",
                error_class="DELTA_REPLACE_WHERE_WITH_OVERWRITE_SCHEMA",
            )
        if self.frame.isStreaming:
            raise RequestError("A streaming DataFrame cannot be written at once; use foreachBatch.")


@dataclass(frozen=True, slots=True)
class WriteMetrics:
    """The counters of one write, under the names Delta users know."""

    num_files: int = 0
    num_output_rows: int = 0
    num_output_bytes: int = 0
    num_removed_files: int = 0
    num_removed_bytes: int = 0
    num_added_change_files: int = 0
    # Of replace_where: -1 when whole files went whose row counts are unknown.
    num_deleted_rows: int = 0
    num_copied_rows: int = 0
    removes: bool = False
    replaces_rows: bool = False

    @property
    def num_affected_rows(self) -> int:
        return self.num_output_rows

    @property
    def operation_metrics(self) -> dict[str, int]:
        """What the commit records; the last ones only for writes that can remove rows."""
        shown = {
            "numFiles": self.num_files,
            "numOutputRows": self.num_output_rows,
            "numOutputBytes": self.num_output_bytes,
        }
        if self.removes:
            shown |= {"numRemovedFiles": self.num_removed_files, "numRemovedBytes": self.num_removed_bytes}
        if self.replaces_rows:
            shown |= {"numAddedChangeFiles": self.num_added_change_files, "numCopiedRows": self.num_copied_rows}
        if self.replaces_rows and self.num_deleted_rows >= 0:
            shown["numDeletedRows"] = self.num_deleted_rows
        return shown


@dataclass(frozen=True, slots=True, repr=False)
class WriteResult(CommandResult[WriteMetrics]):
    """What a write did. `version` is the version it made; None: there was nothing to write, or it was there already."""

    VERB: ClassVar[str] = "WRITE"
    NOTHING: ClassVar[tuple[str, str]] = ("nothing written", "to")

    def sentences(self) -> list[str]:
        metrics = self.metrics
        sentences = [
            f"{format_count(metrics.num_output_rows, 'row')} written to {format_count(metrics.num_files, 'file')}"
        ]
        if metrics.num_removed_files:
            sentences.append(f"{format_count(metrics.num_removed_files, 'file')} removed")
        if metrics.num_deleted_rows > 0:
            sentences.append(f"{format_count(metrics.num_deleted_rows, 'row')} replaced")
        return sentences
