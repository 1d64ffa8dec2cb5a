"""What was asked for, when it was a MERGE?

    MERGE INTO target t USING source s ON t.id = s.id
    WHEN MATCHED AND s.gone THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, upper(s.name))
    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.active = false

The clauses of each kind are in the order they were given; the order between kinds means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark.sql import Column, DataFrame

from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.storage import ObjectStore

__all__ = ["DeleteClause", "Expression", "InsertClause", "MergeRequest", "UpdateClause", "ValuesOf", "check_last"]

Expression: TypeAlias = str | Column
# (column, value), as in `UpdateRequest`; None means `*`: every column gets the source's column of its name.
ValuesOf: TypeAlias = tuple[tuple[str, Expression], ...] | None


@dataclass(frozen=True, slots=True)
class UpdateClause:
    values: ValuesOf
    condition: Expression | None = None

    def __post_init__(self) -> None:
        _check_values(self.values, "UPDATE")


@dataclass(frozen=True, slots=True)
class DeleteClause:
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class InsertClause:
    values: ValuesOf
    condition: Expression | None = None

    def __post_init__(self) -> None:
        _check_values(self.values, "INSERT")


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Change the rows of a table by the rows of `source`, matched by `condition`.

    `target_alias` and `source_alias` are names for the two sides in conditions and values; a source that was named
    by `DataFrame.alias` keeps its name if `source_alias` is None. `display_text` is what the commit records for the
    condition when that is not its text.
    """

    store: ObjectStore
    source: DataFrame
    condition: Expression
    matched: tuple[UpdateClause | DeleteClause, ...] = ()
    not_matched: tuple[InsertClause, ...] = ()
    not_matched_by_source: tuple[UpdateClause | DeleteClause, ...] = ()
    target_alias: str | None = None
    source_alias: str | None = None
    schema_evolution: bool = False
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None
    display_text: str | None = None

    def __post_init__(self) -> None:
        if not (self.matched or self.not_matched or self.not_matched_by_source):
            raise RequestError(
                "A merge needs at least one WHEN clause: what is to be done with rows that match, or do not?",
                error_class="DELTA_MERGE_MISSING_WHEN",
            )
        for kind, clauses in (
            ("MATCHED", self.matched),
            ("NOT MATCHED", self.not_matched),
            ("NOT MATCHED BY SOURCE", self.not_matched_by_source),
        ):
            check_last(kind, [clause.condition for clause in clauses])
        if any(isinstance(clause, UpdateClause) and clause.values is None for clause in self.not_matched_by_source):
            raise RequestError(
                "WHEN NOT MATCHED BY SOURCE cannot UPDATE SET *: there is no row of the source. Name the columns."
            )

    @property
    def is_insert_only(self) -> bool:
        return not (self.matched or self.not_matched_by_source)

    @property
    def deletes_every_match(self) -> bool:
        """The one case in which it does not matter how many rows of the source a row of the target matches."""
        only = self.matched[0] if len(self.matched) == 1 else None
        return isinstance(only, DeleteClause) and only.condition is None


def check_last(kind: str, conditions: Sequence[object], *, prefix: str = "DELTA_") -> None:
    """Refuse a clause after one without a condition. Spark's parser uses the same error class without the prefix."""
    if any(condition is None for condition in conditions[:-1]):
        raise RequestError(
            f"Only the last WHEN {kind} clause may be without a condition: no row would reach those behind it.",
            error_class=f"{prefix}NON_LAST_{kind.replace(' ', '_')}_CLAUSE_OMIT_CONDITION",
        )


def _check_values(values: ValuesOf, what: str) -> None:
    if values is None:
        return
    if not values:
        raise RequestError(f"{what} needs at least one column and its value.")
    for name, value in values:
        if not isinstance(name, str) or not isinstance(value, str | Column):
            raise RequestError(
                f"{what} has {name!r}: {value!r}. A column is named by a string, and its value is SQL text or a "
                "Column; for a plain value write pyspark.sql.functions.lit(...)."
            )
