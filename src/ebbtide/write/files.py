"""How do rows become data files that a commit may name?

    rows --(names, labels)--> Spark's Parquet writer --> footers --(checks, statistics)--> durable files --> actions

The frame is evaluated once, by one eager write, for data and change data alike. So a non-deterministic condition is
evaluated once per row, and a row can only be in one of the two. The price is that data files of such a write have an
empty column `_change_type`, as in the reference; the protocol allows it, and readers ask for the columns of the schema.
The rows that Spark counted while it wrote are compared with the rows in the footers.

Rules on the rows themselves (NOT NULL, CHECK, generated columns) are expressions that `write.rules` adds to the frame.
A row that breaks one fails the write before anything is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.errors import InternalError
from ebbtide.protocol.actions import AddCDCFile, AddFile
from ebbtide.protocol.paths import encode_path
from ebbtide.write.columns import FileColumns
from ebbtide.write.file_statistics import statistics_columns, statistics_of
from ebbtide.write.footers import read_footer
from ebbtide.write.partition_labels import (
    Label,
    hashed_labels,
    is_change_label,
    is_long_label,
    label_column,
    parse_label,
    shortened_label,
)
from ebbtide.write.staging import StagedFile, Staging, open_staging
from ebbtide.write.target import WriteTarget, WrittenFiles

__all__ = ["write_files"]

_FOOTER_THREADS = 8


@dataclass(frozen=True, slots=True)
class _RowCounts:
    """What Spark counted while it wrote."""

    rows: int
    change_rows: int
    long_labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Output:
    file: StagedFile
    label: Label
    num_rows: int
    stats: str


def write_files(
    spark: SparkSession,
    frame: DataFrame,
    target: WriteTarget,
    *,
    change_type_column: str | None = None,
    extra_columns: Mapping[str, str] | None = None,
    data_change: bool = True,
    partition: Sequence[str | None] | None = None,
) -> WrittenFiles:
    """Write the rows of `frame`, which has the table's logical columns, and give the actions for a commit.

    `change_type_column` names a column of the frame: rows where it is null go to data files, the others to change data
    files. `extra_columns` maps columns of the frame to the names they get in the files (materialised row ids).
    `partition` says that all rows are of this partition, by the texts that the log has for it: then each task writes
    its rows to one file, in their order. Files without rows are dropped; the others are in the order of the tasks. On
    return everything is durable; after an error nothing is left.
    """
    plan = _Plan.of(frame, target, change_type_column, dict(extra_columns or {}), partition)
    with open_staging(target.store) as staging:
        counted = _write(spark, frame, plan, staging)
        outputs = _outputs(plan, staging, counted)
        _check_counts(outputs, counted, staging)
        kept = [output for output in outputs if output.num_rows]
        paths = staging.publish(target, [(item.file, item.label.is_change, item.label.texts) for item in kept])
    return _build_result(target, kept, paths, data_change=data_change)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which columns are written, and by which helper column (if any) Spark separates the rows."""

    target: WriteTarget
    columns: FileColumns
    label: Column | None
    label_name: str | None
    # Of all rows, where there is no helper column.
    partition: tuple[str | None, ...] = ()
    one_file_per_task: bool = False

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        target: WriteTarget,
        change_type_column: str | None,
        extra_columns: Mapping[str, str],
        partition: Sequence[str | None] | None,
    ) -> _Plan:
        columns = FileColumns.of(frame, target, change_type_column=change_type_column, extra_columns=extra_columns)
        if partition is not None:
            return cls(target, columns, None, None, tuple(partition), one_file_per_task=True)
        if not target.partition_columns and change_type_column is None:
            return cls(target, columns, None, None)
        change_type = None if change_type_column is None else border.column(change_type_column)
        name = border.HelperNames(columns.names).pick("part")
        return cls(target, columns, label_column(target.partition_fields, change_type).alias(name), name)


def _write(spark: SparkSession, frame: DataFrame, plan: _Plan, staging: Staging) -> _RowCounts:
    selected = list(plan.columns.selected)
    metrics: dict[str, Column | str] = {"rows": "count(1)"}
    if plan.label is not None and plan.label_name is not None:
        selected.append(plan.label)
        label = border.column(plan.label_name)
        metrics["change_rows"] = F.count_if(is_change_label(label))
        metrics["long_labels"] = F.collect_set(F.when(is_long_label(label), label))
    store = plan.target.store
    settings = border.parquet_write_settings(spark, hides_options=bool(store.spark_options))
    with border.spark_errors(f"writing data files of {store.url}"), settings:
        rows, observation = border.observe_metrics(frame.select(*selected), metrics)
        if plan.label_name is not None:
            rows = rows.withColumn(plan.label_name, shortened_label(border.column(plan.label_name)))
        writer = border.parquet_writer(
            rows,
            partition_column=plan.label_name,
            one_file_per_task=plan.one_file_per_task,
            store_options=store.spark_options,
        )
        writer.parquet(staging.spark_path)
    answer = border.wait_for_metrics(observation)
    return _RowCounts(answer["rows"], answer.get("change_rows", 0), tuple(answer.get("long_labels", ())))


def _outputs(plan: _Plan, staging: Staging, counted: _RowCounts) -> list[_Output]:
    """The files that Spark finished, each with what its directory and its footer say."""
    wanted = statistics_columns(plan.target, plan.columns.table_columns)
    hashed = hashed_labels(counted.long_labels)
    fields = plan.target.partition_fields
    expected = plan.columns.leaf_paths()

    def look_at(file: StagedFile) -> _Output:
        label = Label(False, plan.partition) if plan.label is None else parse_label(file.label, fields, hashed)
        footer = read_footer(staging.store, file.meta)
        _check_columns(footer, expected, staging)
        return _Output(file, label, footer.num_rows, statistics_of(footer, wanted).to_json())

    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        return list(pool.map(look_at, staging.files(plan.label_name)))


def _check_columns(footer: pq.FileMetaData, expected: frozenset[str], staging: Staging) -> None:
    """A file with the wrong columns must not reach a commit: readers would find nothing in it."""
    found = {footer.schema.column(number).path for number in range(footer.num_columns)}
    if found != expected:
        raise InternalError(
            f"Spark wrote a file to {staging.spark_path} with other columns than it was told: "
            f"{', '.join(sorted(found ^ expected))[:500]} on one side only. Nothing was committed."
        )


def _check_counts(outputs: Sequence[_Output], counted: _RowCounts, staging: Staging) -> None:
    """A row lost or written twice must not reach a commit, whatever the cause."""
    data = sum(output.num_rows for output in outputs if not output.label.is_change)
    changes = sum(output.num_rows for output in outputs if output.label.is_change)
    if (data + changes, changes) != (counted.rows, counted.change_rows):
        raise InternalError(
            f"Spark wrote {counted.rows} rows ({counted.change_rows} of them changes) to {staging.spark_path}, but the "
            f"files found there hold {data + changes} ({changes}). Nothing was committed. If Spark runs on another "
            "machine, the table must lie in storage that both can see."
        )


def _build_result(
    target: WriteTarget, outputs: Sequence[_Output], paths: Sequence[str], *, data_change: bool
) -> WrittenFiles:
    names = target.physical_partition_names
    adds: list[AddFile] = []
    change_files: list[AddCDCFile] = []
    for output, path in zip(outputs, paths, strict=True):
        values = dict(zip(names, output.label.texts, strict=True))
        meta = output.file.meta
        if output.label.is_change:
            change_files.append(AddCDCFile(encode_path(path), values, meta.size))
        else:
            adds.append(
                AddFile(encode_path(path), values, meta.size, meta.last_modified_ms, data_change, stats=output.stats)
            )
    return WrittenFiles(
        adds=tuple(adds),
        change_files=tuple(change_files),
        num_rows=sum(output.num_rows for output in outputs if not output.label.is_change),
        num_change_rows=sum(output.num_rows for output in outputs if output.label.is_change),
    )
