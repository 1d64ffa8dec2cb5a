"""Which values does a row get from its clause?

A value is computed only for the rows of its own clause, and once: a division by zero in another clause fails nothing,
and a random value is the same in data and change data. Values are cast to the types of their columns, generated columns
are computed, and the table's rules are enforced. A row that was to be updated but now meets no clause's condition
fails the merge: a condition that depends on the time of day could lose it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundClause, BoundMerge
from ebbtide.commands.merge.source import Source
from ebbtide.commands.row_level.assignments import assigned_column
from ebbtide.commands.row_level.new_rows import with_generated, with_update_changes
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import StructField
from ebbtide.scan import RowIdColumns
from ebbtide.write import WriteTarget, cast_for_column, complete_rows, enforce_rules, generated_columns
from ebbtide.write.columns import spark_type
from ebbtide.write.identity import Numbering, index_by_number

__all__ = ["HelperColumns", "RowMaker"]

# The values that a clause gives to a column, by the path inside it; () is the column itself.
_Given = Mapping[tuple[str, ...], Column]


@dataclass(frozen=True, slots=True)
class HelperColumns:
    """The helper columns of the frames that a merge writes. No column of the table or the source has their names."""

    # The number of a row's clause, and the values of the clauses, by clause and position in it.
    clause: str
    values: Mapping[tuple[int, int], str]
    old_row: str
    change_type: str
    is_inserted: str
    partner: str

    @classmethod
    def of(cls, merge: BoundMerge, source: Source, taken: Sequence[str]) -> HelperColumns:
        names = border.HelperNames(merge.schema.names, source.columns, taken)
        kinds = (merge.matched, merge.not_matched, merge.by_source)
        places = {
            (number, place): None
            for clauses in kinds
            for number, clause in enumerate(clauses)
            for place in range(len(clause.assignments))
        }
        return cls(
            clause=names.pick("clause"),
            values={(number, place): names.pick(f"value_{number}_{place}") for number, place in places},
            old_row=names.pick("old_row"),
            change_type=names.pick("change_type"),
            is_inserted=names.pick("is_inserted"),
            partner=names.pick("partner"),
        )


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes the rows that a merge writes to one snapshot. Frames have the table's columns under the merge's alias."""

    snapshot: Snapshot
    merge: BoundMerge
    writes_change_data: bool
    # The table, with the columns that the merge adds.
    target: WriteTarget
    ids: RowIdColumns | None
    columns: HelperColumns
    # The identity columns that some INSERT does not give, and the index of a source row, as SQL.
    numbering: Numbering
    index: str

    @classmethod
    def of(
        cls, snapshot: Snapshot, merge: BoundMerge, source: Source, *, writes_change_data: bool, skipped: int = 0
    ) -> RowMaker:
        ids = RowIdColumns.of(snapshot)
        target = replace(WriteTarget.of(snapshot), schema=merge.schema)
        given = [clause.columns for clause in merge.not_matched]
        numbering = Numbering.of(target, frozenset.intersection(*given), skipped=skipped) if given else Numbering()
        return cls(
            snapshot,
            merge,
            writes_change_data,
            target,
            ids,
            HelperColumns.of(merge, source, [*snapshot.schema.names, *(ids.names if ids else ())]),
            numbering,
            index_by_number(source.row_id, source.parts),
        )

    def update_rows(self, scope: DataFrame, clauses: Sequence[BoundClause], chosen: Column) -> DataFrame:
        """The target's rows in `scope`, each with the values of its clause."""
        updates = {number: clause for number, clause in enumerate(clauses) if clause.kind == "update"}
        decided = scope.withColumn(self.columns.clause, chosen).where(self._is_one_of(updates))
        valued = decided.withColumns(self._values(updates))
        old = {field.name: self._old_value(field) for field in self.merge.schema.fields}
        given = {number: self._stored_values(number, clause) for number, clause in updates.items()}
        columns = [
            self._new_value(field, old[field.name], given).alias(field.name) for field in self.merge.schema.fields
        ]
        kept = [F.expr(self.columns.clause)]
        if self.ids:
            kept += [self._target_column(name).alias(name) for name in self.ids.names]
        if self.writes_change_data:
            kept.append(F.struct(*(value.alias(name) for name, value in old.items())).alias(self.columns.old_row))
        rows = self._generate_columns(valued.select(*columns, *kept), updates)
        if self.ids:
            rows = self.ids.of_updated_rows(rows)
        rows = enforce_rules(rows.drop(self.columns.clause), self.target)
        if not self.writes_change_data:
            return rows
        names = self.columns
        return with_update_changes(rows, self.merge.schema.names, old_row=names.old_row, change_type=names.change_type)

    def _new_value(self, field: StructField, old: Column, given: Mapping[int, Mapping[str, _Given]]) -> Column:
        value = old
        for number, columns in given.items():
            if field.name in columns:
                new = assigned_column(field, old, columns[field.name])
                value = new if len(given) == 1 else F.when(self._is_of(number), new).otherwise(value)
        return value

    def _generate_columns(self, rows: DataFrame, updates: Mapping[int, BoundClause]) -> DataFrame:
        """Generated columns follow the columns they are made of, except where a clause gives them a value itself."""
        kept: dict[str, Column | None] = {}
        for name in generated_columns(self.target):
            given_by = [number for number, clause in updates.items() if name.lower() in clause.columns]
            kept[name] = F.col(self.columns.clause).isin(given_by) if given_by else None
        return with_generated(rows, self.target, kept)

    def make_rows_by_clause(self, scope: DataFrame, clauses: Sequence[BoundClause], chosen: Column) -> list[DataFrame]:
        """The rows that each clause makes of its rows in `scope`; `chosen` is the number of a row's clause."""
        decided = scope.withColumn(self.columns.clause, chosen)
        extra = [value.alias(name) for name, value in self.ids.of_new_rows().items()] if self.ids else []
        return [
            self.make_rows(decided.where(self._is_of(number)), number, clause, extra)
            for number, clause in enumerate(clauses)
        ]

    def make_rows(self, scope: DataFrame, number: int, clause: BoundClause, extra: Sequence[Column | str]) -> DataFrame:
        """The rows that one clause makes of all rows in `scope`; `extra` columns are kept."""
        valued = scope.withColumns(self._values({number: clause}))
        fields = [field for field in self.merge.schema.fields if field.name.lower() in clause.columns]
        given = self._stored_values(number, clause)
        values = [given[field.name][()].alias(field.name) for field in fields]
        # A source row becomes one row at most, so its own number makes a number that no other row gets.
        numbered = self.numbering.without(clause.columns)
        values += numbered.values(self.index)
        rows = complete_rows(valued.select(*values, *extra), self.target, given=clause.columns | numbered.names)
        return enforce_rules(rows, self.target)

    def copy_rows(self, scanned: DataFrame) -> DataFrame:
        """Unchanged rows of the table, in the columns it will have."""
        columns = [self._old_value(field).alias(field.name) for field in self.merge.schema.fields]
        ids = [self._target_column(name).alias(name) for name in self.ids.names] if self.ids else []
        return scanned.select(*columns, *ids, F.lit(False).alias(self.columns.is_inserted))

    def _old_value(self, field: StructField) -> Column:
        """The column as the table has it now, in the type it will have; null where the merge adds it."""
        present = self.snapshot.schema.get(field.name)
        if present is None:
            return F.lit(None).cast(spark_type(field.type))
        return cast_for_column(self._target_column(field.name), spark_type(present.type), field)

    def _target_column(self, name: str) -> Column:
        return F.expr(f"{border.quote_name(self.merge.alias)}.{border.quote_name(name)}")

    # --- values -------------------------------------------------------------------------------------------------------

    def _values(self, clauses: Mapping[int, BoundClause]) -> dict[str, Column]:
        """The values of clauses, each computed only for its own rows. All rows belong to one of these clauses."""
        found = {}
        for number, clause in clauses.items():
            for place, assignment in enumerate(clause.assignments):
                value = assignment.value if len(clauses) == 1 else F.when(self._is_of(number), assignment.value)
                found[self.columns.values[number, place]] = value
        return found

    def _stored_values(self, number: int, clause: BoundClause) -> dict[str, dict[tuple[str, ...], Column]]:
        """What the clause gives to each of its columns."""
        found: dict[str, dict[tuple[str, ...], Column]] = {}
        for place, assignment in enumerate(clause.assignments):
            first, *inner = assignment.target.path
            value = F.expr(self.columns.values[number, place])
            value = cast_for_column(value, assignment.given, assignment.target.field, policy=self.merge.policy)
            found.setdefault(first, {})[tuple(inner)] = value
        return found

    def _is_of(self, number: int) -> Column:
        return F.expr(f"{self.columns.clause} = {number}")

    def _is_one_of(self, updates: Mapping[int, BoundClause]) -> Column:
        lost = border.failure(
            "DELTA_NUM_RECORDS_MISMATCH",
            F.lit(
                "A condition of the merge held when the rows to change were looked for and does not hold any more, so "
                "nothing was changed. Compute what depends on the time in the source."
            ),
        )
        return F.when(F.col(self.columns.clause).isin(list(updates)), F.lit(True)).otherwise(lost)
