"""Which way does a MERGE go?

There are several ways to the same rows: a small source is sent to every task, many whole numbers are looked up instead
of joined, an upsert writes its source while matches are searched for. `choose_strategy` decides once, when the source
has been computed and its size is known; the code that does the work only follows the strategy. `MergeThresholds` says
where one way becomes quicker than another: measured, and without influence on the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.commands.merge.clauses import BoundMerge
from ebbtide.commands.merge.request import MergeRequest
from ebbtide.commands.merge.source import JoinWay, Source
from ebbtide.commands.row_level.plan import should_write_persistent_deletion_vectors
from ebbtide.log import Snapshot

__all__ = ["MergeStrategy", "MergeThresholds", "choose_strategy"]


@dataclass(frozen=True, slots=True)
class MergeThresholds:
    """Where one way becomes quicker than another."""

    # A source, or its keys, of no more bytes than this is sent to every task instead of shuffling the target to it.
    broadcast_bytes: int = 32 << 20
    # Such a source of no more rows than this is joined within the one task that reads the target.
    one_task_source_rows: int = 100_000
    # Up to this many rows are read and written by one task: a shuffle would take longer than they do.
    one_writer_rows: int = 200_000
    # From this many rows on, whole numbers are looked up quicker than joined.
    looked_up_keys: int = 200_000
    # Up to this many partners are listed in the condition itself: arrays would take longer to build.
    listed_partners: int = 64
    # Partners in more blocks of 65,536 rows than this are joined instead of looked up.
    partner_blocks: int = 4096
    # Parts of the source between these sizes are written as they are, one file each. In memory rows are several times
    # as large as in a file.
    fewest_bytes_per_file: int = 16 << 20
    most_bytes_per_file: int = 1 << 30


@dataclass(frozen=True, slots=True)
class MergeStrategy:
    """The way that one merge goes on one snapshot."""

    thresholds: MergeThresholds
    # Changed rows are marked, and their files stay. Otherwise the files are rewritten.
    marks_rows: bool
    writes_change_data: bool
    inserts_only: bool
    # The source, or what ON compares of it, is sent to every task.
    sends_source: bool
    sends_keys: bool
    # One task may hold the source in memory to join it with what that task reads.
    joins_in_one_task: bool
    looks_up_keys: bool
    # Matched rows become their source rows, so those are written and the old rows are not needed.
    writes_partners: bool
    # Every source row is written unchanged, with or without a match, so writing does not wait for the matches. That
    # is right as long as no source row matches two target rows, which only the matches show.
    writes_source_ahead: bool
    # The parts of the source are neither too small nor too large to be written as they are.
    keeps_parts: bool
    # It does not matter how many rows of the source a row of the target matches.
    allows_several_partners: bool
    # Files with a matched row are replaced, even if none of their rows change.
    needs_paired_files: bool
    # Little is shuffled.
    shuffles_little: bool

    def join_way(self, *, in_one_task: bool = False, by_keys: bool = False) -> JoinWay:
        """How the source is joined; `by_keys`: its keys are all that is used."""
        if in_one_task:
            return "one task"
        return "broadcast" if self.sends_source or (by_keys and self.sends_keys) else "shuffle"


def choose_strategy(
    request: MergeRequest, merge: BoundMerge, source: Source, snapshot: Snapshot, thresholds: MergeThresholds
) -> MergeStrategy:
    """The way of this merge; `source` has been computed."""
    marks_rows = should_write_persistent_deletion_vectors(snapshot, request.options.deletion_vectors)
    writes_change_data = snapshot.properties.enable_change_data_feed and not request.is_insert_only
    sends_source = _is_at_most(source.num_bytes, thresholds.broadcast_bytes)
    sends_keys = _is_at_most(source.key_bytes, thresholds.broadcast_bytes)
    keeps_old_rows_out = not writes_change_data and not snapshot.properties.enable_row_tracking
    writes_partners = merge.updates_to_source_rows and keeps_old_rows_out
    is_upsert = writes_partners and merge.inserts_source_rows and not merge.by_source
    bounds = source.key_bounds
    return MergeStrategy(
        thresholds=thresholds,
        marks_rows=marks_rows,
        writes_change_data=writes_change_data,
        inserts_only=request.is_insert_only,
        sends_source=sends_source,
        sends_keys=sends_keys,
        joins_in_one_task=sends_source and source.num_rows <= thresholds.one_task_source_rows,
        looks_up_keys=bounds is not None and bounds.fit_into_a_lookup and source.num_rows >= thresholds.looked_up_keys,
        writes_partners=writes_partners,
        writes_source_ahead=marks_rows and is_upsert,
        keeps_parts=_has_good_parts(source, thresholds),
        allows_several_partners=request.deletes_every_match,
        needs_paired_files=not marks_rows and bool(merge.not_matched) and not merge.by_source,
        shuffles_little=sends_source or (merge.updates_to_source_rows and sends_keys),
    )


def _is_at_most(num_bytes: int | None, limit: int) -> bool:
    return num_bytes is not None and num_bytes <= limit


def _has_good_parts(source: Source, thresholds: MergeThresholds) -> bool:
    if source.num_bytes is None:
        return False
    fewest = source.num_bytes // thresholds.most_bytes_per_file
    return fewest <= source.parts <= max(source.num_bytes // thresholds.fewest_bytes_per_file, 2)
