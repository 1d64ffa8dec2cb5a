"""What does a table need?

Looks at the log, at the names in storage, and, for a purge of a table with column mapping, at the footers of files. No
row is read, nothing is written and Spark has no part in it. Every question is asked of the command that would do the
work (OPTIMIZE's plan, VACUUM's dry run, the dry run of the log's cleanup), so what is promised is what is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from ebbtide.commands.maintain.findings import (
    ExpiredLogFiles,
    Finding,
    HeldRows,
    MissingCheckpoint,
    OldCheckpoint,
    PartitionGain,
    SmallFiles,
    UnneededFiles,
    UnsortedFiles,
    WornFiles,
)
from ebbtide.commands.maintain.request import MaintainRequest
from ebbtide.commands.optimize.packing import FileGroup, PackingRules, Partition, has_marked_rows
from ebbtide.commands.optimize.planning import LayoutPlan, plan_whole_table
from ebbtide.commands.purge.choosing import choose_purge_files
from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.log import Snapshot
from ebbtide.log.cleanup import clean_up_log
from ebbtide.log.listing import list_log
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.schema import partition_fields, physical_name
from ebbtide.protocol.statistics import num_records
from ebbtide.transaction import Clock

__all__ = ["TableLook", "look_at"]

# Enough to see where the trouble is; a table may have a hundred thousand partitions.
_NAMED_PARTITIONS: Final = 10


@dataclass(frozen=True, slots=True)
class TableLook:
    """A table as it was found. `findings` are in the order in which they are mended."""

    version: int
    num_files: int
    num_bytes: int
    num_commits: int
    checkpoint_version: int | None
    findings: tuple[Finding, ...]


def look_at(
    snapshot: Snapshot, request: MaintainRequest, *, on_phase: Callable[[str], None], clock: Clock
) -> TableLook:
    listing = list_log(snapshot.store)
    checkpoints = (files.version for files in listing.checkpoints if files.version <= snapshot.version)
    newest = next(checkpoints, None)
    return TableLook(
        version=snapshot.version,
        num_files=snapshot.num_files,
        num_bytes=snapshot.size_in_bytes,
        num_commits=len(listing.commits),
        checkpoint_version=newest,
        findings=tuple(_findings(snapshot, request, newest, on_phase, clock)),
    )


def _findings(
    snapshot: Snapshot,
    request: MaintainRequest,
    checkpoint: int | None,
    on_phase: Callable[[str], None],
    clock: Clock,
) -> Iterator[Finding]:
    if request.wants("optimize"):
        on_phase("Looking at the files")
        yield from find_in_layout(snapshot, plan_whole_table(snapshot, request.settings))
    if request.wants("purge"):
        on_phase("Looking for deleted rows")
        yield from _find_held_rows(snapshot, request)
    if request.wants("checkpoint"):
        yield from _find_distance(snapshot, request, checkpoint)
    if request.wants("vacuum"):
        on_phase("Looking for unneeded files")
        yield from _find_unneeded(snapshot, request, on_phase, clock)
    if request.wants("cleanup"):
        on_phase("Looking at the log")
        expired = clean_up_log(snapshot, config=request.options.config, now_ms=clock.now_ms(), dry_run=True)
        if expired:
            yield ExpiredLogFiles(len(expired), snapshot.properties.log_retention_ms)


# --- data files -------------------------------------------------------------------------------------------------------


def find_in_layout(snapshot: Snapshot, plan: LayoutPlan) -> Iterator[Finding]:
    """Why OPTIMIZE would rewrite the files of its plan."""
    rules = plan.rules
    chosen = [add for group in plan.groups for add in group.files]
    unsorted = [add for add in chosen if plan.cluster_by and add.clustering_provider is None]
    if unsorted:
        columns = tuple(".".join(path) for path in plan.cluster_by)
        yield UnsortedFiles(len(unsorted), _bytes(unsorted), columns)
    small = _small_files(snapshot, plan)
    if small is not None:
        yield small
    worn = [add for add in chosen if rules.is_worn(add)]
    if worn:
        shares = [add.num_marked_rows / rows for add in worn if (rows := num_records(add.stats))]
        marked = sum(add.num_marked_rows for add in worn)
        yield WornFiles(len(worn), _bytes(worn), marked, rules.max_deleted_share, max(shares, default=None))


def _small_files(snapshot: Snapshot, plan: LayoutPlan) -> SmallFiles | None:
    rules = plan.rules
    gains = [_gain(group, rules, is_sorted=bool(plan.cluster_by)) for group in plan.groups]
    worth_it = [gain for gain in gains if gain is not None]
    if not worth_it:
        return None
    files, sizes, new_files = Counter[Partition](), Counter[Partition](), Counter[Partition]()
    for partition, small, num_new_files in worth_it:
        files[partition] += len(small)
        sizes[partition] += _bytes(small)
        new_files[partition] += num_new_files
    shown = _partition_names(snapshot)
    return SmallFiles(
        num_files=files.total(),
        num_bytes=sizes.total(),
        num_new_files=new_files.total(),
        num_partitions=len(files),
        below_bytes=rules.min_bytes,
        partitions=tuple(
            PartitionGain(shown(partition), count, sizes[partition], new_files[partition])
            for partition, count in files.most_common(_NAMED_PARTITIONS)
        ),
    )


def _gain(group: FileGroup, rules: PackingRules, *, is_sorted: bool) -> tuple[Partition, Sequence[AddFile], int] | None:
    """The small files of a group that has enough of them, and the number of files they become."""
    small = [add for add in group.files if rules.is_small(add)]
    if is_sorted:
        small = [add for add in small if add.clustering_provider is not None]
    if len(small) < rules.min_group_files:
        return None
    return group.partition, small, max(1, ceil(_bytes(small) / rules.target_bytes)) if is_sorted else 1


def _partition_names(snapshot: Snapshot) -> Callable[[Partition], str]:
    """Partitions as people write them, `day=2026-01-31`; the log names columns by their physical names."""
    fields = partition_fields(snapshot.schema, snapshot.metadata.partition_columns)
    mapped = snapshot.properties.column_mapping_mode != "none"
    names = {physical_name(field) if mapped else field.name: field.name for field in fields}

    def display_text(partition: Partition) -> str:
        values = dict(partition)
        return "/".join(f"{name}={values.get(key)}" for key, name in names.items())

    return display_text


def _find_held_rows(snapshot: Snapshot, request: MaintainRequest) -> Iterator[Finding]:
    held = choose_purge_files(snapshot, snapshot.files, storage_options=request.options.storage_options)
    if held:
        marked = sum(add.num_marked_rows for add in held)
        unmarked = sum(not has_marked_rows(add) for add in held)
        yield HeldRows(len(held), _bytes(held), marked, unmarked)


def _bytes(files: Sequence[AddFile]) -> int:
    return sum(add.size for add in files)


# --- the log and storage ----------------------------------------------------------------------------------------------


def _find_distance(snapshot: Snapshot, request: MaintainRequest, checkpoint: int | None) -> Iterator[Finding]:
    limit = request.max_commits or snapshot.properties.checkpoint_interval
    # The first checkpoint is due at the version `limit`.
    if snapshot.version - (checkpoint or 0) >= limit:
        if checkpoint is None:
            yield MissingCheckpoint(snapshot.version + 1, limit)
        else:
            yield OldCheckpoint(snapshot.version - checkpoint, checkpoint, limit)


def _find_unneeded(
    snapshot: Snapshot, request: MaintainRequest, on_phase: Callable[[str], None], clock: Clock
) -> Iterator[Finding]:
    found = VacuumCommand(request.at(snapshot).vacuum(dry_run=True), on_phase=on_phase, clock=clock).run()
    if found.metrics.num_files_to_delete:
        yield UnneededFiles(found.metrics.num_files_to_delete, found.metrics.size_of_data_to_delete, found.cutoff_ms)
