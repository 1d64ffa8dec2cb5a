"""Which rows of the source have a match in the target?

The join that finds the rows to change already knows, so the rows to insert need no second join. Rows of the source have
numbers (`merge.source`): the part of the source that a row is in, and its position there; or, where keys are looked up
(`merge.keys`), the number of its key. So they are kept like the rows of files, as one set of positions per part, and
Spark looks them up in the same way (`scan.mark_lookup`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from ebbtide.commands.merge.source import PLACE_BITS, Source
from ebbtide.commands.merge.strategy import MergeThresholds
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.scan.mark_list import is_one_of
from ebbtide.scan.mark_lookup import mark_lookup

__all__ = ["Partners"]

# The words of a part: 64 rows each.
_WORD_BITS: Final = PLACE_BITS - 6


@dataclass(frozen=True, slots=True)
class Partners:
    """The source rows that have a match, by part of the source."""

    places: Mapping[int, RowIndexSet] = field(default_factory=dict)

    @classmethod
    def of_words(cls, numbers: pa.ChunkedArray, words: pa.ChunkedArray) -> Partners:
        """Bit `i` of the word numbered `w` is the row numbered `64 * w + i`."""
        found = pa.table({"number": numbers, "word": words})
        part_of = pc.shift_right(found["number"], _WORD_BITS)
        inside = pc.bit_wise_and(found["number"], (1 << _WORD_BITS) - 1)
        found = found.set_column(0, "number", inside)
        places = {}
        for part in pc.unique(part_of).to_pylist():
            of_part = found.filter(pc.equal(part_of, part)).combine_chunks()
            places[part] = RowIndexSet.from_numbered_words(of_part["number"].chunk(0), of_part["word"].chunk(0))
        return cls(places)

    def __or__(self, other: Partners) -> Partners:
        parts = {*self.places, *other.places}
        empty = RowIndexSet()
        return Partners({part: self.places.get(part, empty) | other.places.get(part, empty) for part in parts})

    @property
    def count(self) -> int:
        return sum(len(rows) for rows in self.places.values())

    def _numbers(self) -> Iterator[int]:
        return (part << PLACE_BITS | place for part, rows in self.places.items() for place in rows)

    def is_partner(self, spark: SparkSession, source: Source, thresholds: MergeThresholds) -> Column | None:
        """Whether a row of the source is one of them; None when there are too many to look up."""
        if self.count <= thresholds.listed_partners:
            return F.expr(is_one_of(source.number, self._numbers()))
        parts = range(source.number_parts)
        places = [self.places.get(part, RowIndexSet()) for part in parts]
        lookup = mark_lookup(places, parts, most_blocks=thresholds.partner_blocks)
        if lookup is None:
            return None
        part = f"shiftright({source.number}, {PLACE_BITS})"
        place = f"({source.number} & {(1 << PLACE_BITS) - 1}L)"
        return lookup.is_marked(spark, part, place)
