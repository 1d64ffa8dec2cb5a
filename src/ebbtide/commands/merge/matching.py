"""Which rows of the target does a MERGE change, and may it?

Source and target are joined by ON, and a clause is chosen for every row of the target. What comes to the driver is, as
for DELETE, one 64-bit word per 64 rows of a file in which something changes, for each of the four things that can
happen to a row. The same words show whether a target row matches more than one source row: then there are more pairs
than bits. Where it matters, words for the source's own rows come along and show which of them have a match. Where ON
only compares whole numbers, nothing is joined (`merge.keys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.merge.clauses import BoundClause, BoundMerge
from ebbtide.commands.merge.keys import SourceKeys
from ebbtide.commands.merge.partners import Partners
from ebbtide.commands.merge.source import JoinWay, Source
from ebbtide.commands.merge.strategy import MergeStrategy
from ebbtide.commands.row_level.touched_files import ONE_TASK_ROWS, block_and_bit, chunks_of, total_rows, words_by_file
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.scan import PositionedScan, ScanFile, scan_with_positions

__all__ = ["ChangedFile", "Matches", "chosen_clause", "find_matches"]

# The four things that can happen to a row of the target, and the columns of their words.
_KINDS: Final = ("matched_updated", "matched_deleted", "missing_updated", "missing_deleted")
# The same for a row of the source, which is in no file.
_PARTNERED: Final = len(_KINDS)
_BOTH_ROWS: Final = f"""
    inline(CASE
        WHEN is_pair THEN array(
            struct(file, row, is_pair, kind),
            struct(CAST(NULL AS LONG) AS file, partner AS row, false AS is_pair, {_PARTNERED} AS kind)
        )
        ELSE array(struct(file, row, is_pair, kind))
    END)
"""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of the target and the rows of it that the merge changes; the four sets are disjoint.

    `missing` rows are those that no row of the source matches.
    """

    file: ScanFile
    matched_updated: RowIndexSet
    matched_deleted: RowIndexSet
    missing_updated: RowIndexSet
    missing_deleted: RowIndexSet

    @property
    def deleted_rows(self) -> RowIndexSet:
        return self.matched_deleted | self.missing_deleted

    @property
    def changed_rows(self) -> RowIndexSet:
        return self.matched_updated | self.missing_updated | self.deleted_rows


@dataclass(slots=True)
class Matches:
    """`files` in which a row changes; `paired` are the paths of all files with a matched row, if requested.

    `partners` are the source rows with a match; None if they were not searched for.
    """

    files: list[ChangedFile] = field(default_factory=list)
    paired: set[str] = field(default_factory=set)
    partners: Partners | None = None

    def count(self, kind: str) -> int:
        return sum(len(getattr(file, kind)) for file in self.files)

    @property
    def num_updated(self) -> int:
        return self.count("matched_updated") + self.count("missing_updated")

    @property
    def partners_are_single(self) -> bool:
        """Whether no source row matches two target rows. Each matched row has exactly one partner, or the merge would
        have been refused. So with as many partners as matched rows, no partner has two."""
        return self.partners is not None and self.partners.count == self.count("matched_updated")

    def changed_rows(self, files: Sequence[ScanFile]) -> list[tuple[ScanFile, RowIndexSet]]:
        """The files, each with its changed rows."""
        changed = {item.file.spark_path: item.changed_rows for item in self.files}
        return [(file, changed.get(file.spark_path, RowIndexSet())) for file in files]


def find_matches(
    spark: SparkSession,
    snapshot: Snapshot,
    files: Sequence[ScanFile],
    merge: BoundMerge,
    source: Source,
    *,
    strategy: MergeStrategy,
    relevant: str | None,
) -> Matches:
    """Join and decide. RequestError when a row has several partners, unless the strategy allows it.

    Rows for which `relevant` (SQL over the target) is not true are left out: nothing can happen to them. The same
    condition leaves out files, and the layout of files must not decide whether a merge is refused.
    """
    matches = Matches(partners=Partners() if merge.needs_partners else None)
    for chunk in chunks_of(files):
        scan = scan_with_positions(spark, snapshot, chunk)
        target = scan.frame.alias(merge.alias)
        if relevant is not None:
            target = target.where(relevant)
        few = total_rows(chunk) <= ONE_TASK_ROWS and strategy.sends_source
        if source.keys is None:
            way = strategy.join_way(in_one_task=few and strategy.joins_in_one_task, by_keys=True)
            decided = _decide_by_join(scan, target, merge, source, way)
        else:
            decided = _decide_by_lookup(scan, source.keys.rows_with_partner(spark, target), merge, source.keys)
        # Where partners matter there is a second row per pair: the source row, which has no file.
        rows = decided.selectExpr(_BOTH_ROWS) if merge.needs_partners else decided
        folded = _fold_kinds(rows, merge, few=few, with_paired=strategy.needs_paired_files)
        with border.spark_errors(f"joining the source with {snapshot.store.url}"):
            words = folded.toArrow()
        if not strategy.allows_several_partners and pc.any(pc.greater(words["pairs"], words["partnered"])).as_py():
            raise _several_partners(snapshot)
        _collect(matches, scan, words)
    return matches


def chosen_clause(clauses: Sequence[BoundClause]) -> Column:
    """The number of the first clause whose condition holds; null when none does."""
    chosen = F.lit(None).cast("int")
    for number, clause in reversed(list(enumerate(clauses))):
        # A condition that is null falls through to the next clause.
        chosen = F.when(clause.condition, F.lit(number)).otherwise(chosen)
    return chosen


def _decide_by_join(
    scan: PositionedScan, target: DataFrame, merge: BoundMerge, source: Source, way: JoinWay
) -> DataFrame:
    """One row per pair (and per row without a partner, where that matters): file, row, is_pair, kind, partner."""
    how = "left" if merge.by_source else "inner"
    joined = source.join_to(target, merge.condition, how, way=way)
    names = border.HelperNames(scan.frame.columns)
    partner, matched_kind = names.pick("partner"), names.pick("kind")
    by_match = joined.select(
        f"{border.quote_name(merge.alias)}.*",
        F.expr(f"{source.row_id} AS {partner}"),
        _kind(merge.matched, 0).alias(matched_kind),
    )
    # From here on there are only target columns, so the clauses for rows without a partner see no others.
    is_pair = f"{partner} IS NOT NULL"
    kind = F.expr(f"CASE WHEN {is_pair} THEN {matched_kind} END")
    if merge.by_source:
        kind = F.when(F.expr(is_pair), F.expr(matched_kind)).otherwise(_kind(merge.by_source, 2))
    return by_match.alias(merge.alias).select(
        F.expr(f"{scan.file_column} AS file"),
        F.expr(f"{scan.row_column} AS row"),
        F.expr(f"{is_pair} AS is_pair"),
        kind.alias("kind"),
        F.expr(f"{partner} AS partner"),
    )


def _decide_by_lookup(scan: PositionedScan, paired: DataFrame, merge: BoundMerge, keys: SourceKeys) -> DataFrame:
    """The same, from rows of the target that have a partner and clauses without conditions: the first one holds."""
    return paired.selectExpr(
        f"{scan.file_column} AS file",
        f"{scan.row_column} AS row",
        "true AS is_pair",
        f"{0 if merge.matched[0].kind == 'update' else 1} AS kind",
        f"{keys.bounds.number_of_partner} AS partner",
    )


def _kind(clauses: Sequence[BoundClause], first: int) -> Column:
    """`first` for an update, the next number for a delete, null when no clause holds."""
    kind = F.expr("CAST(NULL AS INT)")
    for clause in reversed(clauses):
        number = F.expr(str(first if clause.kind == "update" else first + 1))
        kind = number if clause.display_text is None else F.when(clause.condition, number).otherwise(kind)
    return kind


def _fold_kinds(decided: DataFrame, merge: BoundMerge, *, few: bool, with_paired: bool) -> DataFrame:
    bits = decided.selectExpr("file", *block_and_bit("row"), "is_pair", "kind")
    if few:
        bits = bits.coalesce(1)
    words = {name: place for place, name in enumerate(_KINDS) if place in _kinds_of(merge)}
    if merge.needs_partners:
        words["partnered_source"] = _PARTNERED
    folds = [F.expr(f"bit_or(CASE WHEN kind = {kind} THEN bit ELSE 0L END) AS {name}") for name, kind in words.items()]
    pairs = [
        F.expr("count_if(is_pair) AS pairs"),
        F.expr("CAST(bit_count(bit_or(CASE WHEN is_pair THEN bit ELSE 0L END)) AS LONG) AS partnered"),
    ]
    folded = bits.groupBy("file", "block").agg(*folds, *pairs)
    changed = " OR ".join(f"{name} != 0" for name in words)
    return folded.where("pairs > 0 OR " + changed if with_paired else f"pairs > partnered OR {changed}")


def _kinds_of(merge: BoundMerge) -> set[int]:
    found = {0 if clause.kind == "update" else 1 for clause in merge.matched}
    return found | {2 if clause.kind == "update" else 3 for clause in merge.by_source}


def _collect(matches: Matches, scan: PositionedScan, words: pa.Table) -> None:
    if matches.partners is not None:
        of_source = words.filter(words["file"].is_null())
        matches.partners |= Partners.of_words(of_source["block"], of_source["partnered_source"])
        words = words.filter(words["file"].is_valid())
    for file, part in words_by_file(scan, words):
        if pc.any(pc.greater(part["pairs"], 0)).as_py():
            matches.paired.add(file.spark_path)
        sets = {kind: _row_set(part, kind) for kind in _KINDS}
        if any(sets.values()):
            matches.files.append(ChangedFile(file, **sets))


def _row_set(part: pa.Table, kind: str) -> RowIndexSet:
    if kind not in part.column_names:
        return RowIndexSet()
    found = part.filter(pc.not_equal(part[kind], 0)).combine_chunks()
    if not found.num_rows:
        return RowIndexSet()
    return RowIndexSet.from_numbered_words(found["block"].chunk(0), found[kind].chunk(0))


def _several_partners(snapshot: Snapshot) -> RequestError:
    return RequestError(
        f"A row of the table at {snapshot.store.url} matches more than one row of the source by the ON condition, so "
        "it is not clear which of them should change it. Nothing was changed. Make the source unique on the columns "
        "of ON, for example with dropDuplicates, or by an aggregation.",
        error_class="DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    )
