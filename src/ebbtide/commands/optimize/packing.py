"""Which files are rewritten together?

Files are chosen because they are small, or because many of their rows are marked, and packed by size: the smallest
first, into groups up to the target size, each within one partition. A group of one file would be copied for nothing,
unless marked rows are left out on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.log import add_files
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.statistics import num_records

__all__ = [
    "FileGroup",
    "PackingRules",
    "Partition",
    "choose_groups",
    "files_in",
    "has_marked_rows",
    "pack",
    "partition_of",
    "unclustered_groups",
    "whole_partitions",
]

Partition = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one partition that are rewritten together, in the order in which their rows are written."""

    files: tuple[AddFile, ...]

    @property
    def partition(self) -> Partition:
        return partition_of(self.files[0])

    @property
    def num_bytes(self) -> int:
        return sum(add.size for add in self.files)


@dataclass(frozen=True, slots=True)
class PackingRules:
    """Files below `min_bytes` are put together up to `target_bytes`.

    A file with a larger share of marked rows than `max_deleted_share` is rewritten whatever its size. Fewer small files
    than `min_group_files` stay as they are.
    """

    target_bytes: int
    min_bytes: int
    max_deleted_share: float
    min_group_files: int = 2

    def is_small(self, add: AddFile) -> bool:
        return add.size < self.min_bytes

    def is_worn(self, add: AddFile) -> bool:
        """Whether enough rows are marked. A file that does not state its row count is rewritten: the new one will."""
        if not has_marked_rows(add):
            return False
        physical = num_records(add.stats)
        return not physical or add.num_marked_rows / physical > self.max_deleted_share

    def is_worth_it(self, group: FileGroup) -> bool:
        """Whether there are enough files to put together, or marked rows to leave out on the way."""
        return len(group.files) >= self.min_group_files or any(map(self.is_worn, group.files))


def has_marked_rows(add: AddFile) -> bool:
    return add.deletion_vector is not None


def partition_of(add: AddFile) -> Partition:
    """The partition as the log spells it, whatever the order of its columns."""
    return tuple(sorted(add.partition_values.items()))


def files_in(files: pa.Table, partitions: frozenset[Partition]) -> pa.Table:
    """Those of the files that are in one of the partitions."""
    is_in = [tuple(sorted(values)) in partitions for values in files["partition_values"].to_pylist()]
    return files.filter(pa.array(is_in, pa.bool_()))


def choose_groups(files: pa.Table, rules: PackingRules) -> list[FileGroup]:
    """The groups of a compaction; `files` are live files of a snapshot."""
    has_vector = pc.is_valid(files["deletion_vector"])
    may_matter = pc.or_(pc.less(files["size"], rules.min_bytes), has_vector)
    chosen = [add for add in add_files(files.filter(may_matter)) if rules.is_small(add) or rules.is_worn(add)]
    return list(filter(rules.is_worth_it, pack(chosen, rules.target_bytes)))


def pack(files: Iterable[AddFile], target_bytes: int) -> list[FileGroup]:
    """The files of each partition in groups of at most the target size; a larger file is a group of its own.

    Within a group, older files come first: rows stay in the order in which they were added, as far as files tell.
    """
    groups: list[FileGroup] = []
    for members in _by_partition(files):
        current: list[AddFile] = []
        size = 0
        for add in sorted(members, key=lambda add: (add.size, add.path)):
            if current and size + add.size > target_bytes:
                groups.append(_oldest_first(current))
                current, size = [], 0
            current.append(add)
            size += add.size
        groups.append(_oldest_first(current))
    return groups


def whole_partitions(files: Iterable[AddFile]) -> list[FileGroup]:
    """All files of each partition as one group."""
    return [_oldest_first(members) for members in _by_partition(files)]


def unclustered_groups(files: pa.Table, rules: PackingRules, provider: str) -> list[FileGroup]:
    """The files of a clustered table that are to be sorted: what nobody has sorted, and small or worn files of ours.

    What another engine sorted is left alone: each knows its own order only.
    """
    adds = list(add_files(files))
    fresh = [add for add in adds if add.clustering_provider is None]
    ours = [add for add in adds if add.clustering_provider == provider and (rules.is_small(add) or rules.is_worn(add))]
    is_worth_it = bool(fresh) or len(ours) >= rules.min_group_files or any(map(rules.is_worn, ours))
    return whole_partitions([*fresh, *ours]) if is_worth_it else []


def _by_partition(files: Iterable[AddFile]) -> Iterable[list[AddFile]]:
    found: dict[Partition, list[AddFile]] = {}
    for add in files:
        found.setdefault(partition_of(add), []).append(add)
    return found.values()


def _oldest_first(files: Sequence[AddFile]) -> FileGroup:
    return FileGroup(tuple(sorted(files, key=lambda add: (add.modification_time, add.path))))
