"""What does one worker of a torture do, and what does it write down about it?

A worker draws operations from its own seeded dice: DELETEs, appends, compactions by deltalake, checkpoints, reads of the newest
and of older versions. Everything it does becomes a record, and `model` compares the records with the log afterwards.

The DELETEs run the engine's own command: transaction, rebase, vectors, commit, post-commit. Only the Spark job that looks
for rows is replaced, by one that reads the Parquet files with pyarrow, because eight JVMs do not fit one machine. One
more worker may run with a real session.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.support.races import new_data_file

from ebbtide.commands import delete as delete_module
from ebbtide.commands import row_deletion
from ebbtide.commands.delete import DeleteCommand
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.errors import DeltaConcurrentModificationException
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.pruning import prune
from ebbtide.scan import resolve_files
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation, ReadPredicate, Transaction

__all__ = [
    "ANY_VERSION",
    "INITIAL_IDS",
    "Condition",
    "Worker",
    "forget_files",
    "ids_digest",
    "install_counting",
    "install_without_spark",
    "snapshot_ids",
]

IDS_A_WRITER = 1_000_000
IDS_AN_APPEND = 40
INITIAL_IDS = 2_000
# Conditions ask for this many of a writer's own ids; in a short run not all of them are there yet.
APPENDED_IDS = 400
# How often a worker does what, of a hundred.
SHARES = {"delete": 60, "append": 15, "read": 10, "compact": 10, "checkpoint": 5}
# In a record: it made a version, but nobody told which.
ANY_VERSION = -1

Record = dict[str, Any]


@dataclass(frozen=True)
class Condition:
    """A condition in two languages: SQL for the engine, pyarrow for the model and for workers without Spark."""

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
        quotient = pc.multiply(pc.divide(ids, divisor), divisor)
        return pc.equal(pc.subtract(ids, quotient), rest)

    def matches(self, number: int) -> bool:
        return bool(self.mask(pa.array([number], pa.int64()))[0].as_py())

    @classmethod
    def drawn(cls, dice: Random, writers: int) -> Condition:
        """A few rows, a stretch of one writer's rows, or a sprinkling over every file."""
        writer = dice.choice([0, dice.randrange(1, writers + 1)])
        first, ids = writer * IDS_A_WRITER, INITIAL_IDS if writer == 0 else APPENDED_IDS
        kind = dice.choices(["in", "between", "modulo"], [5, 3, 2])[0]
        if kind == "in":
            return cls(kind, tuple(sorted({first + dice.randrange(ids) for _ in range(5)})))
        if kind == "between":
            start = first + dice.randrange(ids)
            return cls(kind, (start, start + dice.randrange(60)))
        return cls(kind, (199, dice.randrange(199)))


# --- the engine without Spark -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ArrowMatcher:
    """Stands for a condition that Spark has bound."""

    condition: Condition
    is_partition_only: bool = False

    @property
    def shown(self) -> str:
        return self.condition.text

    def matching(self, ids: pa.Array) -> pa.Array:
        return self.condition.mask(ids)

    def candidates(self, spark: None, snapshot: Snapshot) -> pa.Table:
        return prune(snapshot.files, self.condition.text, schema=snapshot.schema, partition_columns=()).files

    def read_predicate(self, spark: None, snapshot: Snapshot) -> ReadPredicate:
        return ReadPredicate()


class _Counts(threading.local):
    """What the command under way did; each thread has its own."""

    rebases = 0
    rescanned = 0
    is_following = False


COUNTS = _Counts()
_CONDITIONS: dict[str, Condition] = {}
_IDS: dict[tuple[str, str], pa.Array] = {}


def _matched_row_sets(spark: None, snapshot: Snapshot, files: list[Any], matching: Callable[[pa.Array], pa.Array]):
    for file in files:
        mask = matching(_file_ids(snapshot.store, file.relative_path))
        rows = RowIndexSet.from_iterable(pc.indices_nonzero(mask).to_pylist())
        rows = rows if file.marks is None else rows - file.marks
        if rows:
            yield file, rows


def _file_ids(store: ObjectStore, path: str) -> pa.Array:
    """The ids of a data file in physical order; a file never changes, so it is read once."""
    found = _IDS.get((store.url, path))
    if found is None:
        found = pq.read_table(io.BytesIO(store.read(path)), columns=["id"])["id"].combine_chunks()
        _IDS[store.url, path] = found
    return found


def forget_files() -> None:
    _IDS.clear()


class _DeleteWithoutSpark(DeleteCommand):
    def refresh_readers(self, snapshot: Snapshot) -> None:
        """Nobody to refresh."""


def install_without_spark(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let the commands of this process find rows with pyarrow."""
    patch(row_deletion, "matched_row_sets", _matched_row_sets)
    patch(delete_module, "bind_matcher", lambda spark, snapshot, request: _ArrowMatcher(_CONDITIONS[request.condition]))


def install_counting(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Count rebases, and the files that are looked at again in them."""
    follow, resolve = row_deletion.RowDeletion.follow, row_deletion.resolve_files

    def counted_follow(self, lost):
        COUNTS.rebases += 1
        COUNTS.is_following = True
        try:
            return follow(self, lost)
        finally:
            COUNTS.is_following = False

    def counted_resolve(snapshot, files, **options):
        COUNTS.rescanned += files.num_rows if COUNTS.is_following else 0
        return resolve(snapshot, files, **options)

    patch(row_deletion.RowDeletion, "follow", counted_follow)
    patch(row_deletion, "resolve_files", counted_resolve)


# --- a worker ---------------------------------------------------------------------------------------------------------


@dataclass
class Worker:
    number: int
    writers: int
    seed: str
    store: ObjectStore
    # Where deltalake finds the same table.
    place: str
    storage_options: dict[str, str] | None
    write: Callable[[Record], None]
    spark: Any = None
    # "ebbtide", or "deltalake" for the same deletes and appends by the peer.
    engine: str = "ebbtide"
    hint: Snapshot | None = None
    appended: int = 0
    operations: int = 0
    dice: Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = Random(f"{self.seed}/{self.number}")

    def run(self, *, rounds: int | None, seconds: float | None) -> None:
        """So many operations, or for so long."""
        ends = None if seconds is None else time.monotonic() + seconds
        while (rounds is None or self.operations < rounds) and (ends is None or time.monotonic() < ends):
            self.operations += 1
            self.step()

    def step(self) -> None:
        shares = SHARES if self.engine == "ebbtide" else {"delete": SHARES["delete"], "append": SHARES["append"]}
        chosen = self.dice.choices(list(shares), list(shares.values()))[0]
        if chosen == "compact" and self.number != 0:
            # Two compactions by deltalake 1.6 at once both land, and every row is there twice. That is not our subject.
            chosen = "delete"
        started = time.monotonic()
        record = {"op": chosen, "name": f"{self.number}-{self.operations}", "worker": self.number}
        act = getattr(self, chosen if self.engine == "ebbtide" else f"{chosen}_by_deltalake")
        try:
            record |= act(record["name"])
        except DeltaConcurrentModificationException as error:
            record |= {"aborted": f"{type(error).__name__}: {error}"}
        self.write(record | {"seconds": time.monotonic() - started})

    # --- by us --------------------------------------------------------------------------------------------------------

    def delete(self, name: str) -> Record:
        condition = Condition.drawn(self.dice, self.writers)
        mode = self.dice.choice(["on", "on", "on", "auto"]) if self.spark is not None else "on"
        _CONDITIONS[condition.text] = condition
        options = WriteOptions(deletion_vectors=mode, user_metadata=name, storage_options=self.storage_options)
        request = DeleteRequest(self.store, condition.text, options=options, hint=self.hint)
        command = DeleteCommand if self.spark is not None else _DeleteWithoutSpark
        COUNTS.rebases = COUNTS.rescanned = 0
        said = {"condition": [condition.kind, list(condition.numbers)]}
        result = command(self.spark, request).run()
        return said | {
            "version": result.version,
            "deleted": result.num_affected_rows,
            "rebases": COUNTS.rebases,
            "rescanned": COUNTS.rescanned,
        }

    def append(self, name: str) -> Record:
        ids = self.next_ids()
        file = new_data_file(self.store, ids)
        transaction = Transaction.begin(self.store, hint=self.hint)
        committed = transaction.commit([file], Operation("WRITE", user_metadata=name))
        self.hint = committed.snapshot
        return {"version": committed.version, "ids": ids, "retries": committed.attempts - 1}

    def compact(self, name: str) -> Record:
        from deltalake import CommitProperties, DeltaTable
        from deltalake.exceptions import CommitFailedError

        said = CommitProperties(custom_metadata={"userMetadata": name})
        try:
            # Its own rules stop it when a file it merges was marked meanwhile; nothing is lost then.
            table = DeltaTable(self.place, storage_options=self.storage_options)
            metrics = table.optimize.compact(commit_properties=said)
        except CommitFailedError as error:
            return {"version": None, "refused": str(error)}
        # Which version it made the log knows by the name; the table object has gone on to the newest.
        return {"version": ANY_VERSION if metrics["numFilesAdded"] else None}

    def checkpoint(self, name: str) -> Record:
        snapshot = load_snapshot(self.store)
        return {"version": None, "checkpoint": snapshot.version, "is_new": write_checkpoint(snapshot).is_new}

    def read(self, name: str) -> Record:
        newest = load_snapshot(self.store, hint=self.hint if self.dice.random() < 0.5 else None)
        self.hint = newest
        snapshot = newest
        if newest.version and self.dice.random() < 0.4:
            snapshot = load_snapshot(self.store, version=self.dice.randrange(newest.version))
        if self.spark is not None:
            import ebbtide

            rows = ebbtide.read(self.spark, self.place, version=snapshot.version).toArrow()
            ids = rows["id"].to_pylist()
        else:
            ids = snapshot_ids(snapshot)
        return {"version": None, "seen": snapshot.version, "digest": ids_digest(ids)}

    # --- the same by the peer -----------------------------------------------------------------------------------------

    def delete_by_deltalake(self, name: str) -> Record:
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError

        condition = Condition.drawn(self.dice, self.writers)
        table = DeltaTable(self.place, storage_options=self.storage_options)
        try:
            metrics = table.delete(condition.text)
        except CommitFailedError as error:
            return {"aborted": str(error)}
        return {"version": ANY_VERSION if metrics["num_deleted_rows"] else None}

    def append_by_deltalake(self, name: str) -> Record:
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError

        data = pa.table({"id": pa.array(self.next_ids(), pa.int64())})
        try:
            write_deltalake(self.place, data, mode="append", storage_options=self.storage_options)
        except CommitFailedError as error:
            return {"aborted": str(error)}
        return {"version": ANY_VERSION}

    def next_ids(self) -> list[int]:
        """Ids that nobody ever had."""
        first = (self.number + 1) * IDS_A_WRITER + self.appended
        self.appended += IDS_AN_APPEND
        return list(range(first, first + IDS_AN_APPEND))


def snapshot_ids(snapshot: Snapshot) -> Iterator[int]:
    """The rows of a snapshot by the engine's own eyes, with pyarrow in place of Spark."""
    for file in resolve_files(snapshot, snapshot.files):
        for row, number in enumerate(_file_ids(snapshot.store, file.relative_path or "").to_pylist()):
            if file.marks is None or row not in file.marks:
                yield number


def ids_digest(ids: Any) -> str:
    """A short text for a bag of ids: equal only when the same ids are in it equally often."""
    return sha256(",".join(map(str, sorted(ids))).encode()).hexdigest()[:24]
