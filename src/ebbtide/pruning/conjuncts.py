"""Which parts of a condition use partition columns only?

If all of them do, DELETE removes whole files. All answers come from the same parse (`parser`), in the user's own words,
and all err on the same side: a part that cannot be classified is a data predicate.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ebbtide.protocol.schema import StructType
from ebbtide.pruning.parser import ParsedCondition, parse_condition
from ebbtide.pruning.predicate import And, Or, Predicate
from ebbtide.pruning.scope import References, Scope

__all__ = [
    "conjuncts_of",
    "is_partition_only",
    "nondeterministic_functions",
    "partition_only_conjuncts",
    "split_conjuncts",
]

# Spark's own functions whose answer changes from call to call or from file to file.
NONDETERMINISTIC: Final = frozenset(
    {
        "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
        "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length", "reflect",
        "java_method", "try_reflect",
    }
)  # fmt: skip


def split_conjuncts(condition: str) -> list[str]:
    """The texts whose conjunction is the condition. A text that cannot be parsed is its own only conjunct."""
    parsed = parse_condition(condition)
    return [parsed.text(part.span) for part in conjuncts_of(parsed)]


def is_partition_only(
    condition: str,
    schema: StructType,
    partition_columns: Collection[str],
    alias: str | None = None,
) -> bool | None:
    """Whether partition values alone decide the condition; None when that is unknown.

    A subquery or a non-deterministic function makes it False.
    """
    parsed = parse_condition(condition)
    return _is_metadata_only(parsed, parsed.root, Scope(schema, tuple(partition_columns), "none", alias))


def partition_only_conjuncts(
    condition: str,
    schema: StructType,
    partition_columns: Collection[str],
    alias: str | None = None,
) -> list[str]:
    """Texts over partition columns that hold wherever the condition does, including those implied through OR."""
    parsed = parse_condition(condition)
    scope = Scope(schema, tuple(partition_columns), "none", alias)
    implied = (_implied_condition(parsed, part, scope) for part in conjuncts_of(parsed))
    return [text for text in implied if text is not None]


def conjuncts_of(parsed: ParsedCondition) -> tuple[Predicate, ...]:
    """The parts that make up the condition when joined by AND."""
    return parsed.root.parts if isinstance(parsed.root, And) else (parsed.root,)


def nondeterministic_functions(condition: str) -> frozenset[str]:
    """Spark's own non-deterministic functions that the condition calls. It cannot know about user-defined ones."""
    parsed = parse_condition(condition)
    references = _references(parsed, parsed.root, Scope(StructType(())))
    return frozenset() if references is None else references.functions & NONDETERMINISTIC


def _references(parsed: ParsedCondition, part: Predicate, scope: Scope) -> References | None:
    if parsed.tokens is None:
        return None
    return scope.references(parsed.tokens[part.span.first : part.span.last])


def _is_metadata_only(parsed: ParsedCondition, part: Predicate, scope: Scope) -> bool | None:
    references = _references(parsed, part, scope)
    if references is None:
        return None
    if references.has_subquery or references.functions & NONDETERMINISTIC:
        return False
    if not all(scope.is_partition_column(column) for column in references.columns):
        return False
    return True if references.is_complete else None


def _implied_condition(parsed: ParsedCondition, part: Predicate, scope: Scope) -> str | None:
    """What a part implies about partition columns: of an AND either side, of an OR both sides or nothing."""
    if _is_metadata_only(parsed, part, scope):
        return parsed.text(part.span)
    if not isinstance(part, And | Or):
        return None
    sides = [_implied_condition(parsed, side, scope) for side in part.parts]
    texts = [side for side in sides if side is not None]
    if isinstance(part, Or) and len(texts) < len(sides):
        return None
    if len(texts) < 2:
        return texts[0] if texts else None
    return (" AND " if isinstance(part, And) else " OR ").join(f"({text})" for text in texts)
