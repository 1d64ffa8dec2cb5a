"""Which rows does a MERGE write?

    updated rows    where a matched row becomes its partner (UPDATE SET *), the partner, and the table is not looked at;
                    otherwise the matched rows, found again by their positions and joined with the source once more.
                    Rows without a partner need no join
    inserted rows   rows of the source without a partner
                    Where both are the source's rows, all of these are written whatever finds a partner (`write_source`)
    copied rows     the unchanged rows of rewritten files, where the table has no deletion vectors
    changes         with a change data feed: rows as they were and as they are, rows deleted, rows inserted

All of it is one write. A value is computed only for the rows of its own clause, and once: a division by zero in another
clause fails nothing, and a random value is the same in data and change data. A row that was found to be updated and
now falls to no clause fails the merge: a condition that depends on the time of day could lose it otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundClause, BoundMerge
from ebbtide.commands.merge.matching import ChangedFile, chosen_clause
from ebbtide.commands.merge.partners import Partners
from ebbtide.commands.merge.source import Source
from ebbtide.commands.row_level.assignments import assigned_column
from ebbtide.commands.row_level.new_rows import with_generated, with_insert_changes, with_update_changes
from ebbtide.commands.row_level.touched_files import total_rows
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import StructField
from ebbtide.scan import RowIdColumns, ScanFile, scan_files
from ebbtide.write import WriteTarget, WrittenFiles, completed, enforced, generated_columns, stored, write_files
from ebbtide.write.abandoned import discard
from ebbtide.write.columns import spark_type

__all__ = ["MergeWriter", "RewrittenFile"]

# Up to this many rows are read and written by one task: a shuffle would take longer than they do.
_ONE_WRITER_ROWS: Final = 200_000

RewrittenFile = tuple[ScanFile, RowIndexSet]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The helper columns of the frames that a merge writes, called like no column of the table or the source."""

    # The number of the clause that a row falls to, and the values of the clauses, by clause and place in it.
    clause: str
    values: Mapping[tuple[int, int], str]
    old_row: str
    change_type: str
    is_inserted: str
    partner: str

    @classmethod
    def of(cls, merge: BoundMerge, source: Source, taken: Sequence[str]) -> _Columns:
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
class MergeWriter:
    """What a merge writes to one snapshot."""

    spark: SparkSession
    snapshot: Snapshot
    merge: BoundMerge
    source: Source
    writes_change_data: bool
    # The table, with the columns that the merge adds.
    target: WriteTarget
    ids: RowIdColumns | None
    columns: _Columns

    @classmethod
    def of(
        cls, spark: SparkSession, snapshot: Snapshot, merge: BoundMerge, source: Source, *, writes_change_data: bool
    ) -> MergeWriter:
        target = replace(WriteTarget.of(snapshot), schema=merge.schema)
        ids = RowIdColumns.of(snapshot)
        columns = _Columns.of(merge, source, [*snapshot.schema.names, *(ids.names if ids else ())])
        return cls(spark, snapshot, merge, source, writes_change_data, target, ids, columns)

    def write(
        self,
        changed: Sequence[ChangedFile],
        rewritten: Sequence[RewrittenFile],
        candidates: Sequence[ScanFile],
        partners: Partners | None,
    ) -> tuple[WrittenFiles | None, int]:
        """The files written, None when no row could be; and how many rows were inserted.

        `changed` are the files with changed rows, `rewritten` those whose other rows are copied, and `candidates` those
        in which a row of the source can have a partner. `partners` says which rows have one, where that is known.
        """
        fresh = self._fresh_rows(changed, candidates, partners)
        kept = [file.without(rows) for file, rows in rewritten]
        frames = [*fresh, *([self._copied(kept)] if kept else [])]
        if self.writes_change_data:
            deleted = [(item.file, item.deleted) for item in changed]
            frames += [self._deleted(_only(deleted))] if any(rows for _, rows in deleted) else []
        if not frames:
            return None, 0
        # Counted at the very end of the query: where a shuffle turns out to be empty, Spark drops what is below it,
        # counters included.
        is_new = self.columns.is_inserted
        if self.writes_change_data:
            is_new += f" AND {self.columns.change_type} IS NULL"
        rows, counting = border.observed(self._united(frames), {"inserted": f"count_if({is_new})"})
        written = write_files(
            self.spark,
            rows,
            self.target,
            change_type_column=self.columns.change_type if self.writes_change_data else None,
            extra_columns=self.ids.in_files if self.ids else None,
        )
        try:
            return written, int(border.reported(counting)["inserted"])
        except InternalError:
            discard(self.snapshot.store, [written])
            raise

    @property
    def takes_whole_source(self) -> bool:
        """Whether every row of the source is written as it is, be it for a matched row or as a new one.

        That holds as long as none has two matched rows, which only the matches tell.
        """
        merge = self.merge
        is_upsert = merge.updates_to_source_rows and merge.inserts_source_rows and not merge.by_source
        return is_upsert and not self.writes_change_data and self.ids is None

    def write_source(self) -> WrittenFiles:
        """The rows of the source, in as few files as they need."""
        source = self.source
        rows = self._row_of(source.frame, 0, self.merge.matched[0], [])
        divided = self._divided(
            rows, in_one_task=source.num_rows <= _ONE_WRITER_ROWS, is_divided=source.is_evenly_divided
        )
        return write_files(self.spark, divided, self.target)

    def _united(self, frames: Sequence[DataFrame]) -> DataFrame:
        ids = self.ids.names if self.ids else ()
        change_type = [self.columns.change_type] if self.writes_change_data else []
        names = [*self.merge.schema.names, *ids, *change_type, self.columns.is_inserted]
        return reduce(DataFrame.unionAll, [frame.select(*map(border.column, names)) for frame in frames])

    def _fresh_rows(
        self, changed: Sequence[ChangedFile], candidates: Sequence[ScanFile], partners: Partners | None
    ) -> list[DataFrame]:
        """Updated and inserted rows, in as few files as they need."""
        scanned = candidates if partners is None else [item.file for item in changed]
        in_one_task = self.source.is_tiny and total_rows(scanned) + self.source.num_rows <= _ONE_WRITER_ROWS
        taken = self._taken(changed, partners)
        frames = [] if taken is None else [taken]
        updated = self._updated(changed, in_one_task, with_matched=taken is None)
        is_inserted = self.columns.is_inserted
        frames += [frame.withColumn(is_inserted, F.lit(False)) for frame in updated]
        if self.merge.not_matched and not (taken is not None and self.merge.inserts_source_rows):
            without = self._without_partner(candidates, partners)
            inserted = self._inserted(without).withColumn(is_inserted, F.lit(True))
            if self.writes_change_data:
                inserted = with_insert_changes(inserted, change_type=self.columns.change_type)
            frames.append(inserted)
        if not frames:
            return []
        # Where all rows come out of a shuffled join, that has divided them already.
        is_divided = not self.source.is_small and not any(item.missing_updated for item in changed)
        if taken is not None and len(frames) == 1:
            is_divided = self.source.is_evenly_divided
        return [self._divided(self._united(frames), in_one_task=in_one_task, is_divided=is_divided)]

    def _divided(self, rows: DataFrame, *, in_one_task: bool, is_divided: bool) -> DataFrame:
        """The rows in parts that become files; `is_divided` says that their parts will do."""
        if in_one_task:
            return rows.coalesce(1)
        columns = [border.column(field.name) for field in self.target.partition_fields]
        if columns:
            return rows.repartition(*columns)
        return rows if is_divided else rows.hint("rebalance")

    # --- updated ------------------------------------------------------------------------------------------------------

    def _taken(self, changed: Sequence[ChangedFile], partners: Partners | None) -> DataFrame | None:
        """The rows of the source itself, where they are what matched rows become (and what is inserted, where it is).

        None where something of the old rows is needed. As many partners as matched rows: none of them has two of those,
        for a matched row has one partner, or the merge would have been refused.
        """
        num_matched = sum(len(item.matched_updated) for item in changed)
        is_possible = self.merge.updates_to_source_rows and not self.writes_change_data and self.ids is None
        if partners is None or not is_possible or not num_matched or partners.count != num_matched:
            return None
        is_partner = partners.is_partner(self.spark, self.source)
        if is_partner is None:
            return None
        is_inserted = self.columns.is_inserted
        if self.merge.inserts_source_rows:
            rows = self.source.frame.withColumn(is_inserted, ~is_partner)
        else:
            rows = self.source.frame.where(is_partner).withColumn(is_inserted, F.lit(False))
        return self._row_of(rows, 0, self.merge.matched[0], [is_inserted])

    def _updated(self, changed: Sequence[ChangedFile], in_one_task: bool, *, with_matched: bool) -> Iterator[DataFrame]:
        merge = self.merge
        matched = _only([(item.file, item.matched_updated) for item in changed])
        missing = _only([(item.file, item.missing_updated) for item in changed])
        if matched and with_matched:
            # The target's rows are all kept, so that one which lost its partner is noticed.
            target = self._scanned(matched)
            joined = self.source.joined_to(target, merge.condition, "left", in_one_task=in_one_task)
            has_partner = F.col(self.source.row_id).isNotNull()
            yield self._new_rows(joined, merge.matched, F.when(has_partner, chosen_clause(merge.matched)))
        if missing:
            yield self._new_rows(self._scanned(missing), merge.by_source, chosen_clause(merge.by_source))

    def _new_rows(self, scope: DataFrame, clauses: Sequence[BoundClause], chosen: Column) -> DataFrame:
        """The target's rows in `scope` with the values of the clause that each falls to."""
        updates = {number: clause for number, clause in enumerate(clauses) if clause.kind == "update"}
        decided = scope.withColumn(self.columns.clause, chosen).where(self._is_one_of(updates))
        valued = decided.withColumns(self._values(updates))
        old = {field.name: self._old_value(field) for field in self.merge.schema.fields}
        columns = [
            self._new_value(field, old[field.name], updates).alias(field.name) for field in self.merge.schema.fields
        ]
        kept = [F.expr(self.columns.clause)]
        if self.ids:
            kept += [self._target_column(name).alias(name) for name in self.ids.names]
        if self.writes_change_data:
            kept.append(F.struct(*(value.alias(name) for name, value in old.items())).alias(self.columns.old_row))
        rows = self._with_generated(valued.select(*columns, *kept), updates)
        if self.ids:
            rows = self.ids.of_updated_rows(rows)
        rows = enforced(rows.drop(self.columns.clause), self.target)
        if not self.writes_change_data:
            return rows
        names = self.columns
        return with_update_changes(rows, self.merge.schema.names, old_row=names.old_row, change_type=names.change_type)

    def _new_value(self, field: StructField, old: Column, updates: Mapping[int, BoundClause]) -> Column:
        value = old
        for number, clause in updates.items():
            given = self._stored_values(number, clause, field)
            if given:
                new = assigned_column(field, old, given)
                value = new if len(updates) == 1 else F.when(self._is_of(number), new).otherwise(value)
        return value

    def _with_generated(self, rows: DataFrame, updates: Mapping[int, BoundClause]) -> DataFrame:
        """Generated columns follow the columns they are made of, except where a clause gives them a value itself."""
        kept: dict[str, Column | None] = {}
        for name in generated_columns(self.target):
            given_by = [number for number, clause in updates.items() if name.lower() in clause.columns]
            kept[name] = F.col(self.columns.clause).isin(given_by) if given_by else None
        return with_generated(rows, self.target, kept)

    # --- inserted -----------------------------------------------------------------------------------------------------

    def _inserted(self, without_partner: DataFrame) -> DataFrame:
        clauses = self.merge.not_matched
        decided = without_partner.withColumn(self.columns.clause, chosen_clause(clauses))
        rows = [self._new_row(decided, number, clause) for number, clause in enumerate(clauses)]
        return reduce(DataFrame.unionAll, rows)

    def _without_partner(self, candidates: Sequence[ScanFile], partners: Partners | None) -> DataFrame:
        """The rows of the source that no row of the candidates matches."""
        source = self.source
        if not candidates:
            return source.frame
        is_partner = partners.is_partner(self.spark, source) if partners is not None else None
        if is_partner is not None:
            return source.frame.where(~is_partner)
        partner = self.columns.partner
        # Joined this way round the target is never shuffled for a small source.
        target = scan_files(self.spark, self.snapshot, candidates).alias(self.merge.alias)
        joined = source.joined_to(target, self.merge.condition, "inner", by_keys=True)
        paired = joined.selectExpr(f"{source.row_id} AS {partner}").distinct()
        side = F.broadcast(paired) if source.is_small else paired
        return source.frame.join(side, F.col(source.row_id) == F.col(partner), "left_anti")

    def _new_row(self, scope: DataFrame, number: int, clause: BoundClause) -> DataFrame:
        extra = [value.alias(name) for name, value in self.ids.of_new_rows().items()] if self.ids else []
        return self._row_of(scope.where(self._is_of(number)), number, clause, extra)

    def _row_of(self, scope: DataFrame, number: int, clause: BoundClause, extra: Sequence[Column | str]) -> DataFrame:
        """Rows that the clause makes of those in `scope` alone; `extra` columns are kept beside them."""
        valued = scope.withColumns(self._values({number: clause}))
        fields = [field for field in self.merge.schema.fields if field.name.lower() in clause.columns]
        values = [self._stored_values(number, clause, field)[()].alias(field.name) for field in fields]
        rows = completed(valued.select(*values, *extra), self.target, given=clause.columns)
        return enforced(rows, self.target)

    # --- what was there -----------------------------------------------------------------------------------------------

    def _scanned(self, files: Sequence[ScanFile]) -> DataFrame:
        return scan_files(self.spark, self.snapshot, files, row_ids=self.ids).alias(self.merge.alias)

    def _copied(self, files: Sequence[ScanFile]) -> DataFrame:
        rows = self._as_they_were(files)
        return (
            rows.withColumn(self.columns.change_type, F.lit(None).cast("string")) if self.writes_change_data else rows
        )

    def _deleted(self, files: Sequence[ScanFile]) -> DataFrame:
        return self._as_they_were(files).withColumn(self.columns.change_type, F.lit("delete"))

    def _as_they_were(self, files: Sequence[ScanFile]) -> DataFrame:
        columns = [self._old_value(field).alias(field.name) for field in self.merge.schema.fields]
        ids = [self._target_column(name).alias(name) for name in self.ids.names] if self.ids else []
        return self._scanned(files).select(*columns, *ids, F.lit(False).alias(self.columns.is_inserted))

    def _old_value(self, field: StructField) -> Column:
        """The column as the table has it now, in the type it will have; null where the merge adds it."""
        present = self.snapshot.schema.get(field.name)
        if present is None:
            return F.lit(None).cast(spark_type(field.type))
        return stored(self._target_column(field.name), spark_type(present.type), field)

    def _target_column(self, name: str) -> Column:
        return F.expr(f"{border.quoted(self.merge.alias)}.{border.quoted(name)}")

    # --- values -------------------------------------------------------------------------------------------------------

    def _values(self, clauses: Mapping[int, BoundClause]) -> dict[str, Column]:
        """The values of clauses, computed for their own rows only. The rows at hand are of no other clauses."""
        found = {}
        for number, clause in clauses.items():
            for place, assignment in enumerate(clause.assignments):
                value = assignment.value if len(clauses) == 1 else F.when(self._is_of(number), assignment.value)
                found[self.columns.values[number, place]] = value
        return found

    def _stored_values(self, number: int, clause: BoundClause, field: StructField) -> dict[tuple[str, ...], Column]:
        """What the clause gives to the column, by the path inside it; () is the column itself."""
        found = {}
        for place, assignment in enumerate(clause.assignments):
            first, *inner = assignment.target.path
            if first == field.name:
                value = F.expr(self.columns.values[number, place])
                found[tuple(inner)] = stored(value, assignment.given, assignment.target.field, policy=self.merge.policy)
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


def _only(files: Sequence[tuple[ScanFile, RowIndexSet]]) -> list[ScanFile]:
    """The files, showing nothing but these rows."""
    return [file.only(rows) for file, rows in files if rows]
