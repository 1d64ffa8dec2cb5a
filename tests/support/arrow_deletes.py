"""How does a test run the engine's own DELETE without a JVM?

Transaction, rebase, vectors, commit and post-commit are the real ones. Only the Spark job that looks for matching rows is
replaced, by one that reads the Parquet files with pyarrow; so many processes, or thousands of runs, fit one machine.
Tables have a column `id`, and conditions are about it. Rows are marked; rewriting files needs Spark.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.support.searches import Searches, watched

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.delete.results import DeleteResult
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.log import Snapshot
from ebbtide.pruning import prune
from ebbtide.scan import ScanFile, resolve_files
from ebbtide.storage import ObjectStore
from ebbtide.transaction import ReadPredicate

__all__ = ["Condition", "delete_without_spark", "forget_files", "snapshot_ids"]

_IDS: dict[tuple[str, str], pa.Array] = {}


@dataclass(frozen=True)
class Condition:
    """A condition in two languages: SQL for the engine, pyarrow for whoever looks without Spark.

    `kind` is `in` (the numbers), `between` (first and last) or `modulo` (divisor and rest).
    """

    kind: str
    numbers: tuple[int, ...]

    @property
    def text(self) -> str:
        match self.kind:
            case "in":
                return f"id IN ({', '.join(map(str, self.numbers))})"
            case "between":
                return f"id BETWEEN {self.numbers[0]} AND {self.numbers[1]}"
        return f"id % {self.numbers[0]} = {self.numbers[1]}"

    def mask(self, ids: pa.Array) -> pa.Array:
        match self.kind:
            case "in":
                return pc.is_in(ids, value_set=pa.array(self.numbers, pa.int64()))
            case "between":
                return pc.and_(pc.greater_equal(ids, self.numbers[0]), pc.less_equal(ids, self.numbers[1]))
        divisor, rest = self.numbers
        return pc.equal(pc.subtract(ids, pc.multiply(pc.divide(ids, divisor), divisor)), rest)


def delete_without_spark(
    store: ObjectStore,
    condition: Condition,
    *,
    hint: Snapshot | None = None,
    searches: Searches | None = None,
    **options: Any,
) -> DeleteResult:
    """One DELETE of the engine's own, in a process that needs no JVM."""
    request = DeleteRequest(store, condition, options=WriteOptions(**options), hint=hint)
    command = _DeleteWithoutSpark if searches is None else watched(_DeleteWithoutSpark, searches)
    return command(None, request).run()


def snapshot_ids(snapshot: Snapshot) -> Iterator[int]:
    """The rows of a snapshot by the engine's own log and vectors, with pyarrow in place of Spark."""
    for file in resolve_files(snapshot, snapshot.files):
        for row, number in enumerate(_file_ids(snapshot.store, file).to_pylist()):
            if file.marks is None or row not in file.marks:
                yield number


def forget_files() -> None:
    """Read data files anew from here on."""
    _IDS.clear()


class _DeleteWithoutSpark(DeleteCommand):
    """What a DELETE asks Spark for, answered without it."""

    def bind(self, snapshot: Snapshot) -> _ArrowMatcher:
        return _ArrowMatcher(self.request.condition)

    def search(self) -> _ArrowSearch:
        return _ArrowSearch()

    def refresh_readers(self, snapshot: Snapshot) -> None:
        """Nobody to refresh."""


class _ArrowSearch:
    def matches(
        self, snapshot: Snapshot, files: Sequence[ScanFile], matcher: _ArrowMatcher
    ) -> Iterator[tuple[ScanFile, RowIndexSet]]:
        for file in files:
            ids = _file_ids(snapshot.store, file)
            rows = RowIndexSet.from_iterable(pc.indices_nonzero(matcher.matching(ids)).to_pylist())
            rows = rows if file.marks is None else rows - file.marks
            if rows:
                yield file, rows


@dataclass(frozen=True)
class _ArrowMatcher:
    """Stands for a condition that Spark has bound."""

    condition: Condition
    is_partition_only: bool = False
    is_row_local: bool = False  # no Spark here whose settings could be changed

    @property
    def display_text(self) -> str:
        return self.condition.text

    def matching(self, ids: pa.Array) -> pa.Array:
        return self.condition.mask(ids)

    def candidates(self, spark: None, snapshot: Snapshot) -> pa.Table:
        return prune(snapshot.files, self.condition.text, schema=snapshot.schema, partition_columns=())

    def read_predicate(self, spark: None, snapshot: Snapshot) -> ReadPredicate:
        return ReadPredicate()


def _file_ids(store: ObjectStore, file: ScanFile) -> pa.Array:
    """The ids of a data file in physical order; a file never changes, so it is read once."""
    key = (store.url, file.relative_path or "")
    if key not in _IDS:
        _IDS[key] = pq.read_table(io.BytesIO(store.read(key[1])), columns=["id"])["id"].combine_chunks()
    return _IDS[key]
