"""Which rows does a MERGE write?

    updated rows    where a matched row becomes its source row (UPDATE SET *), that row, and the table is not read;
                    otherwise the matched rows, found again by their positions and joined with the source once more.
                    Rows without a match need no join
    inserted rows   source rows without a match
                    Where both are source rows, all of them are written, matched or not (`write_source`)
    copied rows     the unchanged rows of rewritten files, where the table has no deletion vectors
    changes         with a change data feed: rows as they were and as they are, rows deleted, rows inserted

All of it is one write. What the rows look like is `merge.row_values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundMerge
from ebbtide.commands.merge.matching import ChangedFile, Matches, chosen_clause
from ebbtide.commands.merge.row_values import HelperColumns, RowMaker
from ebbtide.commands.merge.source import Source
from ebbtide.commands.merge.strategy import MergeStrategy
from ebbtide.commands.row_level.new_rows import with_insert_changes
from ebbtide.commands.row_level.touched_files import total_rows
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import InternalError
from ebbtide.log import Snapshot
from ebbtide.scan import ScanFile, scan_files
from ebbtide.write import UsedNumbers, WrittenFiles, write_files
from ebbtide.write.abandoned import discard
from ebbtide.write.ahead import WriteAhead, write_ahead

__all__ = ["MergeWriter", "MergedRows", "RewrittenFile"]

RewrittenFile = tuple[ScanFile, RowIndexSet]


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The files written, None when no row could be; how many rows were inserted, and which numbers they got."""

    files: WrittenFiles | None = None
    num_inserted: int = 0
    used: UsedNumbers = field(default_factory=UsedNumbers)


@dataclass(frozen=True, slots=True)
class MergeWriter:
    """What a merge writes to one snapshot."""

    spark: SparkSession
    snapshot: Snapshot
    merge: BoundMerge
    source: Source
    strategy: MergeStrategy
    rows: RowMaker

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        snapshot: Snapshot,
        merge: BoundMerge,
        source: Source,
        strategy: MergeStrategy,
        *,
        skipped: int = 0,
    ) -> MergeWriter:
        """`skipped` numbers of identity columns are left to other writers."""
        rows = RowMaker.of(snapshot, merge, source, writes_change_data=strategy.writes_change_data, skipped=skipped)
        return cls(spark, snapshot, merge, source, strategy, rows)

    @property
    def columns(self) -> HelperColumns:
        return self.rows.columns

    def write(
        self,
        matches: Matches,
        rewritten: Sequence[RewrittenFile],
        candidates: Sequence[ScanFile],
    ) -> MergedRows:
        """Write everything.

        `rewritten` are the files whose other rows are copied, and `candidates` those in which a source row can have
        a match.
        """
        fresh = self._fresh_rows(matches, candidates)
        kept = [file.without(rows) for file, rows in rewritten]
        frames = [*fresh, *([self._copied_rows(kept)] if kept else [])]
        if self.strategy.writes_change_data:
            deleted = [(item.file, item.deleted_rows) for item in matches.files]
            frames += [self._deleted_rows(_select_rows(deleted))] if any(rows for _, rows in deleted) else []
        if not frames:
            return MergedRows()
        # Counted at the very end of the query: where a shuffle turns out to be empty, Spark drops what is below it,
        # counters included.
        is_new = self.columns.is_inserted
        if self.strategy.writes_change_data:
            is_new += f" AND {self.columns.change_type} IS NULL"
        observed = {"inserted": f"count_if({is_new})", **self.rows.numbering.metrics(self.columns.is_inserted)}
        rows, counting = border.observe_metrics(self._union(frames), observed)
        written = write_files(
            self.spark,
            rows,
            self.rows.target,
            change_type_column=self.columns.change_type if self.strategy.writes_change_data else None,
            extra_columns=self.rows.ids.in_files if self.rows.ids else None,
        )
        try:
            answers = border.wait_for_metrics(counting)
            return MergedRows(written, int(answers["inserted"]), self.rows.numbering.read_used(answers))
        except InternalError:
            discard(self.snapshot.store, [written])
            raise

    def write_source_ahead(self) -> AbstractContextManager[WriteAhead]:
        """Writes the rows of the source while the block runs."""
        return write_ahead(self.spark, self.snapshot.store, self.write_source)

    def write_source(self) -> WrittenFiles:
        """The rows of the source, in as few files as they need."""
        rows = self.rows.make_rows(self.source.frame, 0, self.merge.matched[0], [])
        is_small = self.source.num_rows <= self.strategy.thresholds.one_writer_rows
        divided = self._divide_into_files(rows, in_one_task=is_small, is_divided=self.strategy.keeps_parts)
        return write_files(self.spark, divided, self.rows.target)

    def _union(self, frames: Sequence[DataFrame]) -> DataFrame:
        ids = self.rows.ids.names if self.rows.ids else ()
        change_type = [self.columns.change_type] if self.strategy.writes_change_data else []
        names = [*self.merge.schema.names, *ids, *change_type, self.columns.is_inserted]
        return reduce(DataFrame.unionAll, [frame.select(*map(border.column, names)) for frame in frames])

    def _fresh_rows(self, matches: Matches, candidates: Sequence[ScanFile]) -> list[DataFrame]:
        """Updated and inserted rows, in as few files as they need."""
        changed, partners, strategy = matches.files, matches.partners, self.strategy
        scanned = candidates if partners is None else [item.file for item in changed]
        num_rows = total_rows(scanned) + self.source.num_rows
        in_one_task = strategy.joins_in_one_task and num_rows <= strategy.thresholds.one_writer_rows
        taken = self._partner_rows(matches)
        frames = [] if taken is None else [taken]
        updated = self._updated_rows(changed, in_one_task, with_matched=taken is None)
        is_inserted = self.columns.is_inserted
        frames += [frame.withColumn(is_inserted, F.lit(False)) for frame in updated]
        if self.merge.not_matched and not (taken is not None and self.merge.inserts_source_rows):
            without = self._unmatched_source_rows(candidates, matches)
            clauses = self.merge.not_matched
            made = self.rows.make_rows_by_clause(without, clauses, chosen_clause(clauses))
            inserted = reduce(DataFrame.unionAll, made).withColumn(is_inserted, F.lit(True))
            if self.strategy.writes_change_data:
                inserted = with_insert_changes(inserted, change_type=self.columns.change_type)
            frames.append(inserted)
        if not frames:
            return []
        # Where all rows come out of a shuffled join, the join has already divided them.
        is_divided = not strategy.sends_source and not any(item.missing_updated for item in changed)
        if taken is not None and len(frames) == 1:
            is_divided = strategy.keeps_parts
        return [self._divide_into_files(self._union(frames), in_one_task=in_one_task, is_divided=is_divided)]

    def _divide_into_files(self, rows: DataFrame, *, in_one_task: bool, is_divided: bool) -> DataFrame:
        """Divide the rows into the parts that become files; `is_divided`: their present parts will do."""
        if in_one_task:
            return rows.coalesce(1)
        columns = [border.column(field.name) for field in self.rows.target.partition_fields]
        if columns:
            return rows.repartition(*columns)
        return rows if is_divided else rows.hint("rebalance")

    # --- updated ------------------------------------------------------------------------------------------------------

    def _partner_rows(self, matches: Matches) -> DataFrame | None:
        """The source rows that matched rows become, and those that are inserted unchanged.

        None where the old rows are needed.
        """
        partners = matches.partners
        is_possible = self.strategy.writes_partners and matches.partners_are_single
        if partners is None or not is_possible or not partners.count:
            return None
        is_partner = partners.is_partner(self.spark, self.source, self.strategy.thresholds)
        if is_partner is None:
            return None
        is_inserted = self.columns.is_inserted
        if self.merge.inserts_source_rows:
            rows = self.source.frame.withColumn(is_inserted, ~is_partner)
        else:
            rows = self.source.frame.where(is_partner).withColumn(is_inserted, F.lit(False))
        return self.rows.make_rows(rows, 0, self.merge.matched[0], [is_inserted])

    def _updated_rows(
        self, changed: Sequence[ChangedFile], in_one_task: bool, *, with_matched: bool
    ) -> Iterator[DataFrame]:
        merge = self.merge
        matched = _select_rows([(item.file, item.matched_updated) for item in changed])
        missing = _select_rows([(item.file, item.missing_updated) for item in changed])
        if matched and with_matched:
            # All target rows are kept, so that one that lost its match is noticed.
            target = self._scan(matched)
            joined = self.source.join_to(
                target, merge.condition, "left", way=self.strategy.join_way(in_one_task=in_one_task)
            )
            has_partner = F.col(self.source.row_id).isNotNull()
            yield self.rows.update_rows(joined, merge.matched, F.when(has_partner, chosen_clause(merge.matched)))
        if missing:
            yield self.rows.update_rows(self._scan(missing), merge.by_source, chosen_clause(merge.by_source))

    # --- inserted -----------------------------------------------------------------------------------------------------

    def _unmatched_source_rows(self, candidates: Sequence[ScanFile], matches: Matches) -> DataFrame:
        """The source rows without a match in the candidates."""
        source, partners = self.source, matches.partners
        if not candidates:
            return source.frame
        is_partner = None if partners is None else partners.is_partner(self.spark, source, self.strategy.thresholds)
        if is_partner is not None:
            return source.frame.where(~is_partner)
        partner = self.columns.partner
        # In this join order the target is never shuffled for a small source.
        target = scan_files(self.spark, self.snapshot, candidates).alias(self.merge.alias)
        joined = source.join_to(target, self.merge.condition, "inner", way=self.strategy.join_way(by_keys=True))
        paired = joined.selectExpr(f"{source.row_id} AS {partner}").distinct()
        side = F.broadcast(paired) if self.strategy.sends_source else paired
        return source.frame.join(side, F.col(source.row_id) == F.col(partner), "left_anti")

    # --- what was there -----------------------------------------------------------------------------------------------

    def _scan(self, files: Sequence[ScanFile]) -> DataFrame:
        return scan_files(self.spark, self.snapshot, files, row_ids=self.rows.ids).alias(self.merge.alias)

    def _copied_rows(self, files: Sequence[ScanFile]) -> DataFrame:
        rows = self.rows.copy_rows(self._scan(files))
        if not self.strategy.writes_change_data:
            return rows
        return rows.withColumn(self.columns.change_type, F.lit(None).cast("string"))

    def _deleted_rows(self, files: Sequence[ScanFile]) -> DataFrame:
        return self.rows.copy_rows(self._scan(files)).withColumn(self.columns.change_type, F.lit("delete"))


def _select_rows(files: Sequence[tuple[ScanFile, RowIndexSet]]) -> list[ScanFile]:
    """The files, showing only these rows."""
    return [file.only(rows) for file, rows in files if rows]
