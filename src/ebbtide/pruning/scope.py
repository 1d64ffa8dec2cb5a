"""Which column of the table does a name in a condition mean, and which columns may a condition touch?

Resolution follows Spark: a name that begins with the alias is looked up without it; any other name is a column and then
struct fields. An ambiguous name has no answer, and its leaf prunes nothing. `references` errs on the other side: every
word that could be a column counts as one, and a word that cannot be placed makes the answer unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ebbtide.errors import CorruptTableError
from ebbtide.protocol.schema import DataType, StructField, StructType, physical_name
from ebbtide.pruning.predicate import Name
from ebbtide.sql_text import GRAMMAR_WORDS, DottedName, Literal, Token, has_subquery, is_sign, names_in

__all__ = ["Column", "References", "Scope"]

_COLLATIONS: Final = "__COLLATIONS"
_CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
_TYPE_CHANGES: Final = "delta.typeChanges"
_FIXED_LENGTH = re.compile(r"(?<!var)char", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Column:
    """A column or struct field that a name means.

    `is_comparable` is false where equality is not equality of bytes: padded CHAR(n) and collated strings.
    `was_narrower`: older files may hold statistics of a narrower type.
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
    """What a part of a condition uses: top-level columns, functions (lower case), subqueries.

    `is_complete` is false when some word could not be placed; the columns are then only some of those used.
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

    def references(self, tokens: tuple[Token, ...]) -> References:
        columns: set[str] = set()
        functions: set[str] = set()
        is_complete = True
        for at, token in enumerate(tokens):
            if is_sign(tokens, at, "*"):
                # count(*), t.*: every column. A star between two operands is multiplication.
                is_complete &= at > 0 and not is_sign(tokens, at - 1, "(", ",", ".")
            elif token.kind == "string" and token.is_double_quoted:
                columns |= self._top_level(token.value or "")
                is_complete &= token.value is not None
        for name in names_in(tokens):
            found = self._columns_of(name)
            columns |= found
            word = tokens[name.first]
            is_grammar = word.kind == "word" and word.text in GRAMMAR_WORDS and len(name.parts) == 1
            is_call = name.is_called and not is_grammar
            if is_call:
                functions.add(name.parts[-1].lower())
            # identifier('a') names a column by a string.
            is_complete &= (bool(found) or is_call or is_grammar) and not (is_call and word.text == "identifier")
        return References(frozenset(columns), frozenset(functions), has_subquery(tokens), is_complete)

    def _columns_of(self, name: DottedName) -> set[str]:
        """The top-level columns that a name can mean, with and without the alias."""
        found = self._top_level(name.parts[0])
        behind_alias = self.alias is not None and self._same(name.parts[0], self.alias)
        return found | self._top_level(name.parts[1]) if behind_alias and len(name.parts) > 1 else found

    def _top_level(self, name: str) -> set[str]:
        """Ignoring case: one reference too many is harmless, one too few is not."""
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
