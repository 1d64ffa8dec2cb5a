"""What does one worker of a torture do, and what does it write down about it?

A worker draws operations from its own seeded dice: DELETEs, appends, compactions by deltalake, checkpoints, reads of the newest
and of older versions. Everything it does becomes a record, and `model` compares the records with the log afterwards.

The DELETEs run the engine's own command; only the Spark job that looks for rows is replaced (`arrow_deletes`), because
eight JVMs do not fit one machine. One more worker may run with a real session.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from tests.support.arrow_deletes import Condition, delete_without_spark, snapshot_ids
from tests.support.races import new_data_file
from tests.support.searches import Searches, watched

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.errors import DeltaConcurrentModificationException
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation, Transaction

__all__ = ["ANY_VERSION", "INITIAL_IDS", "Record", "Worker", "ids_digest"]

IDS_A_WRITER = 1_000_000
IDS_AN_APPEND = 40
INITIAL_IDS = 2_000
# Conditions ask for this many of a writer's own ids; in a short run not all of them are there yet.
APPENDED_IDS = 400
# How often a worker does what, of a hundred.
SHARES = {"delete": 60, "append": 15, "read": 10, "compact": 10, "checkpoint": 5}
# In a record: it made a version, but nobody told which.
ANY_VERSION = -1
COMPACTION_ATTEMPTS = 20

Record = dict[str, Any]


def drawn_condition(dice: Random, writers: int) -> Condition:
    """A few rows, a stretch of one writer's rows, or a sprinkling over every file."""
    writer = dice.choice([0, dice.randrange(1, writers + 1)])
    first, ids = writer * IDS_A_WRITER, INITIAL_IDS if writer == 0 else APPENDED_IDS
    kind = dice.choices(["in", "between", "modulo"], [5, 3, 2])[0]
    if kind == "in":
        return Condition(kind, tuple(sorted({first + dice.randrange(ids) for _ in range(5)})))
    if kind == "between":
        start = first + dice.randrange(ids)
        return Condition(kind, (start, start + dice.randrange(60)))
    return Condition(kind, (199, dice.randrange(199)))


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
    # Nothing but DELETEs, each sent again until it lands.
    only_deletes: bool = False
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
        chosen = self.draw()
        started = time.monotonic()
        record = {"op": chosen, "name": f"{self.number}-{self.operations}", "worker": self.number, "aborts": []}
        state = self.dice.getstate()
        while True:
            self.dice.setstate(state)
            try:
                record |= getattr(self, chosen if self.engine == "ebbtide" else f"{chosen}_by_deltalake")(
                    record["name"]
                )
            except (DeltaConcurrentModificationException, CommitFailedError) as error:
                record["aborts"].append(f"{type(error).__name__}: {error}")
                if self.only_deletes:
                    continue
            break
        self.write(record | {"seconds": time.monotonic() - started})

    def draw(self) -> str:
        if self.only_deletes:
            return "delete"
        shares = SHARES if self.engine == "ebbtide" else {"delete": SHARES["delete"], "append": SHARES["append"]}
        chosen = self.dice.choices(list(shares), list(shares.values()))[0]
        # Two compactions by deltalake 1.6 at once both land, and every row is there twice. That is not our subject.
        return "delete" if chosen == "compact" and self.number != 0 else chosen

    # --- by us --------------------------------------------------------------------------------------------------------

    def delete(self, name: str) -> Record:
        condition = drawn_condition(self.dice, self.writers)
        searches = Searches()
        if self.spark is None:
            result = delete_without_spark(self.store, condition, hint=self.hint, searches=searches, user_metadata=name)
        else:
            options = WriteOptions(deletion_vectors=self.dice.choice(["on", "auto"]), user_metadata=name)
            request = DeleteRequest(self.store, condition.text, options=options)
            result = watched(DeleteCommand, searches)(self.spark, request).run()
        return {
            "condition": [condition.kind, list(condition.numbers)],
            "version": result.version,
            "deleted": result.num_affected_rows,
            "rebases": searches.rebases,
            "rescanned": searches.rescanned,
        }

    def append(self, name: str) -> Record:
        ids = self.next_ids()
        file = new_data_file(self.store, ids)
        transaction = Transaction.begin(self.store, hint=self.hint)
        committed = transaction.commit([file], Operation("WRITE", user_metadata=name))
        self.hint = committed.snapshot
        return {"version": committed.version, "ids": ids, "retries": committed.attempts - 1}

    def compact(self, name: str) -> Record:
        said = CommitProperties(custom_metadata={"userMetadata": name})
        refused = ""
        for attempt in range(COMPACTION_ATTEMPTS):
            table = DeltaTable(self.place, storage_options=self.storage_options)
            try:
                metrics = table.optimize.compact(commit_properties=said)
            except CommitFailedError as error:
                # Its own rules stop it when a file it merges was marked meanwhile; nothing is lost then.
                refused = str(error)
                continue
            # Which version it made the log knows by the name; the table object has gone on to the newest.
            return {"version": ANY_VERSION if metrics["numFilesAdded"] else None, "attempts": attempt + 1}
        return {"version": None, "refused": refused}

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
        condition = drawn_condition(self.dice, self.writers)
        metrics = DeltaTable(self.place, storage_options=self.storage_options).delete(condition.text)
        deleted = metrics["num_deleted_rows"]
        return {"version": ANY_VERSION if deleted else None, "deleted": deleted}

    def append_by_deltalake(self, name: str) -> Record:
        data = pa.table({"id": pa.array(self.next_ids(), pa.int64())})
        write_deltalake(self.place, data, mode="append", storage_options=self.storage_options)
        return {"version": ANY_VERSION}

    def next_ids(self) -> list[int]:
        """Ids that nobody ever had."""
        first = (self.number + 1) * IDS_A_WRITER + self.appended
        self.appended += IDS_AN_APPEND
        return list(range(first, first + IDS_AN_APPEND))


def ids_digest(ids: Any) -> str:
    """A short text for a bag of ids: equal only when the same ids are in it equally often."""
    return sha256(",".join(map(str, sorted(ids))).encode()).hexdigest()[:24]
