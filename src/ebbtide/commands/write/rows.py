"""How do the rows of a frame become rows of the table, and which rows do they replace?

columns by name -> values stored as the table's types -> rows numbered -> missing columns filled -> rules enforced
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.define.definition import schema_of
from ebbtide.commands.row_level.conditions import BoundCondition, bind_condition
from ebbtide.commands.row_level.new_rows import with_insert_changes
from ebbtide.commands.write.request import WriteRequest
from ebbtide.errors import InternalError, RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import StructType
from ebbtide.write import (
    WriteTarget,
    WrittenFiles,
    cast_for_column,
    complete_rows,
    discard,
    enforce_rules,
    write_files,
)
from ebbtide.write.identity import Numbering, UsedNumbers, index_of_rows, refuse_given_numbers
from ebbtide.write.rules import enforce_condition

__all__ = ["NewRows", "WrittenRows", "bind_replace_where", "incoming_columns", "rows_for", "write_rows"]


def incoming_columns(frame: DataFrame) -> StructType:
    """The columns of the frame as a table would have them."""
    with border.spark_errors("reading the columns of the DataFrame"):
        schema = frame.schema
    if not schema.fields:
        raise RequestError(
            "The DataFrame has no columns, so there is nothing to write. A table without columns is made by "
            "DeltaTable.create or CREATE TABLE.",
            error_class="DELTA_EMPTY_DATA",
        )
    return schema_of(schema)


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows of the table, with all of its columns and checked by its rules."""

    frame: DataFrame
    # The columns that were numbered.
    numbering: Numbering = field(default_factory=Numbering)

    def require(self, condition: str, target: WriteTarget) -> NewRows:
        """The same; a row for which the condition is not true fails the write."""
        return replace(self, frame=enforce_condition(self.frame, target, condition))


@dataclass(frozen=True, slots=True)
class WrittenRows:
    files: WrittenFiles
    used: UsedNumbers = field(default_factory=UsedNumbers)


def rows_for(request: WriteRequest, target: WriteTarget, *, skipped: int = 0) -> NewRows:
    """The frame's rows as rows of the table. `skipped` numbers of identity columns are left to other writers."""
    frame = request.frame
    given = {field.name.lower(): field for field in frame.schema.fields}
    refuse_given_numbers(target, given)
    columns = []
    for column in target.schema.fields:
        found = given.get(column.name.lower())
        if found is not None:
            value = cast_for_column(border.column(found.name), found.dataType, column, policy=request.policy)
            columns.append(value.alias(column.name))
    numbering = Numbering.of(target, given, skipped=skipped)
    if numbering.columns:
        in_one_task = numbering.has_little_room or request.rows_are_local or frame.isLocal()
        frame, index = index_of_rows(frame, in_one_task=in_one_task)
        columns += numbering.values(index)
    rows = complete_rows(frame.select(*columns), target, given=given.keys() | numbering.names)
    return NewRows(enforce_rules(rows, target), numbering)


def write_rows(spark: SparkSession, rows: NewRows, target: WriteTarget, *, with_changes: bool = False) -> WrittenRows:
    """Write the rows; `with_changes`: each as data and, from the same evaluation, as an insertion in change data."""
    frame, numbering = rows.frame, rows.numbering
    if not numbering.columns:
        return WrittenRows(_write(spark, frame, target, with_changes=with_changes))
    frame, counting = border.observe_metrics(frame, numbering.metrics())
    files = _write(spark, frame, target, with_changes=with_changes)
    try:
        return WrittenRows(files, numbering.read_used(border.wait_for_metrics(counting)))
    except InternalError:
        discard(target.store, [files])
        raise


def _write(spark: SparkSession, rows: DataFrame, target: WriteTarget, *, with_changes: bool) -> WrittenFiles:
    if not with_changes:
        return write_files(spark, rows, target)
    change_type = border.HelperNames(rows.columns).pick("change_type")
    both = with_insert_changes(rows, change_type=change_type)
    return write_files(spark, both, target, change_type_column=change_type)


def bind_replace_where(spark: SparkSession, snapshot: Snapshot, replace_where: str) -> BoundCondition:
    """The condition on the rows that go, checked against the table's columns."""
    condition = bind_condition(spark, snapshot, replace_where)
    if not condition.is_row_local:
        raise RequestError(
            f"replace_where={replace_where!r} has a subquery; it may use only the row itself.",
            error_class="DELTA_UNSUPPORTED_SUBQUERY",
        )
    return condition
