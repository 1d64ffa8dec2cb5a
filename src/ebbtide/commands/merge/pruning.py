"""Which files of the target can hold a row that the source matches?

Two things rule files out, by partition values and statistics. Parts of ON that use only the target do so directly.
Parts of the form `t.key = s.key` say that a matching row's key lies between the smallest and the largest key of the
source, so these are computed once, together with the number of rows. With a WHEN NOT MATCHED BY SOURCE clause every row
of the target matters, and nothing is ruled out.

Only SQL text is taken apart; a Column counts where its text is proven to mean the same (`scan.conditions`). The
analyser decides which side a part uses; its spelling is never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundMerge
from ebbtide.commands.merge.keys import WHOLE_NUMBERS, KeyRange, KeyRanges
from ebbtide.commands.merge.source import Source
from ebbtide.commands.row_level.conditions import partition_predicate
from ebbtide.log import Snapshot
from ebbtide.pruning import split_conjuncts
from ebbtide.scan.conditions import empty_frame, prune_snapshot
from ebbtide.sql_text import is_sign, match_brackets, only_name, tokenize
from ebbtide.transaction import ReadPredicate

__all__ = ["Candidates", "Scopes", "candidates", "key_ranges"]

# With one of these outside brackets, a part is more than `a = b`.
_OTHER_OPERATORS: Final = frozenset({"and", "or", "not", "between", "in", "like", "is", "case"})


@dataclass(frozen=True, slots=True)
class Candidates:
    """How to find the files of a snapshot that a merge must search."""

    # SQL over the target that is true for every row that can match; None: any row can.
    condition: str | None
    # The part of it that does not depend on the source, for the check against concurrent writers.
    own_condition: str | None
    alias: str
    reads_everything: bool
    # SQL over the target that is true for every row that a clause can change; None: any row.
    relevant: str | None = None

    def files(self, spark: SparkSession, snapshot: Snapshot) -> pa.Table:
        if self.reads_everything or self.condition is None:
            return snapshot.files
        return prune_snapshot(spark, snapshot, self.condition, alias=self.alias)

    def read_predicate(self, spark: SparkSession, snapshot: Snapshot) -> ReadPredicate:
        return partition_predicate(spark, snapshot, self.own_condition, alias=self.alias)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The two sides. The analyser says which of them a text uses. It is asked once: a no is a costly exception."""

    target: DataFrame
    source: DataFrame
    alias: str
    # Texts that are known to use both, and the answers so far.
    of_both: set[str] = field(default_factory=set)
    _answers: dict[tuple[str, str], T.DataType | None] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, snapshot: Snapshot, merge: BoundMerge, source: Source) -> Scopes:
        return cls(empty_frame(spark, snapshot).alias(merge.alias), source.rows, merge.alias)

    def type_in_target(self, text: str) -> T.DataType | None:
        """The type of an expression (a part of ON or of a clause) that uses the target and not the source."""
        if text in self.of_both or not (self._has_targets_alias(text) or self._type("source", text) is None):
            return None
        return self._type("target", text)

    def type_in_source(self, text: str) -> T.DataType | None:
        if text in self.of_both or not (self._is_no_column_of_target(text) or self._type("target", text) is None):
            return None
        return self._type("source", text)

    def _has_targets_alias(self, text: str) -> bool:
        """A column `alias.name` that the target has cannot be the source's as well: ON would have been ambiguous."""
        names = _column_names(text)
        return len(names) == 2 and names[0] == self.alias and names[1] in self.target.columns

    def _is_no_column_of_target(self, text: str) -> bool:
        """`a.b` begins with the alias or with a column that has fields, or it is none of the target's."""
        names = _column_names(text)
        fields = self.target.schema.fields
        first = {self.alias, *(field.name for field in fields if not isinstance(field.dataType, T.AtomicType))}
        return len(names) > 1 and names[0].lower() not in {name.lower() for name in first}

    def _type(self, side: Literal["target", "source"], text: str) -> T.DataType | None:
        if (side, text) not in self._answers:
            self._answers[side, text] = _type_in(self.target if side == "target" else self.source, text)
        return self._answers[side, text]


def key_ranges(merge: BoundMerge, scopes: Scopes) -> KeyRanges:
    """The equalities of ON between a column of the target and the source."""
    if merge.text is None or merge.by_source:
        return KeyRanges()
    found: list[KeyRange] = []
    parts = split_conjuncts(merge.text)
    for part in parts:
        sides = _equal_sides(part)
        for one, other in (sides, sides[::-1]) if sides else ():
            wanted = scopes.type_in_target(one) if _column_names(one) else None
            given = None if wanted is None else scopes.type_in_source(other)
            if wanted is not None and wanted == given and _has_plain_order(wanted):
                found.append(KeyRange(one, other, wanted))
                scopes.of_both.add(part)
                break
    decide = len(found) == len(parts) and not any(clause.display_text is not None for clause in merge.matched)
    return KeyRanges(tuple(found), decide_alone=decide)


def candidates(merge: BoundMerge, scopes: Scopes, key_conditions: Sequence[str]) -> Candidates:
    if merge.by_source:
        return Candidates(None, None, merge.alias, reads_everything=True)
    own = _target_parts(merge.text, scopes)
    relevant = None
    if not merge.not_matched:
        by_clause = [_target_parts(clause.text, scopes) for clause in merge.matched]
        if all(by_clause):
            relevant = " OR ".join(f"({_conjunction(parts)})" for parts in by_clause)
            own.append(relevant)
    return Candidates(
        condition=_conjunction([*own, *key_conditions]),
        own_condition=_conjunction(own),
        alias=merge.alias,
        reads_everything=False,
        relevant=relevant,
    )


def _target_parts(text: str | None, scopes: Scopes) -> list[str]:
    if text is None:
        return []
    parts = [part for part in split_conjuncts(text) if not _ends_in_comment(part)]
    return [part for part in parts if isinstance(scopes.type_in_target(part), T.BooleanType)]


def _ends_in_comment(part: str) -> bool:
    """Whether the part ends in a comment, so that no text can follow it. One that cannot be read might."""
    tokens = tokenize(part)
    return not tokens or tokens[-1].end != len(part)


def _conjunction(parts: Sequence[str]) -> str | None:
    return " AND ".join(f"({part})" for part in parts) or None


def _type_in(frame: DataFrame, text: str) -> T.DataType | None:
    try:
        with border.asking_the_analyser():
            return frame.select(F.expr(text).alias("value")).schema["value"].dataType
    except PySparkException:
        return None


def _has_plain_order(data_type: T.DataType) -> bool:
    """Whether the driver orders values as Spark does. A collation has an order of its own."""
    return isinstance(data_type, (*WHOLE_NUMBERS, T.DateType)) or data_type.simpleString() == "string"


def _equal_sides(part: str) -> tuple[str, str] | None:
    """Both sides of `a = b`, if the part is nothing more."""
    tokens = tokenize(part)
    if tokens is None:
        return None
    brackets, at, place = match_brackets(tokens), [], 0
    if not brackets.is_certain:
        return None
    while place < len(tokens):
        if is_sign(tokens, place, "=", "==", "<=>", "<", ">", "<=", ">=", "<>", "!="):
            at.append(place)
        elif tokens[place].kind == "word" and tokens[place].text in _OTHER_OPERATORS:
            return None
        place = brackets.after(place)
    if len(at) != 1 or tokens[at[0]].text not in {"=", "=="}:
        return None
    left, right = tokens[: at[0]], tokens[at[0] + 1 :]
    # From token to token: a comment at the end would swallow the text after it.
    return (part[left[0].start : left[-1].end], part[right[0].start : right[-1].end]) if left and right else None


def _column_names(text: str) -> list[str]:
    """`a.b` as its names; nothing when the text is anything but a column."""
    found = only_name(tokenize(text) or ())
    return [] if found is None else list(found.parts)
