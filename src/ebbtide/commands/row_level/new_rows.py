"""What is written for rows that got new values, or are new?

Generated columns are computed from their source columns. If the table keeps a change data feed, each row is written as
data and, from the same evaluation, as change data: a value that changes from call to call is the same in both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.write import WriteTarget, complete_rows

__all__ = ["with_generated", "with_insert_changes", "with_update_changes"]

_PREIMAGE: Final = "update_preimage"
_POSTIMAGE: Final = "update_postimage"


def with_generated(rows: DataFrame, target: WriteTarget, kept: Mapping[str, Column | None]) -> DataFrame:
    """The rows with generated columns computed again.

    `kept` names the columns to compute, each with a condition for the rows that keep their value (None: no row).
    """
    if not kept:
        return rows
    others = {name.lower() for name in target.schema.names} - {name.lower() for name in kept}
    conditions = {name: condition for name, condition in kept.items() if condition is not None}
    names = border.HelperNames(rows.columns)
    copies = {name: names.pick(f"kept_{place}") for place, name in enumerate(conditions)}
    if not copies:
        return complete_rows(rows, target, given=others)
    before = rows.select(
        *(border.column(name) for name in rows.columns),
        *(border.column(name).alias(copy) for name, copy in copies.items()),
    )
    now = complete_rows(before, target, given=others)
    values = {
        name: F.when(conditions[name], border.column(copy)).otherwise(border.column(name)).alias(name)
        for name, copy in copies.items()
    }
    return now.select(*(values.get(name, border.column(name)) for name in rows.columns))


def with_update_changes(rows: DataFrame, columns: Collection[str], *, old_row: str, change_type: str) -> DataFrame:
    """Each updated row as data, and before and after as change data.

    `old_row` names a struct of the `columns` as they were, null for a row that was not updated; the column is dropped.
    """
    was_updated = border.column(old_row).isNotNull()
    nothing = F.lit(None).cast("string")
    kinds = F.when(was_updated, F.array(F.lit(_PREIMAGE), F.lit(_POSTIMAGE), nothing)).otherwise(F.array(nothing))
    exploded = rows.select(*(border.column(name) for name in rows.columns), F.explode(kinds).alias(change_type))
    is_before = border.column(change_type).eqNullSafe(F.lit(_PREIMAGE))
    old = border.column(old_row)
    shown = [
        F.when(is_before, old.getField(name)).otherwise(border.column(name)).alias(name)
        if name in columns
        else border.column(name)
        for name in exploded.columns
        if name != old_row
    ]
    return exploded.select(*shown)


def with_insert_changes(rows: DataFrame, *, change_type: str) -> DataFrame:
    """Each row as data, and as an insertion in the change data."""
    kinds = F.array(F.lit(None).cast("string"), F.lit("insert"))
    return rows.select(*(border.column(name) for name in rows.columns), F.explode(kinds).alias(change_type))
