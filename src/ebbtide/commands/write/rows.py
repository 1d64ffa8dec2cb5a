"""How do the rows of a frame become rows of the table, and which rows do they replace?

columns by name -> values stored as the table's types -> missing columns filled -> rules enforced
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.define.definition import schema_of
from ebbtide.commands.row_level.conditions import BoundCondition, bind_condition
from ebbtide.commands.row_level.new_rows import with_insert_changes
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import StructType
from ebbtide.write import WriteTarget, WrittenFiles, cast_for_column, complete_rows, enforce_rules, write_files
from ebbtide.write.rules import enforce_condition, identity_columns

__all__ = ["enforce_condition", "incoming_columns", "bind_replace_where", "rows_for", "write_with_changes"]


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


def rows_for(frame: DataFrame, target: WriteTarget, *, policy: str) -> DataFrame:
    """The frame's rows as rows of the table, with all columns and checked against its rules."""
    given = {field.name.lower(): field for field in frame.schema.fields}
    _refuse_given_identities(target, given)
    columns = []
    for field in target.schema.fields:
        found = given.get(field.name.lower())
        if found is not None:
            value = cast_for_column(border.column(found.name), found.dataType, field, policy=policy)
            columns.append(value.alias(field.name))
    rows = complete_rows(frame.select(*columns), target, given=frozenset(given))
    return enforce_rules(rows, target)


def bind_replace_where(spark: SparkSession, snapshot: Snapshot, replace_where: str) -> BoundCondition:
    """The condition on the rows that go, checked against the table's columns."""
    condition = bind_condition(spark, snapshot, replace_where)
    if not condition.is_row_local:
        raise RequestError(
            f"replace_where={replace_where!r} has a subquery; it must speak of the row alone.",
            error_class="DELTA_UNSUPPORTED_SUBQUERY",
        )
    return condition


def write_with_changes(spark: SparkSession, rows: DataFrame, target: WriteTarget) -> WrittenFiles:
    """Write every row twice from one evaluation: as data, and as an insertion in the change data."""
    change_type = border.HelperNames(rows.columns).pick("change_type")
    both = with_insert_changes(rows, change_type=change_type)
    return write_files(spark, both, target, change_type_column=change_type)


def _refuse_given_identities(target: WriteTarget, given: Collection[str]) -> None:
    for field in identity_columns(target):
        if field.name.lower() in given and field.metadata.get("delta.identity.allowExplicitInsert") is not True:
            raise RequestError(
                f"The column '{field.name}' of the table at {target.store.url} is GENERATED ALWAYS AS IDENTITY, so its "
                "values cannot be given, and Ebbtide does not number new rows. Write them with the engine that made "
                "the table.",
                error_class="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
            )
