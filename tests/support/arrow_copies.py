"""How does a test run the engine's own OPTIMIZE or PURGE without a JVM?

Plan, transaction, rebase, vectors, commit and post-commit are the real ones. Only the Spark job that copies rows is
replaced, by one that copies them with pyarrow in the same order. Tables have the one column `id`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.delta_schema import statistics
from tests.support.races import ID_SCHEMA, parquet_bytes

from ebbtide.commands.define.committing import AlterResult
from ebbtide.commands.drop_feature.command import DropFeatureCommand, DropFeatureRequest
from ebbtide.commands.drop_feature.older_types import TypePass, TypeRewrite
from ebbtide.commands.drop_feature.rewriting import Rewriting
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.copying import GroupCopy
from ebbtide.commands.optimize.planning import LayoutPlan
from ebbtide.commands.optimize.request import OptimizeRequest, OptimizeSettings
from ebbtide.commands.optimize.results import OptimizeResult
from ebbtide.commands.purge.command import PurgeCommand, PurgePass, PurgeRequest
from ebbtide.commands.purge.results import PurgeResult
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.work import FileWork
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.scan import ScanFile
from ebbtide.storage import ObjectStore
from ebbtide.transaction import SYSTEM_CLOCK, Clock
from ebbtide.write import WrittenFiles

__all__ = [
    "auto_compact_without_spark",
    "drop_feature_without_spark",
    "optimize_without_spark",
    "purge_without_spark",
    "sort_without_spark",
]


def optimize_without_spark(
    store: ObjectStore, *, commit_per_group: bool = False, options: WriteOptions | None = None, **settings: Any
) -> OptimizeResult:
    """One compaction of the engine's own, in a process that needs no JVM, in one thread unless `settings` say so."""
    request = OptimizeRequest(
        store,
        settings=OptimizeSettings(**{"threads": 1, **settings}),
        commit_per_group=commit_per_group,
        options=options or WriteOptions(),
    )
    return _OptimizeWithoutSpark(None, request).run()


def sort_without_spark(store: ObjectStore) -> OptimizeResult:
    """One compaction that sorts as Z-ORDER does: the place of a row in the copy is not known."""
    return _SortWithoutSpark(None, OptimizeRequest(store, settings=OptimizeSettings(threads=1))).run()


def auto_compact_without_spark(store: ObjectStore) -> OptimizeResult:
    """One compaction as it comes after another command's commit."""
    request = OptimizeRequest(store, settings=OptimizeSettings(threads=1), purpose="auto", partitions=frozenset({()}))
    return _OptimizeWithoutSpark(None, request).run()


def purge_without_spark(store: ObjectStore, *, options: WriteOptions | None = None) -> PurgeResult:
    request = PurgeRequest(store, settings=OptimizeSettings(threads=1), options=options or WriteOptions())
    return _PurgeWithoutSpark(None, request).run()


def drop_feature_without_spark(
    store: ObjectStore, name: str, *, clock: Clock = SYSTEM_CLOCK, **given: Any
) -> AlterResult:
    """One DROP FEATURE of the engine's own; what it rewrites is copied with pyarrow."""
    request = DropFeatureRequest(store, name, settings=OptimizeSettings(threads=1), **given)
    return _DropFeatureWithoutSpark(None, request, clock=clock).run()


def copy_with_arrow(
    snapshot: Snapshot, files: Sequence[ScanFile], *, times_redone: int = 0, is_sorted: bool = False
) -> GroupCopy:
    """One new file with the live rows of the files, in their order or another; none where there is no row."""
    ids: list[int] = []
    for file in files:
        stored = pq.read_table(io.BytesIO(snapshot.store.read(file.relative_path or "")))["id"].to_pylist()
        ids += [number for row, number in enumerate(stored) if file.marks is None or row not in file.marks]
    ids = sorted(ids, reverse=True) if is_sorted else ids
    adds = (_put(snapshot.store, ids),) if ids else ()
    work = FileWork(
        tuple(()), tuple(file.add for file in files), WrittenFiles(adds, (), len(ids), 0), data_change=False
    )
    return GroupCopy(tuple(files), work, False, not is_sorted, times_redone)


def _put(store: ObjectStore, ids: list[int]) -> AddFile:
    data, path = parquet_bytes(ids), f"part-{uuid4()}.c000.snappy.parquet"
    store.put_if_absent(path, data)
    stats = statistics(pa.table({"id": ids}, schema=ID_SCHEMA), tight=True)
    return AddFile(path, {}, len(data), 1_704_067_300_000, False, stats=stats)


class _WithoutSpark:
    """What the commands ask Spark for, answered without it."""

    def copier(self, plan: LayoutPlan) -> Callable[..., GroupCopy]:
        return copy_with_arrow

    def in_thread(self, copy: Callable[[], GroupCopy]) -> tuple[Callable[[], GroupCopy], Callable[[], object]]:
        return copy, lambda: None

    def refresh_readers(self, snapshot: Snapshot) -> None:
        """Nobody to refresh."""


class _OptimizeWithoutSpark(_WithoutSpark, OptimizeCommand):
    pass


class _SortWithoutSpark(_OptimizeWithoutSpark):
    def copier(self, plan: LayoutPlan) -> Callable[..., GroupCopy]:
        return partial(copy_with_arrow, is_sorted=True)


class _PassWithoutSpark(_WithoutSpark, PurgePass):
    pass


class _PurgeWithoutSpark(PurgeCommand):
    PASS = _PassWithoutSpark


class _TypePassWithoutSpark(_WithoutSpark, TypePass):
    pass


class _TypeRewriteWithoutSpark(TypeRewrite):
    PASS = _TypePassWithoutSpark


class _RewritingWithoutSpark(Rewriting):
    PURGE = _PurgeWithoutSpark
    TYPES = _TypeRewriteWithoutSpark


class _DropFeatureWithoutSpark(DropFeatureCommand):
    REWRITING = _RewritingWithoutSpark
