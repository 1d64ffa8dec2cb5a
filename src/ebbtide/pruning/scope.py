"""Which column of the table does a name in a condition mean, and which columns may a condition touch?

Resolution follows Spark: a name that begins with the alias is looked up behind it, any other name is a column and then
struct fields. Where two readings are possible there is no answer, and the leaf prunes nothing. `references` errs the
other way: every word that could be a column counts as one, and a word that nobody can place makes the answer unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ebbtide.errors import CorruptTableError
from ebbtide.protocol.schema import DataType, StructField, StructType, physical_name
from ebbtide.pruning.lexer import Token
from ebbtide.pruning.predicate import Literal, Name

__all__ = ["Column", "References", "Scope"]

_COLLATIONS: Final = "__COLLATIONS"
_CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
_TYPE_CHANGES: Final = "delta.typeChanges"
_FIXED_LENGTH = re.compile(r"(?<!var)char", re.IGNORECASE)

# Words of Spark's expression grammar. They are no columns of the table unless the schema says so.
_GRAMMAR_WORDS: Final = frozenset(
    {
        "and", "or", "not", "in", "is", "null", "true", "false", "like", "ilike", "rlike", "regexp", "between", "case",
        "when", "then", "else", "end", "exists", "distinct", "from", "escape", "as", "div", "any", "some", "all",
        "unknown", "cast", "try_cast", "collate", "interval", "to", "for", "both", "leading", "trailing", "year",
        "years", "quarter", "month", "months", "week", "weeks", "day", "days", "hour", "hours", "minute", "minutes",
        "second", "seconds", "millisecond", "milliseconds", "microsecond", "microseconds", "boolean", "tinyint", "byte",
        "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double", "decimal", "dec", "numeric",
        "string", "varchar", "char", "character", "binary", "date", "timestamp", "timestamp_ntz", "timestamp_ltz",
        "array", "map", "struct", "void", "x", "current_date", "current_timestamp", "current_time", "current_user",
        "session_user", "user", "localtimestamp",
    }
)  # fmt: skip
_SUBQUERY_OPENERS: Final = frozenset({"select", "with", "values", "table", "from"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column or struct field that a name means.

    `is_comparable` is false where equality is not equality of bytes: padded CHAR(n) and collated strings.
    `was_narrower` tells that older files may hold statistics of a narrower type.
    """

    logical_path: tuple[str, ...]
    physical_path: tuple[str, ...]
    type: DataType
    is_partition: bool
    is_comparable: bool
    was_narrower: bool

    @property
    def is_nested(self) -> bool:
        return len(self.logical_path) > 1


@dataclass(frozen=True, slots=True)
class References:
    """What a part of a condition touches: top-level columns, functions (lower case), subqueries.

    `is_complete` is false when some word could not be placed; the columns are then only some of those touched.
    """

    columns: frozenset[str]
    functions: frozenset[str]
    has_subquery: bool
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Scope:
    schema: StructType
    partition_columns: Collection[str] = ()
    column_mapping_mode: str = "none"
    alias: str | None = None
    case_sensitive: bool = False

    def resolve(self, name: Name) -> Column | None:
        """The one column a name can mean; None when there is none, or more than one reading."""
        found = [self._walk(name.parts)]
        if self.alias is not None and len(name.parts) > 1 and self._same(name.parts[0], self.alias):
            found.append(self._walk(name.parts[1:]))
        columns = [chain for chain in found if chain is not None]
        return self._column(columns[0]) if len(columns) == 1 else None

    def is_certainly_literal(self, literal: Literal) -> bool:
        """False for a double-quoted string that a session could also read as the name of a column we have."""
        return not (literal.may_be_name and isinstance(literal.value, str) and self._top_level(literal.value))

    def is_partition_column(self, name: str) -> bool:
        return any(self._same(name, column) for column in self.partition_columns)

    def references(self, tokens: Sequence[Token]) -> References:
        columns: set[str] = set()
        functions: set[str] = set()
        is_complete = True
        for at, token in enumerate(tokens):
            following = tokens[at + 1].text if at + 1 < len(tokens) else ""
            preceding = tokens[at - 1].text if at else ""
            if token.kind == "operator":
                # count(*), t.*: every column. A star between two operands is multiplication.
                is_complete &= not (token.text == "*" and preceding in {"", "(", ",", "."})
            elif token.kind == "string":
                columns |= self._top_level(token.value or "") if token.double_quoted else set()
            elif token.kind in {"word", "quoted_name"} and preceding != ".":
                found = self._columns_at(tokens, at)
                is_call = following == "(" and token.text not in _GRAMMAR_WORDS
                if is_call:
                    functions.add((token.value or "").lower())
                    # identifier('a') names a column by a string.
                    is_complete &= token.text != "identifier"
                columns |= found
                is_grammar = token.kind == "word" and token.text in _GRAMMAR_WORDS and following != "."
                is_complete &= bool(found) or is_call or is_grammar
        return References(frozenset(columns), frozenset(functions), _has_subquery(tokens), is_complete)

    def _columns_at(self, tokens: Sequence[Token], at: int) -> set[str]:
        """The top-level columns that the name starting at a token can mean, with and without the alias."""
        found = self._top_level(tokens[at].value or "")
        behind_alias = self.alias is not None and self._same(tokens[at].value or "", self.alias)
        if behind_alias and at + 2 < len(tokens) and tokens[at + 1].text == ".":
            found |= self._top_level(tokens[at + 2].value or "")
        return found

    def _top_level(self, name: str) -> set[str]:
        """Whatever its case: a reference too many is harmless, one too few is not."""
        return {field.name for field in self.schema.fields if field.name.lower() == name.lower()}

    def _walk(self, parts: Sequence[str]) -> tuple[StructField, ...] | None:
        chain: list[StructField] = []
        current: DataType = self.schema
        for part in parts:
            fields = current.fields if isinstance(current, StructType) else ()
            matching = [field for field in fields if self._same(field.name, part)]
            if len(matching) != 1:
                return None
            chain.append(matching[0])
            current = matching[0].type
        return tuple(chain)

    def _same(self, left: str, right: str) -> bool:
        return left == right if self.case_sensitive else left.lower() == right.lower()

    def _column(self, chain: tuple[StructField, ...]) -> Column | None:
        try:
            physical = tuple(
                field.name if self.column_mapping_mode == "none" else physical_name(field) for field in chain
            )
        except CorruptTableError:
            return None
        return Column(
            logical_path=tuple(field.name for field in chain),
            physical_path=physical,
            type=chain[-1].type,
            is_partition=len(chain) == 1 and self.is_partition_column(chain[0].name),
            is_comparable=not any(_changes_equality(field.metadata) for field in chain),
            was_narrower=any(_TYPE_CHANGES in field.metadata for field in chain),
        )


def _changes_equality(metadata: Any) -> bool:
    return _COLLATIONS in metadata or bool(_FIXED_LENGTH.search(str(metadata.get(_CHAR_VARCHAR, ""))))


def _has_subquery(tokens: Sequence[Token]) -> bool:
    return any(
        token.kind == "word"
        and token.text in _SUBQUERY_OPENERS
        and (token.text == "select" or (at > 0 and tokens[at - 1].text == "("))
        for at, token in enumerate(tokens)
    )
