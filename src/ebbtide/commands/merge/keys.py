"""What do the keys of the source say about the rows of the target?

ON usually has equalities `t.key = s.key`. The smallest and the largest key of the source rule out files (`KeyRange`).

Where ON is only `t.key = s.key`, and no clause needs more, it is enough to know which keys the source has. A
set of whole numbers is a set of bits, which Spark looks up as it does the marks of files (`scan.mark_lookup`): nothing
is hashed, shuffled or joined. That pays off for many keys; a few are joined faster than they are gathered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.commands.row_level.touched_files import block_and_bit
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.scan.mark_lookup import MarkLookup, mark_lookup

__all__ = ["WHOLE_NUMBERS", "KeyBounds", "KeyRange", "KeyRanges", "SourceKeys"]

WHOLE_NUMBERS: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_LONGEST_KEY: Final = 1000
# The widest range of keys that the largest lookup holds: 4,096 blocks of 65,536 bits.
_MOST_VALUES: Final = 4096 << 16
# The number of a row that has no key of the source; no key has it.
_NO_KEY: Final = (1 << 33) - 1


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A column of the target that must equal an expression of the source."""

    column: str
    key: str
    type: T.DataType

    @property
    def num_bytes(self) -> str:
        """SQL expression for the key's approximate size in bytes."""
        is_text = isinstance(self.type, T.StringType)
        return f"coalesce(octet_length({self.key}), 0) + 16" if is_text else "8"

    def condition(self, low: str | None, high: str | None) -> str | None:
        """SQL that is true for every matching row; None when no such SQL can be trusted."""
        if low is None or high is None:
            # Every key of the source is null, and null equals nothing.
            return "false"
        bounds = [self._literal(low), self._literal(high)]
        if None in bounds:
            return None
        return f"({self.column} >= {bounds[0]} AND {self.column} <= {bounds[1]})"

    def _literal(self, text: str) -> str | None:
        if isinstance(self.type, T.DateType):
            return f"DATE'{text}'" if _DATE.fullmatch(text) else None
        if isinstance(self.type, WHOLE_NUMBERS):
            return text
        if len(text) > _LONGEST_KEY or "\\" in text or "'" in text:
            return None
        return f"'{text}'"

    def bounds(self, low: str | None, high: str | None) -> KeyBounds | None:
        """The keys as whole numbers; None when they are of another type, or there are none."""
        if not isinstance(self.type, WHOLE_NUMBERS) or low is None or high is None:
            return None
        return KeyBounds(self.column, f"({self.key})", int(low), int(high))


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The equalities of ON. `decide_alone`: ON has no other part, and no clause for matched rows has a condition."""

    ranges: tuple[KeyRange, ...] = ()
    decide_alone: bool = False

    def __iter__(self) -> Iterator[KeyRange]:
        return iter(self.ranges)

    @property
    def num_bytes(self) -> str | None:
        """SQL expression for the size of a row's keys in bytes; None when more than the keys is needed."""
        return " + ".join(item.num_bytes for item in self.ranges) if self.ranges and self.decide_alone else None

    @property
    def aggregates(self) -> dict[str, str]:
        """SQL over the source for the smallest and the largest key of each."""
        found = {}
        for place, item in enumerate(self.ranges):
            found[f"low{place}"] = f"CAST(min({item.key}) AS STRING)"
            found[f"high{place}"] = f"CAST(max({item.key}) AS STRING)"
        return found

    def read_bounds(self, answers: Mapping[str, Any]) -> list[tuple[KeyRange, str | None, str | None]]:
        """Each range with its answers to `aggregates`."""
        return [(item, answers[f"low{place}"], answers[f"high{place}"]) for place, item in enumerate(self.ranges)]


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """The smallest and the largest key of a source. `column` is the target's side of ON and `key` the source's."""

    column: str
    key: str
    low: int
    high: int

    @property
    def fit_into_a_lookup(self) -> bool:
        return self.high - self.low < _MOST_VALUES

    @property
    def number_of_row(self) -> str:
        """SQL over the source: the number of its row's key, counted from the lowest."""
        return self._number(self.key)

    @property
    def number_of_partner(self) -> str:
        """SQL over the target: the number of the key that its row has."""
        return self._number(self.column)

    def _number(self, value: str) -> str:
        # A difference may be too large for a long, so values outside the bounds are not even subtracted.
        inside = f"{value} BETWEEN {self.low} AND {self.high}"
        return f"(CASE WHEN {inside} THEN CAST({value} AS LONG) - {self.low}L ELSE {_NO_KEY}L END)"

    def gather_keys(self, rows: DataFrame, *, allows_many: bool) -> SourceKeys | None:
        """The keys of the source's rows; None when two rows have the same, unless `allows_many`."""
        bits = rows.where(f"{self.key} IS NOT NULL").selectExpr(*block_and_bit(self.number_of_row))
        folded = bits.groupBy("block").agg(F.expr("bit_or(bit) AS word"), F.expr("count(1) AS rows"))
        with border.spark_errors("reading the keys of the source"):
            words = folded.toArrow().combine_chunks()
        keys = RowIndexSet.from_numbered_words(words["block"].chunk(0), words["word"].chunk(0))
        if len(keys) != pc.sum(words["rows"]).as_py() and not allows_many:
            return None
        lookup = mark_lookup([keys], [0])
        return None if lookup is None else SourceKeys(self, lookup)


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """All keys of a source, by their numbers."""

    bounds: KeyBounds
    lookup: MarkLookup

    def rows_with_partner(self, spark: SparkSession, target: DataFrame) -> DataFrame:
        """The rows of the target that have a partner."""
        bounds = self.bounds
        # The bounds once more, in a form by which Parquet can skip.
        near = target.where(f"{bounds.column} BETWEEN {bounds.low} AND {bounds.high}")
        return near.where(self.lookup.is_marked(spark, "0L", bounds.number_of_partner))
