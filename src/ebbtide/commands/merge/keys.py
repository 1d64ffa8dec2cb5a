"""Which rows of the target have a partner, where a partner is found by a whole number?

Where ON says `t.key = s.key` and nothing else, and no clause looks further, it is enough to know which keys the source
has. A set of whole numbers is a set of bits, which Spark looks up as it does the marks of files (`scan.mark_lookup`):
nothing is hashed, sent around or joined. That pays for many keys; few are joined quicker than they are gathered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.row_level.touched_files import block_and_bit
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.scan.mark_lookup import MarkLookup, mark_lookup

__all__ = ["KeyBounds", "SourceKeys"]

# From here on a lookup is quicker than a join with a source of so many rows.
_MANY: Final = 200_000
# Keys lie as close as in the largest lookup: 4,096 blocks of 65,536 bits.
_MOST_VALUES: Final = 4096 << 16
# The number of a row that has no key of the source; no key has it.
_NO_KEY: Final = (1 << 33) - 1


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Between which numbers the keys of a source lie. `column` is the target's side of ON and `key` the source's."""

    column: str
    key: str
    low: int
    high: int

    def are_worth_it(self, num_rows: int) -> bool:
        """Whether the keys of so many rows are looked up quicker than joined, and fit into a lookup."""
        return num_rows >= _MANY and self.high - self.low < _MOST_VALUES

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

    def gathered(self, rows: DataFrame, *, allows_many: bool) -> SourceKeys | None:
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

    def paired(self, spark: SparkSession, target: DataFrame) -> DataFrame:
        """The rows of the target that have a partner."""
        bounds = self.bounds
        # The bounds a second time, as Parquet can skip by them.
        near = target.where(f"{bounds.column} BETWEEN {bounds.low} AND {bounds.high}")
        return near.where(self.lookup.is_marked(spark, "0L", bounds.number_of_partner))
