"""How is a MERGE written in Python?

    (
        table.alias("t")
        .merge(updates.alias("s"), "t.id = s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )

The names are delta-spark's. A builder is immutable: every call returns a new one, and `execute` may be called again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession

from ebbtide.arguments import assignments, checked, condition, optional
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.request import DeleteClause, Expression, InsertClause, MergeRequest, UpdateClause, ValuesOf
from ebbtide.commands.merge.results import MergeResult
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.session_settings import reset_txn_version
from ebbtide.storage import ObjectStore
from ebbtide.temp_views import refresh_changed

__all__ = ["DeltaMergeBuilder"]

Values = Mapping[str, str | Column]


@dataclass(frozen=True, slots=True, repr=False)
class DeltaMergeBuilder:
    """Clauses of one kind are tried in the order of the calls, and the first whose condition is true is taken."""

    _spark: SparkSession
    _store: ObjectStore
    _source: DataFrame
    _condition: Expression
    _options: WriteOptions
    _alias: str | None = None
    _hint: Snapshot | None = None
    _matched: tuple[UpdateClause | DeleteClause, ...] = ()
    _not_matched: tuple[InsertClause, ...] = ()
    _by_source: tuple[UpdateClause | DeleteClause, ...] = ()
    _evolves: bool = False
    # The options of the call, as they were given.
    _given: Mapping[str, object] | None = None

    @checked(condition=optional(condition), set=optional(assignments))
    def whenMatchedUpdate(self, condition: Expression | None = None, set: Values | None = None) -> DeltaMergeBuilder:
        """Give columns of a matched row new values; they may refer to both rows."""
        return replace(self, _matched=(*self._matched, UpdateClause(_require(set, "set"), condition)))

    @checked(condition=optional(condition))
    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Give every column of a matched row the value of the source's column with the same name."""
        return replace(self, _matched=(*self._matched, UpdateClause(None, condition)))

    @checked(condition=optional(condition))
    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        return replace(self, _matched=(*self._matched, DeleteClause(condition)))

    @checked(condition=optional(condition), values=optional(assignments))
    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Values | None = None
    ) -> DeltaMergeBuilder:
        """Insert a row for each source row that matches none; columns not named get their default, or null."""
        return replace(self, _not_matched=(*self._not_matched, InsertClause(_require(values, "values"), condition)))

    @checked(condition=optional(condition))
    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        return replace(self, _not_matched=(*self._not_matched, InsertClause(None, condition)))

    @checked(condition=optional(condition), set=optional(assignments))
    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Values | None = None
    ) -> DeltaMergeBuilder:
        """Give columns of a row that no row of the source matches new values; they may refer to that row only."""
        return replace(self, _by_source=(*self._by_source, UpdateClause(_require(set, "set"), condition)))

    @checked(condition=optional(condition))
    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        return replace(self, _by_source=(*self._by_source, DeleteClause(condition)))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Columns and nested fields that only the source has are added to the table."""
        return replace(self, _evolves=True)

    def execute(self) -> MergeResult:
        """Merge, in one commit."""
        with reset_txn_version(self._spark, self._given):
            merged = MergeCommand(self._spark, self.to_request()).run()
        refresh_changed(self._spark, self._store.url)
        return merged

    def to_request(self) -> MergeRequest:
        """The merge as a value, not executed."""
        return MergeRequest(
            self._store,
            self._source,
            self._condition,
            self._matched,
            self._not_matched,
            self._by_source,
            target_alias=self._alias,
            schema_evolution=self._evolves,
            options=self._options,
            hint=self._hint,
        )

    def __repr__(self) -> str:
        clauses = len(self._matched) + len(self._not_matched) + len(self._by_source)
        return f"<DeltaMergeBuilder of {self._store.url}: {clauses} clauses, not executed>"


def _require(values: Values | None, name: str) -> ValuesOf:
    if not values:
        raise RequestError(
            f"{name} is missing: say which columns get which values, as in {name}={{'price': 's.price'}}."
        )
    return tuple(values.items())
