"""How does every new row get a number of its own?

In the query that writes the rows: no pass over them is added, and no task waits for another. A row's index is made of
the number of its task and of its position in the task, and the column's value is the first free number plus that many
steps. So a task that is run again makes the same numbers, and two tasks never make one twice.

    index   ... | position, upper bits | task (12 bits) | position, lower 10 bits

Each task takes blocks of 1,024 consecutive indexes in turn. Spark does not say how many tasks a query will have, so
there are never more than 4,096. The mark moves to the furthest number that was really used, so the room that tasks left
empty is given away only below that number. Rows that the driver holds anyway (VALUES) are numbered by one task without
gaps, and so are all rows where little room is left.

What was handed out is a `UsedNumbers`: the commit takes its marks from there, and after a lost race it says whether
the winner used some of the same numbers.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.errors import SchemaMismatchError
from ebbtide.protocol.actions import Metadata
from ebbtide.protocol.features import is_feature_supported
from ebbtide.protocol.identity_columns import EXHAUSTED, IdentityColumn, explain_exhausted
from ebbtide.protocol.schema import StructField, parse_schema, physical_name
from ebbtide.write.target import WriteTarget

__all__ = [
    "NumberedColumn",
    "Numbering",
    "UsedNumbers",
    "identity_columns",
    "index_by_number",
    "index_of_rows",
    "refuse_given_numbers",
]

# Spark's row numbers hold the task in the upper bits, and the position in it in the lower bits.
_PLACE_BITS: Final = 33
_TASK_BITS: Final = 12
_BLOCK_BITS: Final = 10
# With fewer steps left than this, gaps could use up the room before the rows do.
_ENOUGH_ROOM: Final = 1 << 36
_MAX: Final = 2**63 - 1
_MOST_DOUBLINGS: Final = 6


def identity_columns(target: WriteTarget) -> tuple[StructField, ...]:
    """The columns whose values the writer counts."""
    if not is_feature_supported(target.protocol, "identityColumns"):
        return ()
    return tuple(column for column in target.schema.fields if column.is_identity)


def refuse_given_numbers(target: WriteTarget, given: Collection[str]) -> None:
    """SchemaMismatchError where a column that is GENERATED ALWAYS is among the given ones (names in lower case)."""
    for column in identity_columns(target):
        if column.name.lower() in given and not IdentityColumn.of(column).allows_values:
            raise SchemaMismatchError(
                f"The column '{column.name}' of the table at {target.store.url} is GENERATED ALWAYS AS IDENTITY, so "
                "its values cannot be given. Leave the column out, and every row gets a number.",
                error_class="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
            )


@dataclass(frozen=True, slots=True)
class NumberedColumn:
    """A column that a write numbers, from `first` on."""

    column: IdentityColumn
    physical_name: str
    first: int

    @property
    def room(self) -> int:
        """The highest index that still has a number. The product of index and step must fit 64 bits too."""
        return min(self.column.room(self.first), _MAX // abs(self.column.step))

    def value(self, index: str) -> Column:
        """The number of the row with this index, which is SQL; a row without one fails the query."""
        none_left = border.failure(EXHAUSTED, F.lit(explain_exhausted(self.column.name)))
        number = (
            f"{_long(self.first)} + {_long(self.column.step)} * {index}" if self.room >= 0 else "CAST(NULL AS LONG)"
        )
        return F.when(F.expr(f"{index} <= {_long(self.room)}"), F.expr(number)).otherwise(none_left)

    def furthest_number(self, condition: str | None) -> str:
        """An aggregate, as SQL: the furthest number among the rows for which the condition is true."""
        name = border.quote_name(self.column.name)
        value = name if condition is None else f"CASE WHEN {condition} THEN {name} END"
        return f"{'max' if self.column.step > 0 else 'min'}({value})"


@dataclass(frozen=True, slots=True)
class UsedNumbers:
    """What a write handed out, by physical name of the column: the first number it could use, and the furthest used."""

    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # How many steps the longest of the ranges has.
    length: int = 0

    @property
    def marks(self) -> dict[str, int]:
        return {name: last for name, (_, last) in self.ranges.items()}

    def choose_gap(self, rewrites: int) -> int:
        """How many numbers a writer leaves to the others when it writes again, for the so-many-th time.

        Chosen by chance and from more each time, so that many writers come apart instead of all starting at the same
        number once more.
        """
        return random.randrange(1 << min(rewrites, _MOST_DOUBLINGS)) * self.length

    def collide_with(self, newest: Metadata) -> bool:
        """Whether a winner's numbers reach into ours."""
        if not self.ranges:
            return False
        for item in parse_schema(newest.schema_string).fields:
            found = self.ranges.get(physical_name(item)) if item.is_identity else None
            if found is not None:
                column = IdentityColumn.of(item)
                if column.mark is not None and not column.is_beyond(found[0], column.mark):
                    return True
        return False


@dataclass(frozen=True, slots=True)
class Numbering:
    """Which columns a write numbers; none where every identity column is given, or the table has none."""

    columns: tuple[NumberedColumn, ...] = ()

    @classmethod
    def of(cls, target: WriteTarget, given: Collection[str], *, skipped: int = 0) -> Numbering:
        """For rows that have the columns `given` (names in lower case). `skipped` numbers are left to other writers."""
        found = []
        for item in identity_columns(target):
            if item.name.lower() not in given:
                column = IdentityColumn.of(item)
                first = column.next_number
                later = first + skipped * column.step
                is_far = column.room(first) // 2 > skipped
                found.append(NumberedColumn(column, physical_name(item), later if is_far else first))
        return cls(tuple(found))

    def without(self, given: Collection[str]) -> Numbering:
        """For rows that have these columns too."""
        return Numbering(tuple(item for item in self.columns if item.column.name.lower() not in given))

    @property
    def names(self) -> frozenset[str]:
        """The columns, in lower case."""
        return frozenset(item.column.name.lower() for item in self.columns)

    @property
    def has_little_room(self) -> bool:
        return any(item.room < _ENOUGH_ROOM for item in self.columns)

    def values(self, index: str) -> list[Column]:
        """The columns, for rows whose index is this SQL."""
        return [item.value(index).alias(item.column.name) for item in self.columns]

    def metrics(self, condition: str | None = None) -> dict[str, str]:
        """What must be observed of the rows; `condition` is true for those that were numbered."""
        return {f"number_{place}": item.furthest_number(condition) for place, item in enumerate(self.columns)}

    def read_used(self, answers: Mapping[str, Any]) -> UsedNumbers:
        """What was handed out, by what was observed."""
        ranges, length = {}, 0
        for place, item in enumerate(self.columns):
            last = answers.get(f"number_{place}")
            if last is not None:
                ranges[item.physical_name] = (item.first, int(last))
                length = max(length, abs(int(last) - item.first) // abs(item.column.step) + 1)
        return UsedNumbers(ranges, length)


def index_of_rows(frame: DataFrame, *, in_one_task: bool) -> tuple[DataFrame, str]:
    """The frame with one more column, and the index of its rows as SQL over that column.

    Spark computes the column by itself: inside an expression it would not be counted up for rows that skip it.
    """
    name = border.HelperNames(frame.columns).pick("row_number")
    parts = frame.coalesce(1 if in_one_task else 1 << _TASK_BITS)
    numbered = parts.selectExpr("*", f"monotonically_increasing_id() AS {name}")
    if in_one_task:
        return numbered, name
    place = f"({name} & {(1 << _PLACE_BITS) - 1}L)"
    upper = f"shiftleft(shiftright({place}, {_BLOCK_BITS}), {_BLOCK_BITS + _TASK_BITS})"
    task = f"shiftleft(shiftright({name}, {_PLACE_BITS}), {_BLOCK_BITS})"
    return numbered, f"({upper} | {task} | ({name} & {(1 << _BLOCK_BITS) - 1}L))"


def index_by_number(number: str, tasks: int) -> str:
    """The index of a row by a number that Spark gave it earlier in one of so many tasks; both are SQL."""
    return f"(shiftright({number}, {_PLACE_BITS}) + ({number} & {(1 << _PLACE_BITS) - 1}L) * {max(tasks, 1)}L)"


def _long(number: int) -> str:
    """The number as SQL; the smallest one has no literal of its own."""
    return f"CAST('{number}' AS LONG)"
