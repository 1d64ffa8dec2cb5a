"""How is the source of a MERGE read?

Once. It is computed, kept by Spark (in memory, and on its disks when that is short), and read from there as often as
the merge needs it: a source that is random, or that reads the target, is the same each time. Spark frees it when
nothing refers to it any more.

Every row gets a number, which tells rows without a match apart from equal rows with one. For `UPDATE SET *` the columns
exist a second time under names of our own: the user's names may also mean columns of the target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.commands.merge.keys import KeyBounds, KeyRanges, SourceKeys
from ebbtide.commands.merge.request import MergeRequest
from ebbtide.errors import UnknownColumnError

__all__ = ["PLACE_BITS", "JoinWay", "Source", "open_source"]

JoinWay = Literal["one task", "broadcast", "shuffle"]

# Spark's row numbers hold the part of the source in the upper bits, and the position in it in the lower bits.
PLACE_BITS: Final = 33


@dataclass(frozen=True, slots=True)
class Source:
    """`given` has the user's columns, `rows` adds `row_id`, and `frame` adds a copy of each column (`copies`)."""

    given: DataFrame
    rows: DataFrame
    frame: DataFrame
    row_id: str
    # Whether letter case counts in names in this session.
    is_exact: bool
    # By `key` of the user's name, like `fields`.
    copies: Mapping[str, str]
    # All columns of `frame`.
    columns: tuple[str, ...]
    fields: Mapping[str, T.StructField]
    ambiguous: frozenset[str]
    # Known once the source is computed; None: the size is unknown, or more than the keys is needed.
    num_rows: int = 0
    parts: int = 0
    num_bytes: int | None = None
    key_bytes: int | None = None
    # The range of the keys where ON compares whole numbers alone, and all keys once they are gathered for a lookup.
    key_bounds: KeyBounds | None = None
    keys: SourceKeys | None = None

    @property
    def number(self) -> str:
        """SQL over its rows: the number that identifies rows with a match."""
        return self.row_id if self.keys is None else self.keys.bounds.number_of_row

    @property
    def number_parts(self) -> int:
        """The number of parts that those numbers are in."""
        return self.parts if self.keys is None else 1

    def join_to(self, target: DataFrame, condition: Column, how: str, *, way: JoinWay) -> DataFrame:
        """The target's rows with the columns of `frame` beside them."""
        if way == "one task":
            # If both sides have one partition, no exchange is needed, and a broadcast would be a job of its own.
            return target.coalesce(1).join(self.frame.coalesce(1).hint("shuffle_hash"), condition, how)
        return target.join(F.broadcast(self.frame) if way == "broadcast" else self.frame, condition, how)

    def gather_keys(self, *, allows_many: bool) -> Source:
        """With its keys gathered for a lookup. `allows_many`: rows of the target may have several partners."""
        if self.key_bounds is None:
            return self
        return replace(self, keys=self.key_bounds.gather_keys(self.rows, allows_many=allows_many))

    def copy_of(self, name: str) -> Column:
        """Our copy of the column of this name: the user's name could also mean the target's."""
        return F.expr(self.copies[self.key(name)])

    def key(self, name: str) -> str:
        """The lookup key of a name: names that are equal in this session have the same key."""
        return _key(name, self.is_exact)

    def get(self, name: str) -> T.StructField | None:
        """The column that has this name in this session; None when there is none."""
        if self.key(name) in self.ambiguous:
            raise UnknownColumnError(
                f"The source has more than one column '{name}'. Rename one of them, or leave it out.",
                error_class="AMBIGUOUS_REFERENCE",
            )
        return self.fields.get(self.key(name))

    def compute(self, spark: SparkSession, ranges: KeyRanges) -> tuple[Source, list[str]]:
        """The same source, computed, and what its keys say of matching rows, as SQL over the target."""
        questions = {
            **ranges.aggregates,
            "num_rows": "count(1)",
            "num_bytes": self._estimated_bytes(),
            "last_row": f"max({self.row_id})",
            "key_bytes": f"sum({ranges.num_bytes or 'CAST(NULL AS LONG)'}) + 8 * count(1)",
        }
        with border.spark_errors("reading the source of the merge"):
            rows, answers = border.compute_once(spark, self.rows, questions)
        last_row = answers["last_row"]
        found = ranges.read_bounds(answers)
        is_one_key = ranges.decide_alone and len(found) == 1
        source = replace(
            self,
            rows=rows,
            frame=_with_copies(rows, self.fields, self.copies),
            num_rows=answers["num_rows"],
            parts=0 if last_row is None else (last_row >> PLACE_BITS) + 1,
            num_bytes=answers["num_bytes"],
            key_bytes=answers["key_bytes"],
            key_bounds=found[0][0].bounds(*found[0][1:]) if is_one_key else None,
        )
        conditions = (item.condition(low, high) for item, low, high in found)
        return source, [text for text in conditions if text is not None]

    def _estimated_bytes(self) -> str:
        """An aggregate, as SQL: about how many bytes the rows have, null where that is unknown."""
        texts, fixed_bytes = [], 64
        for field in self.fields.values():
            if isinstance(field.dataType, T.StringType | T.BinaryType):
                texts.append(f"coalesce(CAST(octet_length({border.quote_name(field.name)}) AS LONG), 0L)")
            elif isinstance(field.dataType, T.AtomicType | T.BooleanType):
                fixed_bytes += 16
            else:
                return "max(CAST(NULL AS LONG))"
        return f"count(1) * {fixed_bytes} + coalesce(sum({_total(texts)}), 0L)"


def open_source(spark: SparkSession, request: MergeRequest, target_columns: Iterable[str]) -> Source:
    """The source as given: nothing is computed yet. No column of either side has a helper column's name."""
    named = request.source if request.source_alias is None else request.source.alias(request.source_alias)
    with border.spark_errors("reading the source of the merge"):
        fields = named.schema.fields
    is_exact = border.is_case_sensitive(spark)
    times = Counter(_key(field.name, is_exact) for field in fields)
    names = border.HelperNames((field.name for field in fields), target_columns)
    row_id = names.pick("source_row")
    rows = named.selectExpr("*", f"monotonically_increasing_id() AS {row_id}")
    unambiguous = {key: field for field in fields if times[key := _key(field.name, is_exact)] == 1}
    copies = {name: names.pick(f"source_column_{place}") for place, name in enumerate(unambiguous)}
    return Source(
        given=named,
        rows=rows,
        frame=_with_copies(rows, unambiguous, copies),
        row_id=row_id,
        is_exact=is_exact,
        copies=copies,
        columns=(*(field.name for field in fields), row_id, *copies.values()),
        fields=unambiguous,
        ambiguous=frozenset(name for name, count in times.items() if count > 1),
    )


def _key(name: str, is_exact: bool) -> str:
    return name if is_exact else name.lower()


def _with_copies(rows: DataFrame, fields: Mapping[str, T.StructField], copies: Mapping[str, str]) -> DataFrame:
    return rows.selectExpr(
        "*", *(f"{border.quote_name(field.name)} AS {copies[name]}" for name, field in fields.items())
    )


def _total(terms: Sequence[str]) -> str:
    """The sum of the terms, as SQL. Nested in halves: Spark's parser cannot read a flat sum of a thousand terms."""
    if len(terms) < 2:
        return terms[0] if terms else "0L"
    middle = len(terms) // 2
    return f"({_total(terms[:middle])} + {_total(terms[middle:])})"
